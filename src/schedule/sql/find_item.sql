-- Called by reconciliation_item, and before a person's repair: one difference.
-- Index: the primary key. Zero rows: there is none of this number.
--   $1 number
SELECT i.* FROM reconciliation_items i WHERE i.number = $1

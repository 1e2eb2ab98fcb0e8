-- Called for an operator, after reconciliation: this database, as it is now, may claim again (R17).
-- Index: none. One row, always.
SELECT release_lineage()::text AS done

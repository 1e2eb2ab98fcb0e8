-- Called by reconciliation_run and after a comparison: one report.
-- Index: the primary key. Zero rows: there is none of this id.
--   $1 report
SELECT r.* FROM reconciliation_runs r WHERE r.id = $1

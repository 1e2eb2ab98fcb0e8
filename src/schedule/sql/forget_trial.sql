-- Called when a trial was compared, after its lines were deleted: nothing stays of it.
-- Index: the primary key. Zero rows: there is none.
--   $1 report
DELETE FROM reconciliation_runs r WHERE r.id = $1 AND r.status IN ('trial', 'failed')

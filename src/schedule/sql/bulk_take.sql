-- Called by step_bulk: the bulk re-drive whose next batch is longest due and that nobody works on. The lock is the
-- lease: it ends with the transaction, also with that of a process that dies.
-- Index: bulk_redrives_running. Zero rows: nothing to do.
SELECT b.id, b.asked_by, b.reason, b.filter, b.rate_per_s, b.status, b.preview, b.created_at, b.started_at, b.finished_at,
       b.passed, b.outcomes
FROM bulk_redrives b
WHERE b.status = 'running' AND b.next_at <= clock_timestamp()
ORDER BY b.next_at
LIMIT 1
FOR UPDATE SKIP LOCKED

-- Called by decide_approval on the row that lock_approval.sql locked.
-- Index: the primary key. One row, always.
--   $1 id   $2 state   $3 decided by   $4 reason
UPDATE approvals a SET status = $2, decided_by = $3, decided_reason = $4, decided_at = clock_timestamp()
WHERE a.id = $1 AND a.status = 'pending' AND a.asked_by <> $3
RETURNING a.id, a.kind, a.payment_id, a.asked_by, a.reason, a.request, a.status, a.decided_by, a.decided_reason,
    a.asked_at, a.decided_at, a.expires_at

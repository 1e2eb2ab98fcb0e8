-- Called by decide_approval on the row that lock_approval.sql locked: its time is over, or its act impossible.
-- Index: the primary key. One row, always.
--   $1 id
UPDATE approvals a SET status = 'expired', decided_at = clock_timestamp()
WHERE a.id = $1 AND a.status = 'pending'
RETURNING a.id, a.kind, a.payment_id, a.asked_by, a.reason, a.request, a.status, a.decided_by, a.decided_reason,
    a.asked_at, a.decided_at, a.expires_at

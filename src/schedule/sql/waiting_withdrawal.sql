-- Called by ask_within: the withdrawal of this report that waits for a second person.
-- Index: approvals_one_withdrawal. Zero rows: it was decided since.
--   $1 report, as text
SELECT a.id, a.kind, a.payment_id, a.asked_by, a.reason, a.request, a.status, a.decided_by, a.decided_reason,
       a.asked_at, a.decided_at, a.expires_at
FROM approvals a
WHERE a.request ->> 'report' = $1 AND a.status = 'pending' AND a.kind = 'withdraw'

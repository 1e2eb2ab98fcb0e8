-- Called by ask_approval, in its transaction: the release of this payment that waits for a second person.
-- Index: approvals_one_release. Zero rows: it was decided since.
--   $1 payment id
SELECT a.id, a.kind, a.payment_id, a.asked_by, a.reason, a.request, a.status, a.decided_by, a.decided_reason,
       a.asked_at, a.decided_at, a.expires_at
FROM approvals a
WHERE a.payment_id = $1 AND a.status = 'pending' AND a.kind IN ('new_epoch', 'redrive')

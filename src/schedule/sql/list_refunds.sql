-- Called by refunds_of: every refund of one payment, the oldest first.
-- Index: refunds_by_payment. Zero rows: none was asked for.
--   $1 payment id
SELECT r.id, r.payment_id, r.gateway, r.reference, r.amount_minor, r.currency, r.status, r.asked_by, r.reason,
       r.approval_id, r.approved_by, r.asked_at, r.expires_at, r.approved_at, r.finished_at, r.next_attempt_at,
       r.attempt, r.open_sends, r.gateway_ref, r.code, r.note, r.given_back_minor, r.resolved_by,
       r.resolved_approval, r.evidence
FROM refunds r
WHERE r.payment_id = $1
ORDER BY r.asked_at, r.id
LIMIT 1000

-- Called by refunds_for_people: refunds about which nobody asks the gateway any more, the oldest first.
-- Index: refunds_for_people. Zero rows: none waits.
SELECT r.id, r.payment_id, r.gateway, r.reference, r.amount_minor, r.currency, r.status, r.asked_by, r.reason,
       r.approval_id, r.approved_by, r.asked_at, r.expires_at, r.approved_at, r.finished_at, r.next_attempt_at,
       r.attempt, r.open_sends, r.gateway_ref, r.code, r.note, r.given_back_minor, r.resolved_by,
       r.resolved_approval, r.evidence
FROM refunds r
WHERE r.status = 'unknown' AND r.next_attempt_at IS NULL
ORDER BY r.asked_at, r.id
LIMIT 1000

-- Called by ask_refund_resolution, in its transaction: what a word on a refund is judged by, in one snapshot.
-- Index: primary keys, and refunds_by_gateway_ref. Zero rows: no such refund, or its payment's day was archived.
--   $1 refund id   $2 the reference that is said, or null
SELECT r.payment_id, r.gateway, r.reference AS charge, r.amount_minor, r.currency, r.status, r.next_attempt_at,
       r.attempt, r.gateway_ref, c.charge_minor, c.reserved_minor, c.refunded_minor,
       EXISTS (SELECT 1 FROM refunds o
               WHERE o.gateway = r.gateway AND o.gateway_ref = $2 AND o.id <> r.id) AS is_anothers,
       EXISTS (SELECT 1 FROM refund_attempts t
               WHERE t.refund_id = r.id AND t.verdict = 'refunded') AS says_refunded,
       (SELECT max(t.claimed_at) FROM refund_attempts t WHERE t.refund_id = r.id) AS last_claimed_at,
       lineage_is_released() AS released, clock_timestamp() AS now
FROM refunds r
JOIN refunded_charges c ON c.gateway = r.gateway AND c.reference = r.reference
JOIN payments p ON p.due_day = r.payment_day AND p.id = r.payment_id
WHERE r.id = $1

-- Called by audit: the refunds of a window's payments with their claims, by payment.
-- Index: refunds_by_payment, and the attempts' primary key. Zero rows: none was asked for.
--   $1 least id of the window   $2 least id after it
SELECT r.id, r.payment_id, r.reference, r.amount_minor, r.currency, r.status, r.finished_at,
       r.shown_by IS NOT NULL AS is_shown,
       array(SELECT t.claim_id FROM refund_attempts t WHERE t.refund_id = r.id ORDER BY t.attempt) AS claims,
       array(SELECT t.fence FROM refund_attempts t WHERE t.refund_id = r.id ORDER BY t.attempt) AS fences,
       array(SELECT t.claimed_at FROM refund_attempts t WHERE t.refund_id = r.id ORDER BY t.attempt) AS claimed_at
FROM refunds r
WHERE r.payment_id >= $1 AND r.payment_id < $2
ORDER BY r.payment_id, r.id

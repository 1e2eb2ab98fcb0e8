-- Called by compare_day, some hundred payments at a time: everything that was asked to be given back of them.
-- Index: refunds_by_payment. Zero rows: nobody asked for anything.
--   $1 gateway   $2 payments
SELECT r.id, r.payment_id, r.status, coalesce(r.given_back_minor, r.amount_minor) AS given_minor, r.currency,
       r.gateway_ref, r.finished_at, coalesce(r.first_sent_at, r.asked_at) AS sent_at
FROM refunds r
WHERE r.gateway = $1 AND r.payment_id = ANY ($2)
ORDER BY r.payment_id, r.finished_at, r.id

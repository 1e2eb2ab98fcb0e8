-- Called by compare_day: payments of which the day's reports have a refund, or of which we gave back on the day. A key may
-- be of the refund or of the payment; what names neither is looked at by itself, under its own id. What a bank calls its
-- entry is no refund's name.
-- Index: settlement_lines_of_refund in the reports' day; the primary key of refunds, refunds_by_gateway_ref,
-- refunds_given_back. Zero rows: nothing was given back.
--   $1 report day   $2 reports of it   $3 gateway   $4 begin of the day   $5 its end
SELECT coalesce(a.payment_id, b.payment_id, l.payment_id, l.named_id) AS payment_id
FROM settlement_lines l
LEFT JOIN refunds a ON a.id = l.named_id AND a.gateway = $3
LEFT JOIN refunds b ON b.gateway = $3 AND b.gateway_ref = l.reference AND l.own_name
WHERE l.report_day = $1 AND l.run_id = ANY ($2) AND l.kind = 'refund'
  AND coalesce(a.payment_id, b.payment_id, l.payment_id, l.named_id) IS NOT NULL
UNION
SELECT r.payment_id
FROM refunds r
WHERE r.gateway = $3 AND r.status = 'refunded' AND r.finished_at >= $4 AND r.finished_at < $5
ORDER BY payment_id

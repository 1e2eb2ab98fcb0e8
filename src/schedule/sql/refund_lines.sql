-- Called by compare_day behind refunds_of_payments.sql: every line of what was given back of some hundred payments, from
-- the day on which the first of their refunds was sent.
-- Index: settlement_lines_of_refund, settlement_lines_by_refund_name and settlement_lines_by_payment in each day. Zero
-- rows: no report has any.
--   $1 report day   $2 reports of it   $3 gateway   $4 first day that is looked at   $5 payments and refunds
--   $6 payments   $7 names of refunds
SELECT l.run_id, l.report_day, l.number, l.at_line, l.raw_hash, l.key, l.reference, l.own_name, l.named_id, l.payment_id,
       l.gross_minor, l.currency, l.booked_on, r.format,
       line_name(l.own_name, l.reference, l.raw_hash, l.report_day) AS name,
       l.net_currency <> l.currency OR l.gross_minor = l.fee_minor + l.net_minor AS adds_up,
       l.gross_minor - l.fee_minor AS net_expected, l.net_minor
FROM (
    SELECT n.* FROM settlement_lines n WHERE n.report_day >= $4 AND n.kind = 'refund' AND n.named_id = ANY ($5)
    UNION
    SELECT n.* FROM settlement_lines n
    WHERE n.report_day >= $4 AND n.kind = 'refund' AND n.reference = ANY ($7) AND n.own_name
    UNION
    SELECT n.* FROM settlement_lines n WHERE n.report_day >= $4 AND n.kind = 'refund' AND n.payment_id = ANY ($6)
) l
JOIN reconciliation_runs r ON r.id = l.run_id
WHERE l.report_day = $1 AND l.run_id = ANY ($2)
   OR l.report_day <> $1 AND r.gateway = $3 AND r.status IN ('loaded', 'compared')
ORDER BY l.report_day, l.run_id, l.number

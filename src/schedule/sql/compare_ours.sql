-- Called by compare_day, once for each due day of its history: payments that became charged on the day and whose
-- charge no report has, from the day before they were due to the end of their grace. Those that only lines of other
-- charges have are compare_named.sql's. Reads only.
-- Index: the day's history, against one partition of payments; lines by settlement_lines_by_payment. Zero rows: every
-- charge of ours is there.
--   $1 begin of the day   $2 its end   $3 first day of reports   $4 last   $5 reports of those days
--   $6 first id   $7 behind the last id   $8 due day   $9 gateway
SELECT 'late' AS class, 'line' AS field, p.id AS payment_id, NULL::uuid AS refund_id, NULL::text AS key,
       p.gateway_ref AS reference, 'charged' AS ours, NULL::text AS theirs, NULL::text AS apart, p.amount_minor, p.currency,
       NULL::uuid AS run_id, NULL::date AS report_day, NULL::bigint AS number, NULL::bigint AS at_line,
       NULL::bytea AS raw_hash
FROM payment_history h
JOIN payments p ON p.due_day = $8 AND p.id = h.payment_id
WHERE h.at >= $1 AND h.at < $2 AND h.payment_id >= $6 AND h.payment_id < $7
  AND (h.became = 'COMPLETED' AND h.was <> 'COMPLETED' OR h.became = 'REFUNDED' AND h.was = 'PARKED')
  AND p.gateway = $9
  AND NOT EXISTS (SELECT FROM settlement_lines l
                  WHERE l.report_day BETWEEN $3 AND $4 AND l.run_id = ANY ($5) AND l.kind = 'charge'
                    AND l.payment_id = h.payment_id)

-- Called by compare_day behind compare_ours.sql: payments that became charged on the day, of which reports have lines, but
-- each under the name of another charge than ours. Reads only.
-- Index: settlement_lines_by_payment, against one partition of payments and the day's history. Of the day's own lines
-- only the second charges are asked about, which were found before. Zero rows: every charge that is named is ours.
--   $1 begin of the day   $2 its end   $3 first day of reports   $4 last   $5 reports of those days
--   $6 first id   $7 behind the last id   $8 due day   $9 gateway   $10 the day   $11 second charges on it
WITH named AS (
    SELECT l.payment_id, l.own_name, l.reference, l.charge_ref
    FROM settlement_lines l
    WHERE l.report_day BETWEEN $3 AND $4 AND l.report_day <> $10 AND l.run_id = ANY ($5) AND l.kind = 'charge'
      AND l.payment_id >= $6 AND l.payment_id < $7
    UNION ALL
    SELECT l.payment_id, l.own_name, l.reference, l.charge_ref
    FROM settlement_lines l
    WHERE l.report_day = $10 AND l.run_id = ANY ($5) AND l.kind = 'charge' AND l.payment_id = ANY ($11)
      AND l.payment_id >= $6 AND l.payment_id < $7
)
SELECT DISTINCT 'late' AS class, 'line' AS field, p.id AS payment_id, NULL::uuid AS refund_id, NULL::text AS key,
       p.gateway_ref AS reference, 'charged' AS ours, NULL::text AS theirs, NULL::text AS apart, p.amount_minor, p.currency,
       NULL::uuid AS run_id, NULL::date AS report_day, NULL::bigint AS number, NULL::bigint AS at_line,
       NULL::bytea AS raw_hash
FROM named n
JOIN payments p ON p.due_day = $8 AND p.id = n.payment_id AND p.gateway = $9
               AND names_another(n.own_name, n.reference, n.charge_ref, p.gateway_ref)
JOIN payment_history h ON h.payment_id = p.id AND h.at >= $1 AND h.at < $2
                      AND (h.became = 'COMPLETED' AND h.was <> 'COMPLETED' OR h.became = 'REFUNDED' AND h.was = 'PARKED')
WHERE NOT EXISTS (SELECT FROM settlement_lines f
                  WHERE f.report_day BETWEEN $3 AND $4 AND f.run_id = ANY ($5) AND f.kind = 'charge' AND f.payment_id = p.id
                    AND NOT names_another(f.own_name, f.reference, f.charge_ref, p.gateway_ref))

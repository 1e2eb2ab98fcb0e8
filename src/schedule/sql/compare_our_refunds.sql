-- Called by compare_day: refunds that were done on the day and that no report has until the end of their grace.
-- Index: refunds_given_back; the lines of those days. Zero rows: every refund of ours is there.
--   $1 begin of the day   $2 its end   $3 first day of reports   $4 last   $5 reports of those days   $6 gateway
SELECT 'refund_mismatch' AS class, 'line' AS field, r.payment_id, r.id AS refund_id, NULL::text AS key,
       r.gateway_ref AS reference, 'refunded' AS ours, NULL::text AS theirs,
       -coalesce(r.given_back_minor, r.amount_minor) AS amount_minor, r.currency,
       NULL::uuid AS run_id, NULL::date AS report_day, NULL::bigint AS number, NULL::bigint AS at_line,
       NULL::bytea AS raw_hash
FROM refunds r
WHERE r.gateway = $6 AND r.status = 'refunded' AND r.finished_at >= $1 AND r.finished_at < $2
  AND NOT EXISTS (SELECT FROM settlement_lines l
                  WHERE l.report_day BETWEEN $3 AND $4 AND l.run_id = ANY ($5) AND l.kind = 'refund' AND l.named_id = r.id)
  AND NOT EXISTS (SELECT FROM settlement_lines l
                  WHERE l.report_day BETWEEN $3 AND $4 AND l.run_id = ANY ($5) AND l.kind = 'refund'
                    AND l.reference = r.gateway_ref)
  -- A line without a name of its own, of the same payment.
  AND NOT EXISTS (SELECT FROM settlement_lines l
                  WHERE l.report_day BETWEEN $3 AND $4 AND l.run_id = ANY ($5) AND l.kind = 'refund'
                    AND l.reference IS NULL AND coalesce(l.payment_id, l.named_id) = r.payment_id)

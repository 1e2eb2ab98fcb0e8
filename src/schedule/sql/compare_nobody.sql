-- Called by compare_day: lines of charges, refunds and chargebacks that name nothing of ours.
-- Index: settlement_lines_of_nobody, once for each report. Zero rows: every line is of something that we know.
--   $1 report day   $2 reports of it   $3 gateway
SELECT 'foreign' AS class, 'key' AS field, NULL::uuid AS payment_id, NULL::uuid AS refund_id, l.key, l.reference,
       NULL::text AS ours, l.kind AS theirs, NULL::text AS apart, l.gross_minor AS amount_minor, l.currency,
       l.run_id, l.report_day, l.number, l.at_line, l.raw_hash
FROM settlement_lines l
WHERE l.report_day = $1 AND l.run_id = ANY ($2) AND l.payment_id IS NULL
  AND (l.kind = 'charge'
       -- An id of our form is taken for ours: a refund that nobody here knows of is a difference, and not foreign.
       OR l.kind = 'refund' AND l.named_id IS NULL
          AND NOT EXISTS (SELECT FROM refunds r WHERE r.gateway = $3 AND r.gateway_ref = l.reference AND l.own_name)
       -- No refund of ours explains it, whatever reference it bears.
       OR l.kind = 'chargeback' AND l.named_id IS NULL)

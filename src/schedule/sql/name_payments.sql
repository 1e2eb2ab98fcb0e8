-- Called by finish_report and before a trial, some ten thousand lines at a time: a line whose key is not ours may still
-- name a charge that we know by the gateway's name.
-- Index: settlement_lines_of_nobody, and the primary key of gateway_refs. Rows are not answered.
--   $1 report   $2 day   $3 gateway   $4 behind this number   $5 up to this one
UPDATE settlement_lines l SET payment_id = g.payment_id
FROM gateway_refs g
WHERE l.report_day = $2 AND l.run_id = $1 AND l.payment_id IS NULL AND l.number > $4 AND l.number <= $5
  AND l.kind IN ('charge', 'refund', 'chargeback')
  AND g.gateway = $3
  -- A charge may be known by either of its names; what gives one back has a name of its own, and so has a bank's entry.
  AND g.reference = ANY (ARRAY[l.charge_ref, CASE WHEN l.kind = 'charge' AND l.own_name THEN l.reference END])

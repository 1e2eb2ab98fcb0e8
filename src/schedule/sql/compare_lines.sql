-- Called by compare_day, once for each due day of the lines: lines of charges that differ from our row, or have none;
-- of payments that have one line only. The CASE is domain/matching.rs, in its order. Reads only.
-- Index: the lines of the reports' day, against one partition of payments. Zero rows: everything of this due day matches.
--   $1 report day   $2 reports of it   $3 first id   $4 behind the last id   $5 due day, or null where none is attached
--   $6 gateway   $7 payments of more than one line
WITH judged AS (
    SELECT l.*, p.status, p.gateway, p.amount_minor AS asked_minor, p.currency AS asked_currency, CASE
        WHEN p.status IS NULL THEN 'payment'
        WHEN p.gateway <> $6 THEN 'gateway'
        WHEN p.status NOT IN ('COMPLETED', 'REFUNDED') THEN 'status'
        WHEN names_another(l.own_name, l.reference, l.charge_ref, p.gateway_ref) THEN 'charge'
        WHEN p.currency <> l.currency THEN 'currency'
        WHEN p.amount_minor <> l.gross_minor THEN 'amount'
        WHEN l.net_currency = l.currency AND l.gross_minor <> l.fee_minor + l.net_minor THEN 'net' END AS field
    FROM settlement_lines l
    LEFT JOIN payments p ON p.due_day = $5 AND p.id = l.payment_id
    WHERE l.report_day = $1 AND l.run_id = ANY ($2) AND l.kind = 'charge' AND l.payment_id >= $3 AND l.payment_id < $4
      AND l.payment_id <> ALL ($7)
)
SELECT CASE j.field WHEN 'charge' THEN 'duplicate_charge'
                    WHEN 'currency' THEN 'currency_mismatch'
                    WHEN 'amount' THEN 'amount_mismatch'
                    WHEN 'net' THEN 'amount_mismatch'
                    ELSE 'missing_here' END AS class,
       j.field, j.payment_id, NULL::uuid AS refund_id, j.key, j.reference,
       CASE j.field WHEN 'gateway' THEN j.gateway
                    WHEN 'status' THEN j.status
                    WHEN 'charge' THEN '1'
                    WHEN 'currency' THEN j.asked_currency
                    WHEN 'amount' THEN j.asked_minor::text
                    WHEN 'net' THEN (j.gross_minor - j.fee_minor)::text END AS ours,
       CASE j.field WHEN 'gateway' THEN $6
                    -- The one that we know is the first, wherever it stands.
                    WHEN 'charge' THEN '2'
                    WHEN 'currency' THEN j.currency
                    WHEN 'amount' THEN j.gross_minor::text
                    WHEN 'net' THEN j.net_minor::text
                    ELSE 'charged' END AS theirs,
       -- As compare_often.sql calls it once there are more.
       CASE j.field WHEN 'charge' THEN j.booked_on || ' 1' END AS apart,
       j.gross_minor AS amount_minor, j.currency, j.run_id, j.report_day, j.number, j.at_line, j.raw_hash
FROM judged j
WHERE j.field IS NOT NULL

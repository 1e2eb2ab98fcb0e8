-- Called by compare_day behind compare_lines.sql, some hundred payments of one due day at a time: those with more than
-- one line of a charge. The line of the charge that we know by its name counts, or the first; each other one is a
-- second charge. Of the one that counts the CASE is domain/matching.rs, as in compare_lines.sql. Reads only.
-- Index: settlement_lines_by_payment, and one partition of payments. Zero rows: the lines are one, in several reports.
--   $1 report day   $2 reports of it   $3 first day before it that is looked at   $4 reports of those days
--   $5 due day, or null where none is attached   $6 gateway   $7 payments
WITH line AS (
    SELECT l.*, r.format, p.status, p.gateway, p.amount_minor AS asked_minor, p.currency AS asked_currency,
           coalesce(l.reference = p.gateway_ref, false) AS is_known,
           -- Equal rows of one report are as many charges.
           row_number() OVER (PARTITION BY l.payment_id, l.run_id, l.raw_hash ORDER BY l.number) AS copy
    FROM settlement_lines l
    JOIN reconciliation_runs r ON r.id = l.run_id
    LEFT JOIN payments p ON p.due_day = $5 AND p.id = l.payment_id
    WHERE l.report_day BETWEEN $3 AND $1 AND l.payment_id = ANY ($7) AND l.kind = 'charge'
      AND (l.run_id = ANY ($2) OR l.run_id = ANY ($4))
), once AS (
    -- The same row in two reports is one row: where they overlap there is no second charge.
    SELECT DISTINCT ON (c.payment_id, c.format, c.raw_hash, c.copy) c.*
    FROM line c
    ORDER BY c.payment_id, c.format, c.raw_hash, c.copy, c.report_day, c.run_id, c.number
), placed AS (
    -- Reports of two formats are two views of the same money.
    SELECT o.*, row_number() OVER (PARTITION BY o.payment_id, o.format
                                   ORDER BY o.report_day, o.is_known DESC, o.run_id, o.number) AS nth
    FROM once o
), judged AS (
    SELECT j.*, CASE
        WHEN j.nth > 1 THEN 'charge'
        WHEN j.status IS NULL THEN 'payment'
        WHEN j.gateway <> $6 THEN 'gateway'
        WHEN j.status NOT IN ('COMPLETED', 'REFUNDED') THEN 'status'
        WHEN j.asked_currency <> j.currency THEN 'currency'
        WHEN j.asked_minor <> j.gross_minor THEN 'amount'
        WHEN j.net_currency = j.currency AND j.gross_minor <> j.fee_minor + j.net_minor THEN 'net' END AS field
    FROM placed j
    WHERE j.report_day = $1
)
SELECT CASE j.field WHEN 'charge' THEN 'duplicate_charge'
                    WHEN 'currency' THEN 'currency_mismatch'
                    WHEN 'amount' THEN 'amount_mismatch'
                    WHEN 'net' THEN 'amount_mismatch'
                    ELSE 'missing_here' END AS class,
       j.field, j.payment_id, NULL::uuid AS refund_id, j.key, j.reference,
       CASE j.field WHEN 'charge' THEN '1'
                    WHEN 'gateway' THEN j.gateway
                    WHEN 'status' THEN j.status
                    WHEN 'currency' THEN j.asked_currency
                    WHEN 'amount' THEN j.asked_minor::text
                    WHEN 'net' THEN (j.gross_minor - j.fee_minor)::text END AS ours,
       CASE j.field WHEN 'charge' THEN j.nth::text
                    WHEN 'gateway' THEN $6
                    WHEN 'currency' THEN j.currency
                    WHEN 'amount' THEN j.gross_minor::text
                    WHEN 'net' THEN j.net_minor::text
                    ELSE 'charged' END AS theirs,
       j.gross_minor AS amount_minor, j.currency, j.run_id, j.report_day, j.number, j.at_line, j.raw_hash
FROM judged j
WHERE j.field IS NOT NULL

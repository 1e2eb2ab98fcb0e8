-- Called by compare_day behind compare_lines.sql, some hundred payments of one due day at a time: those with more than
-- one line of a charge, on whatever days. The line of the charge that we know by its name counts, or else the first;
-- each other one is a second charge, and is named on its own day, whichever day is compared. Of the one that counts the
-- CASE is domain/matching.rs, as in compare_lines.sql. Reads only.
-- Index: settlement_lines_by_payment, and one partition of payments. Zero rows: the lines are one, in several reports.
--   $1 report day   $2 reports of it   $3 first day that is looked at   $4 last
--   $5 due day, or null where none is attached   $6 gateway   $7 payments   $8 those of them whose charge was seen before
WITH line AS (
    SELECT l.*, r.format, p.status, p.gateway, p.amount_minor AS asked_minor, p.currency AS asked_currency,
           -- The charge that we know; one that may be it; another.
           CASE WHEN p.gateway_ref IN (l.reference, l.charge_ref) THEN 0
                WHEN p.status IN ('COMPLETED', 'REFUNDED') AND p.gateway = $6
                     AND names_another(l.own_name, l.reference, l.charge_ref, p.gateway_ref) THEN 2
                ELSE 1 END AS rank,
           line_name(l.own_name, l.reference, l.raw_hash, l.report_day) AS name,
           -- Equal rows of one report are as many charges.
           row_number() OVER (PARTITION BY l.payment_id, l.run_id,
                                           line_name(l.own_name, l.reference, l.raw_hash, l.report_day),
                                           l.gross_minor, l.currency, l.booked_on ORDER BY l.number) AS copy
    FROM settlement_lines l
    JOIN reconciliation_runs r ON r.id = l.run_id
    LEFT JOIN payments p ON p.due_day = $5 AND p.id = l.payment_id
    WHERE l.report_day BETWEEN $3 AND $4 AND l.payment_id = ANY ($7) AND l.kind = 'charge'
      AND (l.report_day = $1 AND l.run_id = ANY ($2)
           OR l.report_day <> $1 AND r.gateway = $6 AND r.status IN ('loaded', 'compared'))
), once AS (
    -- The same row in two reports is one row: where they overlap there is no second charge.
    SELECT DISTINCT ON (c.payment_id, c.format, c.name, c.gross_minor, c.currency, c.booked_on, c.copy) c.*
    FROM line c
    ORDER BY c.payment_id, c.format, c.name, c.gross_minor, c.currency, c.booked_on, c.copy, c.report_day, c.run_id, c.number
), placed AS (
    -- Reports of two formats are two views of the same money. Where every line is another charge than ours, ours is the
    -- first all the same.
    SELECT o.*, row_number() OVER (PARTITION BY o.payment_id, o.format
                                   ORDER BY o.rank, o.report_day, o.booked_on, o.run_id, o.number)
                + (min(o.rank) OVER (PARTITION BY o.payment_id, o.format) = 2
                   OR o.payment_id = ANY ($8) AND o.gateway IS NOT DISTINCT FROM $6)::integer AS nth
    FROM once o
), judged AS (
    SELECT j.*, CASE
        WHEN j.nth > 1 THEN 'charge'
        WHEN j.report_day <> $1 THEN NULL
        WHEN j.status IS NULL THEN 'payment'
        WHEN j.gateway <> $6 THEN 'gateway'
        WHEN j.status NOT IN ('COMPLETED', 'REFUNDED') THEN 'status'
        WHEN j.asked_currency <> j.currency THEN 'currency'
        WHEN j.asked_minor <> j.gross_minor THEN 'amount'
        WHEN j.net_currency = j.currency AND j.gross_minor <> j.fee_minor + j.net_minor THEN 'net' END AS field
    FROM placed j
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
       CASE j.field WHEN 'charge' THEN j.booked_on || ' ' || j.copy END AS apart,
       j.gross_minor AS amount_minor, j.currency, j.run_id, j.report_day, j.number, j.at_line, j.raw_hash
FROM judged j
WHERE j.field IS NOT NULL

-- Called by compare_day: lines of money that went back, with our refund, if there is one; every chargeback, which none
-- of ours asked for. The refund is found by the key, by its name, or as the only one of its charge with the amount.
-- Index: the lines of the reports' day; the primary key of refunds and refunds_by_gateway_ref. Zero rows: every
-- refund of the reports is ours, whole and done.
--   $1 report day   $2 reports of it   $3 gateway
WITH line AS (
    SELECT l.*, f.format, row_number() OVER (PARTITION BY l.run_id, l.raw_hash ORDER BY l.number) AS copy
    FROM settlement_lines l
    JOIN reconciliation_runs f ON f.id = l.run_id
    WHERE l.report_day = $1 AND l.run_id = ANY ($2) AND l.kind IN ('refund', 'chargeback')
), once AS (
    -- The same row in two reports is one row, as in compare_often.sql.
    SELECT DISTINCT ON (c.format, c.raw_hash, c.copy) c.*
    FROM line c
    ORDER BY c.format, c.raw_hash, c.copy, c.run_id, c.number
), back AS (
    SELECT l.*,
           coalesce(
               (SELECT r.id FROM refunds r WHERE r.id = l.named_id AND r.gateway = $3),
               (SELECT r.id FROM refunds r WHERE r.gateway = $3 AND r.gateway_ref = l.reference LIMIT 1),
               (SELECT r.id FROM refunds r WHERE l.reference IS NULL AND r.payment_id = coalesce(l.payment_id, l.named_id)
                  AND r.gateway = $3 AND r.status = 'refunded'
                  AND coalesce(r.given_back_minor, r.amount_minor) = -l.gross_minor LIMIT 1)) AS ours
    FROM once l
), found AS (
    SELECT b.*, r.id AS refund_id, r.status, coalesce(r.given_back_minor, r.amount_minor) AS given_minor,
           r.currency AS given_currency, coalesce(r.payment_id, b.payment_id) AS of_payment,
           row_number() OVER (PARTITION BY b.format, b.kind, r.id ORDER BY b.number) AS nth
    FROM back b
    LEFT JOIN refunds r ON r.id = b.ours AND b.kind = 'refund'
), judged AS (
    SELECT f.*, CASE
        WHEN f.kind = 'chargeback' THEN 'chargeback'
        WHEN f.refund_id IS NULL THEN 'refund'
        WHEN f.nth > 1 THEN 'times'
        WHEN f.gross_minor >= 0 THEN 'returned'
        WHEN f.status <> 'refunded' THEN 'status'
        WHEN f.given_currency <> f.currency THEN 'currency'
        WHEN f.given_minor <> -f.gross_minor THEN 'amount'
        WHEN f.net_currency = f.currency AND f.gross_minor <> f.fee_minor + f.net_minor THEN 'net' END AS field
    FROM found f
)
SELECT 'refund_mismatch' AS class, j.field, j.of_payment AS payment_id, j.refund_id, j.key, j.reference,
       CASE j.field WHEN 'times' THEN '1'
                    WHEN 'status' THEN j.status
                    WHEN 'currency' THEN j.given_currency
                    WHEN 'amount' THEN (-j.given_minor)::text
                    WHEN 'net' THEN (j.gross_minor - j.fee_minor)::text END AS ours,
       CASE j.field WHEN 'times' THEN j.nth::text
                    WHEN 'currency' THEN j.currency
                    WHEN 'amount' THEN j.gross_minor::text
                    WHEN 'net' THEN j.net_minor::text
                    WHEN 'chargeback' THEN CASE WHEN j.gross_minor < 0 THEN 'charged back' ELSE 'reversed' END
                    WHEN 'returned' THEN 'returned'
                    ELSE 'refunded' END AS theirs,
       j.gross_minor AS amount_minor, j.currency, j.run_id, j.report_day, j.number, j.at_line, j.raw_hash
FROM judged j
-- What is nobody's at all is foreign: compare_nobody.sql.
WHERE j.field IS NOT NULL AND (j.of_payment IS NOT NULL OR j.named_id IS NOT NULL)

-- Called by compare_day: lines of money that payers' banks took back, or gave back again; none of ours asked for any.
-- Index: the lines of the reports' day. Zero rows: there are none, or they name nothing of ours (compare_nobody.sql).
--   $1 report day   $2 reports of it
WITH line AS (
    SELECT l.*, f.format, line_name(l.own_name, l.reference, l.raw_hash, l.report_day) AS name,
           row_number() OVER (PARTITION BY l.run_id, l.payment_id,
                                           line_name(l.own_name, l.reference, l.raw_hash, l.report_day),
                                           l.gross_minor, l.currency, l.booked_on ORDER BY l.number) AS copy
    FROM settlement_lines l
    JOIN reconciliation_runs f ON f.id = l.run_id
    WHERE l.report_day = $1 AND l.run_id = ANY ($2) AND l.kind = 'chargeback' AND l.payment_id IS NOT NULL
), once AS (
    -- The same row in two reports is one row, as in compare_often.sql.
    SELECT DISTINCT ON (c.format, c.payment_id, c.name, c.gross_minor, c.currency, c.booked_on, c.copy) c.*
    FROM line c
    ORDER BY c.format, c.payment_id, c.name, c.gross_minor, c.currency, c.booked_on, c.copy, c.run_id, c.number
)
SELECT 'refund_mismatch' AS class, 'chargeback' AS field, o.payment_id, NULL::uuid AS refund_id, o.key, o.reference,
       NULL::text AS ours, CASE WHEN o.gross_minor < 0 THEN 'charged back' ELSE 'reversed' END AS theirs,
       o.booked_on || ' ' || o.copy || CASE WHEN o.gross_minor < 0 THEN '' ELSE ' reversed' END AS apart,
       o.gross_minor AS amount_minor, o.currency, o.run_id, o.report_day, o.number, o.at_line, o.raw_hash
FROM once o

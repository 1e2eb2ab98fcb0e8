-- Called by compare_day, before compare_lines.sql: payments that have more than one line of a charge in reports of one
-- format: in those of the day, or in any other day's that are kept, before it and behind it. With each the days that
-- its other lines lie between. Nearly every payment has one line: only these few are put in order (compare_often.sql).
-- Reads only.
-- Index: the lines of the reports' day; every other day's by settlement_lines_by_payment, of which only ids of this due
-- day are read. Zero rows: none has.
--   $1 report day   $2 reports of it   $3 gateway   $4 first id   $5 behind the last id
WITH few AS MATERIALIZED (
    SELECT count(*) <= 10000 AS are
    FROM (SELECT FROM settlement_lines c
          WHERE c.report_day = $1 AND c.run_id = ANY ($2) AND c.kind = 'charge' AND c.payment_id >= $4 AND c.payment_id < $5
          LIMIT 10001) AS first
)
SELECT o.payment_id, min(o.day) AS first_day, max(o.day) AS last_day
FROM (
    SELECT c.payment_id, $1::date AS day
    FROM settlement_lines c
    JOIN reconciliation_runs r ON r.id = c.run_id
    WHERE c.report_day = $1 AND c.run_id = ANY ($2) AND c.kind = 'charge' AND c.payment_id >= $4 AND c.payment_id < $5
    GROUP BY c.payment_id, r.format HAVING count(*) > 1
    UNION ALL
    -- A few lines ask each other day for their payments; of many, which are nearly all that is due on their day, the
    -- lines of other days are few.
    SELECT n.payment_id, n.report_day
    FROM settlement_lines c
    JOIN reconciliation_runs f ON f.id = c.run_id
    JOIN LATERAL (SELECT l.payment_id, l.report_day, l.run_id
                  FROM settlement_lines l
                  WHERE l.payment_id = c.payment_id AND l.report_day <> $1 AND l.kind = 'charge'
                  OFFSET 0) n ON true
    JOIN reconciliation_runs r ON r.id = n.run_id AND r.format = f.format AND r.gateway = $3
                              AND r.status IN ('loaded', 'compared')
    WHERE (SELECT w.are FROM few w)
      AND c.report_day = $1 AND c.run_id = ANY ($2) AND c.kind = 'charge' AND c.payment_id >= $4 AND c.payment_id < $5
    UNION ALL
    SELECT n.payment_id, n.report_day
    FROM settlement_lines n
    JOIN reconciliation_runs r ON r.id = n.run_id AND r.gateway = $3 AND r.status IN ('loaded', 'compared')
    WHERE NOT (SELECT w.are FROM few w)
      AND n.report_day <> $1 AND n.kind = 'charge' AND n.payment_id >= $4 AND n.payment_id < $5
      AND EXISTS (SELECT FROM settlement_lines c JOIN reconciliation_runs f ON f.id = c.run_id
                  WHERE c.report_day = $1 AND c.run_id = ANY ($2) AND c.kind = 'charge'
                    AND c.payment_id = n.payment_id AND f.format = r.format)
) AS o
GROUP BY o.payment_id
ORDER BY first_day, o.payment_id

-- Called by compare_day, before compare_lines.sql: payments that have more than one line of a charge, in the reports
-- of the day or of the days before it. Nearly every payment has one: only these few are put in order
-- (compare_often.sql). Reads only.
-- Index: the lines of the reports' day; neighbouring days' by settlement_lines_by_payment. Zero rows: none has.
--   $1 report day   $2 reports of it   $3 first day before it that is looked at   $4 reports of those days
--   $5 first id   $6 behind the last id
SELECT c.payment_id
FROM settlement_lines c
WHERE c.report_day = $1 AND c.run_id = ANY ($2) AND c.kind = 'charge' AND c.payment_id >= $5 AND c.payment_id < $6
GROUP BY c.payment_id HAVING count(*) > 1
UNION
SELECT n.payment_id
FROM settlement_lines n
WHERE n.report_day >= $3 AND n.report_day < $1 AND n.run_id = ANY ($4) AND n.kind = 'charge'
  AND n.payment_id >= $5 AND n.payment_id < $6
  AND EXISTS (SELECT FROM settlement_lines c
              WHERE c.report_day = $1 AND c.run_id = ANY ($2) AND c.kind = 'charge' AND c.payment_id = n.payment_id)

-- Called by compare_day for payments that were due before the first day whose lines are kept: those whose one charge was
-- seen in a report then. Its line is forgotten, but the day of the charge was compared with a whole report, and nothing
-- says that no report had it. A line that comes now is one more. Reads only.
-- Index: the lines of the reports' day; the primary key of payment_history; reconciliation_items_of_payment. Zero rows:
-- none was, or none has a line.
--   $1 report day   $2 reports of it   $3 first id   $4 behind the last id   $5 begin of the due day   $6 gateway
--   $7 first day whose lines are kept   $8 days until a charge must stand in a report, and one more
SELECT DISTINCT h.payment_id
FROM payment_history h
WHERE h.at >= $5 AND h.at < ($7::date - $8::integer)::timestamp AT TIME ZONE 'UTC'
  AND h.payment_id IN (SELECT l.payment_id FROM settlement_lines l
                       WHERE l.report_day = $1 AND l.run_id = ANY ($2) AND l.kind = 'charge'
                         AND l.payment_id >= $3 AND l.payment_id < $4)
  AND (h.became = 'COMPLETED' AND h.was <> 'COMPLETED' OR h.became = 'REFUNDED' AND h.was = 'PARKED')
  AND EXISTS (SELECT FROM reconciliation_runs r
              WHERE r.gateway = $6 AND r.day = (h.at AT TIME ZONE 'UTC')::date AND r.status = 'compared' AND r.is_complete)
  AND NOT EXISTS (SELECT FROM reconciliation_items i
                  WHERE i.payment_id = h.payment_id AND i.gateway = $6 AND i.field = 'line'
                    AND i.class IN ('late', 'missing_there') AND i.status <> 'superseded'
                    -- Explained by a line that is forgotten too, it was seen.
                    AND NOT (i.status = 'explained' AND (i.evidence ->> 'day')::date < $7))

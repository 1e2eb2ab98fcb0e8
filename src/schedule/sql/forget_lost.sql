-- Called behind note_lost.sql: charges that no report of the day shows any more. A person's dismissal forgets none: the
-- client may post the same intent again, and the charge stands where it stood. Those whose payment is here again stay
-- too: it is not to be charged.
-- Index: lost_charges_of_day, settlement_lines_by_payment. Zero rows: none.
--   $1 gateway   $2 day
DELETE FROM lost_charges c
WHERE c.gateway = $1 AND c.day = $2
  AND NOT EXISTS (SELECT FROM settlement_lines l
                  JOIN reconciliation_runs r ON r.id = l.run_id AND r.status IN ('loaded', 'compared')
                  WHERE l.report_day = $2 AND l.payment_id = c.payment_id AND l.kind = 'charge'
                    AND coalesce(l.reference, '') = c.reference AND r.gateway = $1)
  AND NOT EXISTS (SELECT FROM reconciliation_items i
                  WHERE i.payment_id = c.payment_id AND i.gateway = c.gateway AND i.day = c.day
                    AND i.status NOT IN ('superseded', 'dismissed'))
RETURNING c.payment_id

-- Called at the end of a comparison: charges under ids of attached days that have no row here. Commits were lost, or the
-- line is wrong; until it is known which, nothing is charged for the same intent (R18).
-- Index: reconciliation_items_of_day. Answered: how many there are of the day.
--   $1 gateway   $2 day   $3 first attached day
WITH lost AS (
    SELECT DISTINCT ON (i.payment_id, i.reference) i.*
    FROM reconciliation_items i
    WHERE i.gateway = $1 AND i.day = $2 AND i.field = 'payment' AND i.class = 'missing_here'
      AND i.status IN ('open', 'waiting') AND i.payment_id IS NOT NULL AND payment_day(i.payment_id) >= $3
    ORDER BY i.payment_id, i.reference, i.number
), kept AS (
    INSERT INTO lost_charges (gateway, payment_id, reference, intent, amount_minor, currency, day, run_id)
    SELECT l.gateway, l.payment_id, coalesce(l.reference, ''), substring(uuid_send(l.payment_id) FROM 7), l.amount_minor,
           l.currency, l.day, l.run_id
    FROM lost l
    ON CONFLICT (gateway, payment_id, reference) DO UPDATE SET run_id = excluded.run_id
    RETURNING payment_id
)
SELECT count(*) AS lost FROM kept

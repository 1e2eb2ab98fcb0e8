-- Called by create_batch once a cap was met, to tell what still fits. Zero rows: the actor has no caps (any more).
-- Index: the primary keys of caps and days.
--   $1 actor
SELECT c.currency, c.amount_minor, c.payments, coalesce(d.amount_minor, 0) AS used_minor,
       coalesce(d.payments, 0) AS used_payments, c.set_at
FROM actor_caps c
LEFT JOIN actor_days d ON d.actor_id = c.actor_id AND d.currency = c.currency
    AND d.day = (clock_timestamp() AT TIME ZONE 'UTC')::date
WHERE c.actor_id = $1

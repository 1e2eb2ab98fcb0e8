-- Called by actor_caps, for people. Zero rows: no such actor; one without a currency: an actor without caps.
-- Index: the names of actors, the primary keys of caps and days.
--   $1 actor's name
SELECT c.currency, c.amount_minor, c.payments, coalesce(d.amount_minor, 0) AS used_minor,
       coalesce(d.payments, 0) AS used_payments, c.set_at
FROM actors a
LEFT JOIN actor_caps c ON c.actor_id = a.id
LEFT JOIN actor_days d ON d.actor_id = c.actor_id AND d.currency = c.currency
    AND d.day = (clock_timestamp() AT TIME ZONE 'UTC')::date
WHERE a.name = $1
ORDER BY c.currency

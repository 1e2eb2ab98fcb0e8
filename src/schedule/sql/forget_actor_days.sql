-- Called by the keeper: what actors with caps created more than forty days ago; no create adds to it any more.
-- Index: none; a row for each day of an actor with a cap, read whole a few times a day. No rows are answered,
-- only how many went.
--   $1 at most so many
DELETE FROM actor_days d
WHERE d.ctid = ANY (ARRAY(
    SELECT o.ctid FROM actor_days o WHERE o.day < (statement_timestamp() AT TIME ZONE 'UTC')::date - 40 LIMIT $1))

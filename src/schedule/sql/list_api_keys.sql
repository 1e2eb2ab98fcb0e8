-- Called by api_keys, for people; a table that people fill by hand, in the order of names and age.
-- Zero rows: no more of them. A key that is gone as the place to go on from: none either.
--   $1 the actor's name, or null for every actor   $2 the last key of the page before, or null   $3 most rows
SELECT k.id AS key_id, a.name AS actor, k.name, k.hint, k.scopes, k.created_at, k.expires_at, k.revoked_at,
       k.last_used_at
FROM api_keys k JOIN actors a ON a.id = k.actor_id
WHERE ($1::text IS NULL OR a.name = $1)
  AND ($2::uuid IS NULL OR (a.name, k.created_at, k.id) > (
      SELECT b.name, l.created_at, l.id FROM api_keys l JOIN actors b ON b.id = l.actor_id WHERE l.id = $2))
ORDER BY a.name, k.created_at, k.id
LIMIT $3

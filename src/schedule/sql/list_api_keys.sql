-- Called by api_keys, for people; a table that people fill by hand, read whole.
-- Zero rows: this actor has none, or nobody has.
--   $1 the actor's name, or null for every actor
SELECT k.id AS key_id, a.name AS actor, k.hint, k.scopes, k.created_at, k.expires_at, k.revoked_at
FROM api_keys k JOIN actors a ON a.id = k.actor_id
WHERE $1::text IS NULL OR a.name = $1
ORDER BY a.name, k.created_at, k.id

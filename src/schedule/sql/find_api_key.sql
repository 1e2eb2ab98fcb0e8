-- Called by api_key, at most once every few seconds a key.
-- Index: the unique one on the hash. Zero rows: no such live key.
--   $1 SHA-256 of the key
SELECT k.id AS key_id, k.scopes, k.expires_at, a.id AS actor_id, a.name AS actor_name, a.default_currency,
       a.default_gateway, clock_timestamp() AS database_now
FROM api_keys k JOIN actors a ON a.id = k.actor_id
WHERE k.hash = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())

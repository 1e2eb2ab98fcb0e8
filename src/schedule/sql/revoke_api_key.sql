-- Called by revoke_api_key; effective once the caches of keys have forgotten it.
-- Index: the primary key. No row changed: no such key, or it was revoked before.
--   $1 key id
UPDATE api_keys SET revoked_at = clock_timestamp() WHERE id = $1 AND revoked_at IS NULL

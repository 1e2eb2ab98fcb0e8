-- Called by add_api_key.
-- Index: the unique one on the hash; a second key of the same text is refused.
--   $1 actor   $2 SHA-256 of the key   $3 hint   $4 scopes
INSERT INTO api_keys (id, actor_id, hash, hint, scopes) VALUES (gen_random_uuid(), $1, $2, $3, $4)

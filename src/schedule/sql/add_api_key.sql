-- Called by add_api_key.
--   $1 fresh id   $2 actor   $3 SHA-256 of the key   $4 hint   $5 scopes
INSERT INTO api_keys (id, actor_id, hash, hint, scopes) VALUES ($1, $2, $3, $4, $5)

-- Called by revoke_api_key; effective once the caches of keys have forgotten it.
-- One row always: `revoked`, `revoked_before` or `not_found`. Index: the primary key, in the function.
--   $1 the key   $2 operator   $3 reason
SELECT told, ended_at FROM revoke_api_key($1, $2, $3)

-- Called by make_api_key. One row always: `made` or `name_taken`, and whose key it is.
-- Index: the names of actors and of keys, in the function.
--   $1 fresh id of the key   $2 fresh id of the actor, if it is new   $3 the actor's name   $4 the key's name
--   $5 SHA-256 of the key    $6 hint   $7 scopes   $8 its end, or null   $9 operator   $10 reason
SELECT told, owner_id FROM make_api_key($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

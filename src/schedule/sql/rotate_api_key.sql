-- Called by rotate_api_key. One row always: `rotated`, or why not; the other columns only for `rotated`.
-- Index: the primary key and the names of keys, in the function.
--   $1 the key   $2 fresh id of the next one   $3 SHA-256 of it   $4 its hint   $5 how long both live
--   $6 the end of the next one, or null   $7 operator   $8 reason
SELECT told, owner_id, owner_name, key_name, key_scopes, new_ends_at, old_ends_at
FROM rotate_api_key($1, $2, $3, $4, $5, $6, $7, $8)

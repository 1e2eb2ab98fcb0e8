-- Called by add_api_key: the actor of this name, made if it is new.
--   $1 fresh id   $2 name
INSERT INTO actors (id, name) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING id

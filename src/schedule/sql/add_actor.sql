-- Called by add_api_key: the actor of this name, made if it is new.
-- Index: the unique one on the name. One row, always.
--   $1 name
INSERT INTO actors (id, name) VALUES (gen_random_uuid(), $1)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING id

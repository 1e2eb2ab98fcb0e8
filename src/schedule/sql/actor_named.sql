-- Called by actor_named.
-- Index: the unique one on the name. Zero rows: no such actor.
--   $1 name
SELECT a.id FROM actors a WHERE a.name = $1

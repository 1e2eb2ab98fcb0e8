-- Called by set_actor_cap. One row always: false for an actor that is not there.
-- Index: the names of actors and the primary key of caps, in the function.
--   $1 actor's name   $2 currency   $3 most in minor units, or null   $4 most payments, or null
--   $5 operator   $6 reason
SELECT set_actor_cap($1, $2, $3, $4, $5, $6)

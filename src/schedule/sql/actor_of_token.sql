-- Called by actor_of_token, at most once every few seconds a token whose signature holds.
-- Index: the names of actors, in the function. Zero rows: the token does not hold now.
--   $1 fresh id   $2 the actor's name   $3 not before   $4 its end
SELECT actor_id, default_currency, default_gateway, database_now FROM actor_of_token($1, $2, $3, $4)

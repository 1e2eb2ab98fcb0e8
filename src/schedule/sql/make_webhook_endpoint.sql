-- Called by make_webhook_endpoint. One row always: `made`, or why not.
-- Index: webhook_endpoints_of_actor, in the function.
--   $1 fresh id   $2 actor   $3 url   $4 description   $5 types of events   $6 requests at one time   $7 secret
--   $8 most endpoints of an actor   $9 who does it
SELECT make_webhook_endpoint($1, $2, $3, $4, $5, $6, $7, $8, $9) AS told

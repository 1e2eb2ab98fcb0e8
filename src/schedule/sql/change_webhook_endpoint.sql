-- Called by change_webhook_endpoint. One row always: `changed`, or why not.
-- Index: the primary key and webhook_endpoints_of_actor, in the function.
--   $1 endpoint   $2 actor   $3 the version it is made to, or null   $4 url, or null   $5 description, or null
--   $6 types of events, or null   $7 requests at one time, or null   $8 who does it
SELECT change_webhook_endpoint($1, $2, $3, $4, $5, $6, $7, $8) AS told

-- Called by enable_webhook_endpoint. One row always: `enabled`, or why not.
-- Index: the primary key, in the function.
--   $1 endpoint   $2 actor   $3 who does it
SELECT enable_webhook_endpoint($1, $2, $3) AS told

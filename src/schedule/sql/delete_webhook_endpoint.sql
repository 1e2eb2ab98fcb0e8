-- Called by delete_webhook_endpoint. One row always: `deleted`, or `not_found`.
-- Index: the primary key, in the function.
--   $1 endpoint   $2 actor   $3 who does it
SELECT delete_webhook_endpoint($1, $2, $3) AS told

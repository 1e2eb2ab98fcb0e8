-- Called by disable_webhook_endpoint and, without an actor, by the sender. One row always: `disabled`, or why not.
-- Index: the primary key, in the function.
--   $1 endpoint   $2 actor, or null   $3 version that was called, or null   $4 why: asked, gone or failing
--   $5 what was met, or null   $6 who does it
SELECT disable_webhook_endpoint($1, $2, $3, $4, $5, $6) AS told

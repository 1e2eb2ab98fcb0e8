-- Called by rotate_webhook_secret. One row always: `rotated`, or why not; ends_at is when the old secret ends.
-- Index: the primary key, in the function.
--   $1 endpoint   $2 actor   $3 the next secret   $4 how long both sign   $5 who does it
SELECT told, ends_at FROM rotate_webhook_secret($1, $2, $3, $4, $5)

-- Called by send_webhook_test. One row always: `queued`, or why not; the id and the instant only for `queued`.
-- Index: the primary key and webhook_deliveries_tests of each day that is kept, in the function.
--   $1 endpoint   $2 actor   $3 a random UUID
SELECT told, test_id, test_at FROM send_webhook_test($1, $2, $3)

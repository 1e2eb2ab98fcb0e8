-- Called by fan_out before it writes: the days of these events have partitions. They are there but for an event
-- at midnight, or of a day that was dropped.
-- Index: none. One row, always: how many were made.
--   $1 first day   $2 last day
SELECT ensure_webhook_days($1, $2) AS made

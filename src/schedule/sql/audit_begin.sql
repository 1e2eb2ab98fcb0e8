-- Called first in each of audit's transactions, which read for as long as a window takes.
-- Index: none. One row, always: the snapshot's instant. (No time-out: whoever asks can end it.)
SELECT clock_timestamp() AS taken_at, set_config('statement_timeout', '0', true) AS unbounded

-- Called by begin_report: the partition of a report's day. One row, always: whether it was missing.
--   $1 day
SELECT ensure_settlement_day($1)

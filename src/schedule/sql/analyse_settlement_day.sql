-- Called when a report's lines are in, before its day is compared: the planner has to know them, or a comparison of a
-- hundred thousand takes minutes. One row, always: false where another session is at it.
--   $1 day
SELECT analyse_settlement_day($1)

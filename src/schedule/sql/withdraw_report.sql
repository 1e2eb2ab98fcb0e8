-- Called by withdraw_report, and by an approval: all of it is the function's.
-- Index: primary keys; settlement_lines of the report's day, up to the first that money hangs on; reconciliation_items_of_day.
-- One row, always: `withdrawn`, or why not.
--   $1 report   $2 by   $3 reason   $4 approval, or null
SELECT withdraw_report($1, $2, $3, $4) AS answer

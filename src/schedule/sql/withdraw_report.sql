-- Called by withdraw_report: all of it is the function's. One row, always: whether it counted.
--   $1 report   $2 by   $3 reason
SELECT withdraw_report($1, $2, $3)

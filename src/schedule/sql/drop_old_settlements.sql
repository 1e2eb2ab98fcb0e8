-- Called by the keeper: drops the lines of reports more than $1 days old, ten days at a time. One row, always: how
-- many days.
--   $1 days that are kept
SELECT drop_old_settlements($1)

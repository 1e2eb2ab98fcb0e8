-- Called by dismiss_item: closes one difference by a person's word. All of it is the function's.
-- Index: the primary key. One row, always.
--   $1 item   $2 by   $3 reason
SELECT dismiss_item($1, $2, $3) AS answer

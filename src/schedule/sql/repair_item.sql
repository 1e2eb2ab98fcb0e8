-- Called by repair_day, by repair_item and by an approval: acts on what one line says, or says why not. All of it is
-- the function's.
-- Index: primary keys. One row, always.
--   $1 item   $2 power   $3 by   $4 reason   $5 version that was seen, or null   $6 approval, or null
SELECT repair_item($1, $2, $3, $4, $5, $6) AS answer

-- Called by repair_item and by an approval: acts on what one line says, or says why not. All of it is the function's.
-- Index: primary keys. One row, always.
--   $1 item   $2 by   $3 reason   $4 version that was seen, or null   $5 approval, or null
SELECT repair_by_person($1, $2, $3, $4, $5) AS answer

-- Called by repair_day: acts on what one line says as far as no person is needed, or says why not. All of it is the
-- function's.
-- Index: primary keys. One row, always.
--   $1 item   $2 power
SELECT repair_by_program($1, $2) AS answer

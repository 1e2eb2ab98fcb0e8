-- Called by sum_minutes (the keeper): how many payments were due in a minute, by the due time that their ids begin
-- with, and were not cancelled.
-- Index: the key of the minute's day, a range of it. One row, always.
--   $1 due day   $2 least id of the minute   $3 least id of the next one
SELECT count(*) AS due
FROM payments p
WHERE p.due_day = $1 AND p.id >= $2 AND p.id < $3 AND p.status <> 'CANCELLED'

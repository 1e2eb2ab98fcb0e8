-- Called by an operator who knows of a restore before anything proved it, or since when commits are missing. All of it is
-- the function's. One row, always.
--   $1 operator   $2 reason   $3 since when commits may be missing, or null
SELECT quarantine_by_person($1, $2, $3) AS answer

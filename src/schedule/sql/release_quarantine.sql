-- Called by an operator, after reconciliation: asks for the release, or agrees to it as the second person. All of it is
-- the function's. One row, always.
--   $1 operator   $2 reason   $3 although something is missing   $4, $5 as of quarantine_lacks.sql
SELECT release_quarantine($1, $2, $3, $4, $5) AS answer

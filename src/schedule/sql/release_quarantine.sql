-- Called by an operator, after reconciliation: asks for the release, or agrees to it as the second person. All of it is
-- the function's. One row, always.
--   $1 operator   $2 reason   $3 although something is missing
SELECT release_quarantine($1, $2, $3) AS answer

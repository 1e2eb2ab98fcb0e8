-- Called by every act of an operator that no function of the owner records, in the act's own transaction.
-- Index: none. One row, always.
--   $1 operator   $2 act   $3 subject   $4 reason   $5 detail
INSERT INTO operator_acts (operator, act, subject, reason, detail) VALUES ($1, $2, $3, $4, $5)

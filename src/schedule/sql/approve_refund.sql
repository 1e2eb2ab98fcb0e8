-- Called by an approval, in its transaction, after decide_approval.sql: lets one refund go, or says why not.
-- Index: the primary key. One row, always.
--   $1 refund id   $2 approval
SELECT approve_refund($1, $2) AS answer

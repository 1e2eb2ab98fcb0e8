-- Called by an approval, in its transaction, after decide_approval.sql: closes one refund as people say, or says why
-- not. All of it is the function's.
-- Index: primary keys, and refunds_by_gateway_ref. One row, always.
--   $1 refund id   $2 approval
SELECT resolve_refund($1, $2) AS answer

-- Called by ask_refund, in its transaction: asks for one refund, or says why not. All of it is the function's (its
-- migration says why it is one).
-- Index: primary keys, and refunds' key of actor and idempotency key. One row, always.
--   $1 refund id   $2 due day           $3 payment id     $4 reference   $5 amount, or null for what is left
--   $6 actor       $7 idempotency key   $8 request hash   $9 operator    $10 reason   $11 approval
SELECT ask_refund($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS answer

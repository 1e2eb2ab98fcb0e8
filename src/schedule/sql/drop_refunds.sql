-- Called by an approval that was refused or has become impossible, and by workers for those whose time is over.
-- Index: refunds_asked, refunds_by_payment or the primary key. One row, always: how many were dropped.
--   $1 this refund, or null   $2 of this payment, or null   $3 because
SELECT drop_refunds($1, $2, $3) AS dropped

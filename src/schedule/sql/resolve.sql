-- Called by resolve: ends one parked payment by a person's word, or says why not. All of it is the function's.
-- Index: the partition's primary key. One row, always.
--   $1 due day   $2 payment id   $3 charged    $4 reference   $5 amount   $6 currency
--   $7 operator  $8 reason       $9 evidence   $10 version that was seen, or null
SELECT resolve_parked($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS answer

-- Called by redrive, by an approval and by a bulk re-drive: releases one parked payment, or says why not. All of
-- it is the function's (its migration says why it is one).
-- Index: the partition's primary key. One row, always.
--   $1 due day   $2 payment id   $3 shard   $4 new epoch   $5 codes of declines that may be retried
--   $6 operator  $7 reason       $8 version that was seen, or null          $9 approval, or null
SELECT redrive_parked($1, $2, $3, $4, $5, $6, $7, $8, $9) AS answer

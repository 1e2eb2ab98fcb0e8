-- Called by audit: the history of a window's payments, whenever it was written, by payment and number.
-- Index: the primary key of every partition: an id begins with its due time, so a window of due days is
-- one range of ids. Zero rows: the window has no payments.
--   $1 first id of the window   $2 first id after it   $3 xid, $4 seq, $5 payment id of the publisher's cursor
SELECT h.payment_id, h.seq, h.was, h.became, h.cause, h.done_by, h.fence, h.attempt, h.epoch, h.at, h.detail, h.hash,
       coalesce((h.xid, h.seq, h.payment_id) <= ($3::text::xid8, $4, $5), false) AS is_published
FROM payment_history h
WHERE h.payment_id >= $1 AND h.payment_id < $2
ORDER BY h.payment_id, h.seq

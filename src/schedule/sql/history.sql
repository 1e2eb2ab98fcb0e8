-- Called by history: the rows of one payment that were written in either of two spans, oldest first.
-- Index: the primary key of the partitions that the spans name. Zero rows: none was written then.
--   $1 payment id   $2, $3 one span   $4, $5 the other; both from (included) to (not included)
SELECT h.seq, h.was, h.became, h.cause, h.done_by, h.fence, h.attempt, h.epoch, h.at, h.detail, h.hash
FROM payment_history h
WHERE h.payment_id = $1 AND (h.at >= $2 AND h.at < $3 OR h.at >= $4 AND h.at < $5)
ORDER BY h.seq

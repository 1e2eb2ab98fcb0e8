-- Called by take_webhooks, once per day of events: the history rows that are told.
-- Index: the day's primary key. A missing row: its day is detached; nothing can be told of it any more.
--   $1 from instant   $2 to instant   $3 payment ids   $4 seqs
SELECT h.payment_id, h.seq, h.was, h.became, h.cause, h.done_by, h.fence, h.attempt, h.epoch, h.at, h.detail
FROM unnest($3::uuid[], $4::int[]) AS t (payment_id, seq)
JOIN payment_history h ON h.payment_id = t.payment_id AND h.seq = t.seq
WHERE h.at >= $1 AND h.at < $2

-- Called by replay_rows: the history of a span that was published, in the order in which it was.
-- Index: payment_history_to_publish of the days between $7 and $8; merged, so that no day is sorted.
-- Zero rows: the end.
--   $1 xid, $2 seq, $3 payment id: behind this place   $4, $5, $6 up to that one
--   $7 from instant   $8 to instant (not included)   $9 how many
SELECT h.xid::text AS xid, h.payment_id, h.seq, h.was, h.became, h.cause, h.done_by, h.fence, h.attempt, h.epoch,
       h.at, h.detail
FROM payment_history h
WHERE (h.xid, h.seq, h.payment_id) > ($1::text::xid8, $2, $3)
  AND (h.xid, h.seq, h.payment_id) <= ($4::text::xid8, $5, $6)
  AND h.at >= $7 AND h.at < $8
ORDER BY h.xid, h.seq, h.payment_id
LIMIT $9

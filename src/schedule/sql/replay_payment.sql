-- Called by replay_rows for one payment: its rows of a span that were published, in their order, which is that of
-- publication too.
-- Index: the primary key of the partitions of the days between $7 and $8. Zero rows: the end.
--   $1 payment id   $2 xid, $3 seq: behind this place   $4 xid, $5 seq, $6 payment id: up to that one
--   $7 from instant   $8 to instant (not included)   $9 how many
SELECT h.xid::text AS xid, h.payment_id, h.seq, h.was, h.became, h.cause, h.done_by, h.fence, h.attempt, h.epoch,
       h.at, h.detail
FROM payment_history h
WHERE h.payment_id = $1 AND (h.xid, h.seq) > ($2::text::xid8, $3)
  AND (h.xid, h.seq, h.payment_id) <= ($4::text::xid8, $5, $6)
  AND h.at >= $7 AND h.at < $8
ORDER BY h.seq
LIMIT $9

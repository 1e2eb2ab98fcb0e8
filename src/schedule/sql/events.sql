-- Called by events: one actor's history behind a place, in the order in which it is published.
-- Index: payment_history_of_actor of the days between $6 and $7; merged, so that no day is sorted.
-- Zero rows: nothing of the actor's lies between the place and $5.
--   $1 actor   $2 xid   $3 seq   $4 payment id   $5 below this xid   $6 from instant   $7 to instant   $8 how many
SELECT h.xid::text AS xid, h.payment_id, h.seq, h.was, h.became, h.cause, h.done_by, h.fence, h.attempt, h.epoch,
       h.at, h.detail
FROM payment_history h
WHERE h.actor_id = $1 AND (h.xid, h.seq, h.payment_id) > ($2::text::xid8, $3, $4) AND h.xid < $5::text::xid8
  AND h.at >= $6 AND h.at < $7
ORDER BY h.xid, h.seq, h.payment_id
LIMIT $8

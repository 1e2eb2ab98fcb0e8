-- Called by fan_out: the history after the cursor, in the order in which it is published, and whose it is.
-- Index: payment_history_to_publish of the days between $5 and $6; merged, so that no day is sorted.
-- Zero rows: everything below $4 is fanned out.
--   $1 xid   $2 seq   $3 payment id   $4 below this xid   $5 from instant   $6 to instant   $7 how many
SELECT h.xid::text AS xid, h.payment_id, h.seq, h.became, h.cause, h.at, h.actor_id
FROM payment_history h
WHERE (h.xid, h.seq, h.payment_id) > ($1::text::xid8, $2, $3) AND h.xid < $4::text::xid8
  AND h.at >= $5 AND h.at < $6
ORDER BY h.xid, h.seq, h.payment_id
LIMIT $7

-- Called by unpublished, and by fan_out, after it read everything that may be published: the first row that waits for an
-- older transaction to end, wherever in the cluster that is.
-- Index: payment_history_to_publish of the days between $2 and $3. Zero rows: nothing waits.
--   $1 from this xid   $2 from instant   $3 to instant
SELECT h.at
FROM payment_history h
WHERE h.xid >= $1::text::xid8 AND h.at >= $2 AND h.at < $3
ORDER BY h.xid, h.seq, h.payment_id
LIMIT 1

-- Called by still_parked: the history row that parked each payment which still is, by payment.
-- Index: the primary key of `parked`, and of the history's partitions around the day of parking.
-- Zero rows: the end. Without a sequence: its history row is not there.
--   $1 the payment before   $2 how many
SELECT k.payment_id AS listed, h.payment_id, h.seq, h.was, h.became, h.cause, h.done_by, h.fence, h.attempt, h.epoch,
       h.at, h.detail
FROM (SELECT payment_id, parked_at FROM parked WHERE payment_id > $1 ORDER BY payment_id LIMIT $2) AS k
LEFT JOIN LATERAL (
    SELECT e.*
    FROM payment_history e
    WHERE e.payment_id = k.payment_id
      AND e.at >= k.parked_at - interval '1 day' AND e.at < k.parked_at + interval '1 day'
      AND e.became = 'PARKED' AND e.was <> 'PARKED'
    ORDER BY e.seq DESC
    LIMIT 1
) AS h ON true
ORDER BY k.payment_id

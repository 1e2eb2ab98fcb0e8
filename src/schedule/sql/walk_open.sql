-- Called by search: payments that are under way or whose outcome is unknown, in the order of due times, however many
-- others there are.
-- Index: payments_unknown and payments_leased of each open day, whose states are literal. Zero rows: the end.
--   $1 oldest open day   $2 today   $3, $4 between these ids   $5 states   $6 'last' for last due first   $7 limit
SELECT o.id, o.actor_id, a.name AS actor_name, o.status, o.status_reason, o.gateway, o.gateway_ref, o.amount_minor,
       o.currency, o.due_at, o.next_attempt_at, o.created_at
FROM (SELECT p.* FROM payments p
      WHERE p.due_day BETWEEN $1 AND $2 AND p.status = 'UNKNOWN' AND p.epoch_first_sent_at > '-infinity'
        AND 'UNKNOWN' = ANY ($5::text[]) AND p.id > $3 AND p.id < $4
      UNION ALL
      SELECT p.* FROM payments p
      WHERE p.due_day BETWEEN $1 AND $2 AND p.status = 'PROCESSING' AND p.lease_until > '-infinity'
        AND 'PROCESSING' = ANY ($5::text[]) AND p.id > $3 AND p.id < $4) AS o
LEFT JOIN actors a ON a.id = o.actor_id
ORDER BY CASE WHEN $6::text = 'last' THEN o.id END DESC, o.id
LIMIT $7

-- Called by search: the next payments, first due first, whoever's they are.
-- Index: the partitions' primary keys, one after the other, no further than the limit needs: an id begins with its due
-- time, so that the order of the ids is that of the days. Zero rows: none in these days.
--   $1, $2 first and last due day   $3, $4 between these ids   $5 limit
SELECT f.id, f.actor_id, a.name AS actor_name, f.status, f.status_reason, f.gateway, f.gateway_ref, f.amount_minor,
       f.currency, f.due_at, f.next_attempt_at, f.created_at
FROM (SELECT p.* FROM payments p
      WHERE p.due_day >= $1 AND p.due_day <= $2 AND p.id > $3 AND p.id < $4
      ORDER BY p.due_day, p.id
      LIMIT $5) AS f
LEFT JOIN actors a ON a.id = f.actor_id
ORDER BY f.id

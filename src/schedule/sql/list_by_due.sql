-- Called by list: the next places of an actor's list, first due first.
-- Index: idempotency_keys_by_due, merged over the key's hash partitions. Zero rows: the end.
--   $1 actor   $2, $3 due time and id of the place before   $4 first due time not wanted   $5 limit
SELECT k.payment_id, k.created_at, k.due_at
FROM idempotency_keys k
WHERE k.actor_id = $1 AND (k.due_at, k.payment_id) > ($2, $3) AND k.due_at < $4
ORDER BY k.due_at, k.payment_id
LIMIT $5

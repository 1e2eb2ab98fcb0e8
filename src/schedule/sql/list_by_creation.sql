-- Called by list: the next places of an actor's list, newest first.
-- Index: idempotency_keys_by_creation, backwards, merged over the key's hash partitions. Zero rows: the end.
--   $1 actor   $2, $3 creation and id of the place before   $4 first creation wanted   $5 limit
SELECT k.payment_id, k.created_at, k.due_at
FROM idempotency_keys k
WHERE k.actor_id = $1 AND (k.created_at, k.payment_id) < ($2, $3) AND k.created_at >= $4
ORDER BY k.created_at DESC, k.payment_id DESC
LIMIT $5

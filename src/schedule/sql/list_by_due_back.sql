-- Called by search: the next places of one actor's list, last due first.
-- Index: idempotency_keys_by_due, backwards, merged over the key's hash partitions. Zero rows: the end.
--   $1 actor   $2, $3 due time and id of the place before   $4 last due time not wanted   $5 limit
SELECT k.payment_id, k.due_at
FROM idempotency_keys k
WHERE k.actor_id = $1 AND (k.due_at, k.payment_id) < ($2, $3) AND k.due_at > $4
ORDER BY k.due_at DESC, k.payment_id DESC
LIMIT $5

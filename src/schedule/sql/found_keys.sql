-- Called by create_batch for the keys that are taken: by the same requests (replays) or other ones.
-- Index: the idempotency key's. A missing row: the key was taken by a transaction that rolled back.
--   $1 actor   $2 keys
SELECT k.key, k.payment_id, k.request_hash
FROM idempotency_keys k
WHERE k.actor_id = $1 AND k.key = ANY ($2)

-- Called by create when the key is taken: by the same request (replay) or another one; and by look_up.
-- Index: the idempotency key's. Zero rows: the key was taken by a transaction that rolled back.
--   $1 actor   $2 key
SELECT k.payment_id, k.request_hash FROM idempotency_keys k WHERE k.actor_id = $1 AND k.key = $2

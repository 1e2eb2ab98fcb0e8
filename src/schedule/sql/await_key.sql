-- Called by replay, and rolled back: waits for a create of this key that is in flight.
-- Index: the idempotency key's. Zero rows: the key is taken; found_key.sql tells by what.
--   $1 actor   $2 key   $3 request hash
INSERT INTO idempotency_keys (actor_id, key, request_hash, payment_id, due_at, created_at)
VALUES ($1, $2, $3, '00000000-0000-0000-0000-000000000000', now(), now())
ON CONFLICT DO NOTHING
RETURNING payment_id

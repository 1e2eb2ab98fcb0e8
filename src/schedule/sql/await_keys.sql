-- Called by create_batch, and rolled back: waits for creates of these keys that are in flight.
-- Index: the idempotency key's. A key that is missing in the answer is taken; found_keys.sql tells by what.
--   $1 actor   $2 keys
INSERT INTO idempotency_keys (actor_id, key, request_hash, payment_id, due_at, created_at)
SELECT $1, k.key, decode(repeat('00', 32), 'hex'), '00000000-0000-0000-0000-000000000000', now(), now()
FROM unnest($2::text[]) AS k (key)
ORDER BY k.key
ON CONFLICT DO NOTHING
RETURNING key

-- Called by audit where there is a log of the clients to compare with: the idempotency keys of a window.
-- Index: none leads with the due instant, so the table is read; whoever compares logs can wait. Zero
-- rows: the window has no payments.
--   $1 from instant   $2 to instant
SELECT a.name AS actor, k.key, k.payment_id
FROM idempotency_keys k
JOIN actors a ON a.id = k.actor_id
WHERE k.due_at >= $1 AND k.due_at < $2

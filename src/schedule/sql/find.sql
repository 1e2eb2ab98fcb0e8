-- Called by find and by create's replay and cancel's refusal: one payment of one actor.
-- Index: the partition's primary key. Zero rows: no such payment of this actor.
--   $1 due day   $2 payment id   $3 actor
SELECT p.*, d.payee_sealed, d.description, d.metadata, d.external_id
FROM payments p JOIN payment_details d ON d.due_day = $1 AND d.id = p.id
WHERE p.due_day = $1 AND p.id = $2 AND p.actor_id = $3

-- Called by search: those of one due day that were found elsewhere.
-- Index: the partition's primary key. A missing row: no such payment, or its day was archived.
--   $1 due day   $2 payment ids
SELECT p.id, p.actor_id, a.name AS actor_name, p.status, p.status_reason, p.gateway, p.gateway_ref, p.amount_minor,
       p.currency, p.due_at, p.next_attempt_at, p.created_at
FROM payments p
LEFT JOIN actors a ON a.id = p.actor_id
WHERE p.due_day = $1 AND p.id = ANY ($2)

-- Called by unpublished, once per due day of a batch: what of a payment never changes, for its events.
-- Index: the partition's primary key. A missing row: its day is detached; the event goes without it.
--   $1 due day   $2 payment ids
SELECT p.id, p.actor_id, p.gateway, p.amount_minor, p.currency, p.due_at, p.execute_before, d.traceparent
FROM payments p
LEFT JOIN payment_details d ON d.due_day = $1 AND d.id = ANY ($2) AND d.id = p.id
WHERE p.due_day = $1 AND p.id = ANY ($2)

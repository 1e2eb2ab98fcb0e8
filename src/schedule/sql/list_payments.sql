-- Called by list: those payments of one due day that are this actor's and in one of these states.
-- Index: the partitions' primary keys; the day is a plain parameter, so no other is planned for. Zero
-- rows: none of them fits.
--   $1 due day   $2 payment ids   $3 actor   $4 states, null for all
SELECT p.*, d.payee_sealed, d.description, d.metadata, d.external_id
FROM payments p
JOIN payment_details d ON d.due_day = $1 AND d.id = p.id
WHERE p.due_day = $1 AND p.id = ANY ($2) AND p.actor_id = $3 AND ($4::text[] IS NULL OR p.status = ANY ($4))

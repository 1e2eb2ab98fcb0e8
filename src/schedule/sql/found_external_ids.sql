-- Called by create_batch when an external id is taken: which ones are, and by whom.
-- Index: the primary key. A missing row: it is free.
--   $1 actor   $2 external ids
SELECT x.external_id, x.payment_id
FROM external_ids x
WHERE x.actor_id = $1 AND x.external_id = ANY ($2)

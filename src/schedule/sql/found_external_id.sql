-- Called by create when the external id is taken, in a transaction of its own; and by look_up.
-- Index: the primary key. Zero rows: it was freed meanwhile; try again.
--   $1 actor   $2 external id
SELECT x.payment_id FROM external_ids x WHERE x.actor_id = $1 AND x.external_id = $2

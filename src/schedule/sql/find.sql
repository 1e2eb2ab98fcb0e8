-- Called by find, by create's replay and by cancel: one payment of one actor with its attempts, oldest
-- first, in one snapshot; the payment's columns repeat.
-- Index: the partitions' primary keys. Zero rows: no such payment of this actor.
--   $1 due day   $2 payment id   $3 actor
SELECT p.*, d.payee_sealed, d.description, d.metadata, d.external_id,
       t.attempt AS t_attempt, t.epoch AS t_epoch, t.claim_id AS t_claim_id, t.fence AS t_fence,
       t.worker AS t_worker, t.claimed_at AS t_claimed_at, t.settled_at AS t_settled_at,
       t.verdict AS t_verdict, t.code AS t_code, t.http_status AS t_http_status, t.took_ms AS t_took_ms,
       t.note AS t_note, t.fenced AS t_fenced
FROM payments p
JOIN payment_details d ON d.due_day = $1 AND d.id = $2
LEFT JOIN attempts t ON t.due_day = $1 AND t.payment_id = $2
WHERE p.due_day = $1 AND p.id = $2 AND p.actor_id = $3
ORDER BY t.attempt

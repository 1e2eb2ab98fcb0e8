-- Called by parked_one: one payment, whoever's it is, with its attempts, oldest first, and its place in the
-- parked list, in one snapshot; the payment's columns repeat.
-- Index: the partitions' primary keys, that of gateway_refs, and reconciliation_items_of_payment. Zero rows: no such
-- payment.
--   $1 due day   $2 payment id
SELECT p.*, d.external_id, a.name AS actor_name, h.parked_at, h.evidence, lineage_is_released() AS released,
       clock_timestamp() AS now, g.amount_minor IS NOT NULL AS charged_otherwise,
       (SELECT charge_is_reported($2)) AS reported,
       t.attempt AS t_attempt, t.epoch AS t_epoch, t.claim_id AS t_claim_id, t.fence AS t_fence,
       t.worker AS t_worker, t.claimed_at AS t_claimed_at, t.settled_at AS t_settled_at,
       t.verdict AS t_verdict, t.code AS t_code, t.http_status AS t_http_status, t.took_ms AS t_took_ms,
       t.note AS t_note, t.fenced AS t_fenced
FROM payments p
JOIN payment_details d ON d.due_day = $1 AND d.id = $2
LEFT JOIN actors a ON a.id = p.actor_id
LEFT JOIN parked h ON h.payment_id = $2
LEFT JOIN gateway_refs g ON g.gateway = p.gateway AND g.reference = p.gateway_ref AND g.payment_id = $2
LEFT JOIN attempts t ON t.due_day = $1 AND t.payment_id = $2
WHERE p.due_day = $1 AND p.id = $2
ORDER BY t.attempt

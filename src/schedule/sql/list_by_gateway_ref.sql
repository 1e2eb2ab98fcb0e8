-- Called by look_up: the payments that a gateway's reference belongs to, of whichever actor: the caller
-- reads them by actor. Two gateways may give the same reference.
-- Index: the primary key of gateway_refs, once for each of the few gateways. Zero rows: no such reference.
--   $1 reference
SELECT r.payment_id
FROM gateways g
JOIN gateway_refs r ON r.gateway = g.name AND r.reference = $1
ORDER BY r.gateway
LIMIT 20

-- Called by gateways, for people: claims whose outcome is not written yet, by gateway.
-- Index: payments_leased of each open day, which holds these rows and no others. A missing gateway: none.
--   $1 oldest open day   $2 today
SELECT p.gateway, count(*) AS in_flight
FROM payments p
WHERE p.due_day BETWEEN $1 AND $2 AND p.status = 'PROCESSING'
GROUP BY p.gateway

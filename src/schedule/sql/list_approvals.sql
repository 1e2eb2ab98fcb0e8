-- Called by approvals: those in one state, the oldest first. What nobody decided in time counts as expired also
-- before anybody has marked it.
-- Index: approvals_by_status. Zero rows: the end.
--   $1 state   $2, $3 instant and id of the one before   $4 limit
SELECT a.id, a.kind, a.payment_id, a.asked_by, a.reason, a.request, a.decided_by, a.decided_reason, a.asked_at,
       a.decided_at, a.expires_at,
       CASE WHEN a.status = 'pending' AND a.expires_at <= clock_timestamp() THEN 'expired' ELSE a.status END AS status
FROM approvals a
WHERE (a.status = $1 AND (a.status <> 'pending' OR a.expires_at > clock_timestamp())
       OR $1 = 'expired' AND a.status = 'pending' AND a.expires_at <= clock_timestamp())
  AND (a.asked_at, a.id) > ($2, $3)
ORDER BY a.asked_at, a.id
LIMIT $4

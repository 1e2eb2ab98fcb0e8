-- Called by approvals: those in one state, the oldest first. What nobody decided within the day that ask_approval.sql
-- gives counts as expired also before anybody has marked it; many never are, so those that still wait begin where a
-- day has not passed, however many were left behind.
-- Index: approvals_by_status, from where the last page ended. Zero rows: the end.
--   $1 state   $2, $3 instant and id of the one before   $4 limit
SELECT a.id, a.kind, a.payment_id, a.asked_by, a.reason, a.request, a.decided_by, a.decided_reason, a.asked_at,
       a.decided_at, a.expires_at, $1 AS status
FROM (
    (SELECT m.* FROM approvals m
     WHERE m.status = $1
       AND (m.asked_at, m.id)
           > (greatest($2, CASE WHEN $1 = 'pending' THEN statement_timestamp() - interval '1 day' END), $3)
     ORDER BY m.asked_at, m.id
     LIMIT $4)
    UNION ALL
    (SELECT o.* FROM approvals o
     WHERE $1 = 'expired' AND o.status = 'pending' AND o.asked_at <= statement_timestamp() - interval '1 day'
       AND (o.asked_at, o.id) > ($2, $3)
     ORDER BY o.asked_at, o.id
     LIMIT $4)
) AS a
ORDER BY a.asked_at, a.id
LIMIT $4

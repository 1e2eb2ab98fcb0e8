-- Called by decide_approval: whoever comes second waits here, and sees what the first one decided.
-- Index: the primary key. Zero rows: no such approval.
--   $1 id
SELECT a.id, a.kind, a.payment_id, a.asked_by, a.reason, a.request, a.decided_by, a.decided_reason, a.asked_at,
       a.decided_at, a.expires_at,
       CASE WHEN a.status = 'pending' AND a.expires_at <= clock_timestamp() THEN 'expired' ELSE a.status END AS status, a.status AS stored_status
FROM approvals a
WHERE a.id = $1
FOR UPDATE

-- Called before a withdrawal is asked for: one of this report that waits although its time is over.
-- Index: approvals_one_withdrawal. Zero rows changed: nothing stood in the way.
--   $1 report, as text
UPDATE approvals a SET status = 'expired', decided_at = clock_timestamp()
WHERE a.request ->> 'report' = $1 AND a.status = 'pending' AND a.kind = 'withdraw' AND a.expires_at <= clock_timestamp()

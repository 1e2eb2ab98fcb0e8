-- Called by ask_refund_resolution, in its transaction: a word on this refund that waits and can never be carried out
-- any more, because its time is over or because the refund was claimed since.
-- Index: approvals_one_word. Zero rows changed: nothing stood in the way.
--   $1 refund id, as text   $2 claims of the refund
UPDATE approvals a SET status = 'expired', decided_at = clock_timestamp()
WHERE a.request ->> 'refund' = $1 AND a.status = 'pending' AND a.kind = 'resolve_refund'
  AND (a.expires_at <= clock_timestamp() OR (a.request ->> 'attempt')::integer < $2)

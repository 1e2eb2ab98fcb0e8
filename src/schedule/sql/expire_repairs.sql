-- Called by ask_within: a repair by this difference that waits and can never be carried out any more, because its time
-- is over or because something was written about the payment since.
-- Index: approvals_one_repair. Zero rows changed: nothing stood in the way.
--   $1 item, as text   $2 version of the payment
UPDATE approvals a SET status = 'expired', decided_at = clock_timestamp()
WHERE a.request ->> 'item' = $1 AND a.status = 'pending' AND a.kind = 'repair'
  AND (a.expires_at <= clock_timestamp() OR (a.request ->> 'version')::bigint < $2)

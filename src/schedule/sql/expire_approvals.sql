-- Called by ask_approval, in its transaction: a release of this payment that waits and can never be carried out any
-- more, because its time is over or because the payment has moved on.
-- Index: approvals_one_release. Zero rows changed: nothing stood in the way.
--   $1 payment id   $2 the payment's version
UPDATE approvals a SET status = 'expired', decided_at = clock_timestamp()
WHERE a.payment_id = $1 AND a.status = 'pending' AND a.kind IN ('new_epoch', 'redrive')
  AND (a.expires_at <= clock_timestamp() OR (a.request ->> 'version')::bigint < $2)

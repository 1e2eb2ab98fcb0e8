-- Called by ask_approval, in its transaction: what waits for this payment and can never be carried out any more,
-- because its time is over or because the payment has moved on.
-- Index: approvals_by_payment. Zero rows changed: nothing stood in the way.
--   $1 payment id   $2 the payment's version, null: not known
UPDATE approvals a SET status = 'expired', decided_at = clock_timestamp()
WHERE a.payment_id = $1 AND a.status = 'pending'
  AND (a.expires_at <= clock_timestamp()
       OR a.kind IN ('new_epoch', 'redrive') AND (a.request ->> 'version')::bigint < $2)

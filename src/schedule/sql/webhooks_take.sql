-- Called by take_webhooks, once per day of events: these are ours to send until the lease ends. From then on they
-- are due again, by next_try_at.
-- Index: the day's primary key. A missing row: it was sent again or settled meanwhile.
--   $1 from instant   $2 to instant   $3 endpoints   $4 instants   $5 payment ids   $6 seqs   $7 holder   $8 for how long
UPDATE webhook_deliveries d SET
    lease_holder = $7, lease_until = clock_timestamp() + $8::interval, next_try_at = clock_timestamp() + $8::interval,
    fence = d.fence + 1, tries = d.tries + 1
FROM unnest($3::uuid[], $4::timestamptz[], $5::uuid[], $6::int[]) AS t (endpoint_id, event_at, payment_id, seq)
WHERE d.event_at >= $1 AND d.event_at < $2
  AND d.endpoint_id = t.endpoint_id AND d.event_at = t.event_at AND d.payment_id = t.payment_id AND d.seq = t.seq
  AND d.status = 'pending' AND d.next_try_at <= statement_timestamp()
RETURNING d.endpoint_id, d.event_at, d.payment_id, d.seq, d.fence, d.tries, d.rung

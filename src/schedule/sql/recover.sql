-- Called by recover after a claim whose COMMIT was not answered, once per due day. A write: only its
-- own acknowledged COMMIT proves that the claim is durable; a plain read can see a commit that the
-- standby never got (R3).
-- Index: the partition's primary key. A claim without a row never happened, is no longer ours,
-- or stands in a database that is not released.
--   $1 due day   $2 payment ids   $3 claim ids   $4, $5 keys of the destination's digest
WITH ours AS (
    UPDATE payments p SET last_xid = greatest(pg_current_xact_id(), p.last_xid)
    FROM unnest($2::uuid[], $3::uuid[]) AS a (id, claim_id)
    WHERE p.due_day = $1 AND p.id = ANY ($2) AND p.id = a.id AND p.claim_id = a.claim_id
      -- R17: in a database that is not released no claim is anybody's to charge under, however it came there.
      AND (SELECT lineage_is_released())
      -- A claim id stands in PROCESSING rows only (CHECK claim_belongs_to_processing); saying so here would
      -- invite the reaper's index.
    RETURNING p.*
)
SELECT o.*, t.was, t.key_age_us, t.claimed_at, d.payee_sealed, d.traceparent, n.declines_day, n.declines_30_days
FROM ours o
JOIN attempts t ON t.due_day = $1 AND t.payment_id = ANY ($2) AND t.payment_id = o.id AND t.attempt = o.attempt
JOIN payment_details d ON d.due_day = $1 AND d.id = o.id
-- As in claim.sql, at the claim's instant.
CROSS JOIN LATERAL (
    SELECT sum(c.declines) AS declines_30_days,
           sum(c.declines) FILTER (
               WHERE c.hour >= date_trunc('hour', t.claimed_at - interval '24 hours', 'UTC')) AS declines_day
    FROM destination_declines c
    WHERE c.destination = destination_digest($4, $5, o.gateway_account, d.payee_sealed)
      AND c.hour >= date_trunc('hour', t.claimed_at - interval '720 hours', 'UTC')
) n

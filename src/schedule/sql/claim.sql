-- Called by claim and claim_late, once per due day of a batch.
-- Index: the partition's primary key; exactly one partition is touched, since $1 is a plain value.
-- A notice without a row in the answer was not won; explain.sql says why.
-- Isolation: read committed, set by every connection of ours. It suffices, because all that is decided
-- here is decided on rows that this statement holds locked, in the version that the lock gave: of two
-- claims the second waits, sees PROCESSING or a higher attempt, and wins nothing. There is no condition
-- on rows that are not locked, which a stricter level would be needed for; under one the loser would
-- get an error (40001) in the place of that answer.
-- What may be done under the claim is not judged here: executeBefore (R10) and the key's age (R6) are,
-- by the plan and again right before the first byte, since both run out while a claim is on its way. The
-- age that they need is answered as key_age_us. Kill switches are: the copy that a worker has may be a second
-- old, and a claim is the last instant at which the payment is nobody's.
--   $1 due day   $2 payment ids   $3 attempts of the notices   $4 fresh claim ids   $5 gateway
--   $6 account   $7 renderer      $8 worker                    $9 lease length
--   $10, $11 keys of the destination's digest
--   $12, $13 release and length of the log that this process was last told of
WITH moment AS MATERIALIZED (
    -- One instant for the batch, read before any lock is waited for: "due" can only be judged too
    -- strictly and the lease can only be counted too short.
    SELECT clock_timestamp() AS at
), released AS MATERIALIZED (
    -- A server that has less of a log than it once told us came back from a copy of its past, on the same timeline.
    SELECT lineage_is_released() AND (i.releases, i.log_at) >= ($12::bigint, $13::bigint) AS yes, i.releases, i.log_at
    FROM (SELECT releases, durable_log() AS log_at FROM installation) AS i
), lost AS MATERIALIZED (
    -- R18: charges of payments that a restore lost. Almost always none, and then nothing else is asked.
    SELECT EXISTS (SELECT 1 FROM lost_charges) AS any_charge
), stopped AS MATERIALIZED (
    -- A handful of rows that people put there and take away again, read once a batch.
    SELECT coalesce(bool_or(k.kind = 'global' OR k.kind = 'gateway' AND k.value = $5), false) AS all_of_it,
           coalesce(array_agg(k.value) FILTER (WHERE k.kind = 'actor'), '{}') AS actors,
           coalesce(array_agg(k.value) FILTER (WHERE k.kind = 'currency'), '{}') AS currencies
    FROM kill_switches k
), asked AS MATERIALIZED (
    SELECT * FROM unnest($2::uuid[], $3::integer[], $4::uuid[]) AS a (id, attempt, claim_id)
), locked AS MATERIALIZED (
    -- Every batch locks in the order of ids, so two batches never wait for each other in a circle.
    -- What it answers is the newest version of each row, which nobody can change from here on.
    SELECT p.id, p.status AS was, p.gateway, p.attempt, p.next_attempt_at, p.actor_id, p.currency,
           p.epoch_first_sent_at AS was_first_sent_at
    FROM payments p
    WHERE p.due_day = $1 AND p.id = ANY ($2)
    ORDER BY p.id
    FOR UPDATE
), won AS (
    UPDATE payments p SET
        status = 'PROCESSING',
        fence = p.fence + 1,
        claim_id = a.claim_id,
        attempt = p.attempt + 1,
        lease_until = m.at + $9::interval,
        -- From here on a request may be under way (R4).
        unanswered = p.unanswered + 1,
        epoch_first_sent_at = coalesce(p.epoch_first_sent_at, m.at),
        gateway_account = coalesce(p.gateway_account, $6),
        renderer = coalesce(p.renderer, $7),
        -- A question about an unknown outcome repeats a send that was counted (R12).
        sends = p.sends + CASE WHEN p.status = 'PENDING' THEN 1 ELSE 0 END,
        last_moved_at = m.at,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, p.status, 'PROCESSING',
            'claimed', $8, p.fence + 1, p.attempt + 1, p.epoch, m.at, '{"claimId":"' || a.claim_id || '"}'),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    FROM asked a, locked l, moment m, stopped s, lost
    WHERE p.due_day = $1
      AND p.id = ANY ($2)
      AND p.id = a.id
      AND l.id = a.id
      -- The conditions stand on the locked row. On `p` they would invite the planner to read the index
      -- of the late scan instead, and with it a whole backlog.
      -- Only a claimable state. PROCESSING is another's; the rest is final or waits for a human.
      AND l.was IN ('PENDING', 'UNKNOWN')
      -- A notice of another gateway came by a wrong road.
      AND l.gateway = $5
      -- A notice of an earlier attempt is spent: a newer one exists.
      AND l.attempt = a.attempt
      -- R9: the database's word on "due".
      AND l.next_attempt_at <= m.at
      -- R17: no claim in a database that was restored or promoted and not released.
      AND (SELECT r.yes FROM released r)
      -- R14: what is switched off is nobody's to claim.
      AND NOT s.all_of_it
      AND l.actor_id::text <> ALL (s.actors)
      AND l.currency <> ALL (s.currencies)
      -- R18: what the same client meant by it was charged before a restore. park_charged_before.sql parks it.
      AND (NOT lost.any_charge
           OR NOT EXISTS (SELECT 1 FROM lost_charges x WHERE x.intent = payment_intent(l.id)))
    RETURNING p.*, l.was, l.was_first_sent_at, m.at AS claimed_at
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at,
                                 detail, hash, xid, actor_id)
    SELECT w.id, w.history_seq, w.was, 'PROCESSING', 'claimed', $8, w.fence, w.attempt, w.epoch, w.claimed_at,
           '{"claimId":"' || w.claim_id || '"}', w.history_hash, w.last_xid, w.actor_id
    FROM won w
), attempt AS (
    INSERT INTO attempts (due_day, payment_id, attempt, epoch, claim_id, fence, worker, was, key_age_us, claimed_at)
    SELECT $1, w.id, w.attempt, w.epoch, w.claim_id, w.fence, $8, w.was,
           (extract(epoch FROM w.claimed_at - w.was_first_sent_at) * 1000000)::bigint, w.claimed_at
    FROM won w
)
SELECT w.*, d.payee_sealed, d.traceparent,
       (extract(epoch FROM w.claimed_at - w.was_first_sent_at) * 1000000)::bigint AS key_age_us,
       n.declines_day, n.declines_30_days, r.releases, r.log_at
FROM won w
CROSS JOIN released r
JOIN payment_details d ON d.due_day = $1 AND d.id = w.id
-- A look into the index for each row; almost every destination has no entry. An hour counts while any part of
-- it lies in the window (domain/declines.rs).
CROSS JOIN LATERAL (
    SELECT sum(c.declines) AS declines_30_days,
           sum(c.declines) FILTER (
               WHERE c.hour >= date_trunc('hour', w.claimed_at - interval '24 hours', 'UTC')) AS declines_day
    FROM destination_declines c
    WHERE c.destination = destination_digest($10, $11, w.gateway_account, d.payee_sealed)
      AND c.hour >= date_trunc('hour', w.claimed_at - interval '720 hours', 'UTC')
) n

-- Called by settle, once per due day of a batch: the outcome, its history, its attempt, and the next
-- due notice where the payment goes on, in one statement.
-- Index: the partition's primary key. A claim without a row in the answer is not current any more:
-- settled_attempts.sql tells a repeated settle from a fenced one.
--   $1 due day          $2 payment ids        $3 fences             $4 claim ids
--   $5 new states       $6 causes             $7 reasons            $8 next attempts at
--   $9 answered: 0 none, 1 own, 2 all          $10 budget: 0 keep, 1 hand back, 2 untouched
--   $11 next epoch      $12 proof that nothing was sent              $13 gateway references
--   $14 request hashes  $15 details           $16 verdicts          $17 how
--   $18 codes           $19 HTTP status       $20 milliseconds taken $21 notes
--   $22 shards          $23 destinations that declined
--   $24 what was taken  $25 and in which currency, both null where it is what the payment asks
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
), asked AS MATERIALIZED (
    SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::text[], $6::text[], $7::text[],
        $8::timestamptz[], $9::smallint[], $10::smallint[], $11::boolean[], $12::boolean[], $13::text[],
        $14::bytea[], $15::text[], $16::text[], $17::text[], $18::text[], $19::smallint[], $20::integer[],
        $21::text[], $22::smallint[], $23::bytea[], $24::bigint[], $25::text[])
        AS a (id, fence, claim_id, became, cause, reason, next_at, answered, budget, next_epoch, not_sent,
              reference, request_hash, detail, verdict, how, code, http_status, took_ms, note, shard,
              destination, taken_minor, taken_currency)
), locked AS MATERIALIZED (
    SELECT p.id, p.status, p.fence, p.claim_id AS held_by, t.was, t.worker,
           t.was IS NOT NULL AND t.key_age_us IS NULL AS opened_key
    FROM payments p
    LEFT JOIN attempts t ON t.due_day = $1 AND t.payment_id = ANY ($2) AND t.payment_id = p.id AND t.attempt = p.attempt
    WHERE p.due_day = $1 AND p.id = ANY ($2)
    ORDER BY p.id
    FOR UPDATE OF p
), effect AS MATERIALIZED (
    -- A fenced late answer may have lowered `unanswered` since the claim, so the change is relative
    -- to the row as it is now; a new epoch has no send at all.
    SELECT a.*, m.at, l.worker, l.was = 'PENDING' AS counted, l.opened_key
    FROM asked a JOIN locked l USING (id) CROSS JOIN moment m
    -- R2: only the claim that holds the row now. It stands on the locked row, as in claim.sql.
    WHERE l.status = 'PROCESSING' AND l.fence = a.fence AND l.held_by = a.claim_id
), written AS (
    UPDATE payments p SET
        status = a.became,
        status_reason = a.reason,
        next_attempt_at = greatest(coalesce(
            -- A wish that came since the claim, whose instant `last_moved_at` is: the decision did not see
            -- it, so the next claim comes at once.
            CASE WHEN a.next_at IS NOT NULL AND p.cancel_wish_at > p.last_moved_at THEN a.at END,
            a.next_at, p.next_attempt_at), p.due_at),
        unanswered = CASE WHEN a.next_epoch OR a.answered = 2 THEN 0
                          WHEN a.answered = 1 THEN greatest(p.unanswered - 1, 0)
                          ELSE p.unanswered END,
        epoch_first_sent_at = CASE
            WHEN a.next_epoch THEN NULL
            -- Only the claim that found the key without an age can say that nothing was ever sent under it.
            WHEN a.not_sent AND a.opened_key AND (a.answered = 2 OR a.answered = 1 AND p.unanswered <= 1) THEN NULL
            ELSE p.epoch_first_sent_at END,
        epoch = p.epoch + a.next_epoch::integer,
        request_hash = CASE WHEN a.next_epoch THEN NULL ELSE coalesce(p.request_hash, a.request_hash) END,
        gateway_account = CASE WHEN a.next_epoch THEN NULL ELSE p.gateway_account END,
        renderer = CASE WHEN a.next_epoch THEN NULL ELSE p.renderer END,
        sends = CASE WHEN a.budget > 0 AND a.counted THEN greatest(p.sends - 1, 0) ELSE p.sends END,
        held_back = CASE a.budget WHEN 0 THEN 0 WHEN 1 THEN least(p.held_back + 1, 32767) ELSE p.held_back END,
        held_back_since = CASE a.budget WHEN 0 THEN NULL WHEN 1 THEN coalesce(p.held_back_since, a.at)
                                        ELSE p.held_back_since END,
        asks = CASE WHEN a.became = 'UNKNOWN' THEN least(p.asks + 1, 32767) ELSE 0 END,
        gateway_ref = coalesce(a.reference, p.gateway_ref),
        claim_id = NULL,
        lease_until = NULL,
        last_moved_at = a.at,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, 'PROCESSING', a.became,
            a.cause, a.worker, p.fence, p.attempt, p.epoch + a.next_epoch::integer, a.at, a.detail),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    FROM effect a
    WHERE p.due_day = $1 AND p.id = ANY ($2) AND p.id = a.id AND p.claim_id = a.claim_id
    RETURNING p.id, p.actor_id, p.status, p.status_reason, p.next_attempt_at, p.gateway, p.lane, p.due_at,
        p.attempt, p.epoch, p.fence, p.history_seq, p.history_hash, p.last_xid, a.claim_id AS claim, a.cause,
        a.worker, a.detail, a.at, a.reference, a.verdict, a.how, a.code, a.http_status, a.took_ms, a.note,
        a.shard, a.next_at, a.destination, a.taken_minor, a.taken_currency, p.amount_minor, p.currency
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at,
                                 detail, hash, xid, actor_id)
    SELECT w.id, w.history_seq, 'PROCESSING', w.status, w.cause, w.worker, w.fence, w.attempt, w.epoch, w.at,
           w.detail, w.history_hash, w.last_xid, w.actor_id
    FROM written w
), attempt AS (
    UPDATE attempts t SET settled_at = w.at, settled_to = w.status, verdict = w.verdict, how = w.how,
        code = w.code, http_status = w.http_status, took_ms = w.took_ms, note = w.note
    FROM written w
    WHERE t.due_day = $1 AND t.payment_id = w.id AND t.attempt = w.attempt
), declined AS (
    -- Once an attempt: a settle that comes again writes nothing. In order, as rows are locked.
    INSERT INTO destination_declines AS n (destination, hour, declines)
    SELECT w.destination, date_trunc('hour', w.at, 'UTC'), count(*)
    FROM written w WHERE w.destination IS NOT NULL
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (destination, hour) DO UPDATE SET declines = n.declines + excluded.declines
), reference AS (
    INSERT INTO gateway_refs (gateway, reference, payment_id, amount_minor, currency)
    SELECT w.gateway, w.reference, w.id, w.taken_minor, w.taken_currency
    FROM written w WHERE w.reference IS NOT NULL
    ON CONFLICT DO NOTHING
    RETURNING payment_id
), freed AS (
    -- A payment that will never be charged gives its external id back.
    DELETE FROM external_ids x
    USING written w JOIN payment_details d ON d.due_day = $1 AND d.id = w.id
    WHERE w.status IN ('FAILED', 'CANCELLED') AND x.actor_id = w.actor_id AND x.external_id = d.external_id
      AND x.payment_id = w.id
), held AS (
    INSERT INTO parked (payment_id, reason, parked_at, evidence, actor_id, gateway, amount_minor, currency)
    SELECT w.id, coalesce(w.status_reason, 'poisoned'), w.at, w.detail, w.actor_id, w.gateway, w.amount_minor, w.currency
    FROM written w WHERE w.status = 'PARKED'
    ON CONFLICT (payment_id) DO UPDATE
        SET reason = excluded.reason, parked_at = excluded.parked_at, evidence = excluded.evidence
), notice AS (
    INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt)
    SELECT w.shard, w.id, $1, w.gateway, w.lane, w.due_at, w.next_attempt_at, w.attempt
    FROM written w WHERE w.status IN ('PENDING', 'UNKNOWN')
)
SELECT w.claim AS claim_id, w.status, w.fence,
       -- One charge that pays for two payments: somebody must look.
       w.reference IS NOT NULL AND EXISTS (
           SELECT 1 FROM gateway_refs g
           WHERE g.gateway = w.gateway AND g.reference = w.reference AND g.payment_id <> w.id
       ) AS reference_is_anothers,
       -- A late answer named a charge before, and not this one, whose name would have been there.
       w.attempt > 1 AND EXISTS (SELECT 1 FROM reference r WHERE r.payment_id = w.id)
       AND EXISTS (SELECT 1 FROM attempts t
                   WHERE t.due_day = $1 AND t.payment_id = w.id AND t.fenced AND t.verdict = 'charged')
           AS is_second_charge
FROM written w

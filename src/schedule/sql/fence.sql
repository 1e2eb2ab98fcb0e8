-- Called by settle for one answer that came too late: kept as evidence on its own attempt and as a
-- FENCED history event, once (R2).
-- Index: the partitions' primary keys. Zero rows: this answer was kept before.
--   $1 due day   $2 payment id   $3 claim id   $4 verdict   $5 how      $6 code   $7 HTTP status
--   $8 ms taken  $9 note         $10 detail    $11 answers one send of its epoch
--   $12 is a charge              $13 shard          $14 destination, if it declined
--   $15 the name of a charge; where it took something else than the payment asks, $16 how much, $17 in which currency
WITH kept AS (
    UPDATE attempts t SET settled_at = clock_timestamp(), verdict = $4, how = $5, code = $6, http_status = $7,
        took_ms = $8, note = $9, fenced = true
    WHERE t.due_day = $1 AND t.payment_id = $2 AND t.claim_id = $3 AND t.settled_at IS NULL
    RETURNING t.epoch, t.worker, t.settled_at AS at
), declined AS (
    -- A try that was refused counts, whatever became of its claim.
    INSERT INTO destination_declines AS n (destination, hour, declines)
    SELECT $14::bytea, date_trunc('hour', k.at, 'UTC'), 1 FROM kept k WHERE $14::bytea IS NOT NULL
    ON CONFLICT (destination, hour) DO UPDATE SET declines = n.declines + excluded.declines
), noted AS (
    UPDATE payments p SET
        -- A decline or a proof of nothing sent answers one send of its own epoch; a charge answers none.
        unanswered = CASE WHEN $11 AND k.epoch = p.epoch THEN greatest(p.unanswered - 1, 0) ELSE p.unanswered END,
        next_attempt_at = CASE WHEN $12 AND p.status = 'UNKNOWN'
            THEN greatest(least(p.next_attempt_at, k.at), p.due_at) ELSE p.next_attempt_at END,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, p.status, p.status, 'fenced', k.worker,
            p.fence, p.attempt, p.epoch, k.at, $10),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    FROM kept k
    WHERE p.due_day = $1 AND p.id = $2
    RETURNING p.*, k.at, k.worker
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at,
                                 detail, hash, xid, actor_id)
    SELECT n.id, n.history_seq, n.status, n.status, 'fenced', n.worker, n.fence, n.attempt, n.epoch, n.at, $10,
           n.history_hash, n.last_xid, n.actor_id
    FROM noted n
), reference AS (
    INSERT INTO gateway_refs (gateway, reference, payment_id, amount_minor, currency)
    SELECT n.gateway, $15::text, n.id, $16::bigint, $17::text FROM noted n WHERE $15::text IS NOT NULL
    ON CONFLICT DO NOTHING
), notice AS (
    INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt)
    SELECT $13, n.id, $1, n.gateway, n.lane, n.due_at, n.next_attempt_at, n.attempt
    -- Where the row was overdue already, its notice is out or the late scan has it.
    FROM noted n WHERE $12 AND n.status = 'UNKNOWN' AND n.next_attempt_at >= n.at
)
SELECT n.status, n.gateway_ref FROM noted n

-- Called by reap for the rows that reap_candidates.sql locked, once per due day: never back to PENDING,
-- since the worker may have called the gateway.
-- Index: the partition's primary key.
--   $1 due day   $2 payment ids   $3 shards   $4 by
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
), expired AS (
    UPDATE payments p SET
        status = 'UNKNOWN', status_reason = 'lease_expired', asks = least(p.asks + 1, 32767),
        -- Asked at once: it has been unknown for longer than a lease.
        next_attempt_at = greatest(m.at, p.due_at),
        claim_id = NULL, lease_until = NULL, last_moved_at = m.at,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, 'PROCESSING', 'UNKNOWN',
            'lease_expired', $4, p.fence, p.attempt, p.epoch, m.at, '{}'),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    FROM moment m, unnest($2::uuid[], $3::smallint[]) AS a (id, shard)
    WHERE p.due_day = $1 AND p.id = ANY ($2) AND p.id = a.id
      -- PROCESSING, by CHECK claim_belongs_to_processing.
      AND p.claim_id IS NOT NULL
    RETURNING p.*, a.shard, m.at
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at,
                                 detail, hash, xid, actor_id)
    SELECT e.id, e.history_seq, 'PROCESSING', 'UNKNOWN', 'lease_expired', $4, e.fence, e.attempt, e.epoch, e.at,
           '{}', e.history_hash, e.last_xid, e.actor_id
    FROM expired e
), notice AS (
    INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt)
    SELECT e.shard, e.id, $1, e.gateway, e.lane, e.due_at, e.next_attempt_at, e.attempt FROM expired e
)
SELECT count(*) AS moved FROM expired

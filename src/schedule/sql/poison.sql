-- Called by claim and settle for one row whose data the database refuses (SQLSTATE 22, 23), after the
-- batch was split: the row waits for a human, the rest goes on (R1). The claim's attempt, if there is
-- one, keeps what the gateway answered.
-- Index: the partition's primary key. Zero rows: it moved meanwhile; nothing to do.
--   $1 due day   $2 payment id   $3 claim id, or null for an unclaimed row   $4 by   $5 detail   $6 verdict
WITH seen AS MATERIALIZED (
    SELECT l.id, l.status AS was, l.claim_id, l.attempt, clock_timestamp() AS at
    FROM payments l
    WHERE l.due_day = $1 AND l.id = $2
    FOR UPDATE
), held AS (
    UPDATE payments p SET
        status = 'PARKED', status_reason = 'poisoned', claim_id = NULL, lease_until = NULL, asks = 0,
        last_moved_at = s.at,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, s.was, 'PARKED', 'poisoned', $4,
            p.fence, p.attempt, p.epoch, s.at, $5),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    FROM seen s
    WHERE p.due_day = $1 AND p.id = s.id
      AND ($3::uuid IS NULL AND s.was IN ('PENDING', 'UNKNOWN') OR s.was = 'PROCESSING' AND s.claim_id = $3::uuid)
    RETURNING p.*, s.was, s.at
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at,
                                 detail, hash, xid, actor_id)
    SELECT h.id, h.history_seq, h.was, 'PARKED', 'poisoned', $4, h.fence, h.attempt, h.epoch, h.at, $5,
           h.history_hash, h.last_xid, h.actor_id
    FROM held h
), attempt AS (
    UPDATE attempts t SET settled_at = h.at, settled_to = 'PARKED', verdict = $6
    FROM held h
    WHERE t.due_day = $1 AND t.payment_id = h.id AND t.attempt = h.attempt AND t.claim_id = $3::uuid
), listed AS (
    INSERT INTO parked (payment_id, reason, parked_at, evidence, actor_id, gateway, amount_minor, currency)
    SELECT h.id, 'poisoned', h.at, $5, h.actor_id, h.gateway, h.amount_minor, h.currency FROM held h
    ON CONFLICT (payment_id) DO UPDATE
        SET reason = excluded.reason, parked_at = excluded.parked_at, evidence = excluded.evidence
)
SELECT h.id FROM held h

-- Called by claim and settle for one row whose data the database refuses (SQLSTATE 22, 23), after the
-- batch was split: the row waits for a human, the rest goes on (R1).
-- Index: the partition's primary key. Zero rows: it moved meanwhile; nothing to do.
--   $1 due day   $2 payment id   $3 fence, or null for an unclaimed row   $4 by   $5 detail
WITH held AS (
    UPDATE payments p SET
        status = 'PARKED', status_reason = 'poisoned', claim_id = NULL, lease_until = NULL, asks = 0,
        last_moved_at = clock_timestamp(),
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, p.status, 'PARKED', 'poisoned', $4,
            p.fence, p.attempt, p.epoch, m.at, $5),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    FROM (SELECT l.id, l.status AS was, clock_timestamp() AS at FROM payments l
          WHERE l.due_day = $1 AND l.id = $2 FOR UPDATE) AS m
    WHERE p.due_day = $1 AND p.id = m.id
      AND ($3::bigint IS NULL AND p.status IN ('PENDING', 'UNKNOWN')
           OR p.status = 'PROCESSING' AND p.fence = $3::bigint)
    RETURNING p.*, m.was, m.at
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at,
                                 detail, hash, xid)
    SELECT h.id, h.history_seq, h.was, 'PARKED', 'poisoned', $4, h.fence, h.attempt, h.epoch, h.at, $5,
           h.history_hash, h.last_xid
    FROM held h
), listed AS (
    INSERT INTO parked (payment_id, reason, parked_at, evidence)
    SELECT h.id, 'poisoned', h.at, $5 FROM held h
    ON CONFLICT (payment_id) DO NOTHING
)
SELECT h.id FROM held h

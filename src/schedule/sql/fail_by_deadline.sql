-- Called by reap for the rows that deadline_candidates.sql locked, once per due day (R10).
-- Index: the partition's primary key.
--   $1 due day   $2 payment ids   $3 by
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at, lineage_is_released() AS released
), failed AS (
    UPDATE payments p SET
        status = 'FAILED', status_reason = 'deadline_passed', last_moved_at = m.at,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, 'PENDING', 'FAILED',
            'deadline_passed', $3, p.fence, p.attempt, p.epoch, m.at, '{}'),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    FROM moment m
    WHERE p.due_day = $1 AND p.id = ANY ($2) AND p.status = 'PENDING' AND p.unanswered = 0
      AND p.execute_before <= m.at AND m.released
      -- R18: what was charged before a restore did not fail; the claim that comes for it parks it.
      AND NOT EXISTS (SELECT 1 FROM lost_charges x WHERE x.intent = payment_intent(p.id))
    RETURNING p.*, m.at
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at,
                                 detail, hash, xid, actor_id)
    SELECT f.id, f.history_seq, 'PENDING', 'FAILED', 'deadline_passed', $3, f.fence, f.attempt, f.epoch, f.at, '{}',
           f.history_hash, f.last_xid, f.actor_id
    FROM failed f
), freed AS (
    DELETE FROM external_ids x
    USING failed f JOIN payment_details d ON d.due_day = $1 AND d.id = f.id
    WHERE x.actor_id = f.actor_id AND x.external_id = d.external_id AND x.payment_id = f.id
)
SELECT count(*) AS moved FROM failed

-- Called by cancel: the compare-and-swap that a claim races with. Whoever locks the row first wins.
-- Index: the partition's primary key. Zero rows: find.sql, in the same transaction, tells why.
--   $1 due day   $2 payment id   $3 actor   $4 done by   $5 reason of the registry   $6 detail
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at, lineage_is_released() AS released
), gone AS (
    UPDATE payments p SET
        status = 'CANCELLED', status_reason = $5, last_moved_at = m.at,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, 'PENDING', 'CANCELLED', 'cancelled',
            $4::text, p.fence, p.attempt, p.epoch, m.at, $6::text),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    FROM moment m
    -- Only a clean PENDING row: every other one may be charged already. In a database that is not
    -- released (R17) a PENDING row may be one that was charged after the backup.
    WHERE p.due_day = $1 AND p.id = $2 AND p.actor_id = $3 AND p.status = 'PENDING' AND p.unanswered = 0
      AND m.released
      -- R18: what was charged before a restore is parked instead.
      AND NOT EXISTS (SELECT 1 FROM lost_charges x WHERE x.intent = payment_intent(p.id))
    RETURNING p.id, p.actor_id, p.history_seq, p.history_hash, p.fence, p.attempt, p.epoch, p.last_xid, m.at
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at,
                                 detail, hash, xid, actor_id)
    SELECT g.id, g.history_seq, 'PENDING', 'CANCELLED', 'cancelled', $4::text, g.fence, g.attempt, g.epoch,
           g.at, $6::text, g.history_hash, g.last_xid, g.actor_id
    FROM gone g
), freed AS (
    DELETE FROM external_ids x
    USING gone g JOIN payment_details d ON d.due_day = $1 AND d.id = g.id
    WHERE x.actor_id = g.actor_id AND x.external_id = d.external_id AND x.payment_id = g.id
)
SELECT g.id FROM gone g

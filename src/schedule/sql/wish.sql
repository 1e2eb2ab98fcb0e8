-- Called by cancel, in its transaction, for a payment whose outcome is unknown: records the wish to cancel
-- once, and makes the payment due at once. From the wish on no later claim sends a charge; of a claim that
-- is at work now the settle sees it (settle.sql).
-- Index: the partition's primary key. One row, always: whether the gateway voids, and whether the wish was
-- recorded now. A gateway that voids and no wish: the row moved since the cancel looked at it, or this
-- database is not released (R17).
-- `gateways` is read without a lock: what it says is configuration, and one that changes at this instant may
-- be read either way.
--   $1 due day   $2 payment id   $3 actor   $4 shard   $5 done by   $6 detail
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at, lineage_is_released() AS released
), wished AS (
    UPDATE payments p SET
        -- Under a claim dated after it: the two may have read the clock in the other order before one of
        -- them waited for the row, and settle.sql tells by it whether the claim saw the wish.
        cancel_wish_at = CASE WHEN p.status = 'PROCESSING'
            THEN greatest(m.at, p.last_moved_at + interval '1 us') ELSE m.at END,
        next_attempt_at = CASE WHEN p.status = 'UNKNOWN'
            THEN greatest(least(p.next_attempt_at, m.at), p.due_at) ELSE p.next_attempt_at END,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, p.status, p.status, 'cancel_wished',
            $5::text, p.fence, p.attempt, p.epoch, m.at, $6::text),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    FROM moment m, gateways g
    WHERE p.due_day = $1 AND p.id = $2 AND p.actor_id = $3 AND g.name = p.gateway AND g.voids_by_key
      -- Unknown, or under a claim that asks about it: such a claim keeps the rung of the ladder that it
      -- stands on, and has another send open beside its own. A first send has neither.
      AND (p.status = 'UNKNOWN' OR p.status = 'PROCESSING' AND (p.asks > 0 OR p.unanswered > 1))
      AND p.cancel_wish_at IS NULL
      AND m.released
    RETURNING p.id, p.status, p.gateway, p.lane, p.due_at, p.next_attempt_at, p.attempt, p.history_seq,
        p.history_hash, p.fence, p.epoch, p.last_xid, m.at
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at,
                                 detail, hash, xid, actor_id)
    SELECT w.id, w.history_seq, w.status, w.status, 'cancel_wished', $5::text, w.fence, w.attempt,
           w.epoch, w.at, $6::text, w.history_hash, w.last_xid, $3
    FROM wished w
), notice AS (
    INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt)
    SELECT $4, w.id, $1, w.gateway, w.lane, w.due_at, w.next_attempt_at, w.attempt
    -- Where the row was overdue already, its notice is out or the late scan has it.
    FROM wished w WHERE w.status = 'UNKNOWN' AND w.next_attempt_at >= w.at
)
SELECT EXISTS (SELECT 1 FROM wished) AS recorded,
       EXISTS (SELECT 1 FROM payments p JOIN gateways g ON g.name = p.gateway
               WHERE p.due_day = $1 AND p.id = $2 AND g.voids_by_key) AS voids

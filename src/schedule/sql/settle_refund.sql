-- Called by settle_refund, on the payment that lock_payment.sql locked: the outcome of one claim, its attempt, the
-- sums of the charge, and what it means for the payment, in one statement.
-- Index: primary keys. Zero rows: the claim is not current any more (R2); late_refund.sql keeps its answer.
--   $1 refund id   $2 fence         $3 claim id      $4 new state           $5 next attempt at
--   $6 answered: 0 none, 1 own, 2 all   $7 the gateway's name of the refund   $8 code   $9 note   $10 verdict
--   $11 how        $12 HTTP status  $13 milliseconds taken   $14 due day    $15 payment id
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
), written AS (
    UPDATE refunds r SET
        status = $4,
        next_attempt_at = $5,
        open_sends = CASE $6::smallint WHEN 2 THEN 0 WHEN 1 THEN greatest(r.open_sends - 1, 0) ELSE r.open_sends END,
        -- Nothing was ever sent under the key.
        first_sent_at = CASE WHEN $4 = 'approved' THEN NULL ELSE r.first_sent_at END,
        asks = CASE WHEN $4 = 'unknown' THEN least(r.asks + 1, 32767) ELSE 0 END,
        gateway_ref = coalesce($7, r.gateway_ref),
        code = $8,
        note = $9,
        claim_id = NULL,
        lease_until = NULL,
        finished_at = CASE WHEN $4 IN ('refunded', 'declined') THEN m.at END
    FROM moment m
    WHERE r.id = $1 AND r.status = 'sending' AND r.fence = $2 AND r.claim_id = $3
    RETURNING r.*, m.at
), attempt AS (
    UPDATE refund_attempts t SET settled_at = w.at, settled_to = w.status, verdict = $10, how = $11, code = $8,
        http_status = $12, took_ms = $13, note = $9
    FROM written w
    WHERE t.refund_id = w.id AND t.attempt = w.attempt
    RETURNING t.worker
), summed AS (
    UPDATE refunded_charges c SET
        reserved_minor = c.reserved_minor - CASE WHEN w.status = 'declined' THEN w.amount_minor ELSE 0 END,
        refunded_minor = c.refunded_minor + CASE WHEN w.status = 'refunded' THEN w.amount_minor ELSE 0 END
    FROM written w
    WHERE c.gateway = w.gateway AND c.reference = w.reference AND w.status IN ('refunded', 'declined')
    RETURNING c.reference, c.charge_minor, c.refunded_minor
), told AS MATERIALIZED (
    SELECT w.at, t.worker, p.status AS was,
           -- The payment's own charge is back whole, and of no other one is anything under way.
           s.refunded_minor = s.charge_minor AND p.status IN ('COMPLETED', 'PARKED')
           AND is_own_charge(p.id, w.gateway, p.gateway_ref, s.reference)
           AND NOT EXISTS (SELECT 1 FROM refunded_charges o
                           WHERE o.payment_id = p.id AND o.reference <> s.reference
                             AND o.refunded_minor < o.reserved_minor) AS is_whole,
           jsonb_build_object('refund', w.id, 'gatewayReference', w.reference, 'refundReference', w.gateway_ref,
               'amount', w.amount_minor, 'currency', w.currency, 'refundedInSum', s.refunded_minor,
               'reason', w.reason, 'askedBy', w.asked_by, 'approvedBy', w.approved_by)::text AS detail
    FROM written w, attempt t, summed s, payments p
    WHERE w.status = 'refunded' AND p.due_day = $14 AND p.id = $15
), moved AS (
    UPDATE payments p SET
        status = CASE WHEN t.is_whole THEN 'REFUNDED' ELSE p.status END,
        status_reason = CASE WHEN t.is_whole THEN NULL ELSE p.status_reason END,
        last_moved_at = CASE WHEN t.is_whole THEN t.at ELSE p.last_moved_at END,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, t.was,
            CASE WHEN t.is_whole THEN 'REFUNDED' ELSE t.was END, CASE WHEN t.is_whole THEN 'refunded' ELSE 'noted' END,
            t.worker, p.fence, p.attempt, p.epoch, t.at, t.detail),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    FROM told t
    WHERE p.due_day = $14 AND p.id = $15
    RETURNING p.id, p.status, p.history_seq, p.history_hash, p.fence, p.attempt, p.epoch, p.last_xid, p.actor_id,
        t.was, t.is_whole, t.worker, t.at, t.detail
), history AS (
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at,
                                 detail, hash, xid, actor_id)
    SELECT m.id, m.history_seq, m.was, m.status, CASE WHEN m.is_whole THEN 'refunded' ELSE 'noted' END, m.worker,
           m.fence, m.attempt, m.epoch, m.at, m.detail, m.history_hash, m.last_xid,
           m.actor_id
    FROM moved m
), freed AS (
    DELETE FROM parked h USING moved m WHERE m.is_whole AND h.payment_id = m.id
)
SELECT w.status, coalesce((SELECT m.is_whole FROM moved m), false) AS is_whole FROM written w

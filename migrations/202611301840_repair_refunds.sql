-- What a report shows as given back is not given back again: a refund that a restored database still calls allowed, or
-- unknown, ends by the gateway's own line.

SET lock_timeout = '5s';

-- The refund that a line of this difference names: by the refund's key or, where the line has none of ours, as the only
-- open one of its payment and amount.
CREATE FUNCTION refund_of_item(item reconciliation_items) RETURNS uuid
    LANGUAGE sql STABLE SET search_path = public, pg_catalog, pg_temp AS $$
    SELECT coalesce(
        (SELECT r.id FROM refunds r
         WHERE r.payment_id = item.payment_id AND r.gateway = item.gateway
           AND (r.id = item.refund_id OR r.id::text = item.key) LIMIT 1),
        (SELECT (array_agg(r.id))[1] FROM refunds r
         WHERE r.payment_id = item.payment_id AND r.gateway = item.gateway AND item.field = 'refund'
           AND r.status IN ('approved', 'sending', 'unknown') AND r.gateway_ref IS NULL
           AND (r.amount_minor, r.currency) = (-item.amount_minor, item.currency)
         HAVING count(*) = 1))
$$;

-- Ends one refund by what a line says, or says why not: the guard of domain/refund_repair.rs on the locked rows, and what
-- the end does, in one transaction. What repair_item() says of evidence, power and quarantine holds here too.
CREATE FUNCTION repair_refund(of_item bigint, power text, whose text, why text, of_version integer) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    item reconciliation_items;
    known refunds;
    held refunds;
    charge refunded_charges;
    paid payments;
    moved payments;
    at timestamptz;
    is_named boolean;
    is_whole boolean;
    told jsonb;
BEGIN
    -- The report before the item, as in repair_item().
    PERFORM 1 FROM reconciliation_items i JOIN reconciliation_runs r ON r.id = (i.evidence ->> 'run')::uuid
    WHERE i.number = of_item FOR SHARE OF r;
    SELECT i.* INTO item FROM reconciliation_items i WHERE i.number = of_item FOR UPDATE;
    IF item.number IS NULL THEN
        RETURN 'no_such_item';
    ELSIF item.status NOT IN ('open', 'waiting', 'dismissed') THEN
        -- A dismissal argues away no money that went back; and it holds the refund, so this is its way out.
        RETURN 'not_open';
    ELSIF item.class <> 'refund_mismatch' OR item.field NOT IN ('status', 'refund') THEN
        RETURN 'nothing_to_repair';
    ELSIF item.payment_id IS NULL THEN
        RETURN 'no_such_payment';
    END IF;
    PERFORM 1 FROM reconciliation_runs r
    WHERE r.id = (item.evidence ->> 'run')::uuid AND r.status IN ('loaded', 'compared') FOR SHARE;
    IF NOT FOUND THEN
        RETURN 'not_open';
    END IF;
    SELECT r.* INTO known FROM refunds r WHERE r.id = refund_of_item(item);
    -- The locks in the order of everything about refunds: payment, charge, refund.
    SELECT p.* INTO paid FROM payments p
    WHERE p.due_day = payment_day(item.payment_id) AND p.id = item.payment_id FOR UPDATE;
    SELECT c.* INTO charge FROM refunded_charges c
    WHERE c.gateway = known.gateway AND c.reference = known.reference FOR UPDATE;
    SELECT r.* INTO held FROM refunds r WHERE r.id = known.id FOR UPDATE;
    at := clock_timestamp();
    is_named := held.id = item.refund_id OR held.id::text = item.key;

    IF paid.id IS NULL THEN
        RETURN 'no_such_payment';
    ELSIF of_version <> paid.history_seq THEN
        RETURN 'changed';
    ELSIF held.id IS NULL OR held.status IN ('asked', 'declined', 'rejected') THEN
        RETURN 'nothing_to_repair';
    ELSIF held.status = 'sending' THEN
        RETURN 'in_flight';
    ELSIF held.status = 'refunded' THEN
        RETURN 'on_record';
    ELSIF coalesce(item.reference, '') = '' THEN
        RETURN 'reference_missing';
    END IF;
    -- As in resolve_refund(): of two who give one name to two refunds the second sees the first.
    PERFORM pg_advisory_xact_lock(hashtextextended(held.gateway || ' ' || item.reference, 1750));
    IF EXISTS (SELECT 1 FROM refunds o
               WHERE o.gateway = held.gateway AND o.gateway_ref = item.reference AND o.id <> held.id) THEN
        RETURN 'reference_taken';
    ELSIF held.gateway_ref <> item.reference
          OR (held.amount_minor, held.currency) IS DISTINCT FROM (-item.amount_minor, item.currency) THEN
        RETURN 'nothing_to_repair';
    ELSIF power <> 'person' AND is_named IS NOT TRUE THEN
        RETURN 'needs_person';
    END IF;

    UPDATE refunds r SET status = 'refunded', open_sends = 0, gateway_ref = item.reference, finished_at = at,
        next_attempt_at = NULL, note = left('shown by the settlement report: ' || why, 500)
    WHERE r.id = held.id;
    UPDATE refunded_charges c SET refunded_minor = c.refunded_minor + held.amount_minor
    WHERE c.gateway = held.gateway AND c.reference = held.reference
    RETURNING c.* INTO charge;
    -- As in settle_refund.sql.
    is_whole := charge.refunded_minor = charge.charge_minor AND paid.status IN ('COMPLETED', 'PARKED')
        AND coalesce(paid.gateway_ref, held.reference) = held.reference
        AND NOT EXISTS (SELECT 1 FROM refunded_charges o
                        WHERE o.payment_id = paid.id AND o.reference <> held.reference
                          AND o.refunded_minor < o.reserved_minor);
    told := jsonb_strip_nulls(jsonb_build_object('refund', held.id, 'gatewayReference', held.reference,
        'refundReference', item.reference, 'amount', held.amount_minor, 'currency', held.currency,
        'refundedInSum', charge.refunded_minor, 'reason', why, 'askedBy', held.asked_by,
        'approvedBy', held.approved_by, 'item', item.number, 'evidence', item.evidence));
    UPDATE payments p SET
        status = CASE WHEN is_whole THEN 'REFUNDED' ELSE p.status END,
        status_reason = CASE WHEN is_whole THEN NULL ELSE p.status_reason END,
        last_moved_at = CASE WHEN is_whole THEN at ELSE p.last_moved_at END,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, paid.status,
            CASE WHEN is_whole THEN 'REFUNDED' ELSE paid.status END,
            CASE WHEN is_whole THEN 'refunded' ELSE 'noted' END, whose, p.fence, p.attempt, p.epoch, at, told::text),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    WHERE p.due_day = paid.due_day AND p.id = paid.id
    RETURNING p.* INTO moved;
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                 hash, xid, actor_id)
    VALUES (moved.id, moved.history_seq, paid.status, moved.status,
            CASE WHEN is_whole THEN 'refunded' ELSE 'noted' END, whose, moved.fence, moved.attempt, moved.epoch, at,
            told::text, moved.history_hash, moved.last_xid, moved.actor_id);
    IF is_whole THEN
        DELETE FROM parked h WHERE h.payment_id = moved.id;
    END IF;
    UPDATE reconciliation_items i SET status = 'repaired', refund_id = held.id, ours = 'refunded', decided_by = whose,
        decided_at = at, decided_reason = why, not_repaired = NULL
    WHERE i.number = of_item;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, whose, 'repair', moved.id::text, why, told - 'reason'
            || jsonb_build_object('became', moved.status, 'version', moved.history_seq));
    RETURN CASE WHEN is_whole THEN 'refunded_whole' ELSE 'refunded' END;
END
$$;

-- Of a payment, or of a refund.
CREATE FUNCTION repair(
    of_item bigint, power text, whose text, why text, of_version integer, by_approval uuid
) RETURNS text
    LANGUAGE sql SET search_path = public, pg_catalog, pg_temp AS $$
    SELECT CASE WHEN EXISTS (SELECT 1 FROM reconciliation_items i
                             WHERE i.number = of_item AND i.class = 'refund_mismatch')
                THEN repair_refund(of_item, power, whose, why, of_version)
                ELSE repair_item(of_item, power, whose, why, of_version, by_approval) END
$$;

-- The interface's: a person asks, and has a second one's approval where the guard wants it.
CREATE FUNCTION repair_by_person(of_item bigint, whose text, why text, of_version integer, by_approval uuid) RETURNS text
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
    SELECT repair(of_item, 'person', whose, why, of_version, by_approval)
$$;

-- The worker's: no program is a person, whatever it says.
CREATE FUNCTION repair_by_program(of_item bigint, power text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
BEGIN
    IF power IS NULL OR power NOT IN ('safe', 'automatic') THEN
        RAISE EXCEPTION 'a program does not repair as %', power USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN repair(of_item, power, 'reconciliation', 'the gateway''s settlement report shows it', NULL, NULL);
END
$$;

REVOKE ALL ON FUNCTION refund_of_item, repair_refund, repair, repair_by_person, repair_by_program FROM PUBLIC;
GRANT EXECUTE ON FUNCTION repair_by_program TO punctual_worker;
GRANT EXECUTE ON FUNCTION repair_by_person TO punctual_api;

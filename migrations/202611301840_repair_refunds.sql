-- What a report shows as given back is not given back again: a refund that a restored database still calls allowed, or
-- unknown, ends by the gateway's own line.

SET lock_timeout = '5s';

-- The line of a report that ended it, or by which it was put on record: {item, line}. What a bank calls it is evidence:
-- the gateway's name of it is the gateway's, or none.
ALTER TABLE refunds ADD COLUMN shown_by jsonb;
ALTER TABLE refunds DROP CONSTRAINT done_has_a_name;
ALTER TABLE refunds ADD CONSTRAINT done_has_a_name
    CHECK (status <> 'refunded' OR num_nonnulls(gateway_ref, shown_by) > 0);

-- Is this the payment's own charge? `known` is the name that the gateway gave us of it. Where only a bank's entry showed
-- it, nobody did: it may be each one of the gateway's but those that a report has as a second charge.
CREATE FUNCTION is_own_charge(paid uuid, of_gateway text, known text, of_reference text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = public, pg_catalog, pg_temp AS $$
    SELECT coalesce(known = of_reference, NOT EXISTS (
        SELECT 1 FROM reconciliation_items i
        JOIN reconciliation_runs r ON r.id = (i.evidence ->> 'run')::uuid AND has_own_names(r.format)
        WHERE i.payment_id = paid AND i.gateway = of_gateway AND i.class = 'duplicate_charge'
          AND i.reference = of_reference AND i.status <> 'superseded'))
$$;

-- May the line of this difference give back this charge? Unless it names another one: a charge with two names has both in
-- its own line.
CREATE FUNCTION may_give_back(item reconciliation_items, of_reference text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = public, pg_catalog, pg_temp AS $$
    SELECT coalesce((
        SELECT coalesce(l.charge_ref, '') IN ('', of_reference) OR EXISTS (
            SELECT 1 FROM settlement_lines c
            JOIN reconciliation_runs r ON r.id = c.run_id AND r.gateway = item.gateway
                                      AND r.status IN ('loaded', 'compared')
            WHERE c.payment_id = item.payment_id AND c.kind = 'charge' AND c.own_name
              AND l.charge_ref IN (c.reference, c.charge_ref) AND of_reference IN (c.reference, c.charge_ref))
        FROM settlement_lines l
        WHERE l.report_day = (item.evidence ->> 'day')::date AND l.run_id = (item.evidence ->> 'run')::uuid
          AND l.number = (item.evidence ->> 'line')::bigint), true)
$$;

-- The refund that a line of this difference names: by the refund's key or, where the line has none of ours, as the only
-- open one of its payment and amount, and of the charge that the line names, if it does.
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
           AND may_give_back(item, r.reference)
         HAVING count(*) = 1))
$$;

-- Ends one refund by what a line says, or says why not: the guard of domain/refund_repair.rs on the locked rows, and what
-- the end does, in one transaction. What repair_item() says of evidence, power and quarantine holds here too.
CREATE FUNCTION repair_refund(
    of_item bigint, power text, whose text, why text, of_version integer, by_approval uuid
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    item reconciliation_items;
    known refunds;
    held refunds;
    paid payments;
    at timestamptz;
    is_named boolean;
    own_name boolean;
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
    SELECT has_own_names(r.format) INTO own_name FROM reconciliation_runs r
    WHERE r.id = (item.evidence ->> 'run')::uuid AND r.status IN ('loaded', 'compared') FOR SHARE;
    IF NOT FOUND THEN
        RETURN 'not_open';
    END IF;
    SELECT r.* INTO known FROM refunds r WHERE r.id = refund_of_item(item);
    -- The locks in the order of everything about refunds: payment, charge, refund.
    SELECT p.* INTO paid FROM payments p
    WHERE p.due_day = payment_day(item.payment_id) AND p.id = item.payment_id FOR UPDATE;
    PERFORM 1 FROM refunded_charges c
    WHERE c.gateway = known.gateway AND c.reference = known.reference FOR UPDATE;
    SELECT r.* INTO held FROM refunds r WHERE r.id = known.id FOR UPDATE;
    at := clock_timestamp();
    is_named := held.id = item.refund_id OR held.id::text = item.key;

    IF paid.id IS NULL THEN
        RETURN 'no_such_payment';
    ELSIF of_version <> paid.history_seq THEN
        RETURN 'changed';
    ELSIF held.id IS NULL AND item.field = 'refund' THEN
        RETURN record_refund(item, paid, own_name, power, whose, why, by_approval);
    ELSIF held.id IS NULL OR held.status IN ('asked', 'declined', 'rejected') THEN
        RETURN 'nothing_to_repair';
    ELSIF held.status = 'sending' THEN
        RETURN 'in_flight';
    ELSIF held.status = 'refunded' THEN
        RETURN 'on_record';
    ELSIF own_name AND coalesce(item.reference, '') = '' THEN
        RETURN 'reference_missing';
    ELSIF own_name AND refund_name_is_taken(held.gateway, item.reference, held.id) THEN
        RETURN 'reference_taken';
    ELSIF own_name AND held.gateway_ref <> item.reference
          OR (held.amount_minor, held.currency) IS DISTINCT FROM (-item.amount_minor, item.currency) THEN
        RETURN 'nothing_to_repair';
    ELSIF power <> 'person' AND is_named IS NOT TRUE THEN
        RETURN 'needs_person';
    END IF;

    UPDATE refunds r SET status = 'refunded', open_sends = 0, finished_at = at, next_attempt_at = NULL,
        gateway_ref = CASE WHEN own_name THEN item.reference ELSE r.gateway_ref END,
        shown_by = jsonb_build_object('item', item.number, 'line', item.evidence),
        note = left('shown by the settlement report: ' || why, 500)
    WHERE r.id = held.id
    RETURNING r.* INTO held;
    RETURN note_refund_shown(item, held, paid, own_name, whose, why);
END
$$;

-- Whether the gateway's name of a refund is another one's. As in resolve_refund(): of two who give one name to two refunds
-- the second sees the first.
CREATE FUNCTION refund_name_is_taken(of_gateway text, name text, of_refund uuid) RETURNS boolean
    LANGUAGE plpgsql SET search_path = public, pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(of_gateway || ' ' || name, 1750));
    RETURN EXISTS (SELECT 1 FROM refunds o
                   WHERE o.gateway = of_gateway AND o.gateway_ref = name AND o.id IS DISTINCT FROM of_refund);
END
$$;

-- What follows when a locked refund is done by what a line says: the sums of its charge, its payment and that one's
-- history, the difference, the act.
CREATE FUNCTION note_refund_shown(
    item reconciliation_items, held refunds, paid payments, own_name boolean, whose text, why text
) RETURNS text
    LANGUAGE plpgsql SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    charge refunded_charges;
    moved payments;
    at timestamptz := held.finished_at;
    is_whole boolean;
    told jsonb;
BEGIN
    UPDATE refunded_charges c SET refunded_minor = c.refunded_minor + held.amount_minor
    WHERE c.gateway = held.gateway AND c.reference = held.reference
    RETURNING c.* INTO charge;
    -- As in settle_refund.sql.
    is_whole := charge.refunded_minor = charge.charge_minor AND paid.status IN ('COMPLETED', 'PARKED')
        AND is_own_charge(paid.id, held.gateway, paid.gateway_ref, held.reference)
        AND NOT EXISTS (SELECT 1 FROM refunded_charges o
                        WHERE o.payment_id = paid.id AND o.reference <> held.reference
                          AND o.refunded_minor < o.reserved_minor);
    told := jsonb_strip_nulls(jsonb_build_object('refund', held.id, 'gatewayReference', held.reference,
        'refundReference', CASE WHEN own_name THEN item.reference END,
        'bankReference', CASE WHEN NOT own_name THEN item.reference END, 'amount', held.amount_minor, 'currency', held.currency,
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
    WHERE i.number = item.number;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, whose, 'repair', moved.id::text, why, told - 'reason'
            || jsonb_build_object('became', moved.status, 'version', moved.history_seq));
    RETURN CASE WHEN is_whole THEN 'refunded_whole' ELSE 'refunded' END;
END
$$;

-- Puts a refund on record that the gateway's own line shows and that nobody here knows of, or says why not. A restore may
-- have lost its row, or somebody gave back in the gateway's own dashboard; what went back counts from then on, so that
-- no more is promised back than was charged. Two people say so. Called by repair_refund() with the payment locked. The
-- row is made under the line's key where that is of our form: asked for again under the same key it is the same refund.
CREATE FUNCTION record_refund(
    item reconciliation_items, paid payments, own_name boolean, power text, whose text, why text, by_approval uuid
) RETURNS text
    LANGUAGE plpgsql SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    line settlement_lines;
    charge refunded_charges;
    made refunds;
    at timestamptz := clock_timestamp();
    charge_name text;
    second_person text;
    -- As our ids are: a version of our own.
    of_id uuid := overlay(overlay(md5('refund of line ' || item.fingerprint) PLACING '8' FROM 13) PLACING '8' FROM 17)::uuid;
    is_named boolean := false;
BEGIN
    -- The charge that the line names, which is on record; where it names none, or ours otherwise, the one that we know.
    SELECT l.* INTO line FROM settlement_lines l
    WHERE l.report_day = (item.evidence ->> 'day')::date AND l.run_id = (item.evidence ->> 'run')::uuid
      AND l.number = (item.evidence ->> 'line')::bigint;
    IF line.named_id <> paid.id AND NOT EXISTS (SELECT 1 FROM refunds r WHERE r.id = line.named_id) THEN
        of_id := line.named_id;
        is_named := true;
    END IF;
    SELECT n.name INTO charge_name
    FROM (VALUES (1, line.charge_ref),
                 (2, CASE WHEN may_give_back(item, paid.gateway_ref) THEN paid.gateway_ref END)) AS n (place, name)
    WHERE paid.gateway = item.gateway
      AND (n.name = paid.gateway_ref
           OR EXISTS (SELECT 1 FROM gateway_refs g
                      WHERE g.gateway = paid.gateway AND g.reference = n.name AND g.payment_id = paid.id))
    ORDER BY n.place LIMIT 1;
    SELECT c.* INTO charge FROM refunded_charges c
    WHERE c.gateway = paid.gateway AND c.reference = charge_name FOR UPDATE;
    IF charge.payment_id IS NULL THEN
        SELECT coalesce(max(g.amount_minor), paid.amount_minor), coalesce(max(g.currency), paid.currency), 0
        INTO charge.charge_minor, charge.currency, charge.reserved_minor
        FROM gateway_refs g
        WHERE g.gateway = paid.gateway AND g.reference = charge_name AND g.payment_id = paid.id;
    END IF;

    IF paid.status = 'PROCESSING' THEN
        RETURN 'in_flight';
    ELSIF paid.status IN ('PENDING', 'UNKNOWN') OR NOT own_name OR item.amount_minor >= 0 THEN
        -- What is not known to be charged is repaired first.
        RETURN 'nothing_to_repair';
    ELSIF coalesce(item.reference, '') = '' THEN
        RETURN 'reference_missing';
    ELSIF refund_name_is_taken(item.gateway, item.reference, NULL) THEN
        RETURN 'reference_taken';
    ELSIF charge_name IS NULL THEN
        RETURN 'reference_missing';
    ELSIF NOT is_named AND EXISTS (
            SELECT 1 FROM refunds r
            WHERE r.payment_id = paid.id AND r.status IN ('asked', 'approved', 'sending', 'unknown')
              AND r.gateway_ref IS NULL AND (r.amount_minor, r.currency) = (-item.amount_minor, item.currency)
              AND may_give_back(item, r.reference)) THEN
        -- It may be one of these, and nobody can tell which.
        RETURN 'nothing_to_repair';
    ELSIF charge.payment_id <> paid.id OR charge.currency IS DISTINCT FROM item.currency THEN
        RETURN 'nothing_to_repair';
    ELSIF charge.reserved_minor - item.amount_minor > charge.charge_minor THEN
        RETURN 'above_charge';
    ELSIF power <> 'person' THEN
        RETURN 'needs_person';
    END IF;
    SELECT a.decided_by INTO second_person FROM approvals a
    WHERE a.id = by_approval AND a.kind = 'repair' AND a.payment_id = paid.id AND a.status = 'approved'
      AND a.asked_by = whose AND a.decided_by <> whose AND a.request ->> 'item' = item.number::text;
    IF second_person IS NULL THEN
        RETURN 'needs_approval';
    END IF;
    INSERT INTO refunded_charges (gateway, reference, payment_id, charge_minor, currency, reserved_minor)
    VALUES (paid.gateway, charge_name, paid.id, charge.charge_minor, charge.currency, -item.amount_minor)
    ON CONFLICT (gateway, reference) DO UPDATE
        SET reserved_minor = refunded_charges.reserved_minor + excluded.reserved_minor;
    INSERT INTO refunds (id, payment_id, payment_day, payer, gateway, reference, amount_minor, currency, status, actor_id,
                         idempotency_key, request_hash, asked_by, reason, approval_id, approved_by, asked_at, expires_at,
                         approved_at, finished_at, gateway_ref, shown_by, note)
    VALUES (of_id, paid.id, paid.due_day, paid.actor_id, paid.gateway, charge_name, -item.amount_minor, item.currency,
            'refunded', '00000000-0000-0000-0000-000000000000', 'item ' || item.number, '', whose, why, by_approval,
            second_person, at, at, at, at, item.reference,
            jsonb_build_object('item', item.number, 'line', item.evidence),
            'on record by the settlement report: nobody here knew of it')
    RETURNING * INTO made;
    RETURN note_refund_shown(item, made, paid, own_name, whose, why);
END
$$;

-- Of a payment, or of a refund.
CREATE FUNCTION repair(
    of_item bigint, power text, whose text, why text, of_version integer, by_approval uuid
) RETURNS text
    LANGUAGE sql SET search_path = public, pg_catalog, pg_temp AS $$
    SELECT CASE WHEN EXISTS (SELECT 1 FROM reconciliation_items i
                             WHERE i.number = of_item AND i.class = 'refund_mismatch')
                THEN repair_refund(of_item, power, whose, why, of_version, by_approval)
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

REVOKE ALL ON FUNCTION may_give_back, refund_of_item, repair_refund, refund_name_is_taken, note_refund_shown, record_refund,
    repair, repair_by_person, repair_by_program FROM PUBLIC;
GRANT EXECUTE ON FUNCTION repair_by_program TO punctual_worker;
GRANT EXECUTE ON FUNCTION repair_by_person TO punctual_api;

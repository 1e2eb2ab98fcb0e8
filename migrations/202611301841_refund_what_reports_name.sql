-- A payment that only a bank's entry showed to be charged has no name of the gateway's, and a refund that a restore lost
-- and a report showed is on record under nobody's request. Both are asked about here.

SET lock_timeout = '5s';

-- As before, but for these two.
CREATE OR REPLACE FUNCTION ask_refund(
    of_id uuid, of_day date, of_payment uuid, of_reference text, of_amount bigint, of_actor uuid, of_key text,
    of_hash bytea, whose text, why text, of_approval uuid
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    held payments;
    known refunds;
    charge refunded_charges;
    taken gateway_refs;
    at timestamptz;
    is_on_record boolean;
    amount bigint;
    made uuid;
BEGIN
    SELECT p.* INTO held FROM payments p WHERE p.due_day = of_day AND p.id = of_payment FOR UPDATE;
    -- Under one key the first word stands, whatever has become of the payment since.
    SELECT r.* INTO known FROM refunds r WHERE r.actor_id = of_actor AND r.idempotency_key = of_key;
    IF known.id IS NULL THEN
        -- One that a restore lost and a report showed was put on record under the key that this one has.
        SELECT r.* INTO known FROM refunds r WHERE r.id = of_id AND r.payment_id = of_payment
            AND r.reference = of_reference AND r.shown_by IS NOT NULL;
        IF known.amount_minor = coalesce(of_amount, known.amount_minor) THEN
            RETURN 'replayed';
        END IF;
    END IF;
    IF known.id IS NOT NULL THEN
        RETURN CASE WHEN known.request_hash = of_hash THEN 'replayed' ELSE 'key_reused' END;
    END IF;
    at := clock_timestamp();
    IF held.id IS NULL THEN
        RETURN 'no_such_payment';
    ELSIF held.status NOT IN ('COMPLETED', 'PARKED', 'REFUNDED', 'FAILED', 'CANCELLED') THEN
        RETURN 'not_charged';
    ELSIF NOT lineage_is_released() THEN
        -- R17: what a restored database shows as left may have been given back after the backup.
        RETURN 'quarantined';
    END IF;
    SELECT held.gateway_ref = of_reference OR EXISTS (
        SELECT 1 FROM gateway_refs g
        WHERE g.gateway = held.gateway AND g.reference = of_reference AND g.payment_id = of_payment)
    INTO is_on_record;
    IF is_on_record IS NOT TRUE AND held.status IN ('COMPLETED', 'REFUNDED') AND held.gateway_ref IS NULL THEN
        -- Only a bank's entry showed it. The gateway's name of what was asked for is in the gateway's own report. A second
        -- charge is put on record first.
        SELECT is_own_charge(of_payment, held.gateway, NULL, of_reference) AND EXISTS (
                       SELECT 1 FROM settlement_lines l
                       JOIN reconciliation_runs r ON r.id = l.run_id AND r.gateway = held.gateway
                                                 AND r.status IN ('loaded', 'compared')
                       WHERE l.payment_id = of_payment AND l.kind = 'charge' AND l.own_name AND l.reference = of_reference
                         AND (l.gross_minor, l.currency) = (held.amount_minor, held.currency))
        INTO is_on_record;
    END IF;
    IF is_on_record IS NOT TRUE THEN
        -- An end without a charge; a late answer may have named one all the same.
        RETURN CASE WHEN held.status IN ('FAILED', 'CANCELLED') THEN 'not_charged' ELSE 'reference_unknown' END;
    ELSIF NOT EXISTS (SELECT 1 FROM gateways g WHERE g.name = held.gateway AND g.offers_refunds) THEN
        RETURN 'not_offered';
    END IF;
    PERFORM drop_refunds(NULL, of_payment, 'nobody decided in time');
    -- Of a charge that took something else than was asked for, all of that can be given back, and no more.
    SELECT g.* INTO taken FROM gateway_refs g
    WHERE g.gateway = held.gateway AND g.reference = of_reference AND g.payment_id = of_payment;
    INSERT INTO refunded_charges (gateway, reference, payment_id, charge_minor, currency)
    VALUES (held.gateway, of_reference, of_payment, coalesce(taken.amount_minor, held.amount_minor),
            coalesce(taken.currency, held.currency))
    ON CONFLICT DO NOTHING;
    SELECT c.* INTO charge FROM refunded_charges c
    WHERE c.gateway = held.gateway AND c.reference = of_reference FOR UPDATE;
    IF charge.payment_id <> of_payment THEN
        RETURN 'reference_taken';
    END IF;
    amount := coalesce(of_amount, charge.charge_minor - charge.reserved_minor);
    IF charge.reserved_minor >= charge.charge_minor THEN
        RETURN 'nothing_left';
    ELSIF amount < 1 OR amount > charge.charge_minor - charge.reserved_minor THEN
        RETURN 'above_charge';
    END IF;

    INSERT INTO refunds (id, payment_id, payment_day, payer, gateway, reference, amount_minor, currency, actor_id,
                         idempotency_key, request_hash, asked_by, reason, approval_id, asked_at, expires_at)
    VALUES (of_id, of_payment, of_day, held.actor_id, held.gateway, of_reference, amount, charge.currency, of_actor,
            of_key, of_hash, whose, why, of_approval, at, at + interval '1 day')
    ON CONFLICT DO NOTHING
    RETURNING id INTO made;
    IF made IS NULL THEN
        -- The same key at the same time for another payment.
        RETURN 'key_reused';
    END IF;
    UPDATE refunded_charges c SET reserved_minor = c.reserved_minor + amount
    WHERE c.gateway = held.gateway AND c.reference = of_reference;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, whose, 'ask_refund', of_payment::text, why, jsonb_build_object('refund', of_id, 'approval',
        of_approval, 'gatewayReference', of_reference, 'amount', amount, 'currency', charge.currency));
    RETURN 'asked';
END
$$;

-- As before, but that a second charge given back is not the payment's own where only a bank's entry showed that one.
CREATE OR REPLACE FUNCTION resolve_refund(of_refund uuid, by_approval uuid) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    known refunds;
    held refunds;
    charge refunded_charges;
    paid payments;
    moved payments;
    word approvals;
    at timestamptz;
    as_refunded boolean;
    of_reference text;
    given bigint;
    says_refunded boolean;
    last_claimed_at timestamptz;
    is_whole boolean;
    told jsonb;
BEGIN
    SELECT r.* INTO known FROM refunds r WHERE r.id = of_refund;
    -- The locks in the order of everything about refunds: payment, charge, refund.
    SELECT p.* INTO paid FROM payments p
    WHERE p.due_day = known.payment_day AND p.id = known.payment_id FOR UPDATE;
    SELECT c.* INTO charge FROM refunded_charges c
    WHERE c.gateway = known.gateway AND c.reference = known.reference FOR UPDATE;
    SELECT r.* INTO held FROM refunds r WHERE r.id = of_refund FOR UPDATE;
    at := clock_timestamp();
    SELECT a.* INTO word FROM approvals a
    WHERE a.id = by_approval AND a.kind = 'resolve_refund' AND a.payment_id = held.payment_id
      AND a.request ->> 'refund' = of_refund::text;
    as_refunded := word.request ->> 'as' = 'refunded';
    of_reference := word.request ->> 'gatewayReference';
    given := CASE WHEN as_refunded THEN (word.request ->> 'amount')::bigint ELSE 0 END;
    SELECT coalesce(bool_or(t.verdict = 'refunded'), false), max(t.claimed_at) INTO says_refunded, last_claimed_at
    FROM refund_attempts t WHERE t.refund_id = of_refund;

    IF held.id IS NULL OR paid.id IS NULL OR charge.payment_id IS NULL THEN
        RETURN 'no_such_refund';
    ELSIF word.id IS NULL THEN
        RETURN 'needs_approval';
    ELSIF held.status <> 'unknown' OR held.next_attempt_at IS NOT NULL THEN
        RETURN 'not_waiting';
    ELSIF NOT lineage_is_released() THEN
        -- R17: a restored refund may have been closed, or answered, after the backup.
        RETURN 'quarantined';
    ELSIF (word.request ->> 'attempt')::integer IS DISTINCT FROM held.attempt THEN
        RETURN 'changed';
    END IF;
    IF as_refunded THEN
        IF coalesce(of_reference, '') = '' THEN
            RETURN 'reference_missing';
        ELSIF held.gateway_ref <> of_reference THEN
            RETURN 'reference_differs';
        ELSIF given IS NULL OR given < 1 OR word.request ->> 'currency' IS DISTINCT FROM held.currency THEN
            RETURN 'amount_differs';
        ELSIF given > charge.charge_minor - charge.reserved_minor + held.amount_minor THEN
            RETURN 'above_charge';
        END IF;
        -- Of two words that give one name to two refunds the second sees the first. Nothing is locked behind it.
        PERFORM pg_advisory_xact_lock(hashtextextended(held.gateway || ' ' || of_reference, 1750));
        IF EXISTS (SELECT 1 FROM refunds o
                   WHERE o.gateway = held.gateway AND o.gateway_ref = of_reference AND o.id <> of_refund) THEN
            RETURN 'reference_taken';
        END IF;
    ELSE
        -- Nobody's word takes back what an answer said, or is said before the last request can be gone (R7).
        IF says_refunded OR held.gateway_ref IS NOT NULL THEN
            RETURN 'refund_on_record';
        ELSIF last_claimed_at > at - interval '1 hour' THEN
            RETURN 'too_recent';
        END IF;
    END IF;
    IF word.status <> 'approved' OR word.decided_by = word.asked_by THEN
        RETURN 'needs_approval';
    END IF;

    UPDATE refunds r SET
        status = CASE WHEN as_refunded THEN 'refunded' ELSE 'declined' END,
        open_sends = 0,
        gateway_ref = CASE WHEN as_refunded THEN of_reference ELSE r.gateway_ref END,
        given_back_minor = CASE WHEN as_refunded AND given <> r.amount_minor THEN given END,
        code = CASE WHEN as_refunded THEN r.code ELSE 'resolved_not_refunded' END,
        finished_at = at,
        resolved_by = word.asked_by,
        resolved_approval = word.id,
        evidence = word.request -> 'evidence'
    WHERE r.id = of_refund;
    UPDATE refunded_charges c SET
        reserved_minor = c.reserved_minor - held.amount_minor + given,
        refunded_minor = c.refunded_minor + given
    WHERE c.gateway = held.gateway AND c.reference = held.reference
    RETURNING c.* INTO charge;
    -- As in settle_refund.sql.
    is_whole := as_refunded AND charge.refunded_minor = charge.charge_minor AND paid.status IN ('COMPLETED', 'PARKED')
        AND is_own_charge(paid.id, held.gateway, paid.gateway_ref, held.reference)
        AND NOT EXISTS (SELECT 1 FROM refunded_charges o
                        WHERE o.payment_id = paid.id AND o.reference <> held.reference
                          AND o.refunded_minor < o.reserved_minor);
    told := jsonb_strip_nulls(jsonb_build_object('refund', held.id,
        'resolved', CASE WHEN as_refunded THEN 'refunded' ELSE 'not_refunded' END,
        'gatewayReference', held.reference, 'refundReference', CASE WHEN as_refunded THEN of_reference END,
        'amount', CASE WHEN as_refunded THEN given ELSE held.amount_minor END, 'currency', held.currency,
        'refundedInSum', charge.refunded_minor, 'reason', word.reason, 'evidence', word.request -> 'evidence',
        'approval', word.id, 'approvedBy', word.decided_by));
    UPDATE payments p SET
        status = CASE WHEN is_whole THEN 'REFUNDED' ELSE p.status END,
        status_reason = CASE WHEN is_whole THEN NULL ELSE p.status_reason END,
        last_moved_at = CASE WHEN is_whole THEN at ELSE p.last_moved_at END,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, paid.status,
            CASE WHEN is_whole THEN 'REFUNDED' ELSE paid.status END,
            CASE WHEN is_whole THEN 'refunded' ELSE 'noted' END, word.asked_by, p.fence, p.attempt, p.epoch, at,
            told::text),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    WHERE p.due_day = paid.due_day AND p.id = paid.id
    RETURNING p.* INTO moved;
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                 hash, xid, actor_id)
    VALUES (moved.id, moved.history_seq, paid.status, moved.status,
            CASE WHEN is_whole THEN 'refunded' ELSE 'noted' END, word.asked_by, moved.fence, moved.attempt,
            moved.epoch, at, told::text, moved.history_hash, moved.last_xid, moved.actor_id);
    IF is_whole THEN
        DELETE FROM parked h WHERE h.payment_id = moved.id;
    END IF;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, word.asked_by, 'resolve_refund', moved.id::text, word.reason,
            told - 'reason' || jsonb_build_object('version', moved.history_seq));
    RETURN CASE WHEN is_whole THEN 'refunded_whole' WHEN as_refunded THEN 'refunded' ELSE 'declined' END;
END
$$;

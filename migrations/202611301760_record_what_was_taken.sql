-- What a gateway took otherwise than asked: kept with the name of that charge, so that two people can give all of it
-- back, and nobody can call it the charge that was asked for.

SET lock_timeout = '5s';

-- Null: what the payment asks. The table is as long as the history of charges: what is there is not read for the
-- checks, since it has neither.
ALTER TABLE gateway_refs
    ADD COLUMN amount_minor bigint,
    ADD COLUMN currency text,
    ADD CONSTRAINT an_amount_is_above_nothing CHECK (amount_minor > 0) NOT VALID,
    ADD CONSTRAINT an_amount_has_a_currency CHECK ((amount_minor IS NULL) = (currency IS NULL)) NOT VALID;

-- As before, but for what the gateway says that the named charge took.
CREATE OR REPLACE FUNCTION resolve_parked(
    of_day date, of_payment uuid, as_charged boolean, of_reference text, of_amount bigint, of_currency text,
    whose text, why text, evidence jsonb, of_version integer
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    held payments;
    ended payments;
    at timestamptz;
    charged boolean;
    voided_here boolean;
    to_status text;
    told jsonb;
BEGIN
    SELECT p.* INTO held FROM payments p WHERE p.due_day = of_day AND p.id = of_payment FOR UPDATE;
    at := clock_timestamp();
    SELECT coalesce(bool_or(t.verdict = 'charged'), false),
           coalesce(bool_or(t.verdict = 'voided' AND t.epoch = held.epoch), false)
    INTO charged, voided_here
    FROM attempts t WHERE t.due_day = of_day AND t.payment_id = of_payment;

    IF held.id IS NULL THEN
        RETURN 'no_such_payment';
    ELSIF held.status <> 'PARKED' THEN
        RETURN 'not_parked';
    ELSIF NOT lineage_is_released() THEN
        RETURN 'quarantined';
    ELSIF of_version <> held.history_seq THEN
        RETURN 'changed';
    END IF;
    IF as_charged THEN
        IF coalesce(of_reference, '') = '' THEN
            RETURN 'reference_missing';
        ELSIF of_amount IS DISTINCT FROM held.amount_minor OR of_currency IS DISTINCT FROM held.currency THEN
            RETURN 'amount_differs';
        ELSIF held.gateway_ref <> of_reference THEN
            RETURN 'reference_differs';
        ELSIF EXISTS (SELECT 1 FROM gateway_refs g
                      WHERE g.gateway = held.gateway AND g.reference = of_reference AND g.payment_id = of_payment
                        AND g.amount_minor IS NOT NULL) THEN
            -- The gateway said otherwise, and nobody's word makes COMPLETED of that.
            RETURN 'amount_differs';
        END IF;
        -- One charge pays for one payment. Another's insert is waited for, and then seen.
        INSERT INTO gateway_refs (gateway, reference, payment_id) VALUES (held.gateway, of_reference, of_payment)
        ON CONFLICT DO NOTHING;
        IF NOT EXISTS (SELECT 1 FROM gateway_refs g
                       WHERE g.gateway = held.gateway AND g.reference = of_reference AND g.payment_id = of_payment) THEN
            RETURN 'reference_taken';
        END IF;
        to_status := 'COMPLETED';
    ELSE
        IF charged OR held.gateway_ref IS NOT NULL THEN
            RETURN 'charge_on_record';
        ELSIF held.unanswered > 0 AND NOT voided_here THEN
            RETURN 'open_send';
        END IF;
        to_status := CASE WHEN held.cancel_wish_at IS NULL THEN 'FAILED' ELSE 'CANCELLED' END;
    END IF;

    told := jsonb_build_object('reason', why, 'evidence', evidence);
    UPDATE payments p SET
        status = to_status,
        status_reason = CASE to_status WHEN 'FAILED' THEN 'resolved_not_charged'
                                       WHEN 'CANCELLED' THEN 'cancelled_by_client' END,
        unanswered = 0,
        asks = 0,
        gateway_ref = CASE WHEN as_charged THEN of_reference ELSE p.gateway_ref END,
        last_moved_at = at,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, 'PARKED', to_status, 'resolved', whose,
            p.fence, p.attempt, p.epoch, at, told::text),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    WHERE p.due_day = of_day AND p.id = of_payment
    RETURNING p.* INTO ended;
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                 hash, xid)
    VALUES (ended.id, ended.history_seq, 'PARKED', ended.status, 'resolved', whose, ended.fence, ended.attempt,
            ended.epoch, at, told::text, ended.history_hash, ended.last_xid);
    IF to_status <> 'COMPLETED' THEN
        -- A payment that will never be charged gives its external id back.
        DELETE FROM external_ids x USING payment_details d
        WHERE d.due_day = of_day AND d.id = of_payment AND x.actor_id = ended.actor_id
          AND x.external_id = d.external_id AND x.payment_id = of_payment;
    END IF;
    DELETE FROM parked h WHERE h.payment_id = of_payment;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, whose, CASE WHEN as_charged THEN 'resolve_charged' ELSE 'resolve_not_charged' END, of_payment::text,
            why, jsonb_build_object('became', ended.status, 'version', ended.history_seq, 'evidence', evidence));
    RETURN 'done';
END
$$;

-- As before, but for what of a charge can be given back.
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
    IF known.id IS NOT NULL THEN
        RETURN CASE WHEN known.request_hash = of_hash THEN 'replayed' ELSE 'key_reused' END;
    END IF;
    at := clock_timestamp();
    IF held.id IS NULL THEN
        RETURN 'no_such_payment';
    ELSIF held.status NOT IN ('COMPLETED', 'PARKED', 'REFUNDED') THEN
        RETURN 'not_charged';
    ELSIF NOT lineage_is_released() THEN
        -- R17: what a restored database shows as left may have been given back after the backup.
        RETURN 'quarantined';
    END IF;
    SELECT held.gateway_ref = of_reference OR EXISTS (
        SELECT 1 FROM gateway_refs g
        WHERE g.gateway = held.gateway AND g.reference = of_reference AND g.payment_id = of_payment)
    INTO is_on_record;
    IF is_on_record IS NOT TRUE THEN
        RETURN 'reference_unknown';
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
    IF charge.reserved_minor >= charge.charge_minor OR held.status = 'REFUNDED' THEN
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

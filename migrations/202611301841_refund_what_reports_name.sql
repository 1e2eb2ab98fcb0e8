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
    IF held.status = 'COMPLETED' AND held.gateway_ref IS NULL THEN
        -- Only a bank's entry showed it. The gateway's name of what was asked for is in the gateway's own report.
        SELECT EXISTS (SELECT 1 FROM settlement_lines l
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

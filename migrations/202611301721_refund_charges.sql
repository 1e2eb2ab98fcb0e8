-- Refunds: asked for by one person, allowed by a second one, carried out by workers, never above the charge.

SET lock_timeout = '5s';

-- What of one charge is promised back and what is back. Its row is the lock under which two who ask at once see
-- each other, and its check is the last word on "never above the charge".
CREATE TABLE refunded_charges (
    gateway text NOT NULL,
    reference text NOT NULL CHECK (length(reference) BETWEEN 1 AND 255),
    payment_id uuid NOT NULL,
    charge_minor bigint NOT NULL CHECK (charge_minor > 0),
    currency text NOT NULL,
    -- Of every refund that is done or may still be.
    reserved_minor bigint NOT NULL DEFAULT 0,
    refunded_minor bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (gateway, reference),
    CONSTRAINT never_above_the_charge
        CHECK (0 <= refunded_minor AND refunded_minor <= reserved_minor AND reserved_minor <= charge_minor)
);
CREATE INDEX refunded_charges_by_payment ON refunded_charges (payment_id);

CREATE TABLE refunds (
    -- Also the gateway's idempotency key: derived from who asked and their own key, so that a refund that a
    -- restore lost and that is asked for again has it again.
    id uuid PRIMARY KEY,
    payment_id uuid NOT NULL,
    payment_day date NOT NULL,
    payer uuid NOT NULL,
    gateway text NOT NULL,
    -- The account that the first attempt went to (R4); another is never asked.
    account text,
    -- The charge that is given back, by the gateway's own name.
    reference text NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    currency text NOT NULL,
    status text NOT NULL DEFAULT 'asked' CHECK (status IN
        ('asked', 'approved', 'sending', 'refunded', 'declined', 'unknown', 'rejected')),
    actor_id uuid NOT NULL,
    idempotency_key text NOT NULL,
    request_hash bytea NOT NULL,
    asked_by text NOT NULL,
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    approval_id uuid NOT NULL UNIQUE,
    approved_by text,
    asked_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    approved_at timestamptz,
    finished_at timestamptz,
    -- Null: nobody is to claim it (any more), or a person has to look.
    next_attempt_at timestamptz,
    attempt integer NOT NULL DEFAULT 0,
    asks smallint NOT NULL DEFAULT 0,
    -- Claims that may have sent and whose answer is not known.
    open_sends integer NOT NULL DEFAULT 0 CHECK (open_sends >= 0),
    first_sent_at timestamptz,
    fence bigint NOT NULL DEFAULT 0,
    claim_id uuid,
    lease_until timestamptz,
    -- The gateway's name of the refund.
    gateway_ref text,
    code text,
    note text,
    UNIQUE (actor_id, idempotency_key),
    CONSTRAINT a_second_person_approves CHECK (approved_by <> asked_by),
    CONSTRAINT nothing_without_approval
        CHECK ((approved_by IS NULL) = (approved_at IS NULL)
               AND (approved_by IS NOT NULL OR status IN ('asked', 'rejected'))),
    CONSTRAINT claim_belongs_to_sending
        CHECK ((status = 'sending') = (claim_id IS NOT NULL) AND (claim_id IS NULL) = (lease_until IS NULL)),
    CONSTRAINT ends_are_ends
        CHECK ((status IN ('refunded', 'declined', 'rejected')) = (finished_at IS NOT NULL)),
    -- No clean state while one of its sends may still move money (R7, R8).
    CONSTRAINT clean_states_have_no_open_send
        CHECK (open_sends = 0 OR status NOT IN ('asked', 'approved', 'declined', 'rejected')),
    CONSTRAINT open_send_has_age CHECK (open_sends = 0 OR first_sent_at IS NOT NULL),
    CONSTRAINT done_has_a_name CHECK (status <> 'refunded' OR gateway_ref IS NOT NULL)
);
CREATE INDEX refunds_by_payment ON refunds (payment_id, asked_at);
CREATE INDEX refunds_claimable ON refunds (gateway, next_attempt_at) WHERE status IN ('approved', 'unknown');
CREATE INDEX refunds_leased ON refunds (lease_until) WHERE status = 'sending';
CREATE INDEX refunds_asked ON refunds (expires_at) WHERE status = 'asked';

-- One row a claim, kept for good, like `attempts`.
CREATE TABLE refund_attempts (
    refund_id uuid NOT NULL,
    attempt integer NOT NULL,
    claim_id uuid NOT NULL UNIQUE,
    fence bigint NOT NULL,
    worker text NOT NULL,
    was text NOT NULL,
    claimed_at timestamptz NOT NULL,
    settled_at timestamptz,
    settled_to text,
    verdict text,
    how text,
    code text,
    http_status smallint,
    took_ms integer,
    note text,
    -- It came after the claim had been given up.
    fenced boolean NOT NULL DEFAULT false,
    PRIMARY KEY (refund_id, attempt)
);

-- What is asked for, by whom and how much never changes, and an end is an end.
CREATE FUNCTION refuse_another_refund() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.finished_at IS NULL
       AND (NEW.id, NEW.payment_id, NEW.payment_day, NEW.payer, NEW.gateway, NEW.reference, NEW.amount_minor,
            NEW.currency, NEW.actor_id, NEW.idempotency_key, NEW.request_hash, NEW.asked_by, NEW.reason,
            NEW.approval_id, NEW.asked_at, NEW.expires_at)
         = (OLD.id, OLD.payment_id, OLD.payment_day, OLD.payer, OLD.gateway, OLD.reference, OLD.amount_minor,
            OLD.currency, OLD.actor_id, OLD.idempotency_key, OLD.request_hash, OLD.asked_by, OLD.reason,
            OLD.approval_id, OLD.asked_at, OLD.expires_at)
       AND (OLD.approved_by IS NULL OR (NEW.approved_by, NEW.approved_at) = (OLD.approved_by, OLD.approved_at))
       AND (OLD.account IS NULL OR NEW.account = OLD.account)
       AND NEW.fence >= OLD.fence
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% of refund % is refused', TG_OP, OLD.id USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER asked_once BEFORE UPDATE OR DELETE ON refunds FOR EACH ROW EXECUTE FUNCTION refuse_another_refund();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON refunds FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Ends refunds that were asked for and that nobody will allow any more, and gives back what they had reserved.
-- The locks in the order of everything here: payment, charge, refund. `one`: this refund whatever its age;
-- `of_payment`: those of this payment whose time is over; neither: all whose time is over.
CREATE FUNCTION drop_refunds(one uuid, of_payment uuid, because text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    dropped bigint := 0;
    due record;
BEGIN
    FOR due IN
        SELECT r.id, r.gateway, r.reference FROM refunds r
        WHERE r.status = 'asked' AND (one IS NULL OR r.id = one)
          AND (of_payment IS NULL OR r.payment_id = of_payment)
          AND (one IS NOT NULL OR r.expires_at <= clock_timestamp())
        ORDER BY r.gateway, r.reference, r.id
        LIMIT 100
    LOOP
        PERFORM 1 FROM refunded_charges c WHERE c.gateway = due.gateway AND c.reference = due.reference FOR UPDATE;
        WITH ended AS (
            UPDATE refunds r SET status = 'rejected', finished_at = clock_timestamp(), note = because
            WHERE r.id = due.id AND r.status = 'asked'
            RETURNING r.amount_minor
        )
        UPDATE refunded_charges c SET reserved_minor = c.reserved_minor - e.amount_minor
        FROM ended e
        WHERE c.gateway = due.gateway AND c.reference = due.reference;
        IF FOUND THEN
            dropped := dropped + 1;
        END IF;
    END LOOP;
    RETURN dropped;
END
$$;

-- Asks for one refund, or says why not: the guard of domain/refund.rs on the locked rows, and what asking does,
-- in one transaction. A function of the owner: the API's role may write none of these tables.
CREATE FUNCTION ask_refund(
    of_id uuid, of_day date, of_payment uuid, of_reference text, of_amount bigint, of_actor uuid, of_key text,
    of_hash bytea, whose text, why text, of_approval uuid
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    held payments;
    known refunds;
    charge refunded_charges;
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
    INSERT INTO refunded_charges (gateway, reference, payment_id, charge_minor, currency)
    VALUES (held.gateway, of_reference, of_payment, held.amount_minor, held.currency)
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
    VALUES (of_id, of_payment, of_day, held.actor_id, held.gateway, of_reference, amount, held.currency, of_actor,
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
        of_approval, 'gatewayReference', of_reference, 'amount', amount, 'currency', held.currency));
    RETURN 'asked';
END
$$;

-- Lets one refund go, on a second person's word, or says why not.
CREATE FUNCTION approve_refund(of_refund uuid, by_approval uuid) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    held refunds;
    second_person text;
    at timestamptz;
BEGIN
    SELECT r.* INTO held FROM refunds r WHERE r.id = of_refund FOR UPDATE;
    at := clock_timestamp();
    SELECT a.decided_by INTO second_person FROM approvals a
    WHERE a.id = by_approval AND a.kind = 'refund' AND a.status = 'approved' AND a.payment_id = held.payment_id
      AND a.asked_by = held.asked_by AND a.decided_by <> held.asked_by;
    IF held.id IS NULL OR held.approval_id <> by_approval THEN
        RETURN 'no_such_refund';
    ELSIF held.status <> 'asked' OR held.expires_at <= at THEN
        RETURN 'not_asked';
    ELSIF second_person IS NULL THEN
        RETURN 'needs_approval';
    ELSIF NOT lineage_is_released() THEN
        RETURN 'quarantined';
    END IF;
    UPDATE refunds r SET status = 'approved', approved_by = second_person, approved_at = at, next_attempt_at = at
    WHERE r.id = of_refund;
    RETURN 'approved';
END
$$;

REVOKE ALL ON FUNCTION ask_refund, approve_refund, drop_refunds FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ask_refund, approve_refund TO punctual_api;
GRANT EXECUTE ON FUNCTION drop_refunds TO punctual_api, punctual_worker;
GRANT SELECT ON refunds, refunded_charges, refund_attempts TO punctual_api, punctual_worker, punctual_owner;
GRANT UPDATE (status, account, finished_at, next_attempt_at, attempt, asks, open_sends, first_sent_at, fence, claim_id,
    lease_until, gateway_ref, code, note) ON refunds TO punctual_worker;
GRANT UPDATE (reserved_minor, refunded_minor) ON refunded_charges TO punctual_worker;
GRANT INSERT, UPDATE ON refund_attempts TO punctual_worker;
-- A payment that is given back whole waits for nobody.
GRANT DELETE ON parked TO punctual_worker;

-- What people do with the payments that wait for them: look, release, resolve, many at once, and with a second
-- person where one is not enough.

SET lock_timeout = '5s';

-- The list of what is parked is answered from this table alone, in the order of due times, which the ids carry:
-- no index on the hundreds of partitions is needed for it. Null: parked by a build that did not write them.
ALTER TABLE parked
    ADD COLUMN actor_id uuid,
    ADD COLUMN gateway text,
    ADD COLUMN amount_minor bigint,
    ADD COLUMN currency text;
UPDATE parked h SET actor_id = p.actor_id, gateway = p.gateway, amount_minor = p.amount_minor, currency = p.currency
FROM payments p WHERE p.id = h.payment_id;

-- Every act of an operator, by whom and why. Never changed.
CREATE TABLE operator_acts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    operator text NOT NULL CHECK (length(operator) BETWEEN 1 AND 1000),
    act text NOT NULL CHECK (act ~ '^[a-z_]{3,40}$'),
    -- What it was done to: a payment's id, a gateway's name and so on.
    subject text NOT NULL CHECK (length(subject) BETWEEN 1 AND 1000),
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    detail jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX operator_acts_by_subject ON operator_acts (subject, id);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON operator_acts
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON operator_acts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What one person asked for and a second one allows or not.
CREATE TABLE approvals (
    id uuid PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('new_epoch', 'redrive', 'refund')),
    payment_id uuid NOT NULL,
    asked_by text NOT NULL CHECK (length(asked_by) BETWEEN 1 AND 1000),
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    -- All that the act needs besides: carried out as it was asked for, or not at all.
    request jsonb NOT NULL,
    status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'rejected', 'expired')),
    decided_by text,
    decided_reason text CHECK (length(decided_reason) BETWEEN 1 AND 500),
    asked_at timestamptz NOT NULL,
    decided_at timestamptz,
    expires_at timestamptz NOT NULL CHECK (expires_at > asked_at),
    CONSTRAINT a_second_person_decides CHECK (decided_by <> asked_by),
    CONSTRAINT decisions_are_whole CHECK (
        (status = 'pending') = (decided_at IS NULL)
        AND (status IN ('approved', 'rejected')) = (decided_by IS NOT NULL)
        AND (decided_by IS NULL) = (decided_reason IS NULL))
);
CREATE INDEX approvals_by_status ON approvals (status, asked_at, id);
CREATE INDEX approvals_by_payment ON approvals (payment_id, asked_at);
-- One release of a payment is enough to ask for at a time; refunds may be several.
CREATE UNIQUE INDEX approvals_one_release ON approvals (payment_id)
    WHERE status = 'pending' AND kind IN ('new_epoch', 'redrive');

CREATE FUNCTION refuse_second_decision() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.status = 'pending'
       AND (NEW.id, NEW.kind, NEW.payment_id, NEW.asked_by, NEW.reason, NEW.request, NEW.asked_at, NEW.expires_at)
           = (OLD.id, OLD.kind, OLD.payment_id, OLD.asked_by, OLD.reason, OLD.request, OLD.asked_at, OLD.expires_at)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% of an approval is refused: it is decided once', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER decided_once BEFORE UPDATE OR DELETE ON approvals
    FOR EACH ROW EXECUTE FUNCTION refuse_second_decision();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON approvals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Many parked payments released by one act, at a rate. Whoever works on it holds its row for one batch: counts,
-- place and payments are written in one transaction, so a restart goes on where the last commit left off.
CREATE TABLE bulk_redrives (
    id uuid PRIMARY KEY,
    asked_by text NOT NULL CHECK (length(asked_by) BETWEEN 1 AND 1000),
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    filter jsonb NOT NULL,
    rate_per_s integer NOT NULL CHECK (rate_per_s BETWEEN 1 AND 500),
    status text NOT NULL DEFAULT 'stopped' CHECK (status IN ('stopped', 'running', 'done')),
    preview jsonb NOT NULL,
    -- What is parked after this instant is not its business, also if it released it itself.
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz CHECK ((finished_at IS NULL) = (status <> 'done')),
    -- The last payment passed.
    passed uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    -- The rate of all that work on it together.
    next_at timestamptz NOT NULL DEFAULT '-infinity',
    outcomes jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX bulk_redrives_running ON bulk_redrives (next_at) WHERE status = 'running';

-- Releases one parked payment, or says why not: the guard of domain/parked.rs on the locked row, and what
-- the release does, in one transaction. A function of the owner, because the API's role may neither change counts
-- of sends nor keys: this is all of it that an operator may.
--
-- UNKNOWN is asked about under its key by the next claim. PENDING only where nothing was ever sent under the key;
-- the worker looks up before it sends there too, by the reason. `sends` is lowered only as far as one more fits.
CREATE FUNCTION redrive_parked(
    of_day date, of_payment uuid, of_shard smallint, to_new_epoch boolean, retryable text[],
    whose text, why text, of_version integer, by_approval uuid
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    held payments;
    released payments;
    at timestamptz;
    charged boolean;
    for_good boolean;
    declined_here boolean;
    voided_here boolean;
    is_clean boolean;
    second_person text;
    told jsonb;
BEGIN
    -- Behind another console that holds the row it waits, and sees what that has written.
    SELECT p.* INTO held FROM payments p WHERE p.due_day = of_day AND p.id = of_payment FOR UPDATE;
    at := clock_timestamp();
    SELECT coalesce(bool_or(t.verdict = 'charged'), false),
           coalesce(bool_or(t.verdict = 'declined' AND coalesce(t.code, '') <> ALL (retryable)), false),
           coalesce(bool_or(t.verdict = 'declined' AND t.epoch = held.epoch), false),
           coalesce(bool_or(t.verdict = 'voided' AND t.epoch = held.epoch), false)
    INTO charged, for_good, declined_here, voided_here
    FROM attempts t WHERE t.due_day = of_day AND t.payment_id = of_payment;

    IF held.id IS NULL THEN
        RETURN 'no_such_payment';
    ELSIF held.status <> 'PARKED' THEN
        RETURN 'not_parked';
    ELSIF NOT lineage_is_released() THEN
        -- R17: a restored row may be parked that was released, and charged, after the backup.
        RETURN 'quarantined';
    ELSIF of_version <> held.history_seq THEN
        RETURN 'changed';
    ELSIF charged OR held.gateway_ref IS NOT NULL THEN
        RETURN 'charge_on_record';
    ELSIF for_good THEN
        RETURN 'declined_for_good';
    END IF;
    IF to_new_epoch THEN
        -- R4: every send of this key is answered, and one answer proves that it did not charge.
        IF held.unanswered > 0 AND NOT voided_here THEN
            RETURN 'open_send';
        ELSIF held.epoch_first_sent_at IS NULL THEN
            RETURN 'key_unused';
        ELSIF held.cancel_wish_at IS NOT NULL OR held.execute_before <= at THEN
            RETURN 'no_charge_wanted';
        ELSIF NOT declined_here AND NOT voided_here THEN
            RETURN 'not_proven';
        END IF;
    END IF;
    IF by_approval IS NOT NULL THEN
        SELECT a.decided_by INTO second_person FROM approvals a
        WHERE a.id = by_approval AND a.payment_id = of_payment AND a.status = 'approved' AND a.asked_by = whose
          AND a.decided_by <> whose AND a.kind = CASE WHEN to_new_epoch THEN 'new_epoch' ELSE 'redrive' END;
    END IF;
    IF second_person IS NULL AND (to_new_epoch OR by_approval IS NOT NULL) THEN
        RETURN 'needs_approval';
    END IF;

    is_clean := to_new_epoch OR held.unanswered = 0 AND held.epoch_first_sent_at IS NULL;
    told := jsonb_strip_nulls(jsonb_build_object('reason', why, 'newEpoch', nullif(to_new_epoch, false),
        'approval', by_approval, 'approvedBy', second_person));
    UPDATE payments p SET
        status = CASE WHEN is_clean THEN 'PENDING' ELSE 'UNKNOWN' END,
        status_reason = 'redriven',
        next_attempt_at = greatest(at, p.due_at),
        asks = CASE WHEN is_clean THEN 0 ELSE least(p.asks + 1, 32767) END,
        -- R12: one send is granted, not a new budget.
        sends = CASE WHEN is_clean THEN least(p.sends, p.max_sends - 1) ELSE p.sends END,
        held_back = 0,
        held_back_since = NULL,
        epoch = p.epoch + to_new_epoch::integer,
        unanswered = CASE WHEN to_new_epoch THEN 0 ELSE p.unanswered END,
        epoch_first_sent_at = CASE WHEN to_new_epoch THEN NULL ELSE p.epoch_first_sent_at END,
        request_hash = CASE WHEN to_new_epoch THEN NULL ELSE p.request_hash END,
        gateway_account = CASE WHEN to_new_epoch THEN NULL ELSE p.gateway_account END,
        renderer = CASE WHEN to_new_epoch THEN NULL ELSE p.renderer END,
        last_moved_at = at,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, 'PARKED',
            CASE WHEN is_clean THEN 'PENDING' ELSE 'UNKNOWN' END, 'redriven', whose, p.fence, p.attempt,
            p.epoch + to_new_epoch::integer, at, told::text),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    WHERE p.due_day = of_day AND p.id = of_payment
    RETURNING p.* INTO released;
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                 hash, xid)
    VALUES (released.id, released.history_seq, 'PARKED', released.status, 'redriven', whose, released.fence,
            released.attempt, released.epoch, at, told::text, released.history_hash, released.last_xid);
    INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt)
    VALUES (of_shard, released.id, of_day, released.gateway, released.lane, released.due_at,
            released.next_attempt_at, released.attempt);
    DELETE FROM parked h WHERE h.payment_id = of_payment;
    -- As in create.sql: scans begin at this day, and the row lock makes a keeper that moves it on wait.
    UPDATE installation i SET oldest_open_day = least(i.oldest_open_day, of_day)
    WHERE of_day < (now() AT TIME ZONE 'UTC')::date - 1;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, whose, 'redrive', of_payment::text, why,
            told - 'reason' || jsonb_build_object('became', released.status, 'version', released.history_seq));
    RETURN 'done';
END
$$;

-- Ends one parked payment by a person's word, with evidence, or says why not; as redrive_parked().
--
-- Charged needs the gateway's reference, and the amount that was asked for. Not charged is refused while an answer
-- says charged, or while a send is open: nobody's word closes that but the gateway's, under the key (R7, R8).
CREATE FUNCTION resolve_parked(
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

REVOKE ALL ON FUNCTION redrive_parked, resolve_parked FROM PUBLIC;
GRANT EXECUTE ON FUNCTION redrive_parked TO punctual_api, punctual_worker;
GRANT EXECUTE ON FUNCTION resolve_parked TO punctual_api;
GRANT SELECT ON operator_acts, approvals, bulk_redrives TO punctual_api, punctual_worker, punctual_owner;
GRANT INSERT ON operator_acts TO punctual_api, punctual_worker, punctual_owner;
GRANT INSERT, UPDATE (status, decided_by, decided_reason, decided_at) ON approvals TO punctual_api;
GRANT INSERT, UPDATE (status, started_at, next_at) ON bulk_redrives TO punctual_api;
GRANT UPDATE (status, finished_at, passed, next_at, outcomes) ON bulk_redrives TO punctual_worker;

-- What the gateways say that they moved, beside what we say: their reports line by line, what differs, and what may
-- be done about it.

SET lock_timeout = '5s';

-- One report, read once. Several live at a time for one day where a gateway writes several (camt.054); the same one
-- again supersedes the one before it.
CREATE TABLE reconciliation_runs (
    id uuid PRIMARY KEY,
    gateway text NOT NULL,
    day date NOT NULL,
    format text NOT NULL CHECK (length(format) BETWEEN 1 AND 40),
    -- How it was read beyond that, as the format takes options: the same bytes read otherwise are another report.
    options text NOT NULL DEFAULT '' CHECK (length(options) <= 4000),
    -- Tells the reports of one day and format apart; empty where there is only one.
    source text NOT NULL CHECK (length(source) <= 200),
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    asked_by text NOT NULL CHECK (length(asked_by) BETWEEN 1 AND 1000),
    -- Lines count from 'loaded' on. 'trial' is looked at once and forgotten.
    status text NOT NULL CHECK (status IN ('loading', 'trial', 'loaded', 'compared', 'failed', 'superseded')),
    lines bigint NOT NULL CHECK (lines >= 0),
    -- The report says that it ended, and it was read after its day.
    is_complete boolean NOT NULL,
    -- When it was fetched, or its file was begun to be read.
    seen_at timestamptz NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    -- [{currency, kind, lines, gross, fee, net}], as the report's own lines add up.
    sums jsonb NOT NULL DEFAULT '[]',
    -- {class: items}, and {"matched": lines}.
    counts jsonb NOT NULL DEFAULT '{}',
    superseded_by uuid,
    -- People took it out: the same bytes do not count again unless somebody says so.
    withdrawn_at timestamptz,
    -- Of a failed one: why; of a withdrawn one: who and why.
    note text CHECK (length(note) <= 1000),
    CONSTRAINT ends_have_an_instant CHECK ((status IN ('compared', 'failed', 'superseded')) <= (finished_at IS NOT NULL)),
    CONSTRAINT withdrawn_is_superseded CHECK (withdrawn_at IS NULL OR status = 'superseded'),
    CONSTRAINT complete_after_its_day CHECK (NOT is_complete OR seen_at >= (day + 1)::timestamp AT TIME ZONE 'UTC')
);
CREATE UNIQUE INDEX reconciliation_runs_live ON reconciliation_runs (gateway, day, format, source)
    WHERE status IN ('loaded', 'compared');
CREATE INDEX reconciliation_runs_by_day ON reconciliation_runs (day, gateway, started_at);

-- What a report says, line by line. By the report's day, so that what is forgotten is dropped and not vacuumed; made
-- on demand by ensure_settlement_day().
CREATE TABLE settlement_lines (
    run_id uuid NOT NULL,
    report_day date NOT NULL,
    booked_on date NOT NULL,
    executed_on date,
    epoch integer,
    number bigint NOT NULL,
    at_line bigint NOT NULL,
    gross_minor bigint NOT NULL,
    fee_minor bigint NOT NULL,
    net_minor bigint NOT NULL,
    -- By its key, or by its reference; null: of nothing that we know.
    payment_id uuid,
    -- Of a refund: what its key names, which may be the refund or the payment.
    named_id uuid,
    kind text NOT NULL CHECK (kind IN ('charge', 'refund', 'chargeback', 'fee', 'payout', 'other')),
    currency text NOT NULL CHECK (length(currency) = 3),
    net_currency text NOT NULL CHECK (length(net_currency) = 3),
    key text,
    reference text,
    -- Of a refund: the charge that it gives back. Of a charge: another name that the gateway has for it.
    charge_ref text,
    -- The reference is the gateway's own name, which our history has too; a bank has names of its own.
    own_name boolean NOT NULL,
    raw_hash bytea NOT NULL
) PARTITION BY RANGE (report_day);
CREATE INDEX settlement_lines_by_payment ON settlement_lines (payment_id) WHERE payment_id IS NOT NULL;
-- Few lines have no payment: they are looked at apart.
CREATE INDEX settlement_lines_of_nobody ON settlement_lines (run_id, number) WHERE payment_id IS NULL;
-- Refunds are few, and have names of their own.
CREATE INDEX settlement_lines_of_refund ON settlement_lines (named_id) WHERE kind = 'refund';
CREATE INDEX settlement_lines_by_refund_name ON settlement_lines (reference) WHERE kind = 'refund';

-- One difference. Found again by a later comparison it is the same row (its fingerprint), with what people decided.
CREATE TABLE reconciliation_items (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint uuid NOT NULL UNIQUE,
    run_id uuid NOT NULL,
    gateway text NOT NULL,
    day date NOT NULL,
    class text NOT NULL CHECK (class IN ('missing_here', 'missing_there', 'amount_mismatch', 'currency_mismatch',
                                         'duplicate_charge', 'late', 'refund_mismatch', 'foreign')),
    status text NOT NULL CHECK (status IN ('open', 'waiting', 'repaired', 'dismissed', 'explained', 'superseded')),
    payment_id uuid,
    refund_id uuid,
    key text,
    reference text,
    field text NOT NULL,
    ours text,
    theirs text,
    -- At stake.
    amount_minor bigint,
    currency text,
    -- The line that says so: {run, day, line, rawHash}; of what has no line, {}.
    evidence jsonb NOT NULL DEFAULT '{}',
    first_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When people were last told that it is open; null: since it is open they were not.
    told_at timestamptz,
    -- Why it was not repaired when it was last tried.
    not_repaired text,
    decided_by text,
    decided_at timestamptz,
    decided_reason text CHECK (length(decided_reason) <= 500),
    CONSTRAINT decisions_are_whole CHECK (num_nonnulls(decided_by, decided_at, decided_reason) IN (0, 3)),
    CONSTRAINT people_s_ends_have_a_reason CHECK (status NOT IN ('repaired', 'dismissed') OR decided_by IS NOT NULL)
);
CREATE INDEX reconciliation_items_of_day ON reconciliation_items (gateway, day, number);
CREATE INDEX reconciliation_items_of_payment ON reconciliation_items (payment_id) WHERE payment_id IS NOT NULL;
CREATE INDEX reconciliation_items_unsettled ON reconciliation_items (gateway, class, day, number)
    WHERE status IN ('open', 'waiting');

-- In how many currencies the books of a due day differed when they were last added up, for gauges.
CREATE TABLE reconciliation_books (
    gateway text NOT NULL,
    due_day date NOT NULL,
    apart integer NOT NULL CHECK (apart >= 0),
    added_up_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (gateway, due_day)
);

-- Charges that a report shows under an id that has no row here: commits that were lost (R17, R18). `intent` is the id
-- without its 48 bits of due time.
CREATE TABLE lost_charges (
    gateway text NOT NULL,
    payment_id uuid NOT NULL,
    reference text NOT NULL,
    intent bytea NOT NULL CHECK (octet_length(intent) = 10),
    amount_minor bigint NOT NULL,
    currency text NOT NULL,
    day date NOT NULL,
    run_id uuid NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (gateway, payment_id, reference)
);
CREATE INDEX lost_charges_by_intent ON lost_charges (intent);
CREATE INDEX lost_charges_of_day ON lost_charges (gateway, day);

-- The UTC day of the due time that an id carries (domain/ids.rs).
CREATE FUNCTION payment_day(id uuid) RETURNS date
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (timestamp '1970-01-01'
            + interval '1 millisecond' * ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint)::date;

-- Does a line name another charge than the one that we know? A name that only one of both has says nothing, nor does a
-- bank's, which names what it booked.
CREATE FUNCTION names_another(own_name boolean, reference text, other_name text, known text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce(own_name AND reference <> known AND other_name IS DISTINCT FROM known, false);

-- Are references of this format the names that the gateway itself uses (domain/settlement.rs)?
CREATE FUNCTION has_own_names(format text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN format NOT LIKE 'camt.%';

-- What a row is told by from other rows of its payment, kind, amount and day: the gateway's own name of what it moved;
-- where there is none, its bytes. A bank's name of an entry (AcctSvcrRef) may begin anew in each file: it and the bytes of
-- the transaction, which need not hold it. Where a bank gives none, two payments alike have the same bytes: those of
-- another day's report are another row.
CREATE FUNCTION line_name(own_name boolean, reference text, raw_hash bytea, report_day date) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN own_name AND reference IS NOT NULL THEN reference
                WHEN own_name THEN encode(raw_hash, 'hex')
                ELSE coalesce(reference, (report_day - date '2000-01-01')::text) || ' ' || encode(raw_hash, 'hex') END;

-- Makes the partition of a report's day; answers whether it was missing.
CREATE FUNCTION ensure_settlement_day(day date) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
BEGIN
    -- Not by to_regclass, as in ensure_webhook_days().
    IF EXISTS (SELECT FROM pg_class c
               WHERE c.relnamespace = 'public'::regnamespace
                 AND c.relname = 'settlement_lines_' || to_char(day, 'YYYYMMDD')) THEN
        RETURN false;
    END IF;
    -- As in ensure_partitions().
    PERFORM pg_advisory_xact_lock(7016996765293437281);
    RETURN ensure_partition('settlement_lines', 'report_day', day, 'fillfactor = 100');
END
$$;

-- Tells the planner what a day's lines are, which were written a moment ago: without it, it takes them for next to none,
-- and looks through all of them for each charge of ours. Answers whether it did.
CREATE FUNCTION analyse_settlement_day(day date) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC'
    SET lock_timeout = '5s' AS $$
BEGIN
    EXECUTE format('ANALYZE %I', 'settlement_lines_' || to_char(day, 'YYYYMMDD'));
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    -- Somebody else is at it. A comparison without is slow, and no less right.
    RETURN false;
END
$$;

-- Drops the lines of reports more than `keep` days old; answers how many days.
CREATE FUNCTION drop_old_settlements(keep integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC'
    -- What waits for these locks waits behind us: rather not today.
    SET lock_timeout = '500ms' AS $$
DECLARE
    child record;
    dropped integer := 0;
BEGIN
    -- Days to come are none that are old.
    IF keep IS NULL OR keep < 1 THEN
        RAISE EXCEPTION 'at least one day is kept, not %', keep USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR child IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'settlement_lines'::regclass
          AND c.relname < 'settlement_lines_' || to_char((now() AT TIME ZONE 'UTC')::date - keep, 'YYYYMMDD')
        ORDER BY c.relname
        LIMIT 10
    LOOP
        EXECUTE format('DROP TABLE %I', child.relname);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
EXCEPTION WHEN lock_not_available THEN
    -- Rolled back to the start; the next pass tries again.
    RETURN 0;
END
$$;

-- Refunds of a day, which reports must have. Two people ask for each, so there are thousands at most: it is built in a
-- moment.
CREATE INDEX refunds_given_back ON refunds (gateway, finished_at) WHERE status = 'refunded';

ALTER TABLE approvals DROP CONSTRAINT approvals_kind_check;
ALTER TABLE approvals ADD CONSTRAINT approvals_kind_check
    CHECK (kind IN ('new_epoch', 'redrive', 'refund', 'resolve_refund', 'repair', 'withdraw'));
-- A report is of many payments.
ALTER TABLE approvals ALTER COLUMN payment_id DROP NOT NULL;
ALTER TABLE approvals ADD CONSTRAINT approvals_of_payments_name_one CHECK ((payment_id IS NULL) = (kind = 'withdraw'));
CREATE OR REPLACE FUNCTION refuse_second_decision() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.status = 'pending'
       AND (NEW.id, NEW.kind, NEW.payment_id, NEW.asked_by, NEW.reason, NEW.request, NEW.asked_at, NEW.expires_at)
           IS NOT DISTINCT FROM
           (OLD.id, OLD.kind, OLD.payment_id, OLD.asked_by, OLD.reason, OLD.request, OLD.asked_at, OLD.expires_at)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% of an approval is refused: it is decided once', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;
-- One withdrawal of one report is enough to ask for at a time; approvals are acts of people, thousands at most.
CREATE UNIQUE INDEX approvals_one_withdrawal ON approvals ((request ->> 'report'))
    WHERE status = 'pending' AND kind = 'withdraw';
-- One repair by one line is enough to ask for at a time.
CREATE UNIQUE INDEX approvals_one_repair ON approvals ((request ->> 'item')) WHERE status = 'pending' AND kind = 'repair';

-- Acts on what the line of one item says: the guard of domain/repair.rs on the locked rows, and what the act does, in
-- one transaction. The evidence is the item's own, which only who compares can write. `power` is how far whoever asks
-- may go: 'safe', 'automatic' or 'person'; nobody's role may say it for itself (repair_by_person, repair_by_program).
-- Quarantine does not matter: this is the way out of it (R17).
CREATE FUNCTION repair_item(
    of_item bigint, power text, whose text, why text, of_version integer, by_approval uuid
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    item reconciliation_items;
    held payments;
    other payments;
    moved payments;
    at timestamptz;
    of_day date;
    of_external text;
    other_id uuid;
    seen_other uuid;
    -- The charge's, if it is no other payment's.
    charge_name text;
    fits boolean;
    on_record boolean;
    own_name boolean;
    to_status text;
    because text;
    cause_word text;
    second_person text;
    keeps_external boolean := false;
    told jsonb;
BEGIN
    -- The report before the item, as withdraw_report() locks them.
    PERFORM 1 FROM reconciliation_items i JOIN reconciliation_runs r ON r.id = (i.evidence ->> 'run')::uuid
    WHERE i.number = of_item FOR SHARE OF r;
    SELECT i.* INTO item FROM reconciliation_items i WHERE i.number = of_item FOR UPDATE;
    IF item.number IS NULL THEN
        RETURN 'no_such_item';
    ELSIF item.status NOT IN ('open', 'waiting', 'repaired') THEN
        RETURN 'not_open';
    ELSIF item.class NOT IN ('missing_here', 'amount_mismatch', 'currency_mismatch', 'duplicate_charge') THEN
        RETURN 'nothing_to_repair';
    ELSIF item.payment_id IS NULL THEN
        RETURN 'no_such_payment';
    END IF;
    -- A report that was withdrawn, or replaced and not compared again yet, proves nothing; nor is it taken out while
    -- this goes on.
    SELECT has_own_names(r.format) INTO own_name FROM reconciliation_runs r
    WHERE r.id = (item.evidence ->> 'run')::uuid AND r.status IN ('loaded', 'compared') FOR SHARE;
    IF NOT FOUND THEN
        RETURN 'not_open';
    END IF;
    of_day := payment_day(item.payment_id);
    SELECT d.external_id INTO of_external FROM payment_details d WHERE d.due_day = of_day AND d.id = item.payment_id;
    SELECT x.payment_id INTO other_id
    FROM payments p JOIN external_ids x ON x.actor_id = p.actor_id AND x.external_id = of_external
    WHERE p.due_day = of_day AND p.id = item.payment_id AND x.payment_id <> p.id;
    -- Rows in the order of days and ids, as every batch locks them.
    IF (payment_day(other_id), other_id) < (of_day, item.payment_id) THEN
        SELECT p.* INTO other FROM payments p WHERE p.due_day = payment_day(other_id) AND p.id = other_id FOR UPDATE;
    END IF;
    SELECT p.* INTO held FROM payments p WHERE p.due_day = of_day AND p.id = item.payment_id FOR UPDATE;
    IF (payment_day(other_id), other_id) > (of_day, item.payment_id) THEN
        SELECT p.* INTO other FROM payments p WHERE p.due_day = payment_day(other_id) AND p.id = other_id FOR UPDATE;
    END IF;
    at := clock_timestamp();

    -- What it had held, it may complete.
    IF item.status = 'repaired' AND (held.status = 'PARKED' AND held.status_reason = 'charge_found') IS NOT TRUE THEN
        RETURN 'not_open';
    ELSIF held.id IS NULL THEN
        RETURN 'no_such_payment';
    ELSIF of_version <> held.history_seq THEN
        RETURN 'changed';
    ELSIF held.gateway <> item.gateway THEN
        RETURN 'other_gateway';
    ELSIF held.status = 'PROCESSING' THEN
        RETURN 'in_flight';
    END IF;
    charge_name := CASE WHEN own_name AND NOT EXISTS (
                                 SELECT 1 FROM gateway_refs g
                                 WHERE g.gateway = held.gateway AND g.reference = item.reference
                                   AND g.payment_id <> held.id)
                        THEN nullif(item.reference, '') END;
    -- What is charged is not charged once more, under whichever name or none: to hold it needs none.
    IF own_name AND charge_name IS NULL AND held.status <> 'PENDING' THEN
        RETURN CASE WHEN coalesce(item.reference, '') = '' THEN 'reference_missing' ELSE 'reference_taken' END;
    END IF;
    -- What a bank calls its entry is evidence, and never the gateway's name of a charge.
    on_record := held.gateway_ref = item.reference OR EXISTS (
        SELECT 1 FROM gateway_refs g
        WHERE g.gateway = held.gateway AND g.reference = item.reference AND g.payment_id = held.id);
    on_record := coalesce(on_record, false);
    -- One charge, of what was asked for, and of no other name than the one that we know.
    fits := item.class <> 'duplicate_charge' AND NOT EXISTS (
            SELECT 1 FROM reconciliation_items o
            WHERE o.payment_id = held.id AND o.class = 'duplicate_charge' AND o.status IN ('open', 'waiting'))
        AND item.amount_minor = held.amount_minor AND item.currency = held.currency
        AND (NOT own_name OR coalesce(held.gateway_ref, item.reference) = item.reference)
        -- Under a bank's name it is the one that we know.
        AND NOT EXISTS (SELECT 1 FROM gateway_refs g
                        WHERE g.gateway = held.gateway AND g.amount_minor IS NOT NULL
                          AND g.reference = CASE WHEN own_name THEN item.reference ELSE held.gateway_ref END);
    to_status := CASE
        WHEN held.status = 'PENDING' THEN 'PARKED'
        WHEN held.status = 'UNKNOWN' AND fits THEN 'COMPLETED'
        WHEN held.status = 'UNKNOWN' THEN 'PARKED'
        WHEN held.status IN ('PARKED', 'FAILED', 'CANCELLED') AND fits THEN 'COMPLETED'
        ELSE held.status END;
    IF to_status = held.status AND NOT own_name THEN
        -- There is no name to keep.
        RETURN 'nothing_to_repair';
    ELSIF to_status = held.status AND on_record THEN
        RETURN 'on_record';
    ELSIF held.status IN ('FAILED', 'CANCELLED') AND to_status = 'COMPLETED' THEN
        IF power <> 'person' THEN
            RETURN 'needs_person';
        END IF;
        SELECT a.decided_by INTO second_person FROM approvals a
        WHERE a.id = by_approval AND a.kind = 'repair' AND a.payment_id = held.id AND a.status = 'approved'
          AND a.asked_by = whose AND a.decided_by <> whose AND a.request ->> 'item' = of_item::text;
        IF second_person IS NULL THEN
            RETURN 'needs_approval';
        END IF;
    ELSIF power = 'safe' AND (held.status, to_status) IN (('UNKNOWN', 'PARKED'), ('PARKED', 'COMPLETED'))
          -- Nobody decided that one: it is held because this charge was found before it was claimed.
          AND held.status_reason IS DISTINCT FROM 'charged_before' THEN
        RETURN 'needs_person';
    END IF;

    IF held.status IN ('FAILED', 'CANCELLED') AND to_status = 'COMPLETED' AND of_external IS NOT NULL THEN
        -- It was given back, and may be another's by now.
        IF other.status = 'PROCESSING' THEN
            RETURN 'in_flight';
        END IF;
        IF other.id IS NULL OR other.status IN ('PENDING', 'UNKNOWN', 'PARKED', 'FAILED', 'CANCELLED') THEN
            INSERT INTO external_ids AS x (actor_id, external_id, payment_id)
            VALUES (held.actor_id, of_external, held.id)
            ON CONFLICT (actor_id, external_id) DO UPDATE SET payment_id = x.payment_id
            RETURNING x.payment_id INTO seen_other;
            IF seen_other <> held.id AND seen_other IS DISTINCT FROM other.id THEN
                -- Another took it between the look and the locks.
                RETURN 'changed';
            END IF;
            UPDATE external_ids x SET payment_id = held.id
            WHERE x.actor_id = held.actor_id AND x.external_id = of_external AND x.payment_id <> held.id;
            keeps_external := true;
        END IF;
    END IF;

    told := jsonb_strip_nulls(jsonb_build_object('reason', why,
        'reference', CASE WHEN own_name THEN item.reference END,
        'bankReference', CASE WHEN NOT own_name THEN item.reference END,
        'amountMinor', item.amount_minor, 'currency', item.currency, 'item', item.number, 'class', item.class,
        'evidence', item.evidence, 'approval', CASE WHEN second_person IS NOT NULL THEN by_approval END,
        'approvedBy', second_person,
        'externalIdOf', CASE WHEN of_external IS NOT NULL AND other.id IS NOT NULL AND NOT keeps_external
                             THEN other.id END));
    cause_word := CASE WHEN to_status = held.status THEN 'noted'
                       WHEN held.status IN ('FAILED', 'CANCELLED') THEN 'repaired'
                       ELSE 'reconciled' END;
    because := CASE WHEN to_status = held.status THEN held.status_reason
                    WHEN to_status = 'COMPLETED' THEN NULL
                    WHEN fits OR held.status = 'PENDING' THEN 'charge_found'
                    ELSE 'contract_violation' END;
    -- A charge of another amount, or a second one, is kept by its name, so that people can give it back.
    INSERT INTO gateway_refs (gateway, reference, payment_id, amount_minor, currency)
    SELECT held.gateway, charge_name, held.id,
           CASE WHEN (item.amount_minor, item.currency) <> (held.amount_minor, held.currency) THEN item.amount_minor END,
           CASE WHEN (item.amount_minor, item.currency) <> (held.amount_minor, held.currency) THEN item.currency END
    WHERE charge_name IS NOT NULL
    ON CONFLICT DO NOTHING;
    IF charge_name IS NOT NULL AND NOT EXISTS (SELECT 1 FROM gateway_refs g
                                               WHERE g.gateway = held.gateway AND g.reference = charge_name
                                                 AND g.payment_id = held.id) THEN
        RAISE EXCEPTION 'the charge is another payment''s since a moment ago' USING ERRCODE = 'serialization_failure';
    END IF;
    UPDATE payments p SET
        status = to_status,
        status_reason = because,
        unanswered = CASE WHEN to_status = 'COMPLETED' THEN 0 ELSE p.unanswered END,
        asks = CASE WHEN to_status = held.status THEN p.asks ELSE 0 END,
        -- Where only a bank's entry showed the charge, a second one is not it.
        gateway_ref = CASE WHEN to_status = 'COMPLETED' AND item.class <> 'duplicate_charge'
                                OR to_status = 'PARKED' AND held.status <> 'PARKED'
                           THEN coalesce(p.gateway_ref, charge_name) ELSE p.gateway_ref END,
        last_moved_at = CASE WHEN to_status = held.status THEN p.last_moved_at ELSE at END,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, held.status, to_status, cause_word, whose,
            p.fence, p.attempt, p.epoch, at, told::text),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    WHERE p.due_day = of_day AND p.id = held.id
    RETURNING p.* INTO moved;
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                 hash, xid, actor_id)
    VALUES (moved.id, moved.history_seq, held.status, moved.status, cause_word, whose, moved.fence, moved.attempt,
            moved.epoch, at, told::text, moved.history_hash, moved.last_xid, moved.actor_id);
    IF to_status = 'COMPLETED' THEN
        DELETE FROM parked h WHERE h.payment_id = held.id;
    ELSIF to_status = 'PARKED' AND held.status <> 'PARKED' THEN
        PERFORM list_as_parked(moved, at, told::text);
    END IF;
    IF keeps_external AND other.status IN ('PENDING', 'UNKNOWN') THEN
        PERFORM park_without_external_id(other, whose, at, held.id, item.number);
    END IF;
    UPDATE reconciliation_items i SET
        status = CASE WHEN to_status = held.status THEN i.status ELSE 'repaired' END,
        decided_by = CASE WHEN to_status = held.status THEN i.decided_by ELSE whose END,
        decided_at = CASE WHEN to_status = held.status THEN i.decided_at ELSE at END,
        decided_reason = CASE WHEN to_status = held.status THEN i.decided_reason ELSE why END,
        not_repaired = CASE WHEN to_status = held.status THEN 'on_record' END,
        ours = CASE WHEN i.field = 'status' THEN to_status ELSE i.ours END
    WHERE i.number = of_item;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, whose, 'repair', held.id::text, why, told - 'reason'
            || jsonb_build_object('became', moved.status, 'version', moved.history_seq));
    RETURN CASE WHEN to_status = held.status THEN 'recorded'
                WHEN to_status = 'COMPLETED' THEN 'completed'
                ELSE 'parked' END
        || CASE WHEN keeps_external AND other.status IN ('PENDING', 'UNKNOWN') THEN '_and_parked_another' ELSE '' END;
END
$$;

CREATE FUNCTION list_as_parked(held payments, since timestamptz, told text) RETURNS void
    LANGUAGE sql SET search_path = public, pg_catalog, pg_temp AS $$
    INSERT INTO parked (payment_id, reason, parked_at, evidence, actor_id, gateway, amount_minor, currency)
    VALUES (held.id, held.status_reason, since, told, held.actor_id, held.gateway, held.amount_minor, held.currency)
    ON CONFLICT (payment_id) DO UPDATE
        SET reason = excluded.reason, parked_at = excluded.parked_at, evidence = excluded.evidence
$$;

-- The locked payment that had taken the external id of one that turned out to be charged.
CREATE FUNCTION park_without_external_id(
    held payments, whose text, since timestamptz, charged uuid, of_item bigint
) RETURNS void
    LANGUAGE plpgsql SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    told text := jsonb_build_object('externalIdOf', charged, 'item', of_item)::text;
    parked_row payments;
BEGIN
    UPDATE payments p SET
        status = 'PARKED', status_reason = 'external_id_taken_back', asks = 0, last_moved_at = since,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, held.status, 'PARKED', 'reconciled', whose,
            p.fence, p.attempt, p.epoch, since, told),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    WHERE p.due_day = held.due_day AND p.id = held.id
    RETURNING p.* INTO parked_row;
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                 hash, xid, actor_id)
    VALUES (parked_row.id, parked_row.history_seq, held.status, 'PARKED', 'reconciled', whose, parked_row.fence,
            parked_row.attempt, parked_row.epoch, since, told, parked_row.history_hash, parked_row.last_xid,
            parked_row.actor_id);
    PERFORM list_as_parked(parked_row, since, told);
END
$$;

-- Closes one item by a person's word: nothing moves, and the reason stays with it.
CREATE FUNCTION dismiss_item(of_item bigint, whose text, why text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    item reconciliation_items;
BEGIN
    SELECT i.* INTO item FROM reconciliation_items i WHERE i.number = of_item FOR UPDATE;
    IF item.number IS NULL THEN
        RETURN 'no_such_item';
    ELSIF item.status NOT IN ('open', 'waiting') THEN
        RETURN 'not_open';
    END IF;
    UPDATE reconciliation_items i SET
        status = 'dismissed', decided_by = whose, decided_at = clock_timestamp(), decided_reason = why
    WHERE i.number = of_item;
    INSERT INTO operator_acts (operator, act, subject, reason, detail)
    VALUES (whose, 'dismiss_item', coalesce(item.payment_id::text, 'item ' || item.number), why,
            jsonb_strip_nulls(jsonb_build_object('item', item.number, 'class', item.class, 'gateway', item.gateway,
                'day', item.day, 'field', item.field, 'ours', item.ours, 'theirs', item.theirs)));
    RETURN 'dismissed';
END
$$;

-- Does money hang on this report: a line of it agrees with a row of ours, or made it agree by a repair? Then it is
-- explained by it, and would not be without it. Of lines that are dropped nobody knows it any more.
CREATE FUNCTION money_hangs_on(report reconciliation_runs) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = public, pg_catalog, pg_temp AS $$
    SELECT EXISTS (
            SELECT FROM settlement_lines l
            WHERE l.report_day = report.day AND l.run_id = report.id AND l.kind IN ('charge', 'refund')
              -- A refund has its own key, or its own name; one that is nobody's is a difference.
              AND (l.kind = 'refund' OR l.payment_id IS NOT NULL)
              AND NOT EXISTS (SELECT FROM reconciliation_items i
                              WHERE i.gateway = report.gateway AND i.day = report.day
                                AND i.evidence ->> 'run' = report.id::text AND i.evidence ->> 'line' = l.number::text
                                AND i.status NOT IN ('repaired', 'explained')))
        OR report.lines > 0 AND NOT EXISTS (SELECT FROM settlement_lines l
                                            WHERE l.report_day = report.day AND l.run_id = report.id)
$$;

-- Takes a report out that counts, by a person's word, or by two where money hangs on it: it was wrong, and what it said
-- is not to be asked about. What only it raised is closed, and what only it explained is asked about again. Its day is
-- to be compared again; its lines go with the next report of the day, or with their day.
CREATE FUNCTION withdraw_report(of_run uuid, whose text, why text, by_approval uuid) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    gone reconciliation_runs;
    hangs boolean;
    at timestamptz;
    second_person text;
    closed bigint;
    reopened bigint;
BEGIN
    SELECT r.* INTO gone FROM reconciliation_runs r WHERE r.id = of_run FOR UPDATE;
    IF gone.id IS NULL THEN
        RETURN 'no_such_report';
    ELSIF gone.status NOT IN ('loaded', 'compared') THEN
        RETURN 'does_not_count';
    END IF;
    hangs := money_hangs_on(gone);
    IF hangs THEN
        SELECT a.decided_by INTO second_person FROM approvals a
        WHERE a.id = by_approval AND a.kind = 'withdraw' AND a.status = 'approved' AND a.asked_by = whose
          AND a.decided_by <> whose AND a.request ->> 'report' = of_run::text;
        IF second_person IS NULL THEN
            RETURN 'needs_approval';
        END IF;
    END IF;
    at := clock_timestamp();
    UPDATE reconciliation_runs r SET status = 'superseded', finished_at = at, withdrawn_at = at,
        note = left(whose || ': ' || why, 1000)
    WHERE r.id = of_run;
    -- What was compared with it is to be compared without it: its day, and where it explained money all days whose
    -- charges were looked for in it. Thirty days of grace are the most; what is forgotten is not compared again.
    UPDATE reconciliation_runs r SET status = 'loaded'
    WHERE r.gateway = gone.gateway AND r.status = 'compared' AND (r.day = gone.day OR hangs AND r.day >= gone.day - 31)
      AND (r.lines = 0
           OR EXISTS (SELECT FROM settlement_lines l WHERE l.report_day = r.day AND l.run_id = r.id));
    UPDATE reconciliation_items i SET status = 'superseded'
    WHERE i.gateway = gone.gateway AND i.status IN ('open', 'waiting')
      -- Without any report of the day nothing of it is known to be missing either.
      AND (i.evidence ->> 'run' = of_run::text
           OR i.day = gone.day
              AND NOT EXISTS (SELECT FROM reconciliation_runs o
                              WHERE o.gateway = gone.gateway AND o.day = gone.day
                                AND o.status IN ('loaded', 'compared')));
    GET DIAGNOSTICS closed = ROW_COUNT;
    UPDATE reconciliation_items i SET status = 'waiting', evidence = '{}', told_at = NULL
    WHERE i.gateway = gone.gateway AND i.status = 'explained' AND i.field = 'line' AND i.evidence ->> 'run' = of_run::text;
    GET DIAGNOSTICS reopened = ROW_COUNT;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, whose, 'withdraw_report', of_run::text, why, jsonb_strip_nulls(jsonb_build_object(
        'gateway', gone.gateway, 'day', gone.day, 'format', gone.format, 'source', gone.source,
        'closed', closed, 'reopened', reopened,
        'approval', CASE WHEN second_person IS NOT NULL THEN by_approval END, 'approvedBy', second_person)));
    RETURN 'withdrawn';
END
$$;

REVOKE ALL ON FUNCTION ensure_settlement_day, analyse_settlement_day, drop_old_settlements, repair_item, list_as_parked,
    park_without_external_id, dismiss_item, money_hangs_on, withdraw_report FROM PUBLIC;

GRANT SELECT ON reconciliation_runs, settlement_lines, reconciliation_items, reconciliation_books, lost_charges
    TO punctual_owner, punctual_api, punctual_worker;
GRANT SELECT ON refunds TO punctual_worker;
GRANT INSERT (id, gateway, day, format, options, source, sha256, asked_by, status, lines, is_complete, seen_at, sums),
    UPDATE (status, finished_at, seen_at, superseded_by, note, counts), DELETE ON reconciliation_runs TO punctual_worker;
GRANT INSERT, UPDATE (payment_id), DELETE ON settlement_lines TO punctual_worker;
-- What people decide is no program's to write.
GRANT INSERT (fingerprint, run_id, gateway, day, class, status, payment_id, refund_id, key, reference, field, ours, theirs,
        amount_minor, currency, evidence),
    UPDATE (run_id, status, ours, theirs, evidence, last_seen_at, class, not_repaired, told_at)
    ON reconciliation_items TO punctual_worker;
GRANT INSERT, UPDATE ON reconciliation_books TO punctual_worker;
GRANT INSERT, DELETE ON lost_charges TO punctual_worker;
GRANT UPDATE (run_id) ON lost_charges TO punctual_worker;
GRANT EXECUTE ON FUNCTION ensure_settlement_day, drop_old_settlements TO punctual_worker, punctual_owner;
GRANT EXECUTE ON FUNCTION analyse_settlement_day TO punctual_worker;
GRANT EXECUTE ON FUNCTION dismiss_item, withdraw_report TO punctual_api;

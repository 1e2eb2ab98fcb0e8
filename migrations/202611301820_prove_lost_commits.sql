-- What is known when a database has lost commits (R17): since when, by which evidence, what may be missing, and who
-- let it claim again, after what. And the client's intent (R18): what was charged before a restore and has no row any
-- more is never charged a second time.

SET lock_timeout = '5s';

-- How often it was released: what a process was told by the server of an earlier release says nothing about this one.
ALTER TABLE installation ADD COLUMN releases bigint NOT NULL DEFAULT 0;

-- When this database ran, one row for each start of its server. What comes back from a backup brings the rows of the
-- server that it was taken from, and so the last instant that it remembers.
CREATE TABLE database_runs (
    started_at timestamptz NOT NULL,
    lineage text NOT NULL,
    last_seen_at timestamptz NOT NULL,
    PRIMARY KEY (started_at, lineage)
);
INSERT INTO database_runs SELECT pg_postmaster_start_time(), current_lineage(), clock_timestamp();

CREATE TABLE quarantines (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    since timestamptz NOT NULL,
    kind text NOT NULL CHECK (kind IN ('lineage', 'notice', 'event', 'log', 'person')),
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 1000),
    -- What was released, and what was found.
    released_lineage text NOT NULL,
    found_lineage text NOT NULL,
    -- Commits from here until `since` may be missing.
    lost_from timestamptz NOT NULL CHECK (lost_from <= since),
    -- Also what the list below has no room for.
    evidence_count integer NOT NULL DEFAULT 0 CHECK (evidence_count >= 0),
    -- The first of two persons who release it.
    asked_by text CHECK (length(asked_by) BETWEEN 1 AND 1000),
    asked_reason text CHECK (length(asked_reason) BETWEEN 1 AND 500),
    asked_at timestamptz,
    -- Asked to release it although something is missing.
    asked_to_override boolean,
    released_at timestamptz,
    released_by text CHECK (length(released_by) BETWEEN 1 AND 1000),
    released_reason text CHECK (length(released_reason) BETWEEN 1 AND 500),
    -- What was missing when it was released all the same; null: nothing was.
    overridden jsonb,
    CONSTRAINT asks_are_whole CHECK (
        (asked_by IS NULL) = (asked_at IS NULL) AND (asked_by IS NULL) = (asked_reason IS NULL)
        AND (asked_by IS NULL) = (asked_to_override IS NULL)),
    CONSTRAINT releases_are_whole CHECK (
        (released_at IS NULL) = (released_by IS NULL) AND (released_at IS NULL) = (released_reason IS NULL)
        AND (released_at IS NOT NULL OR overridden IS NULL)),
    CONSTRAINT a_second_person_releases CHECK (released_by <> asked_by)
);
CREATE UNIQUE INDEX quarantines_one_open ON quarantines ((released_at IS NULL)) WHERE released_at IS NULL;

CREATE TABLE quarantine_evidence (
    quarantine_id bigint NOT NULL REFERENCES quarantines,
    number integer NOT NULL CHECK (number BETWEEN 1 AND 100),
    at timestamptz NOT NULL,
    kind text NOT NULL,
    payment_id uuid,
    what text NOT NULL CHECK (length(what) BETWEEN 1 AND 1000),
    PRIMARY KEY (quarantine_id, number)
);

CREATE FUNCTION refuse_change_of_the_past() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.released_at IS NULL AND NEW.id = OLD.id AND NEW.since = OLD.since THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% of a quarantine is refused: what is over stays as it was', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER past_stays BEFORE UPDATE OR DELETE ON quarantines
    FOR EACH ROW EXECUTE FUNCTION refuse_change_of_the_past();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON quarantines
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON quarantine_evidence
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON quarantine_evidence
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Opens a quarantine, or adds to the one that is open; true: opened now. `seen` is the instant of something that is
-- missing, if it is known. The row of the installation is locked first by everything here, so that two who find the
-- same open one quarantine. What Kafka keeps of commits whose loss was judged and released proves nothing new: notices
-- and events of that time are met for as long as it has them, some of them only when they become due.
CREATE FUNCTION enter_quarantine(of_kind text, why text, of_payment uuid, seen timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    here installation;
    now_at timestamptz;
    remembered timestamptz;
    open_one quarantines;
    is_new boolean := false;
BEGIN
    SELECT i.* INTO here FROM installation i FOR UPDATE;
    now_at := clock_timestamp();
    SELECT q.* INTO open_one FROM quarantines q WHERE q.released_at IS NULL;
    IF open_one.id IS NULL THEN
        IF of_kind IN ('notice', 'event') AND here.quarantined_at IS NULL
           AND EXISTS (SELECT 1 FROM quarantines q
                       WHERE q.released_at IS NOT NULL AND seen BETWEEN q.lost_from AND q.since) THEN
            RETURN false;
        END IF;
        is_new := true;
        -- The last sign of life of the server that ran before this one. Where it never told, since the beginning. A
        -- minute covers the time between two signs, and clocks.
        SELECT max(r.last_seen_at) INTO remembered FROM database_runs r
        WHERE (r.started_at, r.lineage) <> (pg_postmaster_start_time(), current_lineage());
        remembered := least(coalesce(remembered, here.created_at), seen, here.quarantined_at, now_at) - interval '1 minute';
        INSERT INTO quarantines (since, kind, reason, released_lineage, found_lineage, lost_from)
        VALUES (coalesce(here.quarantined_at, now_at), of_kind, left(why, 1000), here.released_lineage,
                current_lineage(), remembered)
        RETURNING * INTO open_one;
    END IF;
    UPDATE installation i SET quarantined_at = now_at, quarantine_reason = left(why, 1000)
    WHERE i.quarantined_at IS NULL;
    UPDATE quarantines q SET
        evidence_count = q.evidence_count + 1,
        lost_from = least(q.lost_from, seen - interval '1 minute'),
        -- Whoever asked knew less than is known now.
        asked_by = NULL, asked_reason = NULL, asked_at = NULL, asked_to_override = NULL
    WHERE q.id = open_one.id;
    IF open_one.evidence_count < 100 THEN
        INSERT INTO quarantine_evidence (quarantine_id, number, at, kind, payment_id, what)
        VALUES (open_one.id, open_one.evidence_count + 1, now_at, of_kind, of_payment, left(why, 1000));
    END IF;
    RETURN is_new;
END
$$;

-- As before, for whoever knows no more than a reason.
CREATE OR REPLACE FUNCTION quarantine(why text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
BEGIN
    PERFORM enter_quarantine('notice', why, NULL, NULL);
END
$$;

-- Called again and again: gives a sign of life, and opens the quarantine of a database that was restored or promoted.
CREATE FUNCTION observe_lineage() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    here installation;
BEGIN
    SELECT i.* INTO here FROM installation i;
    IF here.quarantined_at IS NULL AND here.released_lineage = current_lineage() THEN
        INSERT INTO database_runs AS r VALUES (pg_postmaster_start_time(), current_lineage(), clock_timestamp())
        ON CONFLICT (started_at, lineage) DO UPDATE SET last_seen_at = excluded.last_seen_at
        -- Six a minute are enough.
        WHERE r.last_seen_at < excluded.last_seen_at - interval '10 seconds';
        RETURN true;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM quarantines q WHERE q.released_at IS NULL) THEN
        PERFORM enter_quarantine(
            CASE WHEN here.released_lineage = current_lineage() THEN 'notice' ELSE 'lineage' END,
            coalesce(here.quarantine_reason, format(
                'this server runs as %s, and %s is the one that was released: it was restored or promoted',
                current_lineage(), here.released_lineage)),
            NULL, NULL);
    END IF;
    RETURN false;
END
$$;

-- The owner's own word, for a database that nobody else works on: no second person, nothing asked.
CREATE OR REPLACE FUNCTION release_lineage() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
BEGIN
    PERFORM 1 FROM installation FOR UPDATE;
    UPDATE quarantines q SET released_at = clock_timestamp(), released_by = 'owner of the database',
        released_reason = 'release_lineage()', overridden = '[]'
    WHERE q.released_at IS NULL;
    UPDATE installation
    SET released_lineage = current_lineage(), releases = releases + 1, quarantined_at = NULL,
        quarantine_reason = NULL;
    INSERT INTO database_runs AS r VALUES (pg_postmaster_start_time(), current_lineage(), clock_timestamp())
    ON CONFLICT (started_at, lineage) DO UPDATE SET last_seen_at = excluded.last_seen_at;
END
$$;

-- How much of its log the server has made durable, in bytes since its beginning: it never shrinks, over any crash,
-- on one timeline. A server that says less than it said before came back from a copy of its past.
CREATE FUNCTION durable_log() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint;

-- R18: the id without its 48 bits of time is what its client meant.
CREATE FUNCTION payment_intent(of_id uuid) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN substring(uuid_send(of_id) FROM 7);

-- A charge that was lost stays on record while a payment of its id may still be claimed: a comparison that finds the
-- row and forgets the loss must not open the way for a claim in between.
CREATE FUNCTION keep_lost_charge() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM payments p
               WHERE p.due_day = payment_day(OLD.payment_id) AND p.id = OLD.payment_id
                 AND p.status IN ('PENDING', 'UNKNOWN', 'PROCESSING')) THEN
        RETURN NULL;
    END IF;
    RETURN OLD;
END
$$;
CREATE TRIGGER keep_while_claimable BEFORE DELETE ON lost_charges
    FOR EACH ROW EXECUTE FUNCTION keep_lost_charge();

-- Aborts a create whose payment was charged before a restore under another due time.
CREATE FUNCTION refuse_charged_before() RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'it was charged before a restore' USING ERRCODE = 'PU004';
END
$$;

-- Parks those of these payments that nobody claimed because they were charged before a restore. What the gateway
-- shows is the evidence; reconciliation, or two people, make COMPLETED of it.
CREATE FUNCTION park_charged_before(of_day date, of_payments uuid[], whose text) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    held record;
    gone payments;
    at timestamptz;
    told text;
    moved integer := 0;
BEGIN
    FOR held IN
        SELECT p.id, p.status, x.payment_id AS lost, x.gateway AS lost_at, x.reference, x.amount_minor, x.currency
        FROM payments p
        CROSS JOIN LATERAL (
            -- The charge of the payment itself before one of another due time.
            SELECT l.* FROM lost_charges l WHERE l.intent = payment_intent(p.id)
            ORDER BY l.payment_id = p.id DESC, l.payment_id LIMIT 1) AS x
        WHERE p.due_day = of_day AND p.id = ANY (of_payments) AND p.status IN ('PENDING', 'UNKNOWN')
        ORDER BY p.id
        FOR UPDATE OF p
    LOOP
        at := clock_timestamp();
        told := jsonb_strip_nulls(jsonb_build_object('reason', 'charged_before', 'chargedAs', held.lost,
            'gateway', held.lost_at, 'gatewayReference', held.reference, 'amount', held.amount_minor,
            'currency', held.currency))::text;
        UPDATE payments p SET
            status = 'PARKED', status_reason = 'charged_before', asks = 0, last_moved_at = at,
            history_seq = p.history_seq + 1,
            history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, held.status, 'PARKED', 'reconciled',
                whose, p.fence, p.attempt, p.epoch, at, told),
            last_xid = greatest(pg_current_xact_id(), p.last_xid)
        WHERE p.due_day = of_day AND p.id = held.id
        RETURNING p.* INTO gone;
        INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                     hash, xid, actor_id)
        VALUES (gone.id, gone.history_seq, held.status, 'PARKED', 'reconciled', whose, gone.fence, gone.attempt,
                gone.epoch, at, told, gone.history_hash, gone.last_xid, gone.actor_id);
        INSERT INTO parked (payment_id, reason, parked_at, evidence, actor_id, gateway, amount_minor, currency)
        VALUES (gone.id, 'charged_before', at, told, gone.actor_id, gone.gateway, gone.amount_minor, gone.currency)
        ON CONFLICT (payment_id) DO UPDATE
            SET reason = excluded.reason, parked_at = excluded.parked_at, evidence = excluded.evidence;
        moved := moved + 1;
    END LOOP;
    RETURN moved;
END
$$;

-- What is missing before the open quarantine may be released; zero rows: nothing. A day counts as compared when a
-- whole report of it was seen after the day had ended and after claims had stopped, and was compared; what a
-- comparison found to have been charged without our knowing must be repaired, or explained by a person. Charges
-- without a row are no obstacle: neither a claim nor a create repeats them.
CREATE FUNCTION quarantine_lacks() RETURNS TABLE (lack text, of_gateway text, of_day date, items bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    q quarantines;
BEGIN
    SELECT o.* INTO q FROM quarantines o WHERE o.released_at IS NULL;
    IF q.id IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
        SELECT CASE WHEN d.day >= (clock_timestamp() AT TIME ZONE 'UTC')::date THEN 'day_not_over'
                    ELSE 'day_not_compared' END,
               g.name, d.day, NULL::bigint
        FROM gateways g
        CROSS JOIN (SELECT s::date AS day FROM generate_series(
            q.lost_from::date::timestamp, q.since::date::timestamp, interval '1 day') AS s) AS d
        WHERE NOT EXISTS (
            SELECT 1 FROM reconciliation_runs r
            WHERE r.gateway = g.name AND r.day = d.day AND r.status = 'compared' AND r.is_complete
              AND r.seen_at >= greatest((d.day + 1)::timestamp AT TIME ZONE 'UTC', q.since))
        ORDER BY g.name, d.day;
    RETURN QUERY
        SELECT 'open_repairs'::text, i.gateway, i.day, count(*)
        FROM reconciliation_items i
        WHERE i.status = 'open' AND i.class IN ('missing_here', 'refund_mismatch')
          AND i.day BETWEEN q.lost_from::date AND q.since::date
          AND NOT EXISTS (SELECT 1 FROM lost_charges x WHERE x.payment_id = i.payment_id)
        GROUP BY i.gateway, i.day
        ORDER BY i.gateway, i.day;
END
$$;

-- Two persons release it: the first asks and the second agrees, within a day. With `anyway` although something is
-- missing, so that it can always be released; what was missing is written down.
CREATE FUNCTION release_quarantine(whose text, why text, anyway boolean) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    q quarantines;
    at timestamptz;
    lacks jsonb;
    found_as text;
BEGIN
    -- What nobody has noticed yet is a quarantine too.
    PERFORM observe_lineage();
    PERFORM 1 FROM installation FOR UPDATE;
    SELECT o.* INTO q FROM quarantines o WHERE o.released_at IS NULL FOR UPDATE;
    IF q.id IS NULL THEN
        RETURN 'not_quarantined';
    END IF;
    at := clock_timestamp();
    SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
               'lack', l.lack, 'gateway', l.of_gateway, 'day', l.of_day, 'items', l.items))) INTO lacks
    FROM quarantine_lacks() l;
    IF lacks IS NOT NULL AND NOT anyway THEN
        RETURN 'lacking';
    END IF;
    IF q.asked_by IS NULL OR q.asked_at < at - interval '1 day' OR q.asked_to_override <> anyway THEN
        UPDATE quarantines o SET asked_by = whose, asked_reason = why, asked_at = at, asked_to_override = anyway
        WHERE o.id = q.id;
        INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
        VALUES (at, whose, 'ask_release', 'quarantine ' || q.id, why, jsonb_strip_nulls(
            jsonb_build_object('anyway', anyway, 'lacks', lacks)));
        RETURN 'asked';
    ELSIF q.asked_by = whose THEN
        RETURN 'same_person';
    END IF;
    found_as := current_lineage();
    UPDATE quarantines o SET released_at = at, released_by = whose, released_reason = why, found_lineage = found_as,
        overridden = lacks
    WHERE o.id = q.id;
    UPDATE installation SET released_lineage = found_as, releases = releases + 1, quarantined_at = NULL,
        quarantine_reason = NULL;
    -- From here on this server's signs of life count.
    INSERT INTO database_runs AS r VALUES (pg_postmaster_start_time(), found_as, at)
    ON CONFLICT (started_at, lineage) DO UPDATE SET last_seen_at = excluded.last_seen_at;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, whose, CASE WHEN lacks IS NULL THEN 'release_quarantine' ELSE 'override_quarantine' END,
        'quarantine ' || q.id, why, jsonb_strip_nulls(jsonb_build_object('askedBy', q.asked_by, 'lacks', lacks)));
    RETURN 'released';
END
$$;

-- A person's word that commits may be lost: claims stop at once. `from_at`: since when.
CREATE FUNCTION quarantine_by_person(whose text, why text, from_at timestamptz) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    opened bigint;
BEGIN
    IF from_at > clock_timestamp() THEN
        RETURN 'not_yet';
    END IF;
    PERFORM observe_lineage();
    PERFORM 1 FROM installation FOR UPDATE;
    IF EXISTS (SELECT 1 FROM quarantines q WHERE q.released_at IS NULL) THEN
        RETURN 'already_quarantined';
    END IF;
    PERFORM enter_quarantine('person', why, NULL, from_at);
    SELECT q.id INTO opened FROM quarantines q WHERE q.released_at IS NULL;
    INSERT INTO operator_acts (operator, act, subject, reason, detail)
    VALUES (whose, 'enter_quarantine', 'quarantine ' || opened, why,
        jsonb_strip_nulls(jsonb_build_object('lostFrom', from_at)));
    RETURN 'quarantined';
END
$$;

REVOKE ALL ON FUNCTION enter_quarantine, observe_lineage, park_charged_before, quarantine_lacks, release_quarantine,
    quarantine_by_person FROM PUBLIC;
-- Whoever claims may stop all claims, and no more than that.
GRANT EXECUTE ON FUNCTION enter_quarantine, park_charged_before TO punctual_worker;
-- A cancel parks what was charged, instead of granting it.
GRANT EXECUTE ON FUNCTION park_charged_before TO punctual_api;
GRANT EXECUTE ON FUNCTION observe_lineage TO punctual_worker, punctual_api;
GRANT EXECUTE ON FUNCTION quarantine_lacks, release_quarantine, quarantine_by_person TO punctual_api;
GRANT SELECT ON quarantines, quarantine_evidence, database_runs TO punctual_api, punctual_worker, punctual_owner;

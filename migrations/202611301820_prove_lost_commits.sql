-- What is known when a database has lost commits (R17): since when, by which evidence, what may be missing, and who
-- let it claim again, after what. And the client's intent (R18): what was charged before a restore and has no row any
-- more is never charged a second time.

SET lock_timeout = '5s';

-- Where this database lives: server, timeline, database, and the table itself. A dump that was loaded on the same server,
-- in the place of the database or beside it, made the table anew; CREATE DATABASE … TEMPLATE copies the table with its
-- number and makes the database anew. No number of either is given twice, and a new name changes none.
CREATE FUNCTION current_home() RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp
    AS $$ SELECT current_lineage() || '/' || d.oid || '/' || 'public.installation'::regclass::oid
          FROM pg_database d WHERE d.datname = current_database() $$;
UPDATE installation SET released_lineage = current_home() WHERE released_lineage = current_lineage();
CREATE OR REPLACE FUNCTION lineage_is_released() RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp
    AS $$ SELECT quarantined_at IS NULL AND released_lineage = current_home() FROM installation $$;

-- Grows with each release: what a process was told by the server of an earlier release says nothing about this one.
-- Seconds of the clock, so that it also grows where a restore forgot a release.
ALTER TABLE installation ADD COLUMN releases bigint NOT NULL DEFAULT 0;

-- When this database ran, one row for each start of its server. What comes back from a backup brings the rows of the
-- server that it was taken from, and so the last instant that it remembers.
CREATE TABLE database_runs (
    started_at timestamptz NOT NULL,
    lineage text NOT NULL,
    last_seen_at timestamptz NOT NULL,
    PRIMARY KEY (started_at, lineage)
);
INSERT INTO database_runs SELECT pg_postmaster_start_time(), current_home(), clock_timestamp();

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
    -- The oldest thing that is proven to be missing, where its instant is known.
    proven_from timestamptz CHECK (lost_from <= proven_from),
    -- Whose word `lost_from` is; null: it was computed.
    lost_from_by text CHECK (length(lost_from_by) BETWEEN 1 AND 1000),
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
    -- Days behind the lost ones whose reports were asked for too, and refunds wait for.
    later_days integer NOT NULL DEFAULT 0 CHECK (later_days BETWEEN 0 AND 366),
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

-- The last instant that this database remembers of the time before the loss, less a minute, which covers the time
-- between two signs of life, and clocks. `seen` is the instant of something that is missing: whoever gave a sign after
-- it was started on the copy already, which may have been started more than once before anybody noticed. Where no
-- server before this one told, since the beginning.
CREATE FUNCTION remembered_until(seen timestamptz) RETURNS timestamptz
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
    SELECT least(coalesce(max(r.last_seen_at), (SELECT i.created_at FROM installation i)), seen) - interval '1 minute'
    FROM database_runs r
    WHERE (r.started_at, r.lineage) <> (pg_postmaster_start_time(), current_home())
      AND (seen IS NULL OR r.last_seen_at <= seen)
$$;

-- Opens a quarantine, or adds to the one that is open; true: opened now. `seen` is the instant of something that is
-- missing, if it is known. Everything here locks the row of the installation first, then quarantines, then what
-- hangs on them, and payments never: two who find the same open one quarantine, and nobody waits in a circle. What
-- Kafka keeps of commits whose loss was judged and released proves nothing new: notices and events of that time are
-- met for as long as it has them, some of them only when they become due.
CREATE FUNCTION enter_quarantine(of_kind text, why text, of_payment uuid, seen timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    here installation;
    now_at timestamptz;
    open_one quarantines;
    is_new boolean := false;
BEGIN
    SELECT i.* INTO here FROM installation i FOR UPDATE;
    now_at := clock_timestamp();
    IF seen > now_at THEN
        -- Whoever saw it has a clock of their own.
        seen := now_at;
    END IF;
    SELECT q.* INTO open_one FROM quarantines q WHERE q.released_at IS NULL;
    IF open_one.id IS NULL THEN
        IF of_kind IN ('notice', 'event') AND here.quarantined_at IS NULL
           AND EXISTS (SELECT 1 FROM quarantines q
                       WHERE q.released_at IS NOT NULL AND seen BETWEEN q.lost_from AND q.since) THEN
            RETURN false;
        END IF;
        is_new := true;
        INSERT INTO quarantines (since, kind, reason, released_lineage, found_lineage, lost_from)
        VALUES (coalesce(here.quarantined_at, now_at), of_kind, left(why, 1000), here.released_lineage,
                current_home(), least(remembered_until(seen), here.quarantined_at, now_at))
        RETURNING * INTO open_one;
    END IF;
    UPDATE installation i SET quarantined_at = now_at, quarantine_reason = left(why, 1000)
    WHERE i.quarantined_at IS NULL;
    UPDATE quarantines q SET
        evidence_count = q.evidence_count + 1,
        proven_from = least(q.proven_from, seen),
        -- Behind a person's word goes only what is proven.
        lost_from = least(q.lost_from, CASE WHEN q.lost_from_by IS NULL THEN remembered_until(seen)
                                            ELSE seen - interval '1 minute' END),
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
    IF here.quarantined_at IS NULL AND here.released_lineage = current_home() THEN
        PERFORM give_sign_of_life();
        RETURN true;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM quarantines q WHERE q.released_at IS NULL) THEN
        -- Whoever released it since that look has the lock, and is seen behind it.
        SELECT i.* INTO here FROM installation i FOR UPDATE;
        IF here.quarantined_at IS NULL AND here.released_lineage = current_home() THEN
            RETURN true;
        END IF;
        PERFORM enter_quarantine(
            CASE WHEN here.released_lineage = current_home() THEN 'notice' ELSE 'lineage' END,
            coalesce(here.quarantine_reason, format(
                'this server runs as %s, and %s is the one that was released: it was restored or promoted',
                current_home(), here.released_lineage)),
            NULL, NULL)
        WHERE NOT EXISTS (SELECT 1 FROM quarantines q WHERE q.released_at IS NULL);
    END IF;
    RETURN false;
END
$$;

-- Of the server that runs now; six a minute are enough.
CREATE FUNCTION give_sign_of_life() RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
    INSERT INTO database_runs AS r VALUES (pg_postmaster_start_time(), current_home(), clock_timestamp())
    ON CONFLICT (started_at, lineage) DO UPDATE SET last_seen_at = excluded.last_seen_at
    WHERE r.last_seen_at < excluded.last_seen_at - interval '10 seconds'
$$;

-- From here on this database, as it is now, may claim, and its server's signs of life count. The caller has the lock of
-- the installation, and has closed the quarantine.
CREATE FUNCTION let_claims_go_on() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
BEGIN
    UPDATE installation i SET released_lineage = current_home(), quarantined_at = NULL, quarantine_reason = NULL,
        releases = greatest(i.releases + 1, extract(epoch FROM clock_timestamp())::bigint);
    PERFORM give_sign_of_life();
END
$$;

-- The owner's own word, for a database that nobody else works on: no second person, nothing asked. What nobody has
-- noticed yet is a quarantine all the same: without its row, what Kafka keeps of the lost time would be a new proof.
CREATE OR REPLACE FUNCTION release_lineage() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
BEGIN
    PERFORM 1 FROM installation FOR UPDATE;
    PERFORM observe_lineage();
    UPDATE quarantines q SET released_at = clock_timestamp(), released_by = 'owner of the database',
        released_reason = 'release_lineage()', found_lineage = current_home(), overridden = '[]'
    WHERE q.released_at IS NULL;
    PERFORM let_claims_go_on();
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

-- Every gateway that may have charged here, by whatever was kept of it: those that workers announced, those of charges,
-- of open and of parked payments, and of reports. By jumps over indexes, whatever lies between.
CREATE FUNCTION gateways_in_use() RETURNS SETOF text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
    WITH RECURSIVE charged (name) AS (
        (SELECT c.gateway FROM gateway_refs c ORDER BY c.gateway LIMIT 1)
        UNION ALL
        SELECT (SELECT c.gateway FROM gateway_refs c WHERE c.gateway > n.name ORDER BY c.gateway LIMIT 1)
        FROM charged n WHERE n.name IS NOT NULL
    ), claimable (name) AS (
        (SELECT p.gateway FROM payments p WHERE p.status IN ('PENDING', 'UNKNOWN') ORDER BY p.gateway LIMIT 1)
        UNION ALL
        SELECT (SELECT p.gateway FROM payments p
                WHERE p.status IN ('PENDING', 'UNKNOWN') AND p.gateway > n.name ORDER BY p.gateway LIMIT 1)
        FROM claimable n WHERE n.name IS NOT NULL
    )
    SELECT g.name FROM gateways g
    UNION SELECT n.name FROM charged n WHERE n.name IS NOT NULL
    UNION SELECT n.name FROM claimable n WHERE n.name IS NOT NULL
    UNION SELECT h.gateway FROM parked h
    UNION SELECT r.gateway FROM reconciliation_runs r
$$;

-- The days of a quarantine whose reports may show what was charged in the lost time: the lost days, the one before them,
-- since a gateway's day may have begun before ours, and those behind them in which a gateway may still book it.
-- `askable_from`: when a whole report of the day can be had.
CREATE FUNCTION days_to_compare(q quarantines) RETURNS TABLE (day date, is_lost boolean, askable_from timestamptz)
    LANGUAGE sql STABLE SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
    SELECT s::date, s::date <= q.since::date,
           greatest((s::date + 1)::timestamp AT TIME ZONE 'UTC', q.since)
    FROM generate_series((q.lost_from::date - 1)::timestamp, (q.since::date + q.later_days)::timestamp, interval '1 day') AS s
$$;

-- Was the day compared with a whole report that was seen after the day had ended, and after claims had stopped? Not while
-- another report of the day is loaded and not compared yet, whether it takes a place or stands beside the others.
CREATE FUNCTION day_is_compared(of_gateway text, of_day date, askable_from timestamptz) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = public, pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT 1 FROM reconciliation_runs r
        WHERE r.gateway = of_gateway AND r.day = of_day AND r.status = 'compared' AND r.is_complete
          AND r.seen_at >= askable_from)
        AND NOT EXISTS (
            SELECT 1 FROM reconciliation_runs n
            WHERE n.gateway = of_gateway AND n.day = of_day AND n.status = 'loaded')
$$;

-- What is missing before the open quarantine may be released; zero rows: nothing. What a comparison found to have been
-- charged, or given back, without our knowing must be repaired, or explained by a person. Charges without a row are no
-- obstacle: neither a claim nor a create repeats them. `days_behind`: how many days late a gateway may book; `also`:
-- gateways that are configured, whatever this database remembers of them.
CREATE FUNCTION quarantine_lacks(days_behind integer, also text[]) RETURNS TABLE (
        lack text, of_gateway text, of_day date, items bigint, askable_from timestamptz, partly_seen_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    q quarantines;
    names text[];
BEGIN
    SELECT o.* INTO q FROM quarantines o WHERE o.released_at IS NULL;
    IF q.id IS NULL THEN
        RETURN;
    END IF;
    q.later_days := days_behind;
    SELECT array_agg(DISTINCT g.name) INTO names
    FROM (SELECT u.name FROM gateways_in_use() AS u (name) UNION SELECT a.name FROM unnest(also) AS a (name)) AS g;
    IF names IS NULL THEN
        -- Nobody to compare with is not the same as nothing to compare.
        RETURN QUERY SELECT 'no_gateway_known'::text, ''::text, q.since::date, NULL::bigint, NULL::timestamptz,
            NULL::timestamptz;
        RETURN;
    END IF;
    RETURN QUERY
        SELECT CASE WHEN d.is_lost THEN '' ELSE 'later_' END
               || CASE WHEN d.askable_from > clock_timestamp() THEN 'day_not_over' ELSE 'day_not_compared' END,
               g.name, d.day, NULL::bigint, d.askable_from,
               -- What an unfinished report showed is repaired already; what it lacks may come.
               (SELECT max(r.seen_at) FROM reconciliation_runs r
                WHERE r.gateway = g.name AND r.day = d.day AND r.status = 'compared' AND r.seen_at >= q.since)
        FROM unnest(names) AS g (name)
        CROSS JOIN days_to_compare(q) AS d
        WHERE NOT day_is_compared(g.name, d.day, d.askable_from)
        ORDER BY d.day, g.name;
    RETURN QUERY
        SELECT 'open_repairs'::text, i.gateway, i.day, count(*), NULL::timestamptz, NULL::timestamptz
        FROM reconciliation_items i
        WHERE i.status = 'open' AND i.class IN ('missing_here', 'refund_mismatch')
          AND i.day BETWEEN q.lost_from::date - 1 AND q.since::date + days_behind
          AND NOT EXISTS (SELECT 1 FROM lost_charges x WHERE x.payment_id = i.payment_id)
        GROUP BY i.gateway, i.day
        ORDER BY i.day, i.gateway;
END
$$;

-- May refunds of this gateway go out? After a release in spite of what was missing they wait until every day of the
-- quarantine is compared: what stands as allowed may have been given back in the lost time, and a refund can wait.
CREATE FUNCTION refunds_are_held(of_gateway text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
    SELECT EXISTS (
        SELECT 1 FROM quarantines q CROSS JOIN days_to_compare(q) AS d
        WHERE q.released_at IS NOT NULL AND jsonb_array_length(q.overridden) > 0
          AND NOT day_is_compared(of_gateway, d.day, d.askable_from))
$$;

-- Two persons release it: the first asks and the second agrees, within a day. With `anyway` although something is
-- missing, so that it can always be released; what was missing is written down.
CREATE FUNCTION release_quarantine(
    whose text, why text, anyway boolean, days_behind integer, also text[]
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    q quarantines;
    at timestamptz;
    lacks jsonb;
BEGIN
    PERFORM 1 FROM installation FOR UPDATE;
    -- What nobody has noticed yet is a quarantine too.
    PERFORM observe_lineage();
    SELECT o.* INTO q FROM quarantines o WHERE o.released_at IS NULL FOR UPDATE;
    IF q.id IS NULL THEN
        RETURN 'not_quarantined';
    END IF;
    at := clock_timestamp();
    SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
               'lack', l.lack, 'gateway', l.of_gateway, 'day', l.of_day, 'items', l.items))) INTO lacks
    FROM quarantine_lacks(days_behind, also) l;
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
    UPDATE quarantines o SET released_at = at, released_by = whose, released_reason = why,
        found_lineage = current_home(), overridden = lacks, later_days = days_behind
    WHERE o.id = q.id;
    PERFORM let_claims_go_on();
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, whose, CASE WHEN lacks IS NULL THEN 'release_quarantine' ELSE 'override_quarantine' END,
        'quarantine ' || q.id, why, jsonb_strip_nulls(jsonb_build_object('askedBy', q.asked_by, 'lacks', lacks)));
    RETURN 'released';
END
$$;

-- A person's word that commits may be lost: claims stop at once. `from_at`: since when; of a database that is
-- quarantined already it takes the place of what was computed, earlier or later, but for what is proven to be missing.
CREATE FUNCTION quarantine_by_person(whose text, why text, from_at timestamptz) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    q quarantines;
    is_new boolean;
BEGIN
    IF from_at > clock_timestamp() THEN
        RETURN 'not_yet';
    END IF;
    PERFORM 1 FROM installation FOR UPDATE;
    PERFORM observe_lineage();
    SELECT o.* INTO q FROM quarantines o WHERE o.released_at IS NULL;
    is_new := q.id IS NULL;
    IF is_new THEN
        PERFORM enter_quarantine('person', why, NULL, NULL);
        SELECT o.* INTO q FROM quarantines o WHERE o.released_at IS NULL;
    ELSIF from_at IS NULL THEN
        RETURN 'already_quarantined';
    ELSIF from_at > q.proven_from THEN
        RETURN 'proven_before';
    ELSE
        -- Also takes the first word of a release back: it was given for other days.
        PERFORM enter_quarantine('person', left(format('%s: commits since %s may be missing, not since %s: %s', whose,
            to_char(from_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), to_char(q.lost_from, 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), why),
            1000), NULL, NULL);
    END IF;
    UPDATE quarantines o SET lost_from = least(from_at, o.since), lost_from_by = whose
    WHERE o.id = q.id AND from_at IS NOT NULL;
    INSERT INTO operator_acts (operator, act, subject, reason, detail)
    VALUES (whose, CASE WHEN is_new THEN 'enter_quarantine' ELSE 'alter_quarantine' END, 'quarantine ' || q.id, why,
        jsonb_strip_nulls(jsonb_build_object('lostFrom', from_at, 'before', CASE WHEN NOT is_new THEN q.lost_from END)));
    RETURN CASE WHEN is_new THEN 'quarantined' ELSE 'altered' END;
END
$$;

REVOKE ALL ON FUNCTION current_home, remembered_until, enter_quarantine, observe_lineage, give_sign_of_life,
    let_claims_go_on, park_charged_before, gateways_in_use, days_to_compare, day_is_compared, quarantine_lacks, refunds_are_held,
    release_quarantine, quarantine_by_person FROM PUBLIC;
-- Whoever claims may stop all claims, and no more than that.
GRANT EXECUTE ON FUNCTION enter_quarantine, park_charged_before TO punctual_worker;
-- A cancel parks what was charged, instead of granting it.
GRANT EXECUTE ON FUNCTION park_charged_before TO punctual_api;
GRANT EXECUTE ON FUNCTION observe_lineage, gateways_in_use, refunds_are_held TO punctual_worker, punctual_api;
GRANT EXECUTE ON FUNCTION quarantine_lacks, release_quarantine, quarantine_by_person TO punctual_api;
GRANT SELECT ON quarantines, quarantine_evidence, database_runs TO punctual_api, punctual_worker, punctual_owner;

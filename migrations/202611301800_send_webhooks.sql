-- Actors are told of their payments by signed requests to addresses of theirs: where, what is owed, what was tried.

SET lock_timeout = '5s';

CREATE TABLE webhook_endpoints (
    id uuid PRIMARY KEY,
    actor_id uuid NOT NULL REFERENCES actors,
    url text NOT NULL CHECK (length(url) BETWEEN 1 AND 1000),
    description text NOT NULL CHECK (length(description) <= 500),
    -- Types of events it gets; empty: all.
    event_types text[] NOT NULL CHECK (cardinality(event_types) <= 64 AND array_position(event_types, NULL) IS NULL),
    -- What its requests are signed with. The one before signs beside it until its end.
    secret bytea CHECK (octet_length(secret) = 32),
    previous_secret bytea CHECK (octet_length(previous_secret) = 32),
    previous_secret_until timestamptz,
    -- Requests under way at one time, over all processes.
    max_concurrency smallint NOT NULL CHECK (max_concurrency BETWEEN 1 AND 100),
    disabled_at timestamptz,
    disabled_reason text CHECK (disabled_reason IN ('asked', 'gone', 'failing')),
    -- A disabled one is owed what happens until then; later events are not, and what it is still owed is discarded.
    owed_until timestamptz,
    -- How many events that were, since it was last disabled.
    skipped bigint NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    -- Its row stays as long as its log, and tells nobody anything.
    deleted_at timestamptz,
    -- Grows with each act that webhook_endpoint_acts has.
    version integer NOT NULL CHECK (version >= 1),
    -- The sender's: since when no try has succeeded (null: the last one did, or there was none), when one last did,
    -- and before when it is not asked at all.
    failing_since timestamptz,
    last_success_at timestamptz,
    hold_until timestamptz,
    CONSTRAINT overlap_is_whole CHECK (num_nonnulls(previous_secret, previous_secret_until) IN (0, 2)),
    CONSTRAINT disabled_says_why CHECK (num_nonnulls(disabled_at, disabled_reason, owed_until) IN (0, 3)),
    CONSTRAINT deleted_has_no_secret CHECK ((deleted_at IS NULL) = (secret IS NOT NULL)
                                            AND (deleted_at IS NULL OR previous_secret IS NULL))
-- The sender's columns are no index's: room on the page for their versions.
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX webhook_endpoints_of_actor ON webhook_endpoints (actor_id, url) WHERE deleted_at IS NULL;

-- What was done to an endpoint, by its owner or by the sender; the owner sees it.
CREATE TABLE webhook_endpoint_acts (
    endpoint_id uuid NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
    version integer NOT NULL,
    at timestamptz NOT NULL,
    act text NOT NULL CHECK (act IN ('created', 'changed', 'rotated', 'disabled', 'enabled', 'deleted')),
    done_by text NOT NULL,
    detail jsonb NOT NULL,
    PRIMARY KEY (endpoint_id, version)
);

-- One event that is owed to one endpoint. The body is not kept: it is rendered from the history row, which never
-- changes, with each try. Partitioned by the event's own instant (payment_history.at), so that the key holds once
-- per endpoint and event whoever writes it however often, and drained days are dropped and not vacuumed.
CREATE TABLE webhook_deliveries (
    endpoint_id uuid NOT NULL,
    event_at timestamptz NOT NULL,
    -- The event is payment_id/seq. seq 0: a test message, whose payment_id is nobody's and begins with event_at.
    payment_id uuid NOT NULL,
    seq integer NOT NULL CHECK (seq >= 0),
    event_type text NOT NULL CHECK (length(event_type) BETWEEN 1 AND 100),
    made_at timestamptz NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'delivered', 'failed', 'discarded')),
    next_try_at timestamptz NOT NULL,
    -- All tries so far, which numbers them; and how many of them failed since it was made or last sent again, which
    -- is its place on the ladder.
    tries integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
    rung integer NOT NULL DEFAULT 0 CHECK (rung >= 0),
    -- Who is sending it. The fence grows with each taking and each resend, so that what a sender notes whose lease
    -- ran out changes nothing.
    lease_holder text,
    lease_until timestamptz,
    fence bigint NOT NULL DEFAULT 0,
    -- Of the last try: the answer's status, or why there was none.
    last_status smallint,
    last_error text CHECK (length(last_error) <= 200),
    delivered_at timestamptz,
    PRIMARY KEY (endpoint_id, event_at, payment_id, seq),
    CONSTRAINT tests_are_no_events CHECK ((seq = 0) = (event_type = 'webhook.test')),
    CONSTRAINT lease_is_whole CHECK (num_nonnulls(lease_holder, lease_until) IN (0, 2)),
    CONSTRAINT lease_belongs_to_pending CHECK (lease_until IS NULL OR status = 'pending'),
    CONSTRAINT delivered_has_an_instant CHECK ((status = 'delivered') = (delivered_at IS NOT NULL)),
    CONSTRAINT rungs_are_tries CHECK (rung <= tries)
) PARTITION BY RANGE (event_at);
-- What is owed to an endpoint, soonest first.
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_try_at) WHERE status = 'pending';
-- What is under way: a few rows.
CREATE INDEX webhook_deliveries_leased ON webhook_deliveries (endpoint_id, lease_until) WHERE lease_until IS NOT NULL;
-- What an owner may want again.
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (endpoint_id, event_at) WHERE status = 'failed';
-- Test messages that wait: ten at most, found among all that a dead endpoint is owed.
CREATE INDEX webhook_deliveries_tests ON webhook_deliveries (endpoint_id) WHERE status = 'pending' AND seq = 0;

-- The log: what each try met.
CREATE TABLE webhook_tries (
    endpoint_id uuid NOT NULL,
    event_at timestamptz NOT NULL,
    payment_id uuid NOT NULL,
    seq integer NOT NULL,
    number integer NOT NULL CHECK (number >= 1),
    at timestamptz NOT NULL,
    took_ms integer NOT NULL CHECK (took_ms >= 0),
    -- The answer's status, or why there was none, or both: an answer that broke off.
    status smallint,
    error text CHECK (length(error) <= 200),
    -- The beginning of the answer, what of it can be printed.
    excerpt text NOT NULL DEFAULT '' CHECK (length(excerpt) <= 1000),
    PRIMARY KEY (endpoint_id, event_at, payment_id, seq, number),
    CONSTRAINT met_something CHECK (num_nonnulls(status, error) >= 1)
) PARTITION BY RANGE (event_at);

-- Makes the partitions of the days from..to that are missing; answers how many. Apart from ensure_partitions, since
-- these days are few: of events, not of payments that come in a year. Also called by whoever is about to write of
-- a day that was dropped or never made.
CREATE FUNCTION ensure_webhook_days(from_day date, to_day date) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    day date := from_day;
    made integer := 0;
BEGIN
    WHILE day <= to_day LOOP
        -- Looked for in the catalogue: to_regclass would remember that there is none, and answer so again when the
        -- lock is had and another session has made it.
        IF (SELECT count(*) FROM pg_class c
            WHERE c.relnamespace = 'public'::regnamespace
              AND c.relname IN ('webhook_deliveries_' || to_char(day, 'YYYYMMDD'),
                                'webhook_tries_' || to_char(day, 'YYYYMMDD'))) < 2 THEN
            -- The lock of ensure_partitions: the second finds everything made.
            PERFORM pg_advisory_xact_lock(7016996765293437281);
            made := made
                + ensure_partition('webhook_deliveries', 'event_at', day,
                    'fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000')::int
                + ensure_partition('webhook_tries', 'event_at', day, 'fillfactor = 100')::int;
        END IF;
        day := day + 1;
    END LOOP;
    RETURN made;
END
$$;

-- Drops days more than `keep` days old that owe nothing to an endpoint which is there and not disabled, and
-- forgets endpoints that were deleted before the oldest day that is left; answers how many days.
CREATE FUNCTION drop_drained_webhook_days(keep integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC'
    -- What waits for these locks waits behind us: rather not today.
    SET lock_timeout = '500ms' AS $$
DECLARE
    child record;
    owes boolean;
    dropped integer := 0;
    owed text := 'SELECT EXISTS (SELECT 1 FROM %I d JOIN webhook_endpoints e ON e.id = d.endpoint_id
                  WHERE d.status = ''pending'' AND e.deleted_at IS NULL AND e.disabled_at IS NULL)';
BEGIN
    -- As in drop_old_settlements(): days to come are none that are old.
    IF keep IS NULL OR keep < 1 THEN
        RAISE EXCEPTION 'at least one day is kept, not %', keep USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR child IN
        SELECT c.relname, 'webhook_tries_' || right(c.relname, 8) AS tries
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'webhook_deliveries'::regclass
          AND c.relname < 'webhook_deliveries_' || to_char((now() AT TIME ZONE 'UTC')::date - keep, 'YYYYMMDD')
        ORDER BY c.relname
    LOOP
        EXECUTE format(owed, child.relname) INTO owes;
        CONTINUE WHEN owes;
        -- Under the lock nobody can have sent again between the look and the drop. Parents first, as every
        -- statement does.
        LOCK TABLE ONLY webhook_deliveries IN ACCESS EXCLUSIVE MODE;
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', child.relname);
        EXECUTE format(owed, child.relname) INTO owes;
        CONTINUE WHEN owes;
        -- Of disabled endpoints.
        EXECUTE format('UPDATE webhook_endpoints e SET skipped = e.skipped + o.count
                        FROM (SELECT d.endpoint_id, count(*) AS count FROM %I d
                              WHERE d.status = ''pending'' AND d.seq > 0 GROUP BY d.endpoint_id) AS o
                        WHERE e.id = o.endpoint_id AND e.deleted_at IS NULL', child.relname);
        EXECUTE format('DROP TABLE %I', child.relname);
        EXECUTE format('DROP TABLE IF EXISTS %I', child.tries);
        dropped := dropped + 1;
    END LOOP;
    DELETE FROM webhook_endpoints e WHERE e.deleted_at < now() - make_interval(days => keep);
    RETURN dropped;
EXCEPTION WHEN lock_not_available THEN
    -- Rolled back to the start; the next pass tries again.
    RETURN 0;
END
$$;

-- The acts of owners are functions of the owner role: the interface's role can do with endpoints what these do, each
-- with its line in webhook_endpoint_acts, and reads no secret. Each names the actor, and tells of another's
-- endpoint nothing but not_found.

-- The actor is locked first, so that the endpoints of one actor are made one after the other, and counted then.
CREATE FUNCTION make_webhook_endpoint(
    new_id uuid, of_actor uuid, new_url text, new_description text, new_types text[], most smallint,
    new_secret bytea, cap integer, by_whom text
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    at timestamptz;
    held bigint;
BEGIN
    PERFORM 1 FROM actors a WHERE a.id = of_actor FOR NO KEY UPDATE;
    at := clock_timestamp();
    SELECT count(*) INTO held FROM webhook_endpoints e WHERE e.actor_id = of_actor AND e.deleted_at IS NULL;
    IF EXISTS (SELECT 1 FROM webhook_endpoints e
               WHERE e.actor_id = of_actor AND e.url = new_url AND e.deleted_at IS NULL) THEN
        RETURN 'url_taken';
    ELSIF held >= cap THEN
        RETURN 'too_many';
    END IF;
    INSERT INTO webhook_endpoints (id, actor_id, url, description, event_types, secret, max_concurrency, created_at,
                                   changed_at, version)
    VALUES (new_id, of_actor, new_url, new_description, new_types, new_secret, most, at, at, 1);
    INSERT INTO webhook_endpoint_acts
    VALUES (new_id, 1, at, 'created', by_whom, jsonb_build_object('url', new_url, 'eventTypes', to_jsonb(new_types)));
    RETURN 'made';
END
$$;

-- Null leaves a column as it is. `seen`: the version that the change is made to, null for whichever it is.
CREATE FUNCTION change_webhook_endpoint(
    of_endpoint uuid, of_actor uuid, seen integer, new_url text, new_description text, new_types text[],
    most smallint, by_whom text
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    held webhook_endpoints;
    at timestamptz;
BEGIN
    -- As in make_webhook_endpoint: two of one actor's endpoints cannot take one url.
    PERFORM 1 FROM actors a WHERE a.id = of_actor FOR NO KEY UPDATE;
    SELECT e.* INTO held FROM webhook_endpoints e
    WHERE e.id = of_endpoint AND e.actor_id = of_actor AND e.deleted_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    ELSIF seen <> held.version THEN
        RETURN 'changed_since';
    ELSIF EXISTS (SELECT 1 FROM webhook_endpoints e
                  WHERE e.actor_id = of_actor AND e.url = new_url AND e.id <> of_endpoint
                    AND e.deleted_at IS NULL) THEN
        RETURN 'url_taken';
    END IF;
    at := clock_timestamp();
    UPDATE webhook_endpoints e SET
        url = coalesce(new_url, e.url),
        description = coalesce(new_description, e.description),
        event_types = coalesce(new_types, e.event_types),
        max_concurrency = coalesce(most, e.max_concurrency),
        changed_at = at,
        version = e.version + 1,
        -- Another address is another receiver: what the old one met says nothing of it.
        failing_since = CASE WHEN new_url <> e.url THEN NULL ELSE e.failing_since END,
        hold_until = CASE WHEN new_url <> e.url THEN NULL ELSE e.hold_until END
    WHERE e.id = of_endpoint;
    INSERT INTO webhook_endpoint_acts
    VALUES (of_endpoint, held.version + 1, at, 'changed', by_whom, jsonb_strip_nulls(jsonb_build_object(
        'url', new_url, 'description', new_description, 'eventTypes', to_jsonb(new_types), 'maxConcurrency', most)));
    RETURN 'changed';
END
$$;

-- A new secret; the old one signs beside it for the overlap. With none it ends at once, and so does one that is
-- still ending from a rotation before: there are never three.
CREATE FUNCTION rotate_webhook_secret(
    of_endpoint uuid, of_actor uuid, new_secret bytea, overlap interval, by_whom text
) RETURNS TABLE (told text, ends_at timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    held webhook_endpoints;
    at timestamptz;
BEGIN
    SELECT e.* INTO held FROM webhook_endpoints e
    WHERE e.id = of_endpoint AND e.actor_id = of_actor AND e.deleted_at IS NULL FOR UPDATE;
    at := clock_timestamp();
    IF held.id IS NULL THEN
        told := 'not_found';
    ELSIF held.previous_secret_until > at AND overlap > interval '0' THEN
        told := 'rotating';
        ends_at := held.previous_secret_until;
    ELSE
        told := 'rotated';
        ends_at := at + overlap;
        UPDATE webhook_endpoints e SET
            previous_secret = CASE WHEN overlap > interval '0' THEN e.secret END,
            previous_secret_until = CASE WHEN overlap > interval '0' THEN at + overlap END,
            secret = new_secret,
            changed_at = at,
            version = e.version + 1
        WHERE e.id = of_endpoint;
        INSERT INTO webhook_endpoint_acts
        VALUES (of_endpoint, held.version + 1, at, 'rotated', by_whom,
                jsonb_build_object('previousSecretUntil', to_jsonb(ends_at)));
    END IF;
    RETURN NEXT;
END
$$;

-- The owner's (`of_actor` is given) and the sender's (it is null). What is owed, and what happens within a week, stays
-- owed and is sent once it is enabled again. `seen` is the version that the sender called: what its owner has changed
-- since is another one. `met` is what the sender met, for the owner to read.
CREATE FUNCTION disable_webhook_endpoint(
    of_endpoint uuid, of_actor uuid, seen integer, why text, met text, by_whom text
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    held webhook_endpoints;
    at timestamptz;
BEGIN
    SELECT e.* INTO held FROM webhook_endpoints e
    WHERE e.id = of_endpoint AND (of_actor IS NULL OR e.actor_id = of_actor) AND e.deleted_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    ELSIF held.disabled_at IS NOT NULL THEN
        RETURN 'disabled_before';
    ELSIF seen <> held.version THEN
        RETURN 'changed_since';
    END IF;
    at := clock_timestamp();
    UPDATE webhook_endpoints e SET disabled_at = at, disabled_reason = why, owed_until = at + interval '7 days',
        skipped = 0, changed_at = at, version = e.version + 1
    WHERE e.id = of_endpoint;
    INSERT INTO webhook_endpoint_acts
    VALUES (of_endpoint, held.version + 1, at, 'disabled', by_whom,
            jsonb_strip_nulls(jsonb_build_object('reason', why, 'met', met)));
    RETURN 'disabled';
END
$$;

-- It starts afresh: what it failed before does not count against it any more. Its act says how many events it missed
-- for good; they are in the list of events.
CREATE FUNCTION enable_webhook_endpoint(of_endpoint uuid, of_actor uuid, by_whom text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    held webhook_endpoints;
    at timestamptz;
BEGIN
    SELECT e.* INTO held FROM webhook_endpoints e
    WHERE e.id = of_endpoint AND e.actor_id = of_actor AND e.deleted_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    ELSIF held.disabled_at IS NULL THEN
        RETURN 'enabled_before';
    END IF;
    at := clock_timestamp();
    UPDATE webhook_endpoints e SET disabled_at = NULL, disabled_reason = NULL, owed_until = NULL, failing_since = NULL,
        hold_until = NULL, changed_at = at, version = e.version + 1
    WHERE e.id = of_endpoint;
    INSERT INTO webhook_endpoint_acts
    VALUES (of_endpoint, held.version + 1, at, 'enabled', by_whom, jsonb_build_object('skipped', held.skipped));
    RETURN 'enabled';
END
$$;

-- What it is still owed is discarded by the keeper, some at a time.
CREATE FUNCTION delete_webhook_endpoint(of_endpoint uuid, of_actor uuid, by_whom text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    gone webhook_endpoints;
BEGIN
    UPDATE webhook_endpoints e SET deleted_at = clock_timestamp(), changed_at = clock_timestamp(), secret = NULL,
        previous_secret = NULL, previous_secret_until = NULL, version = e.version + 1
    WHERE e.id = of_endpoint AND e.actor_id = of_actor AND e.deleted_at IS NULL
    RETURNING e.* INTO gone;
    IF NOT FOUND THEN
        RETURN 'not_found';
    END IF;
    INSERT INTO webhook_endpoint_acts VALUES (of_endpoint, gone.version, gone.deleted_at, 'deleted', by_whom, '{}');
    RETURN 'deleted';
END
$$;

-- A test message is owed as any event is, so that its try is seen in the log. At most ten wait at one time. Its id
-- is made here, since it begins with its own instant, 48 bits of milliseconds, as a payment's begins with its due time:
-- so a delivery is found by its id alone. `chance` is a random UUID.
CREATE FUNCTION send_webhook_test(of_endpoint uuid, of_actor uuid, chance uuid)
    RETURNS TABLE (told text, test_id uuid, test_at timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    held webhook_endpoints;
    waiting bigint;
    at timestamptz;
BEGIN
    SELECT e.* INTO held FROM webhook_endpoints e
    WHERE e.id = of_endpoint AND e.actor_id = of_actor AND e.deleted_at IS NULL FOR NO KEY UPDATE;
    at := clock_timestamp();
    SELECT count(*) INTO waiting FROM webhook_deliveries d
    WHERE d.endpoint_id = held.id AND d.status = 'pending' AND d.seq = 0;
    told := CASE WHEN held.id IS NULL THEN 'not_found'
                 WHEN held.disabled_at IS NOT NULL THEN 'disabled'
                 WHEN waiting >= 10 THEN 'too_many'
                 ELSE 'queued' END;
    IF told = 'queued' THEN
        test_at := date_trunc('milliseconds', at);
        test_id := (lpad(to_hex((extract(epoch FROM test_at) * 1000)::bigint), 12, '0') || '8'
                    || substr(replace(chance::text, '-', ''), 14))::uuid;
        INSERT INTO webhook_deliveries (endpoint_id, event_at, payment_id, seq, event_type, made_at, status, next_try_at)
        VALUES (of_endpoint, test_at, test_id, 0, 'webhook.test', at, 'pending', at);
    END IF;
    RETURN NEXT;
END
$$;

REVOKE ALL ON FUNCTION ensure_webhook_days, drop_drained_webhook_days, make_webhook_endpoint,
    change_webhook_endpoint, rotate_webhook_secret, disable_webhook_endpoint, enable_webhook_endpoint,
    delete_webhook_endpoint, send_webhook_test FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_webhook_endpoint, change_webhook_endpoint, rotate_webhook_secret,
    enable_webhook_endpoint, delete_webhook_endpoint, send_webhook_test TO punctual_api;
GRANT EXECUTE ON FUNCTION disable_webhook_endpoint TO punctual_api, punctual_worker;
GRANT EXECUTE ON FUNCTION ensure_webhook_days, drop_drained_webhook_days TO punctual_owner, punctual_worker;

-- All but the secrets.
GRANT SELECT (id, actor_id, url, description, event_types, previous_secret_until, max_concurrency, disabled_at,
    disabled_reason, owed_until, skipped, created_at, changed_at, deleted_at, version, failing_since, last_success_at,
    hold_until) ON webhook_endpoints TO punctual_api, punctual_owner;
GRANT SELECT ON webhook_endpoint_acts, webhook_deliveries, webhook_tries TO punctual_api, punctual_owner;
-- A resend.
GRANT UPDATE (status, next_try_at, rung, lease_holder, lease_until, fence, delivered_at)
    ON webhook_deliveries TO punctual_api;
-- The sender's, and the keeper's.
GRANT SELECT ON webhook_endpoints, webhook_endpoint_acts, webhook_deliveries, webhook_tries TO punctual_worker;
GRANT UPDATE (failing_since, last_success_at, hold_until, skipped) ON webhook_endpoints TO punctual_worker;
GRANT INSERT ON webhook_deliveries, webhook_tries TO punctual_worker;
GRANT UPDATE (status, next_try_at, tries, rung, lease_holder, lease_until, fence, last_status, last_error,
    delivered_at) ON webhook_deliveries TO punctual_worker;

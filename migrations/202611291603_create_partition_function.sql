-- Day partitions, made ahead by the owner role, and what each role may do.

SET lock_timeout = '5s';

-- Makes one partition apart and attaches it: CREATE TABLE … PARTITION OF would take an exclusive
-- lock on the parent. The CHECK saves the attach a scan.
CREATE FUNCTION ensure_partition(parent text, key text, day date, storage text) RETURNS boolean
    LANGUAGE plpgsql AS $$
DECLARE
    child text := parent || '_' || to_char(day, 'YYYYMMDD');
    low text := CASE WHEN key = 'due_day' THEN day::text ELSE day::text || ' 00:00:00+00' END;
    high text := CASE WHEN key = 'due_day' THEN (day + 1)::text ELSE (day + 1)::text || ' 00:00:00+00' END;
BEGIN
    IF to_regclass(child) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE,
                    CONSTRAINT bounds CHECK (%I IS NOT NULL AND %I >= %L AND %I < %L)) WITH (%s)',
                   child, parent, key, key, low, key, high, storage);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, child, low, high);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT bounds', child);
    IF parent = 'payment_history' THEN
        -- A parent's TRUNCATE trigger does not guard its partitions.
        EXECUTE format('CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON %I
                        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', child);
    END IF;
    EXECUTE format('ANALYZE %I', child);
    RETURN true;
END
$$;

-- Makes every missing partition of the days from..to (both included); answers how many.
CREATE FUNCTION ensure_partitions(from_day date, to_day date) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog SET timezone = 'UTC' AS $$
DECLARE
    day date := from_day;
    made integer := 0;
    -- History is partitioned by the time of writing: no row of next year exists yet. Seven weeks
    -- ahead outlast a keeper that nobody missed for a month.
    last_history_day date := (now() AT TIME ZONE 'UTC')::date + 49;
BEGIN
    -- Two keepers at once: the second waits and then finds everything made.
    PERFORM pg_advisory_xact_lock(7016996765293437281);
    WHILE day <= to_day LOOP
        -- Claim and settle change `status`, which index predicates read, so no update of theirs is
        -- HOT; the free space serves renewals, wishes and counters.
        made := made
            + ensure_partition('payments', 'due_day', day, 'fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05')::int
            + ensure_partition('payment_details', 'due_day', day, 'fillfactor = 100')::int
            + ensure_partition('attempts', 'due_day', day, 'fillfactor = 80')::int
            + ensure_partition('due_notices', 'not_before', day,
                               'autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000')::int;
        IF day <= last_history_day THEN
            made := made + ensure_partition('payment_history', 'at', day, 'fillfactor = 100')::int;
        END IF;
        day := day + 1;
    END LOOP;
    RETURN made;
END
$$;

-- Which of the days from..to lack a partition. Answered first, so that a keeper with nothing to do
-- takes no lock, and days can be made a few at a time: all at once would exhaust the lock table.
CREATE FUNCTION missing_days(from_day date, to_day date) RETURNS SETOF date
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_catalog SET timezone = 'UTC' AS $$
    SELECT d::date
    FROM generate_series(from_day::timestamp, to_day::timestamp, interval '1 day') AS d
    CROSS JOIN LATERAL (SELECT to_char(d, 'YYYYMMDD') AS day) AS n
    WHERE to_regclass('payments_' || n.day) IS NULL OR to_regclass('payment_details_' || n.day) IS NULL
       OR to_regclass('attempts_' || n.day) IS NULL
       OR to_regclass('due_notices_' || n.day) IS NULL
       OR to_regclass('payment_history_' || n.day) IS NULL AND d::date <= (now() AT TIME ZONE 'UTC')::date + 49
    ORDER BY 1
$$;

-- Moves the oldest open day up to the first day that still has an open row, at most to the day
-- before yesterday: a create whose due day has just ended may still be on its way to its COMMIT.
-- (A create for an older day than that lowers the mark itself, under the same row lock.)
CREATE FUNCTION advance_oldest_open_day() RETURNS date
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog SET timezone = 'UTC' AS $$
DECLARE
    day date;
    last date := (now() AT TIME ZONE 'UTC')::date - 2;
    found_open boolean;
BEGIN
    SELECT oldest_open_day INTO day FROM installation FOR UPDATE;
    WHILE day < last LOOP
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM payments WHERE due_day = %L
            AND status IN (''PENDING'', ''UNKNOWN'')) OR EXISTS (SELECT 1 FROM payments WHERE due_day = %L
            AND status = ''PROCESSING'')', day, day) INTO found_open;
        EXIT WHEN found_open;
        day := day + 1;
    END LOOP;
    UPDATE installation SET oldest_open_day = day WHERE oldest_open_day <> day;
    RETURN day;
END
$$;

-- Drops partitions of the outbox more than `back` days old whose rows are all published: those that
-- ensure_partitions, called with the same number, does not make again.
CREATE FUNCTION drop_drained_notices(back integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog SET timezone = 'UTC'
    -- What waits for these locks waits behind us: rather not today.
    SET lock_timeout = '500ms' AS $$
DECLARE
    child record;
    empty boolean;
    dropped integer := 0;
BEGIN
    FOR child IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'due_notices'::regclass
          AND c.relname < 'due_notices_' || to_char((now() AT TIME ZONE 'UTC')::date - back, 'YYYYMMDD')
        ORDER BY c.relname
    LOOP
        EXECUTE format('SELECT NOT EXISTS (SELECT 1 FROM %I)', child.relname) INTO empty;
        CONTINUE WHEN NOT empty;
        -- Under the lock nobody can have written between the look and the drop. Parent first, as
        -- every statement does.
        LOCK TABLE ONLY due_notices IN ACCESS EXCLUSIVE MODE;
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', child.relname);
        EXECUTE format('SELECT NOT EXISTS (SELECT 1 FROM %I)', child.relname) INTO empty;
        CONTINUE WHEN NOT empty;
        EXECUTE format('DROP TABLE %I', child.relname);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
EXCEPTION WHEN lock_not_available THEN
    -- Rolled back to the start; the next pass tries again.
    RETURN 0;
END
$$;

REVOKE ALL ON FUNCTION ensure_partition, ensure_partitions, missing_days, advance_oldest_open_day,
    drop_drained_notices, quarantine, release_lineage FROM PUBLIC;

GRANT USAGE ON SCHEMA public TO punctual_owner, punctual_api, punctual_worker;
GRANT SELECT ON installation, _sqlx_migrations TO punctual_owner, punctual_api, punctual_worker;
-- Only create for a day long past touches it, and only downwards.
GRANT UPDATE (oldest_open_day) ON installation TO punctual_api;
GRANT SELECT ON payments, payment_details, attempts, payment_history, due_notices, idempotency_keys,
    external_ids, gateway_refs, parked, bad_notices, gateways, workers, actors, relay_shards
    TO punctual_api, punctual_worker;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO punctual_owner;
GRANT INSERT, UPDATE ON actors, api_keys TO punctual_owner;
GRANT SELECT ON api_keys TO punctual_api;
GRANT INSERT ON payments, payment_details, payment_history, due_notices, idempotency_keys, external_ids TO punctual_api;
GRANT UPDATE (status, status_reason, last_moved_at, history_seq, history_hash, last_xid, cancel_wish_at)
    ON payments TO punctual_api;
GRANT DELETE ON external_ids TO punctual_api;
GRANT UPDATE (last_used_at) ON api_keys TO punctual_api;

GRANT UPDATE (status, status_reason, next_attempt_at, attempt, sends, held_back, held_back_since, asks, epoch,
    epoch_first_sent_at, unanswered, request_hash, gateway_account, renderer, intent_ref, gateway_ref, fence,
    claim_id, lease_until, last_moved_at, history_seq, history_hash, last_xid) ON payments TO punctual_worker;
GRANT INSERT, UPDATE ON attempts TO punctual_worker;
GRANT INSERT ON payment_history, gateway_refs, parked, bad_notices TO punctual_worker;
GRANT UPDATE ON parked TO punctual_worker;
GRANT INSERT, DELETE ON due_notices TO punctual_worker;
GRANT DELETE ON external_ids TO punctual_worker;
GRANT INSERT, UPDATE ON relay_shards, workers, publisher_cursor TO punctual_worker;
GRANT SELECT ON publisher_cursor TO punctual_worker;
GRANT EXECUTE ON FUNCTION ensure_partitions, missing_days, advance_oldest_open_day, drop_drained_notices,
    quarantine TO punctual_owner, punctual_worker;
GRANT EXECUTE ON FUNCTION release_lineage TO punctual_owner;
GRANT INSERT ON gateways TO punctual_worker;

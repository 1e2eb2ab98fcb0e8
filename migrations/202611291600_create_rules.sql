-- What every table stands on: the three roles, the table of legal moves, the history hash and the
-- lineage of this database (R17).

SET lock_timeout = '5s';

-- Roles belong to the whole cluster, so another database of it may make them at the same instant.
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['punctual_owner', 'punctual_api', 'punctual_worker'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = role) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role);
            END IF;
            -- A process takes the role of its work with SET ROLE. Superusers may without being told.
            IF NOT pg_has_role(session_user, role, 'MEMBER') THEN
                EXECUTE format('GRANT %I TO %I', role, session_user);
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END LOOP;
END
$$;

-- The legal moves of domain/state.rs, held equal to it by a test. '-' is "did not exist".
CREATE FUNCTION is_legal_move(was text, cause text, became text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (was, cause, became) IN (
        ('-', 'created', 'PENDING'),
        ('PENDING', 'claimed', 'PROCESSING'),
        ('PENDING', 'cancelled', 'CANCELLED'),
        ('PENDING', 'deadline_passed', 'FAILED'),
        ('PENDING', 'reconciled', 'PARKED'),
        ('PENDING', 'poisoned', 'PARKED'),
        ('PROCESSING', 'settled', 'COMPLETED'),
        ('PROCESSING', 'settled', 'FAILED'),
        ('PROCESSING', 'settled', 'PENDING'),
        ('PROCESSING', 'settled', 'UNKNOWN'),
        ('PROCESSING', 'settled', 'PARKED'),
        ('PROCESSING', 'settled', 'CANCELLED'),
        ('PROCESSING', 'poisoned', 'PARKED'),
        ('PROCESSING', 'lease_expired', 'UNKNOWN'),
        ('UNKNOWN', 'claimed', 'PROCESSING'),
        ('UNKNOWN', 'reconciled', 'COMPLETED'),
        ('UNKNOWN', 'reconciled', 'PARKED'),
        ('UNKNOWN', 'poisoned', 'PARKED'),
        ('PARKED', 'redriven', 'PENDING'),
        ('PARKED', 'redriven', 'UNKNOWN'),
        ('PARKED', 'resolved', 'COMPLETED'),
        ('PARKED', 'reconciled', 'COMPLETED'),
        ('PARKED', 'resolved', 'FAILED'),
        ('PARKED', 'resolved', 'CANCELLED'),
        ('COMPLETED', 'refunded', 'REFUNDED'),
        ('PARKED', 'refunded', 'REFUNDED'),
        ('FAILED', 'repaired', 'COMPLETED'),
        ('CANCELLED', 'repaired', 'COMPLETED')
    ) OR (cause IN ('fenced', 'cancel_wished', 'noted') AND was = became);

-- One field of the hashed text form: its length in bytes, a colon, the text. STRICT would turn a
-- missing field into a missing hash; every caller passes none.
CREATE FUNCTION hash_field(value text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN octet_length(value)::text || ':' || value;

-- sha256(previous hash ‖ eleven fields), equal to domain/history.rs (a test holds it so).
CREATE FUNCTION history_hash(
    prev bytea, payment uuid, seq integer, was text, became text, cause text, done_by text,
    fence bigint, attempt integer, epoch integer, at timestamptz, detail text
) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN sha256(prev || convert_to(
        hash_field(payment::text) || hash_field(seq::text) || hash_field(was) || hash_field(became)
        || hash_field(cause) || hash_field(done_by) || hash_field(fence::text) || hash_field(attempt::text)
        || hash_field(epoch::text) || hash_field((extract(epoch FROM at) * 1000000)::bigint::text)
        || hash_field(detail), 'UTF8'));

-- The identity of this database: system identifier and current timeline. A restored copy keeps the
-- identifier but gets a new timeline; a promoted standby as well.
CREATE FUNCTION current_lineage() RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog
    AS $$ SELECT system_identifier::text || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
          FROM pg_control_system() $$;

CREATE TABLE installation (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    -- Rules R17 and R18 compute with it. Made once, never changed.
    secret bytea NOT NULL CHECK (octet_length(secret) = 32),
    -- Workers claim only while current_lineage() equals this.
    released_lineage text NOT NULL,
    -- No payment on a due day before this one can be claimed, expire or miss its deadline.
    oldest_open_day date NOT NULL,
    -- Set when commits were proven lost (R17); claims stop until an operator releases the lineage.
    quarantined_at timestamptz,
    quarantine_reason text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Two random UUIDs carry 244 random bits; hashed to 32 bytes.
INSERT INTO installation (secret, released_lineage, oldest_open_day)
VALUES (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), current_lineage(),
        (now() AT TIME ZONE 'UTC')::date - 2);

CREATE FUNCTION lineage_is_released() RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_catalog
    AS $$ SELECT quarantined_at IS NULL AND released_lineage = current_lineage() FROM installation $$;

-- Stops every claim at once; the first reason stays.
CREATE FUNCTION quarantine(why text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_catalog
    AS $$ UPDATE installation SET quarantined_at = clock_timestamp(), quarantine_reason = why
          WHERE quarantined_at IS NULL $$;

-- An operator's word, after reconciliation: this database, as it is now, may claim.
CREATE FUNCTION release_lineage() RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_catalog
    AS $$ UPDATE installation
          SET released_lineage = current_lineage(), quarantined_at = NULL, quarantine_reason = NULL $$;

-- Aborts a create whose external id another live payment holds: the statement is its own
-- transaction, so that nothing of it may stay.
CREATE FUNCTION refuse_external_id() RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'the external id is taken' USING ERRCODE = 'PU001';
END
$$;

CREATE FUNCTION refuse_change() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: history is append-only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;

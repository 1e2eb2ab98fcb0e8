-- What an actor may create in one day: how much of a currency, and how many payments.

SET lock_timeout = '5s';

CREATE TABLE actor_caps (
    actor_id uuid NOT NULL REFERENCES actors,
    currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    -- Null: no cap of this kind. Zero: nothing.
    amount_minor bigint CHECK (amount_minor >= 0),
    payments integer CHECK (payments >= 0),
    set_at timestamptz NOT NULL,
    PRIMARY KEY (actor_id, currency),
    CONSTRAINT caps_something CHECK (num_nonnulls(amount_minor, payments) > 0)
);

-- What was created on a day of UTC by an actor that has a cap, since it has it. One row for each currency, and
-- each create of such an actor waits for the one before: room on the page for its versions, and vacuumed often.
CREATE TABLE actor_days (
    actor_id uuid NOT NULL,
    day date NOT NULL,
    currency text NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    payments integer NOT NULL CHECK (payments > 0),
    PRIMARY KEY (actor_id, day, currency)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

GRANT SELECT ON actor_caps, actor_days TO punctual_api, punctual_owner;
GRANT INSERT, UPDATE (amount_minor, payments) ON actor_days TO punctual_api;
-- The keeper's.
GRANT SELECT, DELETE ON actor_days TO punctual_worker;

-- Ends create.sql with nothing of it left, as refuse_external_id() does.
CREATE FUNCTION refuse_daily_cap(which text) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the daily cap of % is reached', which
        USING ERRCODE = CASE which WHEN 'amount' THEN 'PU002' ELSE 'PU003' END;
END
$$;

-- A function of the owner: the interface's role may not write caps.
CREATE FUNCTION set_actor_cap(
    of_actor text, of_currency text, most_minor bigint, most_payments integer, by_operator text, why text
) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    owner_id uuid;
    at timestamptz := clock_timestamp();
BEGIN
    SELECT a.id INTO owner_id FROM actors a WHERE a.name = of_actor;
    IF owner_id IS NULL THEN
        RETURN false;
    END IF;
    IF num_nonnulls(most_minor, most_payments) = 0 THEN
        DELETE FROM actor_caps c WHERE c.actor_id = owner_id AND c.currency = of_currency;
    ELSE
        INSERT INTO actor_caps AS c (actor_id, currency, amount_minor, payments, set_at)
        VALUES (owner_id, of_currency, most_minor, most_payments, at)
        ON CONFLICT (actor_id, currency) DO UPDATE SET
            amount_minor = excluded.amount_minor, payments = excluded.payments, set_at = excluded.set_at;
    END IF;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, by_operator, 'actor_cap_set', 'actor:' || of_actor, why, jsonb_build_object(
        'currency', of_currency, 'amount', most_minor, 'payments', most_payments));
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION set_actor_cap FROM PUBLIC;
GRANT EXECUTE ON FUNCTION set_actor_cap TO punctual_api, punctual_owner;

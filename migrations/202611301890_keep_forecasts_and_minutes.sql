-- What people look at, kept by the keeper: how many claims each of the next days brings, and what the last minutes
-- brought. Nobody who looks counts a month or reads a history.

SET lock_timeout = '5s';

-- A row a gateway and day of the next month, written over each time it is counted again. A cache and no truth: what
-- it says was so at counted_at, and whoever shows it says when that was. No trigger and no counter keeps it, because
-- every create of a minute would wait for the same row.
CREATE TABLE forecast_days (
    gateway text NOT NULL,
    day date NOT NULL,
    -- Of today what was left of it, of any other day its midnight.
    from_at timestamptz NOT NULL,
    due bigint NOT NULL CHECK (due >= 0),
    -- False: counting stopped at a minute that holds more than one statement counts.
    is_exact boolean NOT NULL,
    first_at timestamptz,
    counted_at timestamptz NOT NULL,
    -- How long counting took, which says how soon it may be repeated.
    took interval NOT NULL CHECK (took >= interval '0'),
    PRIMARY KEY (gateway, day),
    CONSTRAINT counts_its_own_day CHECK (
        from_at >= (day::timestamp AT TIME ZONE 'UTC') AND from_at < ((day + 1)::timestamp AT TIME ZONE 'UTC')),
    CONSTRAINT first_of_some CHECK ((first_at IS NULL) = (due = 0))
) WITH (fillfactor = 50);

GRANT SELECT ON forecast_days TO punctual_api, punctual_owner;
GRANT SELECT, INSERT, UPDATE, DELETE ON forecast_days TO punctual_worker;

-- What happened in each of the last minutes, for people: the keeper adds up the history once, so that nobody who looks
-- reads it again.
CREATE TABLE minutes (
    minute timestamptz PRIMARY KEY CHECK (minute = date_trunc('minute', minute, 'UTC')),
    -- Payments whose due instant lies in it, without cancelled ones; null until it has passed and was counted.
    due bigint,
    claimed bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    parked bigint NOT NULL DEFAULT 0,
    unknown bigint NOT NULL DEFAULT 0,
    retried bigint NOT NULL DEFAULT 0,
    -- First claims by how long after the due instant they were: below each bound of domain/lateness.rs, and beyond.
    late bigint[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

-- How far the history has been added up: the last row, in the publisher's order, and the server whose transaction ids
-- these are. It starts now: what lies before it was before anybody looked.
CREATE TABLE minutes_cursor (
    is_one boolean PRIMARY KEY DEFAULT true CHECK (is_one),
    server text NOT NULL,
    xid xid8 NOT NULL,
    seq integer NOT NULL,
    payment_id uuid NOT NULL
);
INSERT INTO minutes_cursor (server, xid, seq, payment_id)
VALUES (split_part(current_lineage(), '/', 1), pg_snapshot_xmin(pg_current_snapshot()), 0,
        '00000000-0000-0000-0000-000000000000');

GRANT SELECT ON minutes, minutes_cursor TO punctual_api, punctual_owner;
GRANT SELECT, INSERT, UPDATE, DELETE ON minutes TO punctual_worker;
GRANT SELECT, UPDATE ON minutes_cursor TO punctual_worker;

-- What the workers of one gateway account share: its rate, its slots, its pause, its breaker.

SET lock_timeout = '5s';

-- One narrow row an account, changed a few times a second by every worker with work, and read by the others:
-- what is shared lies in it whole, so one conditional update is one step of it (domain/pace.rs).
CREATE TABLE gateway_pace (
    gateway text PRIMARY KEY,
    -- Grows with every change: who read an older one has to read again.
    beats bigint NOT NULL DEFAULT 0,
    -- Until then calls are reserved.
    charges_free_at timestamptz NOT NULL,
    lookups_free_at timestamptz NOT NULL,
    -- Thousandths of the configured rate that were left when the gateway refused some for it.
    throttle integer NOT NULL CHECK (throttle BETWEEN 1 AND 1000),
    throttled_at timestamptz,
    paused_until timestamptz,
    breaker text NOT NULL CHECK (breaker IN ('closed', 'open', 'half_open')),
    breaker_until timestamptz CHECK ((breaker_until IS NULL) = (breaker = 'closed')),
    prober text CHECK ((prober IS NULL) = (breaker <> 'half_open')),
    trips integer NOT NULL CHECK (trips >= 0),
    closed_at timestamptz,
    -- Calls of the last ten seconds, the newest first, and those of them that failed.
    newest_second bigint NOT NULL,
    calls integer[] NOT NULL CHECK (cardinality(calls) = 10),
    failed integer[] NOT NULL CHECK (cardinality(failed) = 10),
    -- Workers among whom something is shared, and what each of them said.
    lanes text[] NOT NULL,
    heard_at timestamptz[] NOT NULL CHECK (cardinality(heard_at) = cardinality(lanes)),
    demands integer[] NOT NULL CHECK (cardinality(demands) = cardinality(lanes)),
    slots integer[] NOT NULL CHECK (cardinality(slots) = cardinality(lanes))
    -- Room for the row's next versions: no index knows what changes, so they stay on its page.
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

GRANT SELECT, INSERT, UPDATE ON gateway_pace TO punctual_worker;
GRANT SELECT ON gateway_pace TO punctual_api, punctual_owner;

-- Never used; what they were for lies above.
ALTER TABLE gateways DROP COLUMN breaker, DROP COLUMN breaker_until;

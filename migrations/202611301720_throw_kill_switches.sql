-- What people switch off, and what they say about a gateway.

SET lock_timeout = '5s';

-- Rows exist only while a switch is thrown: every claim reads all of them, and a switch that was taken back costs
-- nothing. Who did what, and why, is in operator_acts for good.
CREATE TABLE kill_switches (
    kind text NOT NULL CHECK (kind IN ('global', 'gateway', 'actor', 'currency')),
    -- 'all', a gateway's name, an actor's id, or a currency's code, as claim.sql compares it.
    value text NOT NULL CHECK (length(value) BETWEEN 1 AND 64),
    thrown_by text NOT NULL,
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    thrown_at timestamptz NOT NULL,
    PRIMARY KEY (kind, value),
    CHECK (kind <> 'global' OR value = 'all')
);

GRANT SELECT ON kill_switches TO punctual_worker, punctual_owner;
GRANT SELECT, INSERT, DELETE ON kill_switches TO punctual_api;
GRANT UPDATE (thrown_by, reason) ON kill_switches TO punctual_api;

ALTER TABLE gateways
    -- As its workers are configured: what the interface may promise.
    ADD COLUMN offers_refunds boolean NOT NULL DEFAULT false,
    ADD COLUMN paused_by text,
    ADD COLUMN pause_reason text,
    -- Calls a second that an operator allows, below what is configured; null: what is configured.
    ADD COLUMN rate_limit integer CHECK (rate_limit >= 1),
    ADD CONSTRAINT a_pause_has_somebody
        CHECK ((paused_at IS NULL) = (paused_by IS NULL) AND (paused_at IS NULL) = (pause_reason IS NULL));
GRANT UPDATE (paused_at, paused_by, pause_reason, rate_limit, updated_at) ON gateways TO punctual_api;
GRANT UPDATE (offers_refunds) ON gateways TO punctual_worker;

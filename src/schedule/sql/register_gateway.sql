-- Called at start by every role that claims: the account behind a gateway's name is written down once, and
-- whether it voids by key as its newest worker is configured, for the cancels that ask (wish.sql).
-- Index: the primary key. One row, always: the account on record (R4: it is not edited by configuration). The
-- row is written whatever it says, because only a written row is sure to be answered: one that another worker
-- committed while this statement waited is in no snapshot of ours.
--   $1 name   $2 account   $3 voids by key
INSERT INTO gateways (name, account, voids_by_key) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET
    -- A worker of another account stops at once, and has nothing to say about this one.
    voids_by_key = CASE WHEN gateways.account = excluded.account
        THEN excluded.voids_by_key ELSE gateways.voids_by_key END,
    updated_at = CASE WHEN gateways.account = excluded.account AND gateways.voids_by_key <> excluded.voids_by_key
        THEN clock_timestamp() ELSE gateways.updated_at END
RETURNING account

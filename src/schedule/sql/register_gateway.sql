-- Called at start by every role that claims: the account behind a gateway's name is written down once.
-- Index: the primary key. One row, always: the account on record (R4: it is not edited by configuration).
--   $1 name   $2 account
WITH new AS (
    INSERT INTO gateways (name, account) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING account
)
SELECT account FROM new UNION ALL SELECT account FROM gateways WHERE name = $1
LIMIT 1

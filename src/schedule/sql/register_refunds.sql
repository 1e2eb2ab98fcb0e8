-- Called at start by every role that claims, after register_gateway.sql: whether refunds of this account can be
-- asked for, as its newest worker is configured.
-- Index: the primary key. Zero rows changed: it is on record so.
--   $1 name   $2 offers refunds
UPDATE gateways g SET offers_refunds = $2 WHERE g.name = $1 AND g.offers_refunds <> $2

-- A client may wish to cancel a payment whose outcome is unknown, where the gateway voids by key.

SET lock_timeout = '5s';

-- As its workers are configured: what a cancel may promise must be known in the cancel's own transaction,
-- and the interface has no word with the gateway.
ALTER TABLE gateways ADD COLUMN voids_by_key boolean NOT NULL DEFAULT false;
GRANT UPDATE (voids_by_key, updated_at) ON gateways TO punctual_worker;

-- A wish makes an unknown payment due at once; the column of the wish itself was granted before.
GRANT UPDATE (next_attempt_at) ON payments TO punctual_api;

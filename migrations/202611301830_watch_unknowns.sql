-- Payments of unknown outcome are few and watched all the time: an index that only they pay for.

SET lock_timeout = '5s';

-- The keeper's gauges. A row enters it when its outcome becomes unknown and leaves it with the next claim.
CREATE INDEX payments_unknown ON payments (epoch_first_sent_at) WHERE status = 'UNKNOWN';

-- Payments of unknown outcome are few and watched all the time: an index that only they pay for.

SET lock_timeout = '5s';

-- The keeper's gauges. A row enters it when its outcome becomes unknown and leaves it with the next claim. Of the parent
-- alone, which is done at once: partitions that are there get theirs one after the other, beside the writes of a live
-- installation, when the migrations are done (next_index.sql).
CREATE INDEX payments_unknown ON ONLY payments (epoch_first_sent_at) WHERE status = 'UNKNOWN';

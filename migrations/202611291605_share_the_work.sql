-- Relays know of each other, so that each takes its share of the shards; workers know of one that left.

SET lock_timeout = '5s';

-- One row a running relay, also of one that holds no shard: without it nobody would leave it any.
CREATE TABLE relays (
    -- Of the ring that it writes.
    partitions integer NOT NULL,
    holder text NOT NULL,
    -- Since when it has been here without a gap: the oldest ones get what does not divide evenly, so a
    -- newcomer disturbs as few shards as possible.
    since timestamptz NOT NULL,
    -- Alive until then, unless it says so again.
    until timestamptz NOT NULL,
    PRIMARY KEY (partitions, holder)
) WITH (fillfactor = 50);

GRANT SELECT, INSERT, UPDATE, DELETE ON relays TO punctual_worker;
GRANT SELECT ON relays TO punctual_api, punctual_owner;

-- Until then the partitions of a worker that went away may wait for it, and the others look after the
-- payments in them.
ALTER TABLE workers ADD COLUMN away_until timestamptz;

-- The publisher's cursor becomes a lease with a fencing epoch, and knows which days it has behind it.

SET lock_timeout = '5s';

ALTER TABLE publisher_cursor
    ADD COLUMN holder text NOT NULL DEFAULT '',
    -- Grows with every change of hands; checked by the statement that moves the cursor.
    ADD COLUMN epoch bigint NOT NULL DEFAULT 0,
    ADD COLUMN until timestamptz NOT NULL DEFAULT '-infinity',
    -- No history row after the cursor has an older `at`: what bounds the days that a pass reads.
    ADD COLUMN floor_at timestamptz NOT NULL DEFAULT '1970-01-01 00:00:00+00',
    -- Every transaction with a higher xid than mark_xid began to write after mark_at. Once the cursor
    -- has passed that xid, the floor may follow to a day before that instant.
    ADD COLUMN mark_at timestamptz NOT NULL DEFAULT '1970-01-01 00:00:00+00',
    ADD COLUMN mark_xid xid8 NOT NULL DEFAULT '0';

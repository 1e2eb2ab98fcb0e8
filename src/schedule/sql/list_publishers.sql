-- Called by crew: who leads the publishing of events.
-- Index: the primary key. Zero rows: nobody does.
SELECT c.holder, c.epoch, c.until
FROM publisher_cursor c
WHERE c.lane = 'events' AND c.until > statement_timestamp()

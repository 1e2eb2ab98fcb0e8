-- Called by enlist_relay: says that this relay lives, and answers where it stands among those that do.
-- Index: the primary key; the table has a handful of rows. One row, always.
--   $1 partitions   $2 holder   $3 for how long
WITH me AS (
    INSERT INTO relays AS r (partitions, holder, since, until)
    VALUES ($1, $2, clock_timestamp(), clock_timestamp() + $3::interval)
    ON CONFLICT (partitions, holder) DO UPDATE SET
        since = CASE WHEN r.until < clock_timestamp() THEN excluded.since ELSE r.since END,
        until = excluded.until
    RETURNING since
), forgotten AS (
    -- Names with a process id in them do not come back.
    DELETE FROM relays r
    USING (SELECT d.partitions, d.holder FROM relays d
           WHERE d.until < clock_timestamp() - interval '1 hour' AND (d.partitions, d.holder) <> ($1, $2)
           FOR UPDATE SKIP LOCKED) AS dead
    WHERE r.partitions = dead.partitions AND r.holder = dead.holder
)
SELECT count(r.holder) AS others,
       count(r.holder) FILTER (WHERE (r.since, r.holder) < (me.since, $2)) AS older
FROM me
LEFT JOIN relays r ON r.partitions = $1 AND r.holder <> $2 AND r.until >= clock_timestamp()

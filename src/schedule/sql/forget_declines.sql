-- Called by the keeper: counts that no claim looks at any more.
-- Index: destination_declines_by_hour, then the primary key. No rows are answered, only how many went.
--   $1 at most so many
DELETE FROM destination_declines d
USING (
    SELECT c.destination, c.hour
    FROM destination_declines c
    WHERE c.hour < statement_timestamp() - interval '31 days'
    ORDER BY c.hour
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) AS old
WHERE d.destination = old.destination AND d.hour = old.hour

-- Called by note_key_uses, behind requests. No row changed: all were noted within the last minute, or are
-- being noted by another process. Index: the primary key.
--   $1 keys
WITH due AS (
    -- Skipped where somebody else is at it: two batches in different orders would wait for each other.
    SELECT k.id FROM api_keys k
    WHERE k.id = ANY($1) AND (k.last_used_at IS NULL OR k.last_used_at < clock_timestamp() - interval '50 seconds')
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE api_keys k SET last_used_at = clock_timestamp() FROM due d WHERE k.id = d.id

-- Called by the keeper: callbacks older than any sender repeats them. One that comes later all the same is a
-- new hint, and harmless.
-- Index: gateway_callbacks_by_age, then the primary key. No rows are answered, only how many went.
--   $1 at most so many
DELETE FROM gateway_callbacks g
USING (
    SELECT c.gateway, c.webhook_id
    FROM gateway_callbacks c
    WHERE c.received_at < statement_timestamp() - interval '7 days'
    ORDER BY c.received_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) AS old
WHERE g.gateway = old.gateway AND g.webhook_id = old.webhook_id

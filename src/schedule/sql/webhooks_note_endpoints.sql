-- Called by note_webhooks, after webhooks_note in its transaction: how these endpoints are. One that has failed
-- for a while rests about as long as it has failed already, so that it is asked less and less often; a success
-- ends that. Locked in the order of ids, as take_webhooks does.
-- Index: the primary key. A missing row: a success after a success, which is written every 10 s; or something was done
-- to the endpoint since it was called, and what was met says nothing of it.
--   $1 endpoints   $2 whether a try succeeded   $3 asked us to wait so many microseconds   $4 longest rest
--   $5 disabled after   $6 versions that were called
WITH met AS (
    SELECT * FROM unnest($1::uuid[], $2::boolean[], $3::bigint[], $6::int[]) AS m (id, succeeded, wait_us, version)
),
held AS (
    SELECT e.id FROM webhook_endpoints e WHERE e.id = ANY ($1) ORDER BY e.id FOR NO KEY UPDATE
)
UPDATE webhook_endpoints e SET
    failing_since = CASE WHEN m.succeeded THEN NULL ELSE coalesce(e.failing_since, statement_timestamp()) END,
    last_success_at = CASE WHEN m.succeeded THEN statement_timestamp() ELSE e.last_success_at END,
    hold_until = CASE
        WHEN m.wait_us > 0 THEN statement_timestamp() + m.wait_us * interval '1 microsecond'
        WHEN m.succeeded THEN NULL
        WHEN e.failing_since < statement_timestamp() - interval '1 second'
            THEN greatest(e.hold_until, statement_timestamp()
                          + least($4::interval, statement_timestamp() - e.failing_since))
        ELSE e.hold_until END
FROM met m JOIN held h ON h.id = m.id
WHERE e.id = m.id AND e.version = m.version
  AND (NOT m.succeeded OR m.wait_us > 0 OR e.failing_since IS NOT NULL OR e.hold_until IS NOT NULL
       OR e.last_success_at IS NULL OR e.last_success_at < statement_timestamp() - interval '10 seconds')
RETURNING e.id, coalesce(e.failing_since < statement_timestamp() - $5::interval, false) AS is_over

-- Called by take_webhooks: those of these endpoints that may be called now, held until its transaction ends, so
-- that no two processes count the same room. One that another process holds is left to it.
-- Index: the primary key. Zero rows: all of them are disabled, resting or held.
--   $1 endpoints
SELECT e.id, e.version, e.url, e.secret, e.max_concurrency,
       CASE WHEN e.previous_secret_until > statement_timestamp() THEN e.previous_secret END AS previous_secret
FROM webhook_endpoints e
WHERE e.id = ANY ($1) AND e.deleted_at IS NULL AND e.disabled_at IS NULL
  AND (e.hold_until IS NULL OR e.hold_until <= statement_timestamp())
ORDER BY e.id
FOR NO KEY UPDATE SKIP LOCKED

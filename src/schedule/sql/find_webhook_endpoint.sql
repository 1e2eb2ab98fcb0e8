-- Called by webhook_endpoint: one of an actor's own, without its secrets.
-- Index: the primary key. Zero rows: none of that id, another's, or deleted.
--   $1 endpoint   $2 actor
SELECT e.id, e.url, e.description, e.event_types, e.previous_secret_until, e.max_concurrency, e.disabled_at,
    e.disabled_reason, e.owed_until, e.skipped, e.created_at, e.changed_at, e.version, e.failing_since, e.last_success_at,
    e.hold_until, clock_timestamp() AS database_now
FROM webhook_endpoints e
WHERE e.id = $1 AND e.actor_id = $2 AND e.deleted_at IS NULL

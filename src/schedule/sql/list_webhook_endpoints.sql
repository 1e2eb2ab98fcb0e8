-- Called by webhook_endpoints: an actor's own, oldest first; they are few, since an actor may have only so many.
-- Index: webhook_endpoints_of_actor. Zero rows: it has none.
--   $1 actor
SELECT e.id, e.url, e.description, e.event_types, e.previous_secret_until, e.max_concurrency, e.disabled_at,
    e.disabled_reason, e.owed_until, e.skipped, e.created_at, e.changed_at, e.version, e.failing_since, e.last_success_at,
    e.hold_until, clock_timestamp() AS database_now
FROM webhook_endpoints e
WHERE e.actor_id = $1 AND e.deleted_at IS NULL
ORDER BY e.created_at, e.id

-- Called by beat_gateway: what is shared of an account, and the database's clock. Where nothing is shared and
-- nothing went wrong it is all that a beat does.
-- Index: the primary key. Zero rows: no worker asked for this account yet (make_pace.sql).
--   $1 gateway
SELECT clock_timestamp() AS now, p.beats, p.charges_free_at, p.lookups_free_at, p.throttle, p.throttled_at,
       p.paused_until, p.breaker, p.breaker_until, p.prober, p.trips, p.closed_at, p.newest_second, p.calls,
       p.failed, p.lanes, p.heard_at, p.demands, p.slots
FROM gateway_pace p
WHERE p.gateway = $1

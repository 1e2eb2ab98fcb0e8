-- Called by beat_gateway: what is shared of an account, the database's clock, and what people ordered: so a
-- switch is known to every worker with its next beat. Where nothing is shared and nothing went wrong it is all
-- that a beat does.
-- `kill_switches` and `gateways` have a handful of rows.
-- Index: the primary key. Zero rows: no worker asked for this account yet (make_pace.sql).
--   $1 gateway
SELECT clock_timestamp() AS now, p.beats, p.charges_free_at, p.lookups_free_at, p.throttle, p.throttled_at,
       p.paused_until, p.breaker, p.breaker_until, p.prober, p.trips, p.closed_at, p.newest_second, p.calls,
       p.failed, p.lanes, p.heard_at, p.demands, p.slots, p.breaker_cause, g.paused_at IS NOT NULL AS is_held, g.rate_limit,
       (SELECT array_agg(k.kind || ':' || k.value) FROM kill_switches k) AS switches
FROM gateway_pace p
LEFT JOIN gateways g ON g.name = p.gateway
WHERE p.gateway = $1

-- Called by gateways, for people: every account that a worker ever registered, with what its workers share.
-- Two tables with a handful of rows, read whole. Zero rows: no worker has started yet.
SELECT g.name, g.account, g.voids_by_key, g.offers_refunds, g.paused_at, g.paused_by, g.pause_reason, g.rate_limit,
       clock_timestamp() AS now, p.gateway IS NOT NULL AS is_paced, p.charges_free_at, p.lookups_free_at, p.throttle,
       p.throttled_at, p.paused_until, p.breaker, p.breaker_until, p.prober, p.trips, p.closed_at, p.newest_second,
       p.calls, p.failed, p.lanes, p.heard_at, p.demands, p.slots, p.breaker_cause,
       (SELECT array_agg(k.kind || ':' || k.value) FROM kill_switches k) AS switches
FROM gateways g
LEFT JOIN gateway_pace p ON p.gateway = g.name
ORDER BY g.name

-- Called by beat_gateway where there is no row yet: an account that nobody called.
-- Index: the primary key. Zero rows: another worker was first.
--   $1 gateway
INSERT INTO gateway_pace (gateway, charges_free_at, lookups_free_at, throttle, breaker, trips, newest_second,
                          calls, failed, lanes, heard_at, demands, slots)
SELECT $1, clock_timestamp(), clock_timestamp(), 1000, 'closed', 0, 0,
       array_fill(0, ARRAY[10]), array_fill(0, ARRAY[10]), '{}', '{}', '{}', '{}'
ON CONFLICT (gateway) DO NOTHING

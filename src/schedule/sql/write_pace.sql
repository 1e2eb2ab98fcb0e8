-- Called by beat_gateway: the next step of what is shared, if nobody else took one since it was read.
-- Index: the primary key. Zero rows: somebody did; read again.
-- Its commit does not wait for the disk, nor for a standby: after a crash the last moments of pacing are
-- forgotten, and by then they are over.
--   $1 gateway   $2 beats as read   $3 …   the columns
UPDATE gateway_pace p SET
    beats = p.beats + 1,
    charges_free_at = $3,
    lookups_free_at = $4,
    throttle = $5,
    throttled_at = $6,
    paused_until = $7,
    breaker = $8,
    breaker_until = $9,
    prober = $10,
    trips = $11,
    closed_at = $12,
    newest_second = $13,
    calls = $14,
    failed = $15,
    lanes = $16,
    heard_at = $17,
    demands = $18,
    slots = $19,
    breaker_cause = $20
FROM (SELECT set_config('synchronous_commit', 'off', true) AS how) AS commits
WHERE p.gateway = $1
  AND p.beats = $2
  AND commits.how = 'off'

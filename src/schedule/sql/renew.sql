-- Called by renew while calls are in flight at a gateway that may be slower than a lease, once per due day of a
-- batch (R14).
-- Index: the partition's primary key. A claim without a row in the answer is not its worker's any more: it
-- expired and was taken away, or its outcome is written.
--   $1 due day   $2 payment ids   $3 fences   $4 claim ids   $5 lease length
WITH moment AS MATERIALIZED (
    -- Before any lock is waited for: the lease can only be counted too short.
    SELECT clock_timestamp() AS at
), asked AS MATERIALIZED (
    SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::uuid[]) AS a (id, fence, claim_id)
), locked AS MATERIALIZED (
    -- In the order of ids, as every batch locks.
    SELECT p.id, p.status, p.fence, p.claim_id AS held_by
    FROM payments p
    WHERE p.due_day = $1 AND p.id = ANY ($2)
    ORDER BY p.id
    FOR UPDATE
)
UPDATE payments p SET
    -- Never shorter than it is: renewals may pass each other on their way.
    lease_until = greatest(p.lease_until, m.at + $5::interval)
FROM asked a, locked l, moment m
WHERE p.due_day = $1
  AND p.id = ANY ($2)
  AND p.id = a.id
  AND l.id = a.id
  -- The conditions stand on the locked row, as in claim.sql. An expired lease that nobody has taken away may
  -- be granted anew: until the reaper comes nobody else can have called the gateway.
  AND l.status = 'PROCESSING'
  AND l.fence = a.fence
  AND l.held_by = a.claim_id
RETURNING p.claim_id

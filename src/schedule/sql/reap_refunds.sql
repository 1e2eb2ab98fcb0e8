-- Called by reap_refunds: claims whose lease ran out. Whatever their worker did is not known.
-- Index: refunds_leased. Zero rows: none.
--   $1 margin   $2 how many
WITH due AS MATERIALIZED (
    SELECT r.id FROM refunds r
    WHERE r.status = 'sending' AND r.lease_until <= statement_timestamp() - $1::interval
    ORDER BY r.lease_until
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
UPDATE refunds r SET
    status = 'unknown', next_attempt_at = clock_timestamp(), asks = least(r.asks + 1, 32767), claim_id = NULL,
    lease_until = NULL, note = 'the lease ran out'
FROM due d
WHERE r.id = d.id AND r.status = 'sending'
RETURNING r.id

-- Called by settle_refund for one answer that came too late: kept as evidence on its own attempt, once, and the
-- refund is asked about at once (R2).
-- Index: the attempts' claim id, and the primary key. One row, always: whether this claim is known here, whether its
-- outcome was written before by the claim itself, whether the answer is kept now, and where the refund stands.
--   $1 refund id   $2 claim id   $3 verdict   $4 how   $5 code   $6 HTTP status   $7 milliseconds taken   $8 note
WITH kept AS (
    UPDATE refund_attempts t SET settled_at = clock_timestamp(), verdict = $3, how = $4, code = $5, http_status = $6,
        took_ms = $7, note = $8, fenced = true
    WHERE t.claim_id = $2 AND t.refund_id = $1 AND t.settled_at IS NULL
    RETURNING t.settled_at AS at
), asked AS (
    UPDATE refunds r SET next_attempt_at = least(coalesce(r.next_attempt_at, k.at), k.at)
    FROM kept k
    WHERE r.id = $1 AND r.status = 'unknown'
)
SELECT count(*) > 0 AS is_known,
       coalesce(bool_or(t.settled_at IS NOT NULL AND NOT t.fenced), false) AS was_written,
       EXISTS (SELECT 1 FROM kept) AS is_kept,
       (SELECT r.status FROM refunds r WHERE r.id = $1) AS status
FROM refund_attempts t
WHERE t.claim_id = $2 AND t.refund_id = $1

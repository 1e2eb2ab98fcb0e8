-- Called by stage for notices that are well past their instant, once per due day: those whose payment
-- has moved on are dropped, not published.
-- Index: the partition's primary key. A missing row: no such payment, or it cannot be claimed by this notice.
--   $1 due day   $2 payment ids   $3 attempts
SELECT a.id, a.attempt
FROM unnest($2::uuid[], $3::integer[]) AS a (id, attempt)
JOIN payments p ON p.due_day = $1 AND p.id = a.id AND p.attempt = a.attempt
WHERE p.due_day = $1 AND p.id = ANY ($2) AND p.status IN ('PENDING', 'UNKNOWN')

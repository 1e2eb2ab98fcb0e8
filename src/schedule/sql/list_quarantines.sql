-- Called for people: quarantines, the newest first; one that is open stands before all others.
-- Index: the primary key. Zero rows: there never was one.
--   $1 how many
SELECT q.id, q.since, q.kind, q.reason, q.released_lineage, q.found_lineage, q.lost_from, q.evidence_count, q.asked_by,
       q.asked_reason, CASE WHEN q.asked_at > statement_timestamp() - interval '1 day' THEN q.asked_at END AS asked_at,
       q.asked_to_override, q.released_at, q.released_by, q.released_reason, q.overridden, q.lost_from_by, q.proven_from,
       CASE WHEN jsonb_array_length(q.overridden) > 0
            THEN ARRAY(SELECT g.name FROM gateways_in_use() AS g (name) WHERE refunds_are_held(g.name) ORDER BY g.name)
            ELSE '{}' END AS refunds_held
FROM quarantines q
ORDER BY q.id DESC
LIMIT $1

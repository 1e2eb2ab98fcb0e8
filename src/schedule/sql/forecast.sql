-- Called by forecast and recount_forecast: how many claims of one gateway fall into each span of time and when the first one is,
-- no span read further than $6 rows; and for a span of whole days about how many rows its partition has.
-- Index: payments_claimable of each day that may have open rows, alone (index-only: hence the due day in
-- it); only the partitions of the days between $1 and $2. One row a span, in order.
--   $1 first due day   $2 last due day   $3 gateway   $4 starts of the spans   $5 ends   $6 most of a span
SELECT n.due, n.first_at, coalesce(pg_stat_get_live_tuples(to_regclass(
           'payments_' || to_char(s.from_at AT TIME ZONE 'UTC', 'YYYYMMDD'))), 0) AS live,
       statement_timestamp() AS counted_at
FROM unnest($4::timestamptz[], $5::timestamptz[]) WITH ORDINALITY AS s (from_at, until_at, place)
CROSS JOIN LATERAL (
    SELECT count(*) AS due, min(found.at) AS first_at
    FROM (SELECT p.next_attempt_at AS at
          FROM payments p
          WHERE p.due_day BETWEEN $1 AND $2
            AND p.gateway = $3
            AND p.status IN ('PENDING', 'UNKNOWN')
            AND p.next_attempt_at >= s.from_at AND p.next_attempt_at < s.until_at
          LIMIT $6) AS found
) AS n
ORDER BY s.place

-- Called by recent_calls: how long each gateway took lately, of the newest attempts of one day.
-- Index: the primary keys of the day's partitions of attempts and payments; ids begin with the due time. Zero rows:
-- nothing was sent for payments due between the two.
--   $1 due day   $2 lowest id   $3 lowest id behind   $4 how many at most
SELECT p.gateway, count(*) AS calls,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY t.took_ms) AS p50_ms,
       percentile_disc(0.99) WITHIN GROUP (ORDER BY t.took_ms) AS p99_ms,
       count(*) FILTER (WHERE t.verdict IN ('unknown', 'contract_violation')) AS unclear
FROM (SELECT a.payment_id, a.took_ms, a.verdict
      FROM attempts a
      WHERE a.due_day = $1 AND a.payment_id >= $2 AND a.payment_id < $3
      ORDER BY a.payment_id DESC, a.attempt DESC
      LIMIT $4) AS t
JOIN payments p ON p.due_day = $1 AND p.id = t.payment_id
WHERE t.took_ms IS NOT NULL
GROUP BY p.gateway
ORDER BY p.gateway

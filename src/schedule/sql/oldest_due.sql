-- Called by backlog (the keeper): the oldest row of each gateway that may be claimed now.
-- Index: payments_claimable of each open day, merged in order. One row a gateway on record; without an
-- instant where nothing of it is due.
--   $1 oldest open day   $2 today
SELECT g.name AS gateway,
       (SELECT p.next_attempt_at
        FROM payments p
        WHERE p.due_day BETWEEN $1 AND $2
          AND p.gateway = g.name
          AND p.status IN ('PENDING', 'UNKNOWN')
          AND p.next_attempt_at <= statement_timestamp()
        ORDER BY p.next_attempt_at
        LIMIT 1) AS since
FROM gateways g

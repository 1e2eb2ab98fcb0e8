-- Called by backlog (the keeper): how many payments stand where somebody should look, each counted up to $3,
-- how long ago the oldest unknown outcome was first sent, and how long ago the oldest open lease ended.
-- Index: payments_claimable (once a gateway), payments_leased and payments_unknown of each open day. One row, always.
--   $1 oldest open day   $2 today   $3 count at most
SELECT statement_timestamp() AS database_now,
       (SELECT count(*)
        FROM gateways g
        CROSS JOIN LATERAL (SELECT FROM payments p
                            WHERE p.due_day BETWEEN $1 AND $2
                              AND p.gateway = g.name
                              AND p.status IN ('PENDING', 'UNKNOWN')
                              AND p.next_attempt_at <= statement_timestamp()
                            LIMIT $3) AS n) AS due,
       (SELECT count(*)
        FROM (SELECT FROM payments p
              WHERE p.due_day BETWEEN $1 AND $2 AND p.status = 'PROCESSING' AND p.lease_until > '-infinity'
              LIMIT $3) AS n) AS processing,
       (SELECT count(*)
        FROM (SELECT FROM payments p
              WHERE p.due_day BETWEEN $1 AND $2 AND p.status = 'UNKNOWN' AND p.epoch_first_sent_at > '-infinity'
              LIMIT $3) AS n) AS unknown,
       (SELECT count(*) FROM (SELECT FROM parked LIMIT $3) AS n) AS parked,
       (SELECT p.epoch_first_sent_at
        FROM payments p
        WHERE p.due_day BETWEEN $1 AND $2 AND p.status = 'UNKNOWN'
        ORDER BY p.epoch_first_sent_at
        LIMIT 1) AS oldest_unknown,
       (SELECT p.lease_until
        FROM payments p
        WHERE p.due_day BETWEEN $1 AND $2 AND p.status = 'PROCESSING'
        ORDER BY p.lease_until
        LIMIT 1) AS oldest_lease

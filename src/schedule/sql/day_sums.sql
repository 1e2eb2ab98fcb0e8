-- Called by day_sums: the payments due on one day at one gateway, in every book, by currency. By the due day, since the
-- id carries it into each of them: a charge that comes late is in the same row everywhere.
-- Index: one partition of payments and attempts; the primary key of payment_history and settlement_lines_by_payment by
-- the ids of that day. Zero rows: nothing is due on it.
-- Late is what waits in a difference, and what was charged on a later day that is not compared yet: what is due before
-- midnight and charged behind it is in the next day's report.
--   $1 due day   $2 first id   $3 behind the last id   $4 gateway
WITH ledger AS (
    SELECT h.payment_id AS id, (max(h.at) AT TIME ZONE 'UTC')::date AS on_day
    FROM payment_history h
    WHERE h.at >= $1::date::timestamp AT TIME ZONE 'UTC' AND h.payment_id >= $2 AND h.payment_id < $3
      AND (h.became = 'COMPLETED' OR h.became = 'REFUNDED' AND h.was = 'PARKED')
    GROUP BY 1
), compared AS (
    SELECT DISTINCT r.day
    FROM reconciliation_runs r
    WHERE r.gateway = $4 AND r.day >= $1 AND r.status = 'compared' AND r.is_complete
), late AS (
    SELECT i.payment_id AS id, i.currency, i.amount_minor
    FROM reconciliation_items i
    WHERE i.gateway = $4 AND i.class = 'late' AND i.status = 'waiting' AND i.payment_id >= $2 AND i.payment_id < $3
), charged AS (
    SELECT DISTINCT t.payment_id AS id
    FROM attempts t
    WHERE t.due_day = $1 AND t.verdict = 'charged'
), ours AS (
    SELECT p.id, p.currency, p.amount_minor, l.on_day, p.status IN ('COMPLETED', 'REFUNDED') AS is_charged,
           l.id IS NOT NULL AS in_ledger, c.id IS NOT NULL AS has_attempt
    FROM payments p
    LEFT JOIN ledger l ON l.id = p.id
    LEFT JOIN charged c ON c.id = p.id
    WHERE p.due_day = $1 AND p.gateway = $4
), line AS (
    SELECT l.currency, r.format, l.kind, count(*) AS count, sum(l.gross_minor)::bigint AS minor
    FROM settlement_lines l
    JOIN reconciliation_runs r ON r.id = l.run_id AND r.gateway = $4 AND r.status IN ('loaded', 'compared')
    WHERE l.report_day >= $1::date - 1 AND l.payment_id >= $2 AND l.payment_id < $3
      AND l.kind IN ('charge', 'refund', 'chargeback')
    GROUP BY 1, 2, 3
), book AS (
    SELECT 'payments' AS book, o.currency, count(*) AS count, sum(o.amount_minor)::bigint AS minor
    FROM ours o WHERE o.is_charged GROUP BY 2
    UNION ALL
    SELECT 'ledger', o.currency, count(*), sum(o.amount_minor)::bigint FROM ours o WHERE o.in_ledger GROUP BY 2
    UNION ALL
    SELECT 'attempts', o.currency, count(*), sum(o.amount_minor)::bigint FROM ours o WHERE o.has_attempt GROUP BY 2
    UNION ALL
    SELECT 'by_word', o.currency, count(*), sum(o.amount_minor)::bigint
    FROM ours o WHERE o.in_ledger AND NOT o.has_attempt GROUP BY 2
    UNION ALL
    -- Reports of two formats are two views of the same money: the fuller one.
    SELECT 'settlement', l.currency, max(l.count), max(l.minor) FROM line l WHERE l.kind = 'charge' GROUP BY 2
    UNION ALL
    SELECT 'given_back', l.currency, max(l.count)::bigint, min(l.minor)
    FROM (SELECT b.currency, b.format, sum(b.count) AS count, sum(b.minor)::bigint AS minor
          FROM line b WHERE b.kind <> 'charge' GROUP BY 1, 2) l GROUP BY 2
    UNION ALL
    SELECT 'late', w.currency, count(*), sum(w.amount_minor)::bigint
    FROM (SELECT l.id, l.currency, l.amount_minor FROM late l
          UNION
          SELECT o.id, o.currency, o.amount_minor
          FROM ours o
          WHERE o.on_day > $1 AND o.on_day NOT IN (SELECT c.day FROM compared c)
            AND NOT EXISTS (SELECT FROM settlement_lines l
                            JOIN reconciliation_runs r ON r.id = l.run_id AND r.gateway = $4
                                                      AND r.status IN ('loaded', 'compared')
                            WHERE l.report_day >= $1::date - 1 AND l.kind = 'charge' AND l.payment_id = o.id)) w
    GROUP BY 2
)
SELECT b.book, b.currency, b.count, b.minor FROM book b ORDER BY b.currency, b.book

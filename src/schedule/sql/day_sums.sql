-- Called by day_sums: the payments due on one day at one gateway, in every book, by currency. By the due day, since the
-- id carries it into each of them: a charge that comes late is in the same row everywhere.
-- Index: one partition of payments and attempts; the primary key of payment_history and settlement_lines_by_payment by
-- the ids of that day. Zero rows: nothing is due on it.
-- Late is what waits in a difference, and what was charged on a later day that is not compared yet: what is due before
-- midnight and charged behind it is in the next day's report.
-- Money counts once, in however many reports it stands: rows that are one as in compare_often.sql are one, and of reports
-- of two formats one view is taken for each payment, the gateway's own before a bank's, a statement before notifications.
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
), sums AS (
    SELECT o.currency,
           count(*) FILTER (WHERE o.is_charged) AS payments,
           sum(o.amount_minor) FILTER (WHERE o.is_charged) AS payments_minor,
           count(*) FILTER (WHERE o.in_ledger) AS ledger,
           sum(o.amount_minor) FILTER (WHERE o.in_ledger) AS ledger_minor,
           count(*) FILTER (WHERE o.has_attempt) AS attempts,
           sum(o.amount_minor) FILTER (WHERE o.has_attempt) AS attempts_minor,
           count(*) FILTER (WHERE o.in_ledger AND NOT o.has_attempt) AS by_word,
           sum(o.amount_minor) FILTER (WHERE o.in_ledger AND NOT o.has_attempt) AS by_word_minor
    FROM ours o
    GROUP BY 1
), part AS (
    SELECT l.run_id, l.kind, l.currency, count(*) AS count, sum(l.gross_minor) AS minor
    FROM settlement_lines l
    JOIN reconciliation_runs r ON r.id = l.run_id AND r.gateway = $4 AND r.status IN ('loaded', 'compared')
    WHERE l.report_day >= $1::date - 1 AND l.payment_id >= $2 AND l.payment_id < $3
      AND l.kind IN ('charge', 'refund', 'chargeback')
    GROUP BY 1, 2, 3
), main AS (
    -- Nearly every line of the day is in one report, where each counts: only payments that another one has too, or has
    -- alone, are put in order.
    SELECT t.run_id FROM part t GROUP BY t.run_id ORDER BY sum(t.count) DESC, t.run_id LIMIT 1
), elsewhere AS MATERIALIZED (
    SELECT DISTINCT l.payment_id, l.kind
    FROM settlement_lines l
    JOIN reconciliation_runs r ON r.id = l.run_id AND r.gateway = $4 AND r.status IN ('loaded', 'compared')
    WHERE l.report_day >= $1::date - 1 AND l.payment_id >= $2 AND l.payment_id < $3
      AND l.kind IN ('charge', 'refund', 'chargeback') AND l.run_id <> (SELECT m.run_id FROM main m)
), several AS MATERIALIZED (
    SELECT l.payment_id, l.kind, l.currency, l.gross_minor, l.booked_on, l.own_name, r.format, l.run_id,
           line_name(l.own_name, l.reference, l.raw_hash, l.report_day) AS name,
           row_number() OVER (PARTITION BY l.payment_id, l.kind, l.run_id,
                                           line_name(l.own_name, l.reference, l.raw_hash, l.report_day),
                                           l.gross_minor, l.currency, l.booked_on ORDER BY l.number) AS copy
    FROM settlement_lines l
    JOIN reconciliation_runs r ON r.id = l.run_id AND r.gateway = $4 AND r.status IN ('loaded', 'compared')
    JOIN elsewhere e ON e.payment_id = l.payment_id AND e.kind = l.kind
    WHERE l.report_day >= $1::date - 1 AND l.payment_id >= $2 AND l.payment_id < $3
), once AS (
    SELECT DISTINCT s.payment_id, s.kind, s.format, s.own_name, s.name, s.gross_minor, s.currency, s.booked_on, s.copy
    FROM several s
), viewed AS (
    SELECT o.kind, o.currency, o.gross_minor,
           rank() OVER (PARTITION BY o.payment_id, o.kind ORDER BY NOT o.own_name, o.format) AS view
    FROM once o
), line AS (
    SELECT t.kind, t.currency, t.count, t.minor FROM part t WHERE t.run_id = (SELECT m.run_id FROM main m)
    UNION ALL
    SELECT s.kind, s.currency, -count(*), -sum(s.gross_minor)
    FROM several s WHERE s.run_id = (SELECT m.run_id FROM main m) GROUP BY 1, 2
    UNION ALL
    SELECT v.kind, v.currency, count(*), sum(v.gross_minor)
    FROM viewed v WHERE v.view = 1 GROUP BY 1, 2
), book AS (
    SELECT b.book, s.currency, b.count, b.minor::bigint AS minor
    FROM sums s
    CROSS JOIN LATERAL (VALUES ('payments', s.payments, s.payments_minor), ('ledger', s.ledger, s.ledger_minor),
                               ('attempts', s.attempts, s.attempts_minor), ('by_word', s.by_word, s.by_word_minor))
        AS b (book, count, minor)
    WHERE b.count > 0
    UNION ALL
    SELECT 'settlement', l.currency, sum(l.count)::bigint, sum(l.minor)::bigint
    FROM line l WHERE l.kind = 'charge' GROUP BY 2 HAVING sum(l.count) > 0
    UNION ALL
    SELECT 'given_back', l.currency, sum(l.count)::bigint, sum(l.minor)::bigint
    FROM line l WHERE l.kind <> 'charge' GROUP BY 2 HAVING sum(l.count) > 0
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

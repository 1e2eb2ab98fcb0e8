-- Called by sum_minutes (the keeper): adds the next rows of the history to their minutes and moves on. Of two keepers
-- one moves; the other waits for it, moves nothing and adds nothing.
-- Index: payment_history_to_publish of the days between $8 and $9, merged; then the key of minutes. One row: how many
-- history rows were read.
--   $1 $2 $3 xid, seq, payment id as found   $4 $5 $6 and where to go on from   $7 below this xid
--   $8 from instant   $9 to instant   $10 how many at most   $11 bounds of lateness in milliseconds
WITH rows AS MATERIALIZED (
    SELECT h.xid, h.seq, h.payment_id, h.at, h.was, h.became, h.cause,
           CASE WHEN h.cause = 'claimed' AND h.attempt = 1
                THEN width_bucket(extract(epoch FROM h.at) * 1000
                        - ('x' || left(replace(h.payment_id::text, '-', ''), 12))::bit(48)::bigint,
                     $11::numeric[]) END AS late
    FROM payment_history h
    WHERE (h.xid, h.seq, h.payment_id) > ($4::text::xid8, $5, $6)
      AND h.xid < $7::text::xid8
      AND h.at >= $8 AND h.at < $9
    ORDER BY h.xid, h.seq, h.payment_id
    LIMIT $10
), sums AS MATERIALIZED (
    SELECT date_trunc('minute', r.at, 'UTC') AS minute,
           count(*) FILTER (WHERE r.cause = 'claimed') AS claimed,
           count(*) FILTER (WHERE r.became = 'COMPLETED' AND r.was <> 'COMPLETED') AS completed,
           count(*) FILTER (WHERE r.became = 'FAILED' AND r.was <> 'FAILED') AS failed,
           count(*) FILTER (WHERE r.became = 'CANCELLED' AND r.was <> 'CANCELLED') AS cancelled,
           count(*) FILTER (WHERE r.became = 'PARKED' AND r.was <> 'PARKED') AS parked,
           count(*) FILTER (WHERE r.became = 'UNKNOWN' AND r.was = 'PROCESSING') AS unknown,
           count(*) FILTER (WHERE r.became = 'PENDING' AND r.was = 'PROCESSING') AS retried
    FROM rows r
    GROUP BY 1
), moved AS (
    UPDATE minutes_cursor c SET
        server = split_part(current_lineage(), '/', 1),
        xid = coalesce(l.xid, $4::text::xid8), seq = coalesce(l.seq, $5), payment_id = coalesce(l.payment_id, $6)
    FROM (SELECT) AS always
    LEFT JOIN LATERAL (
        SELECT r.xid, r.seq, r.payment_id FROM rows r ORDER BY r.xid DESC, r.seq DESC, r.payment_id DESC LIMIT 1
    ) AS l ON true
    WHERE (c.xid, c.seq, c.payment_id) = ($1::text::xid8, $2, $3)
      AND (l.seq IS NOT NULL OR c.server <> split_part(current_lineage(), '/', 1))
    RETURNING 1
), added AS (
    INSERT INTO minutes AS m (minute, claimed, completed, failed, cancelled, parked, unknown, retried, late)
    SELECT s.minute, s.claimed, s.completed, s.failed, s.cancelled, s.parked, s.unknown, s.retried,
           ARRAY(SELECT count(r.late)
                 FROM generate_series(0, cardinality($11::numeric[])) AS p (place)
                 LEFT JOIN rows r ON r.late = p.place AND date_trunc('minute', r.at, 'UTC') = s.minute
                 GROUP BY p.place ORDER BY p.place)
    FROM sums s
    WHERE EXISTS (SELECT FROM moved)
    ON CONFLICT (minute) DO UPDATE SET
        claimed = m.claimed + excluded.claimed, completed = m.completed + excluded.completed,
        failed = m.failed + excluded.failed, cancelled = m.cancelled + excluded.cancelled,
        parked = m.parked + excluded.parked, unknown = m.unknown + excluded.unknown,
        retried = m.retried + excluded.retried,
        late = ARRAY(SELECT coalesce(a.was, 0) + coalesce(a.more, 0)
                     FROM unnest(m.late, excluded.late) WITH ORDINALITY AS a (was, more, place) ORDER BY a.place)
)
SELECT count(*) AS read FROM rows WHERE EXISTS (SELECT FROM moved)

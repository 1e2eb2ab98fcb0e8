-- Called for the newest events of the topic (R17): which of these rows the database has, once per day of writing, or
-- lost in a time whose losses people have judged and released: the topic keeps telling of them.
-- Index: the primary key of the day's partition. A missing row: the database lost it, or never wrote it.
--   $1 day   $2 payment ids   $3 numbers of rows   $4 instants of rows
SELECT h.payment_id, h.seq
FROM unnest($2::uuid[], $3::integer[]) AS a (id, seq)
JOIN payment_history h ON h.payment_id = a.id AND h.seq = a.seq
WHERE h.at >= $1::date::timestamp AT TIME ZONE 'UTC' AND h.at < ($1::date + 1)::timestamp AT TIME ZONE 'UTC'
UNION ALL
SELECT a.id, a.seq
FROM unnest($2::uuid[], $3::integer[], $4::timestamptz[]) AS a (id, seq, at)
WHERE EXISTS (SELECT FROM quarantines q WHERE q.released_at IS NOT NULL AND a.at BETWEEN q.lost_from AND q.since)

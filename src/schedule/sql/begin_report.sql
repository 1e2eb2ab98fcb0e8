-- Called by begin_report: a report whose lines come next; none of them counts yet.
-- Index: the primary key. Zero rows: its day has not begun by this clock, or is older than anything that is kept.
--   $1 id   $2 gateway   $3 day   $4 format   $5 source   $6 sha256   $7 asked by   $8 status   $9 lines
--   $10 the report ended   $11 seen at   $12 sums   $13 options of the format
INSERT INTO reconciliation_runs (id, gateway, day, format, source, sha256, asked_by, status, lines, is_complete,
                                 seen_at, sums, options)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9,
       -- A report that was made before its day was over cannot know the rest of it, whatever it says.
       $10 AND $11 >= ($3::date + 1)::timestamp AT TIME ZONE 'UTC', $11, $12, $13
WHERE $3::date <= (statement_timestamp() AT TIME ZONE 'UTC')::date
  AND $3::date > (statement_timestamp() AT TIME ZONE 'UTC')::date - 1000
  -- What was seen before its day began says nothing about it.
  AND $11 >= $3::date::timestamp AT TIME ZONE 'UTC'
RETURNING id

-- Called by acts: the operators' acts, the newest first.
-- Index: the table's primary key backwards; operator_acts_by_subject for one subject, operator_acts_by_operator for one
-- person. Zero rows: none fits.
--   $1 subject, null for any   $2 operator, null for any   $3 number not reached any more, null for none   $4 limit
SELECT a.id, a.at, a.operator, a.act, a.subject, a.reason, a.detail
FROM operator_acts a
WHERE ($1::text IS NULL OR a.subject = $1) AND ($2::text IS NULL OR a.operator = $2)
  AND ($3::bigint IS NULL OR a.id < $3)
ORDER BY a.id DESC
LIMIT $4

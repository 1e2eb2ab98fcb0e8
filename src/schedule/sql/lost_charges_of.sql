-- Called by create and by intake for what a restore lost (R18): the charges that the gateway shows of what these
-- payments mean, under whichever due time, and whether a due time that has passed is still taken for the same payment:
-- while the database is quarantined, and for 35 days after it was released.
-- Index: lost_charges_by_intent. A payment without a row: nothing of it was lost.
--   $1 payment ids
SELECT a.id, x.payment_id AS charged_as,
       EXISTS (SELECT 1 FROM quarantines q
               WHERE q.released_at IS NULL OR q.released_at > statement_timestamp() - interval '35 days') AS is_open
FROM unnest($1::uuid[]) AS a (id)
CROSS JOIN LATERAL (
    SELECT l.payment_id FROM lost_charges l WHERE l.intent = payment_intent(a.id)
    ORDER BY l.payment_id = a.id DESC, l.payment_id LIMIT 1) AS x

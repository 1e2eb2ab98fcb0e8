-- Called by compare_day, some hundred at a time: differences, each in the row that it was found in before. What people
-- decided stays; what was explained or superseded, and is there again, is open again, and told of again. So is what was
-- repaired, where our row does not stand any more as the repair left it. A second charge is told from a third by what
-- stays when another report comes, and not by how many there are.
-- Index: the fingerprint's. Answered: the class, the status that it has now, and whether it is new.
--   $1 run   $2 gateway   $3 days   $4 classes   $5 statuses   $6 payments   $7 refunds   $8 keys   $9 references
--   $10 fields   $11 ours   $12 theirs   $13 amounts   $14 currencies   $15 evidence   $16 what tells alike ones apart
WITH found AS (
    SELECT f.*, md5(concat_ws('|', $2::text, f.day, f.field, f.payment, f.refund, coalesce('k' || f.key, '-'),
                coalesce('r' || f.reference, '-'), coalesce('t' || coalesce(f.apart, f.theirs), '-'), f.amount, f.currency,
                CASE WHEN f.payment IS NULL AND f.refund IS NULL THEN f.evidence ->> 'rawHash' END))::uuid AS fingerprint
    FROM unnest($3::date[], $4::text[], $5::text[], $6::uuid[], $7::uuid[], $8::text[], $9::text[], $10::text[], $11::text[],
                $12::text[], $13::bigint[], $14::text[], $15::jsonb[], $16::text[])
        AS f (day, class, status, payment, refund, key, reference, field, ours, theirs, amount, currency, evidence, apart)
)
INSERT INTO reconciliation_items AS i (fingerprint, run_id, gateway, day, class, status, payment_id, refund_id, key,
                                       reference, field, ours, theirs, amount_minor, currency, evidence)
SELECT DISTINCT ON (f.fingerprint) f.fingerprint, coalesce((f.evidence ->> 'run')::uuid, $1), $2::text, f.day, f.class, f.status,
       f.payment, f.refund, f.key, f.reference, f.field, f.ours, f.theirs, f.amount, f.currency, f.evidence
FROM found f
ORDER BY f.fingerprint
ON CONFLICT (fingerprint) DO UPDATE SET
    run_id = excluded.run_id,
    class = excluded.class,
    ours = excluded.ours,
    theirs = excluded.theirs,
    evidence = excluded.evidence,
    last_seen_at = clock_timestamp(),
    told_at = CASE WHEN i.status = 'repaired' AND i.field = 'status' AND i.ours IS DISTINCT FROM excluded.ours THEN NULL
                   WHEN i.status IN ('open', 'repaired', 'dismissed') THEN i.told_at END,
    status = CASE WHEN i.status = 'repaired' AND i.field = 'status' AND i.ours IS DISTINCT FROM excluded.ours
                  THEN excluded.status
                  WHEN i.status IN ('repaired', 'dismissed') THEN i.status ELSE excluded.status END
RETURNING i.class, i.status, i.xmax = 0 AS is_new

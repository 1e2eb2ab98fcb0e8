-- Called by settle, once for each due day: charges that were missing here and are completed here by now. As asked, and
-- under the name that the line has, or one that cannot be held against it, they are explained; where the charge that we
-- know has another name, the line is a second charge, and is told of as that.
-- Index: reconciliation_items_unsettled, and one partition of payments; the line by settlement_lines_by_payment in the
-- day that the difference names. Zero rows: none is. Answered: the class that each has now.
--   $1 gateway   $2 due day   $3 first id   $4 behind the last id
WITH here AS (
    SELECT i.number, p.status, p.amount_minor = i.amount_minor AND p.currency = i.currency AS fits,
           -- A line that is forgotten cannot say whose name it bears.
           coalesce((SELECT names_another(l.own_name, l.reference, l.charge_ref, p.gateway_ref)
                     FROM settlement_lines l
                     WHERE l.report_day = (i.evidence ->> 'day')::date AND l.payment_id = i.payment_id
                       AND l.run_id = (i.evidence ->> 'run')::uuid AND l.number = (i.evidence ->> 'line')::bigint),
                    i.reference <> p.gateway_ref
                    AND (SELECT has_own_names(r.format) FROM reconciliation_runs r
                         WHERE r.id = (i.evidence ->> 'run')::uuid), false) AS is_another
    FROM reconciliation_items i
    JOIN payments p ON p.due_day = $2 AND p.id = i.payment_id AND p.gateway = i.gateway
                   AND p.status IN ('COMPLETED', 'REFUNDED')
    WHERE i.gateway = $1 AND i.status IN ('open', 'waiting') AND i.class = 'missing_here'
      AND i.payment_id >= $3 AND i.payment_id < $4
)
UPDATE reconciliation_items i SET
    status = CASE WHEN h.is_another THEN i.status ELSE 'explained' END,
    class = CASE WHEN h.is_another THEN 'duplicate_charge' ELSE i.class END,
    -- It was told of as something else.
    told_at = CASE WHEN h.is_another THEN NULL ELSE i.told_at END,
    ours = h.status
FROM here h
WHERE i.number = h.number AND i.status IN ('open', 'waiting') AND (h.is_another OR h.fits)
RETURNING i.class

-- Called by compare_day: refunds of ours that no report had, and that one has by now. That line is theirs.
-- Index: reconciliation_items_unsettled. Zero rows: none has.
--   $1 gateway   $2 refunds   $3 their lines
UPDATE reconciliation_items i SET status = 'explained', evidence = f.line
FROM unnest($2::uuid[], $3::jsonb[]) AS f (refund, line)
WHERE i.gateway = $1 AND i.status IN ('open', 'waiting') AND i.class = 'refund_mismatch' AND i.field = 'line'
  AND i.refund_id = f.refund
RETURNING i.number

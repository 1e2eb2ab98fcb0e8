-- Called by settle: charges of ours that no report had, and that one has by now, under a name that fits. That line is
-- theirs.
-- Index: reconciliation_items_unsettled; settlement_lines_by_payment in the days from $2 on. Zero rows: none has.
--   $1 gateway   $2 first day of reports   $3 last   $4 reports of those days
UPDATE reconciliation_items i SET status = 'explained', evidence = jsonb_build_object('run', l.run_id, 'day', l.report_day,
    'line', l.number, 'atLine', l.at_line, 'rawHash', encode(l.raw_hash, 'hex'))
FROM settlement_lines l
WHERE i.gateway = $1 AND i.status IN ('open', 'waiting') AND i.field = 'line' AND i.day BETWEEN $2 AND $3
  AND i.class IN ('late', 'missing_there')
  AND l.report_day BETWEEN $2 AND $3 AND l.run_id = ANY ($4) AND l.payment_id = i.payment_id AND l.kind = 'charge'
  AND NOT names_another(l.own_name, l.reference, l.charge_ref, i.reference)
RETURNING i.class

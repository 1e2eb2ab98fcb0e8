-- Called by load_lines, a few thousand lines at a time: what a report says, as text (half the time of arrays).
-- Index: none is read. Rows are not answered.
COPY settlement_lines (run_id, report_day, booked_on, executed_on, epoch, number, at_line, gross_minor, fee_minor,
                       net_minor, payment_id, named_id, kind, currency, net_currency, key, reference, charge_ref, own_name, raw_hash)
FROM STDIN

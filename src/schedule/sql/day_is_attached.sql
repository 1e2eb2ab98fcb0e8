-- Called when an authentic notice names an unknown payment (R17): a payment of a detached day is missing in
-- good order, one of an attached day is lost.
-- Index: none (the catalogue). One row, always.
--   $1 due day
SELECT EXISTS (
    SELECT 1 FROM pg_inherits i
    WHERE i.inhparent = 'payments'::regclass
      AND i.inhrelid = to_regclass('payments_' || to_char($1::date, 'YYYYMMDD'))
) AS attached

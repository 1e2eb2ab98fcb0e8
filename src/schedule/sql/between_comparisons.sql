-- Called by begin_report and finish_report, behind wait_for_comparison.sql: until the transaction ends no comparison of the
-- gateway goes on, since one reads lines by many statements and none may be taken from under it. One row, always.
--   $1 gateway
SELECT pg_advisory_xact_lock(hashtextextended('reconcile ' || $1, 1810))::text AS held

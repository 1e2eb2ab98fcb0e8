-- Called before between_comparisons.sql: a comparison may take its time, and whoever waits for its end waits as long as
-- another comparison would (reconcile_session.sql). For this transaction. One row, always.
SELECT set_config('statement_timeout', '150000', true), set_config('lock_timeout', '120000', true)

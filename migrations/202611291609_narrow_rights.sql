-- Rights made as narrow, and as wide, as the work that needs them.

SET lock_timeout = '5s';

-- A caller's temporary tables are found before all others, unless their schema is named: a role with a
-- temporary `installation` or `payments` of its own could tell a function of the owner what is not so, and have
-- a trigger of its own run as the owner. Named last, they are found last.
ALTER FUNCTION lineage_is_released SET search_path = public, pg_catalog, pg_temp;
ALTER FUNCTION quarantine SET search_path = public, pg_catalog, pg_temp;
ALTER FUNCTION release_lineage SET search_path = public, pg_catalog, pg_temp;
ALTER FUNCTION ensure_partitions SET search_path = public, pg_catalog, pg_temp;
ALTER FUNCTION missing_days SET search_path = public, pg_catalog, pg_temp;
ALTER FUNCTION advance_oldest_open_day SET search_path = public, pg_catalog, pg_temp;
ALTER FUNCTION drop_drained_notices SET search_path = public, pg_catalog, pg_temp;
ALTER FUNCTION take_gateway_callback SET search_path = public, pg_catalog, pg_temp;

-- The keeper locks old callbacks before it deletes them, and a row lock asks for a right to update.
GRANT UPDATE (received_at) ON gateway_callbacks TO punctual_worker;
-- The function sees them; nothing of the API's reads them.
REVOKE SELECT ON gateway_callbacks FROM punctual_api;

COMMENT ON FUNCTION destination_digest IS
    'The two keys are those of a key derived from the installation''s secret for this alone (domain/declines.rs).';
-- Since the API's role may move `next_attempt_at` for wishes, this is what the function is still needed for.
COMMENT ON FUNCTION take_gateway_callback IS
    'A function of the owner, so that callbacks are remembered by it alone: no role inserts into gateway_callbacks.';

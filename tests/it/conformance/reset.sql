-- Everything that a sequence wrote; the triggers that guard history stand aside.
SET session_replication_role = replica;
DELETE FROM payments;
DELETE FROM payment_details;
DELETE FROM attempts;
DELETE FROM payment_history;
DELETE FROM due_notices;
DELETE FROM idempotency_keys;
DELETE FROM external_ids;
DELETE FROM gateway_refs;
DELETE FROM parked;
DELETE FROM destination_declines;
DELETE FROM kill_switches;
DELETE FROM relay_shards;
DELETE FROM relays;
UPDATE installation SET quarantined_at = NULL, quarantine_reason = NULL;
SET session_replication_role = origin;

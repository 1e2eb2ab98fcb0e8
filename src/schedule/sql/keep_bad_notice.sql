-- Called by keep_bad_notice: a record that no code can read is kept, and its partition goes on.
-- Presented again after a restart, it is kept once.
--   $1 topic   $2 partition   $3 offset   $4 reason   $5 key   $6 payload
INSERT INTO bad_notices (topic, kafka_partition, kafka_offset, reason, record_key, payload)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING

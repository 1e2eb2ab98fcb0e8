-- Called by audit where the topics were read: which records were kept because no code can read them, or
-- their seal is not ours.
-- Index: the primary key. Zero rows: none was ever met.
SELECT b.topic, b.kafka_partition, b.kafka_offset FROM bad_notices b

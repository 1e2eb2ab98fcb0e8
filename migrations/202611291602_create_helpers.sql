-- Unpartitioned helpers and what people look at.

SET lock_timeout = '5s';

-- Written in the payment's own transaction; also the actor's list. Unpartitioned in due day, since
-- a unique index on a partitioned table must contain the partition key.
CREATE TABLE idempotency_keys (
    actor_id uuid NOT NULL,
    key text NOT NULL,
    request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    payment_id uuid NOT NULL,
    due_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (actor_id, key)
) PARTITION BY HASH (actor_id, key);
CREATE INDEX idempotency_keys_by_creation ON idempotency_keys (actor_id, created_at, payment_id);
CREATE INDEX idempotency_keys_by_due ON idempotency_keys (actor_id, due_at, payment_id);
DO $$
BEGIN
    FOR n IN 0..7 LOOP
        EXECUTE format('CREATE TABLE idempotency_keys_%s PARTITION OF idempotency_keys
                        FOR VALUES WITH (MODULUS 8, REMAINDER %s)', n, n);
    END LOOP;
END
$$;

CREATE TABLE external_ids (
    actor_id uuid NOT NULL,
    external_id text NOT NULL,
    payment_id uuid NOT NULL,
    PRIMARY KEY (actor_id, external_id)
);

CREATE TABLE gateway_refs (
    gateway text NOT NULL,
    reference text NOT NULL,
    payment_id uuid NOT NULL,
    PRIMARY KEY (gateway, reference)
);

-- Held for a human; the announcement goes to Kafka, the record stays here.
CREATE TABLE parked (
    payment_id uuid PRIMARY KEY,
    reason text NOT NULL,
    parked_at timestamptz NOT NULL,
    evidence text NOT NULL
);

-- Records of a due topic that no code can read, or whose seal is not ours.
CREATE TABLE bad_notices (
    topic text NOT NULL,
    kafka_partition integer NOT NULL,
    kafka_offset bigint NOT NULL,
    reason text NOT NULL,
    record_key bytea,
    payload bytea,
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (topic, kafka_partition, kafka_offset)
);

CREATE TABLE workers (
    name text PRIMARY KEY,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The schedule itself: payments with their cold half, attempts, history, and the outbox.
-- All five are partitioned by day; see ensure_partitions().

SET lock_timeout = '5s';

CREATE TABLE actors (
    id uuid PRIMARY KEY,
    name text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 100),
    default_currency text,
    default_gateway text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE api_keys (
    id uuid PRIMARY KEY,
    actor_id uuid NOT NULL REFERENCES actors,
    -- SHA-256 of the key's text; the text itself is shown once and never stored.
    hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    hint text NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
);

CREATE TABLE gateways (
    name text PRIMARY KEY,
    account text NOT NULL,
    paused_at timestamptz,
    breaker text NOT NULL DEFAULT 'closed' CHECK (breaker IN ('closed', 'open', 'half_open')),
    breaker_until timestamptz,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE payments (
    due_day date NOT NULL,
    id uuid NOT NULL,
    actor_id uuid NOT NULL,
    status text NOT NULL CHECK (status IN
        ('PENDING', 'PROCESSING', 'UNKNOWN', 'COMPLETED', 'FAILED', 'CANCELLED', 'PARKED', 'REFUNDED')),
    status_reason text,
    due_at timestamptz NOT NULL,
    execute_before timestamptz,
    next_attempt_at timestamptz NOT NULL,
    gateway text NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    currency text NOT NULL CHECK (length(currency) = 3 AND currency = upper(currency)),
    attempt integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    sends smallint NOT NULL DEFAULT 0 CHECK (sends >= 0),
    held_back smallint NOT NULL DEFAULT 0 CHECK (held_back >= 0),
    held_back_since timestamptz,
    asks smallint NOT NULL DEFAULT 0 CHECK (asks >= 0),
    epoch integer NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    epoch_first_sent_at timestamptz,
    unanswered integer NOT NULL DEFAULT 0 CHECK (unanswered >= 0),
    request_hash bytea,
    gateway_account text,
    renderer smallint,
    intent_ref text,
    gateway_ref text,
    fence bigint NOT NULL DEFAULT 0,
    claim_id uuid,
    lease_until timestamptz,
    cancel_wish_at timestamptz,
    max_sends smallint NOT NULL CHECK (max_sends BETWEEN 1 AND 6),
    on_soft_decline text NOT NULL CHECK (on_soft_decline IN ('retry', 'fail')),
    on_exhausted text NOT NULL CHECK (on_exhausted IN ('park', 'fail')),
    lane smallint NOT NULL,
    created_at timestamptz NOT NULL,
    last_moved_at timestamptz NOT NULL,
    history_seq integer NOT NULL,
    history_hash bytea NOT NULL,
    last_xid xid8 NOT NULL,
    PRIMARY KEY (due_day, id),
    -- Rule R9.
    CONSTRAINT never_early CHECK (next_attempt_at >= due_at),
    -- DESIGN §3: no clean state while one of our sends may still move money (R7, R8).
    CONSTRAINT clean_states_have_no_open_send
        CHECK (unanswered = 0 OR status NOT IN ('PENDING', 'FAILED', 'CANCELLED')),
    -- Rule R6: an open send has an age.
    CONSTRAINT open_send_has_age CHECK (unanswered = 0 OR epoch_first_sent_at IS NOT NULL),
    CONSTRAINT claim_belongs_to_processing
        CHECK ((status = 'PROCESSING') = (claim_id IS NOT NULL) AND (claim_id IS NULL) = (lease_until IS NULL)),
    CONSTRAINT budget_is_kept CHECK (sends <= max_sends AND sends <= attempt),
    CONSTRAINT held_back_has_an_instant CHECK ((held_back > 0) = (held_back_since IS NOT NULL)),
    -- The id carries the due time; a row in another day's partition would never be found.
    CONSTRAINT day_is_the_due_day CHECK (due_day = (due_at AT TIME ZONE 'UTC')::date)
) PARTITION BY RANGE (due_day);
-- The late scan's. Its predicate has literal states, since a parameter defeats it.
CREATE INDEX payments_claimable ON payments (gateway, next_attempt_at) WHERE status IN ('PENDING', 'UNKNOWN');
-- The reaper's.
CREATE INDEX payments_leased ON payments (lease_until) WHERE status = 'PROCESSING';
-- The deadline scan's; a payment without a deadline costs nothing here.
CREATE INDEX payments_with_deadline ON payments (execute_before)
    WHERE status = 'PENDING' AND execute_before IS NOT NULL;

CREATE TABLE payment_details (
    due_day date NOT NULL,
    id uuid NOT NULL,
    payee_sealed bytea NOT NULL,
    -- 0: plain, until encryption at rest lands.
    key_version smallint NOT NULL DEFAULT 0,
    description text,
    metadata jsonb NOT NULL DEFAULT '{}',
    external_id text,
    traceparent text,
    field_digests jsonb NOT NULL,
    -- The version of the creation answer's form.
    rendering smallint NOT NULL DEFAULT 1,
    PRIMARY KEY (due_day, id)
) PARTITION BY RANGE (due_day);

CREATE TABLE attempts (
    due_day date NOT NULL,
    payment_id uuid NOT NULL,
    attempt integer NOT NULL,
    epoch integer NOT NULL,
    claim_id uuid NOT NULL,
    fence bigint NOT NULL,
    worker text NOT NULL,
    was text NOT NULL CHECK (was IN ('PENDING', 'UNKNOWN')),
    -- Age of the epoch's key at the claim; null when this claim is its first possible send.
    key_age_us bigint,
    claimed_at timestamptz NOT NULL,
    settled_at timestamptz,
    settled_to text,
    verdict text,
    how text,
    code text,
    http_status smallint,
    took_ms integer,
    note text,
    fenced boolean NOT NULL DEFAULT false,
    PRIMARY KEY (due_day, payment_id, attempt)
) PARTITION BY RANGE (due_day);

CREATE TABLE payment_history (
    payment_id uuid NOT NULL,
    seq integer NOT NULL CHECK (seq >= 1),
    was text NOT NULL,
    became text NOT NULL,
    cause text NOT NULL,
    done_by text NOT NULL,
    fence bigint NOT NULL,
    attempt integer NOT NULL,
    epoch integer NOT NULL,
    at timestamptz NOT NULL,
    detail text NOT NULL,
    -- The row's own hash; its input is the hash of the row before it (32 zero bytes for the first).
    hash bytea NOT NULL,
    -- greatest(writer's xid, payments.last_xid): below the snapshot's xmin, order (xid, seq) is
    -- every payment's own order.
    xid xid8 NOT NULL,
    PRIMARY KEY (payment_id, seq, at),
    CONSTRAINT legal_moves_only CHECK (is_legal_move(was, cause, became))
) PARTITION BY RANGE (at);
CREATE INDEX payment_history_to_publish ON payment_history (xid, seq, payment_id);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON payment_history
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON payment_history
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The outbox. Partitioned by the day of not_before and not by the time of writing: staging reads in
-- due order, so it touches one or two partitions; a partition by time of writing would hold a notice
-- for next year, be looked at by every pass until then, and could not be dropped.
-- Publishing a notice deletes its row, so an index never holds more than what is outstanding. Rows
-- are found by what they are, never by a cursor: a transaction that commits late is not skipped.
CREATE TABLE due_notices (
    notice_id bigint GENERATED ALWAYS AS IDENTITY,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- murmur2(payment id text) mod 48.
    shard smallint NOT NULL CHECK (shard BETWEEN 0 AND 47),
    payment_id uuid NOT NULL,
    payment_day date NOT NULL,
    gateway text NOT NULL,
    lane smallint NOT NULL,
    due_at timestamptz NOT NULL,
    not_before timestamptz NOT NULL,
    attempt integer NOT NULL,
    traceparent text
) PARTITION BY RANGE (not_before);
CREATE INDEX due_notices_in_order ON due_notices (shard, not_before, notice_id);

-- One writer a Kafka partition: the shards of one residue.
CREATE TABLE relay_shards (
    partitions integer NOT NULL,
    residue integer NOT NULL,
    holder text NOT NULL DEFAULT '',
    epoch bigint NOT NULL DEFAULT 0,
    until timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (partitions, residue)
);

CREATE TABLE publisher_cursor (
    lane text PRIMARY KEY,
    system_identifier text NOT NULL,
    xid xid8 NOT NULL,
    seq integer NOT NULL,
    payment_id uuid NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

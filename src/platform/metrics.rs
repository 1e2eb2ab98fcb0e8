//! Every metric: one table, from which registration, the series that exist from the start, the
//! README's table and the call sites are made.
//!
//! A call site is `metrics::CLAIMS.add(1, ["claimed"])`: a name that is not in the table does not
//! compile, nor does a wrong number of labels; a value outside a closed set is a defect that stops
//! a debug build. Labels never carry ids, and no metric carries money.
//!
//! Units are base units (seconds), the prefix is `punctual_`. To add a metric: one row, one call.

mod declare;
mod expose;

pub use declare::{Counter, Gauge, Histogram, Kind, LabelSet, Metric, Values};
pub use expose::{Exposition, NotInstalled, install, recorder, reference_markdown, register};

use crate::domain::event_type::EventType;
use crate::domain::invariants::Invariant;
use crate::domain::matching::Class;
use crate::domain::reason::Reason;
use crate::domain::state::{Cause, MOVES, Status};
use Values::{Closed, Computed, Configured, Open};
use declare::metrics;

/// From due to claimed; the promise is 60 s with everything against us, 0.35 s otherwise.
const LATENESS: &[f64] = &[
    0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0,
];
/// Work inside the process or one round trip to the database.
const QUICK: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// A call to somebody else's money system.
const GATEWAY: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0];

fn statuses() -> Vec<&'static str> {
    Status::ALL.into_iter().map(Status::as_str).collect()
}

fn reasons() -> Vec<&'static str> {
    Reason::ALL.iter().map(|reason| reason.as_str()).collect()
}

fn causes() -> Vec<&'static str> {
    let mut causes: Vec<_> = MOVES.iter().map(|(_, cause, _)| cause.as_str()).collect();
    causes.sort_unstable();
    causes.dedup();
    causes
}

fn invariants() -> Vec<&'static str> {
    Invariant::ALL.iter().map(|invariant| invariant.id()).collect()
}

fn classes() -> Vec<&'static str> {
    Class::ALL.iter().map(|class| class.as_str()).collect()
}

fn event_types() -> Vec<&'static str> {
    EventType::ALL.iter().map(|event| event.as_str()).collect()
}

/// The series of [`PAYMENT_TRANSITIONS`] that legal moves can count.
fn transitions() -> Vec<[&'static str; 2]> {
    let mut series: Vec<_> =
        MOVES.iter().map(|(_, cause, to): &(_, Cause, Status)| [to.as_str(), cause.as_str()]).collect();
    series.sort_unstable();
    series.dedup();
    series
}

metrics! {
    // The promise itself.
    Histogram PAYMENT_LATENESS = "payment_lateness_seconds", Seconds,
        "From the instant that a payment's first try was planned for, its due time unless it has a window, to its first claim, by the database clock.", [], LATENESS;
    Counter PAYMENT_EARLY = "payment_early_total", Count,
        "Claims that began before the payment's due instant. Stays 0; any other value pages.", [], &[];
    Gauge PAYMENTS_DUE_OLDEST_AGE = "payments_due_oldest_age_seconds", Seconds,
        "How overdue the oldest claimable payment is, as last seen by the keeper; 0 if none is due.",
        [gateway: Configured], &[];
    Gauge PAYMENTS = "payments", Count,
        "Open payments as last counted by the keeper, up to 10000 of each: due (claimable now), processing, unknown, parked.",
        [state: Closed(&["due", "processing", "unknown", "parked"])], &[];
    Gauge PAYMENTS_UNKNOWN_OLDEST_AGE = "payments_unknown_oldest_age_seconds", Seconds,
        "How long ago the oldest payment of unknown outcome was first sent, as last seen by the keeper; 0 if there is none.",
        [], &[];
    Gauge PAYMENTS_LEASE_OVERDUE = "payments_lease_overdue_seconds", Seconds,
        "How long ago the lease ended that ended first of those whose payment nobody took back; 0 if there is none.",
        [], &[];
    Counter PAYMENT_TRANSITIONS = "payment_transitions_total", Count,
        "Moves written by this process.", [to: Computed(statuses), cause: Computed(causes)], &[];

    Counter INVARIANT_VIOLATIONS = "invariant_violations_total", Count,
        "Broken promises that this process saw for itself, by number. Stays 0; any other value pages.",
        [invariant: Computed(invariants)], &[];

    // Intake.
    Histogram INTAKE_REQUEST = "intake_request_seconds", Seconds,
        "Time to answer a request; the route is the pattern, never the path.",
        [method: Closed(&["GET", "POST", "PUT", "DELETE", "other"]), route: Open, status: Open], QUICK;
    Counter PAYMENTS_CREATED = "payments_created_total", Count, "Payments made durable.", [], &[];
    Counter IDEMPOTENT_REPLAYS = "idempotent_replays_total", Count,
        "Requests whose key was known: answered as before, or refused because the request differs.",
        [result: Closed(&["replayed", "key_reused"])], &[];
    Counter CANCELS = "cancel_total", Count, "Cancel requests by answer.",
        [result: Closed(&["cancelled", "wished", "refused", "not_found"])], &[];
    Counter AUTHENTICATIONS_REFUSED = "authentications_refused_total", Count,
        "Requests without a usable key, token or scope.", [result: Closed(&["unauthenticated", "forbidden"])], &[];
    Counter TOKENS = "tokens_total", Count,
        "Tokens looked at, those believed from a moment ago apart, by what became of them.",
        [result: Closed(&[
            "accepted", "malformed", "algorithm", "unknown_key", "signature", "claims", "out_of_time",
        ])], &[];
    Counter TOKEN_KEYS_READ = "token_keys_read_total", Count,
        "Times that the issuer's public keys were read, or could not be.", [result: Closed(&["read", "failed"])], &[];
    Counter REQUESTS_LIMITED = "requests_limited_total", Count,
        "Requests answered 429: the rate of their actor or address was used up, the address sent too many wrong keys or attempts to log in, or the actor too many batches at once.",
        [limit: Closed(&["actor", "address", "failures", "batches", "logins"])], &[];

    Gauge EVENT_STREAMS = "event_streams", Count, "Streams of events open in this process.", [], &[];
    // Operations.
    Counter OPERATOR_ACTS = "operator_acts_total", Count,
        "Acts of people by what came of them; asked waits for a second person.",
        [act: Closed(&[
            "redrive", "redrive_new_epoch", "resolve_charged", "resolve_not_charged", "approve", "reject",
            "create_bulk_redrive", "start_bulk_redrive", "stop_bulk_redrive", "bulk_redrive",
            "pause_gateway", "resume_gateway", "limit_gateway_rate", "throw_switch", "release_switch", "ask_refund",
            "repair_item", "dismiss_item", "withdraw_report", "cancel", "show_payee",
            "resolve_refund", "enter_quarantine", "alter_quarantine", "release_quarantine", "override_quarantine",
        ]), result: Closed(&["done", "asked", "refused"])], &[];

    // Schedule.
    Gauge QUARANTINE = "quarantine", Count,
        "1 while nothing is claimed because the database was restored, was promoted or has lost commits, and two people have not released it.", [], &[];
    Gauge CLOCK_OFFSET = "clock_offset_seconds", Seconds,
        "Database clock minus this host's clock, as far as the sample's round trip does not explain it.", [], &[];

    // Relay.
    Counter RELAY_PUBLISHED = "relay_published_total", Count, "Notices acknowledged by Kafka.",
        [to: Closed(&["ring", "now"])], &[];
    Counter RELAY_FENCED = "relay_fenced_total", Count,
        "Batches not marked because the shard was no longer ours; their notices go out twice.", [], &[];
    Counter RELAY_FAILURES = "relay_failures_total", Count, "Batches that did not go through.",
        [stage: Closed(&["stage", "publish", "mark"])], &[];
    Gauge RELAY_UNPUBLISHED_DUE = "relay_unpublished_due", Count,
        "Notices that are due and not published, as last counted by the keeper, up to 10000.", [], &[];
    Gauge RELAY_SHARDS = "relay_shards", Count, "Shards held by this relay.", [], &[];

    // Bucket.
    Gauge BUCKET_LAG = "bucket_lag", Count,
        "Records of a minute topic past the committed offset; minute 00 to 59, or now.", [minute: Open], &[];
    Counter KAFKA_REBALANCES = "kafka_rebalances_total", Count, "Changes of this worker's assignment.",
        [kind: Closed(&["assigned", "revoked", "lost"])], &[];
    Gauge KAFKA_UP = "kafka_up", Count, "1 while Kafka is reachable; at 0 the late scan carries everything.",
        [], &[];
    Counter NOTICES_TAKEN = "notices_taken_total", Count, "Records taken from Kafka.", [], &[];
    Counter NOTICES_BAD = "notices_bad_total", Count, "Records that no code here can read.", [], &[];
    Counter NOTICES_DEFERRED = "notices_deferred_total", Count,
        "Records completed because the late scan owns their payment (held too long).", [], &[];
    Gauge NOTICES_HELD = "notices_held", Count, "Records waiting in memory for their instant.", [], &[];
    Histogram POLL_GAP = "kafka_poll_gap_seconds", Seconds, "Time between two polls of the consumer.", [], QUICK;

    // Worker.
    Counter CLAIMS = "claims_total", Count, "Answers to claims.",
        [result: Closed(&[
            "claimed", "claimed_late", "not_due", "contended", "quarantined", "switched_off", "cancelled",
            "completed", "final", "parked", "held", "stale", "no_such_payment", "ahead_of_row", "other_gateway",
        ])], &[];
    Counter FENCED_WRITES = "fenced_writes_total", Count,
        "Outcomes that came after another claim; kept as evidence, not written to the status.", [], &[];
    Counter SETTLES_ABANDONED = "settles_abandoned_total", Count,
        "Outcomes that could not be written while their lease lasted; the payment becomes UNKNOWN and is asked for.",
        [], &[];
    Counter LEASES_RENEWED = "leases_renewed_total", Count,
        "Leases of claims whose call was in flight: renewed, found lost, or statements that failed.",
        [result: Closed(&["renewed", "lost", "failed"])], &[];
    Counter CLOCKS_APART = "clocks_apart_total", Count,
        "Samples in which host and database clock were too far apart, so that claiming stopped.", [], &[];
    Counter ATTEMPTS = "attempts_total", Count, "Attempts by what came of them.",
        [gateway: Configured, verdict: Closed(&[
            "charged", "declined", "not_sent", "in_progress", "pending_at_gateway", "unknown",
            "contract_violation", "voided",
        ])], &[];
    Counter RETRY_SCHEDULED = "retry_scheduled_total", Count, "Next tries written, by ladder and rung (from 1).",
        [ladder: Closed(&["retry", "reask", "pending", "held_back", "given_back"]), step: Open], &[];
    Counter PARKED = "parked_total", Count, "Payments parked by this process.", [reason: Computed(reasons)], &[];
    Counter HEARTBEATS_LATE = "worker_heartbeats_late_total", Count,
        "Times this worker found itself frozen for half a lease and stopped claiming.", [], &[];

    // Gateway.
    Histogram GATEWAY_REQUEST = "gateway_request_seconds", Seconds, "Time of one call.",
        [gateway: Configured, call: Closed(&["charge", "lookup", "void", "refund", "settlement"])], GATEWAY;
    Histogram GATEWAY_PERMIT_WAIT = "gateway_permit_wait_seconds", Seconds,
        "From the instant a notice could be claimed to the slot of its gateway.", [gateway: Configured], QUICK;
    Counter REFUND_ATTEMPTS = "refund_attempts_total", Count, "Attempts to give money back, by what they learned.",
        [result: Closed(&["refunded", "declined", "not_sent", "underway", "unknown", "contract_violation"])], &[];
    Gauge GATEWAY_IN_FLIGHT = "gateway_in_flight", Count, "Calls in flight from this process.",
        [gateway: Configured], &[];
    Gauge GATEWAY_RATE = "gateway_rate", Count,
        "Calls a second that the account is held to, as its workers share it: gateway.rate, or less after a 429; 0: no limit.",
        [gateway: Configured], &[];
    Counter GATEWAY_PERMITS = "gateway_permits_total", Count,
        "Calls that this process was given the time for, where the account has a rate; unused ones are given back.",
        [gateway: Configured, call: Closed(&["charge", "lookup"])], &[];
    Gauge GATEWAY_SLOTS = "gateway_slots", Count,
        "Calls in flight that this process may have, where all workers together have a limit.",
        [gateway: Configured], &[];
    Gauge GATEWAY_PAUSED = "gateway_paused", Count,
        "1 while nothing is called because the gateway said Retry-After.", [gateway: Configured], &[];
    Gauge GATEWAY_CLOSED = "gateway_closed", Count,
        "1 while people have closed the gateway: by a kill switch, or by a pause.", [gateway: Configured], &[];
    Gauge KILL_SWITCHES = "kill_switches", Count,
        "Kill switches that are thrown, of every kind, as this process knows them.", [], &[];
    Gauge GATEWAY_BREAKER_STATE = "gateway_breaker_state", Count,
        "0: closed. 2: open, nothing is claimed of the account because its calls fail, or because it refuses us. 1: half open, and it is this process whose one call finds out.",
        [gateway: Configured], &[];
    Counter GATEWAY_BREAKER_CHANGES = "gateway_breaker_changes_total", Count,
        "Changes of the breaker that this process made for all.",
        [gateway: Configured, to: Closed(&["closed", "open", "half_open"])], &[];
    Counter GATEWAY_CALLBACKS = "gateway_callbacks_total", Count,
        "Callbacks of the gateway by what became of them; only hinted had a payment asked about.",
        [gateway: Configured, result: Closed(&[
            "hinted", "already_due", "duplicate", "in_flight", "final", "parked", "pending", "no_such_payment",
            "unreadable", "refused",
        ])], &[];
    Counter DECLINES_CAPPED = "declines_capped_total", Count,
        "Payments that failed because their destination was declined too often.", [gateway: Configured], &[];
    Counter DECLINES_UNMAPPED = "declines_unmapped_total", Count,
        "Declines with a code that the table does not list.", [gateway: Configured], &[];

    // Keeper.
    Counter LEASE_EXPIRED = "lease_expired_total", Count, "Claims whose worker recorded no outcome in time.", [], &[];
    Counter DEADLINES_FAILED = "deadlines_failed_total", Count,
        "Payments that failed because executeBefore passed first.", [], &[];
    Gauge PARTITIONS_AHEAD = "partitions_ahead_days", Count, "Days from today that have partitions.", [], &[];
    Gauge OLDEST_OPEN_DAY_AGE = "oldest_open_day_age_days", Count,
        "Age of the oldest day with open rows: what every scan has to cover.", [], &[];
    Counter FORGOTTEN = "forgotten_total", Count,
        "Rows deleted that nobody looks at any more: hourly counts of declines, names of callbacks, daily sums of actors with caps; and webhooks discarded with their endpoint.",
        [what: Closed(&["declines", "callbacks", "actor_days", "webhook_deliveries"])], &[];
    Counter KEEPER_FAILURES = "keeper_failures_total", Count, "Passes that did not do their work.",
        [task: Closed(&["reap", "partitions", "oldest_open_day", "forget", "backlog", "forecast", "minutes", "bulk_redrive", "lineage",
            "reconcile"])], &[];
    Gauge KEEPER_LAST_SUCCESS = "keeper_last_success_timestamp_seconds", Seconds,
        "When a task last did its work, in Unix seconds.",
        [task: Closed(&["reap", "partitions", "oldest_open_day", "forget", "backlog", "forecast", "minutes", "bulk_redrive", "lineage",
            "reconcile"])], &[];

    // Reconciliation.
    Counter RECONCILE_MISMATCHES = "reconcile_mismatches_total", Count,
        "Differences between our books and a gateway's reports that somebody has to look at, once each time that one is opened.",
        [class: Computed(classes)], &[];
    Gauge RECONCILE_OPEN_ITEMS = "reconcile_open_items", Count,
        "Differences that somebody has to look at, now.", [gateway: Configured, class: Computed(classes)], &[];
    Gauge RECONCILE_LAST_SUCCESS = "reconcile_last_success_timestamp_seconds", Seconds,
        "When a day was last compared with a whole report, in Unix seconds.", [gateway: Configured], &[];
    Gauge RECONCILE_SUMS_APART = "reconcile_sums_apart", Count,
        "Sums of a due day and currency, of the last eight due days that were added up, in which payments, attempts, ledger and settlement differ.",
        [gateway: Configured], &[];

    // Publisher.
    Gauge PUBLISHER_OLDEST_AGE = "publisher_oldest_age_seconds", Seconds,
        "Age of the oldest history row that is not in the topic of events, as the leading publisher sees it.",
        [], &[];
    Gauge PUBLISHER_LEADS = "publisher_leads", Count, "1 on the publisher that leads; the others stand by.",
        [], &[];
    Counter EVENTS_PUBLISHED = "events_published_total", Count,
        "Events acknowledged by Kafka and passed by the cursor.", [event: Computed(event_types)], &[];
    Counter PUBLISHER_FENCED = "publisher_fenced_total", Count,
        "Batches after which the cursor was not moved because another publisher leads; their events go out twice.",
        [], &[];
    Counter PUBLISHER_FAILURES = "publisher_failures_total", Count, "Passes that did not go through.",
        [stage: Closed(&["read", "publish", "advance"])], &[];

    // Webhooks.
    Counter WEBHOOKS_OWED = "webhooks_owed_total", Count, "Deliveries of events that became owed to endpoints.", [], &[];
    Counter WEBHOOKS_SKIPPED = "webhooks_skipped_total", Count,
        "Events that were not owed to an endpoint because it had been disabled for a week.", [], &[];
    Counter WEBHOOK_DELIVERIES = "webhook_deliveries_total", Count,
        "Tries by what became of their delivery; fenced: another took it over meanwhile, or its owner sent it again.",
        [result: Closed(&["delivered", "again", "failed", "fenced"])], &[];
    Histogram WEBHOOK_REQUEST = "webhook_request_seconds", Seconds, "Time of one request to an endpoint, by its answer.",
        [answer: Closed(&["2xx", "3xx", "4xx", "5xx", "other", "none"])], GATEWAY;
    Gauge WEBHOOKS_IN_FLIGHT = "webhooks_in_flight", Count, "Requests to endpoints under way in this process.", [], &[];
    Gauge WEBHOOK_BACKLOG = "webhook_backlog", Count,
        "Deliveries owed to endpoints that are not disabled, as the leading publisher counts them, up to 10000; NaN while they cannot be counted.", [], &[];
    Gauge WEBHOOK_OLDEST_AGE = "webhook_oldest_age_seconds", Seconds,
        "How long the oldest delivery waits for a sender although it is due and its endpoint does not rest, or the oldest event to be fanned out; where that cannot be asked, it grows from what it last was.",
        [], &[];
    Counter WEBHOOK_ENDPOINTS_DISABLED = "webhook_endpoints_disabled_total", Count,
        "Endpoints disabled by the sender.", [reason: Closed(&["gone", "failing"])], &[];
    Counter WEBHOOK_FAILURES = "webhook_failures_total", Count,
        "Passes, takings, notings and countings that did not go through; they are repeated.",
        [stage: Closed(&["fan_out", "take", "note", "count"])], &[];

    // The process.
    Counter TRACE_SPANS = "trace_spans_total", Count,
        "Spans of traces that went to the collector, or were lost because it did not take them; none where no variable names one.",
        [result: Closed(&["sent", "lost"])], &[];
    Gauge BUILD_INFO = "build_info", Count, "1, with the version as a label.", [version: Open], &[];
}

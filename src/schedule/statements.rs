//! Every statement once: its file, and the text sent to Postgres.
//!
//! One statement a file under `sql/`; each opens with who calls it, which index serves it and what
//! zero rows means. A test prepares all of them on the migrated database and holds the plans of the
//! hot ones: only the partitions they name, by the index they name.

/// A statement with its file.
#[derive(Debug, Clone, Copy)]
pub struct Statement {
    /// `sql/<name>.sql`.
    pub file: &'static str,
    /// The text sent to Postgres.
    pub text: &'static str,
}

impl Statement {
    /// The statement of this file name without its ending.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|statement| statement.file == format!("sql/{name}.sql"))
    }
}

macro_rules! statements {
    ($( $constant:ident = $file:literal ),* $(,)?) => {
        $( pub(super) const $constant: &str = include_str!($file); )*
        /// All of them.
        pub const ALL: &[Statement] = &[ $( Statement { file: $file, text: $constant }, )* ];
    };
}

statements! {
    ACKNOWLEDGE = "sql/acknowledge.sql",
    ACQUIRE_SHARDS = "sql/acquire_shards.sql",
    ACTOR_NAMED = "sql/actor_named.sql",
    ADD_ACTOR = "sql/add_actor.sql",
    ADD_API_KEY = "sql/add_api_key.sql",
    ADVANCE_OLDEST_OPEN_DAY = "sql/advance_oldest_open_day.sql",
    APPLIED_MIGRATIONS = "sql/applied_migrations.sql",
    ASK_APPROVAL = "sql/ask_approval.sql",
    AUDIT_ATTEMPTS = "sql/audit_attempts.sql",
    AUDIT_BAD_NOTICES = "sql/audit_bad_notices.sql",
    AUDIT_BEGIN = "sql/audit_begin.sql",
    AUDIT_EXTENT = "sql/audit_extent.sql",
    AUDIT_HISTORY = "sql/audit_history.sql",
    AUDIT_KEYS = "sql/audit_keys.sql",
    AUDIT_PAYMENTS = "sql/audit_payments.sql",
    AWAIT_KEY = "sql/await_key.sql",
    BULK_CANDIDATES = "sql/bulk_candidates.sql",
    BULK_CREATE = "sql/bulk_create.sql",
    BULK_FIND = "sql/bulk_find.sql",
    BULK_PASSED = "sql/bulk_passed.sql",
    BULK_PREVIEW = "sql/bulk_preview.sql",
    BULK_SWITCH = "sql/bulk_switch.sql",
    BULK_TAKE = "sql/bulk_take.sql",
    CANCEL = "sql/cancel.sql",
    CLAIM = "sql/claim.sql",
    CLAIM_LATE_CANDIDATES = "sql/claim_late_candidates.sql",
    CONNECTIONS = "sql/connections.sql",
    CREATE = "sql/create.sql",
    DATABASE_NOW = "sql/database_now.sql",
    DAY_IS_ATTACHED = "sql/day_is_attached.sql",
    DEADLINE_CANDIDATES = "sql/deadline_candidates.sql",
    DECIDE_APPROVAL = "sql/decide_approval.sql",
    DEFER = "sql/defer.sql",
    DROP_DRAINED_NOTICES = "sql/drop_drained_notices.sql",
    ENLIST_RELAY = "sql/enlist_relay.sql",
    ENSURE_PARTITIONS = "sql/ensure_partitions.sql",
    EXPIRE_APPROVAL = "sql/expire_approval.sql",
    EXPIRE_APPROVALS = "sql/expire_approvals.sql",
    EXPLAIN = "sql/explain.sql",
    EXTENT = "sql/extent.sql",
    FAIL_BY_DEADLINE = "sql/fail_by_deadline.sql",
    FENCE = "sql/fence.sql",
    FIND = "sql/find.sql",
    FIND_API_KEY = "sql/find_api_key.sql",
    FIND_APPROVAL = "sql/find_approval.sql",
    FIND_PARKED = "sql/find_parked.sql",
    FORECAST = "sql/forecast.sql",
    FORECAST_WINDOW = "sql/forecast_window.sql",
    FORGET_CALLBACKS = "sql/forget_callbacks.sql",
    FORGET_DECLINES = "sql/forget_declines.sql",
    FOUND_DIGESTS = "sql/found_digests.sql",
    FOUND_EXTERNAL_ID = "sql/found_external_id.sql",
    FOUND_KEY = "sql/found_key.sql",
    HISTORY = "sql/history.sql",
    HISTORY_BOUNDS = "sql/history_bounds.sql",
    INSTALLATION = "sql/installation.sql",
    KEEP_BAD_NOTICE = "sql/keep_bad_notice.sql",
    LINEAGE_IS_RELEASED = "sql/lineage_is_released.sql",
    LIST_ACTS = "sql/list_acts.sql",
    LIST_API_KEYS = "sql/list_api_keys.sql",
    LIST_APPROVALS = "sql/list_approvals.sql",
    LIST_BY_CREATION = "sql/list_by_creation.sql",
    LIST_BY_DUE = "sql/list_by_due.sql",
    LIST_BY_GATEWAY_REF = "sql/list_by_gateway_ref.sql",
    LIST_PARKED = "sql/list_parked.sql",
    LIST_PAYMENTS = "sql/list_payments.sql",
    LOCK_APPROVAL = "sql/lock_approval.sql",
    MAKE_PACE = "sql/make_pace.sql",
    MAKE_SHARDS = "sql/make_shards.sql",
    MARK = "sql/mark.sql",
    MISSING_DAYS = "sql/missing_days.sql",
    OLDEST_DUE = "sql/oldest_due.sql",
    OPEN_DAYS = "sql/open_days.sql",
    PING = "sql/ping.sql",
    POISON = "sql/poison.sql",
    PUBLISH_ACQUIRE = "sql/publish_acquire.sql",
    PUBLISH_ADVANCE = "sql/publish_advance.sql",
    PUBLISH_MAKE_CURSOR = "sql/publish_make_cursor.sql",
    PUBLISH_RENEW = "sql/publish_renew.sql",
    PUBLISH_ROWS = "sql/publish_rows.sql",
    PUBLISH_SNAPSHOT = "sql/publish_snapshot.sql",
    PUBLISH_WAITING = "sql/publish_waiting.sql",
    PUBLISH_WINDOW = "sql/publish_window.sql",
    QUARANTINE = "sql/quarantine.sql",
    READ_PACE = "sql/read_pace.sql",
    REAP = "sql/reap.sql",
    REAP_CANDIDATES = "sql/reap_candidates.sql",
    RECORD_ACT = "sql/record_act.sql",
    RECOVER = "sql/recover.sql",
    REDRIVE = "sql/redrive.sql",
    REGISTER_GATEWAY = "sql/register_gateway.sql",
    RELEASE_LINEAGE = "sql/release_lineage.sql",
    RELEASE_SHARDS = "sql/release_shards.sql",
    RENEW = "sql/renew.sql",
    RENEW_SHARDS = "sql/renew_shards.sql",
    RESOLVE = "sql/resolve.sql",
    RETIRE_RELAY = "sql/retire_relay.sql",
    REVOKE_API_KEY = "sql/revoke_api_key.sql",
    SETTLE = "sql/settle.sql",
    SETTLED_ATTEMPTS = "sql/settled_attempts.sql",
    STAGE = "sql/stage.sql",
    STAGE_CROWD = "sql/stage_crowd.sql",
    STAGE_NEXT = "sql/stage_next.sql",
    STAGE_WINDOW = "sql/stage_window.sql",
    STATES = "sql/states.sql",
    STILL_CLAIMABLE = "sql/still_claimable.sql",
    TAKE_CALLBACK = "sql/take_callback.sql",
    WAITING_APPROVAL = "sql/waiting_approval.sql",
    WISH = "sql/wish.sql",
    WORKER_LEAVES = "sql/worker_leaves.sql",
    WRITE_PACE = "sql/write_pace.sql",
}

//! Every statement once: its text, and what a test holds its plan against.
//!
//! One statement a file under `sql/`; each opens with who calls it, which index serves it and what
//! zero rows means.

/// A statement with its name.
#[derive(Debug, Clone, Copy)]
pub struct Statement {
    /// The file's name without its ending.
    pub name: &'static str,
    /// The text sent to Postgres.
    pub text: &'static str,
}

macro_rules! statements {
    ($( $constant:ident = $name:literal ),* $(,)?) => {
        $( pub(super) const $constant: &str = include_str!(concat!("sql/", $name, ".sql")); )*
        /// All of them.
        pub const ALL: &[Statement] = &[ $( Statement { name: $name, text: $constant }, )* ];
    };
}

statements! {
    ACKNOWLEDGE = "acknowledge",
    ACQUIRE_SHARDS = "acquire_shards",
    ADD_ACTOR = "add_actor",
    ADD_API_KEY = "add_api_key",
    ADVANCE_OLDEST_OPEN_DAY = "advance_oldest_open_day",
    AWAIT_KEY = "await_key",
    CANCEL = "cancel",
    CLAIM = "claim",
    CLAIM_LATE_CANDIDATES = "claim_late_candidates",
    CREATE = "create",
    DATABASE_NOW = "database_now",
    DEADLINE_CANDIDATES = "deadline_candidates",
    DEFER = "defer",
    DROP_DRAINED_NOTICES = "drop_drained_notices",
    ENSURE_PARTITIONS = "ensure_partitions",
    EXPLAIN = "explain",
    FAIL_BY_DEADLINE = "fail_by_deadline",
    FENCE = "fence",
    FIND = "find",
    FIND_API_KEY = "find_api_key",
    FIND_ATTEMPTS = "find_attempts",
    FOUND_DIGESTS = "found_digests",
    FOUND_EXTERNAL_ID = "found_external_id",
    FOUND_KEY = "found_key",
    INSTALLATION = "installation",
    KEEP_BAD_NOTICE = "keep_bad_notice",
    MAKE_SHARDS = "make_shards",
    MARK = "mark",
    OPEN_DAYS = "open_days",
    PING = "ping",
    POISON = "poison",
    REAP = "reap",
    REAP_CANDIDATES = "reap_candidates",
    RECOVER = "recover",
    REGISTER_GATEWAY = "register_gateway",
    RELEASE_SHARDS = "release_shards",
    RENEW_SHARDS = "renew_shards",
    SETTLE = "settle",
    SETTLED_ATTEMPTS = "settled_attempts",
    STAGE = "stage",
    STAGE_NEXT = "stage_next",
    STAGE_WINDOW = "stage_window",
    STILL_CLAIMABLE = "still_claimable",
}

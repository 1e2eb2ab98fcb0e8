//! Every setting, its default and its meaning: one table, from which the structs, the loading, the
//! README's table and `config show` are made.
//!
//! **Promise.** A process either runs with settings that are each legal and legal together, or does
//! not start and names every one that is wrong, with where it came from. Secrets are never printed:
//! their type has no `Display`, its `Debug` is `***`, and no error repeats a value given to one.
//!
//! The setting `worker.lease` is that path in TOML, `PUNCTUAL_WORKER__LEASE` in the environment and
//! `--set worker.lease=30s` on the command line; durations carry a unit. Defaults lose to the file,
//! the file to the environment, the environment to the command line.
//!
//! The parts: `value` (how one value reads and shows), `load` (the layers), `check` (combinations
//! that are dangerous together), `show` (for people and for the README), `simulated` (values that only
//! the sandbox has).

mod check;
mod load;
mod show;
mod simulated;
mod value;

pub use check::{Missing, check};
pub use load::{FileText, Inputs, Loaded, Problem, Problems, Source, load};
pub use show::{reference_markdown, shown_as_json, shown_as_table};
pub use simulated::{ALL, Defect, Defects, Latency, Outage, OutageKind};
pub use value::{Secret, Value, without_user};

use crate::domain::window::Window;
use ipnet::IpNet;
use std::time::Duration;

/// One row of the table, as loading and showing see it.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// `worker.lease`.
    pub name: &'static str,
    /// What kind of value it takes, in words.
    pub kind: &'static str,
    /// What it means, with its unit or shape.
    pub doc: &'static str,
    /// Its value is never printed.
    pub secret: bool,
    /// Reads a text into its field; the error says what is wrong, without the value of a secret.
    pub set: fn(&mut Config, &str) -> Result<(), String>,
    /// Its present value as text, in the form that `set` reads; `***` for a secret that is set.
    pub get: fn(&Config) -> String,
}

impl Setting {
    /// The variable that sets it, `PUNCTUAL_WORKER__LEASE`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("PUNCTUAL_{}", self.name.replace('.', "__").to_ascii_uppercase())
    }

    /// The row of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }
}

macro_rules! settings {
    ($( $(#[$section_doc:meta])* $section:ident : $Section:ident { $( $field:ident : $kind:ty = $default:expr, $doc:literal; )* } )*) => {
        $(
            $(#[$section_doc])*
            #[derive(Debug, Clone)]
            pub struct $Section { $( #[doc = $doc] pub $field: $kind, )* }
            impl Default for $Section {
                fn default() -> Self { Self { $( $field: $default, )* } }
            }
        )*
        /// Every setting of every role.
        #[derive(Debug, Clone, Default)]
        pub struct Config { $( $(#[$section_doc])* pub $section: $Section, )* }

        /// Every setting, in the order of the table.
        pub static SETTINGS: &[Setting] = &[ $( $( Setting {
            name: concat!(stringify!($section), ".", stringify!($field)),
            kind: <$kind as Value>::KIND,
            doc: $doc,
            secret: <$kind as Value>::SECRET,
            set: |config, text| {
                config.$section.$field = <$kind as Value>::read(text)?;
                Ok(())
            },
            get: |config| config.$section.$field.show(),
        }, )* )* ];
    };
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

settings! {
    /// Where the truth lives.
    database: Database {
        url: Secret = Secret::default(), "Postgres URL with user and database; also DATABASE_URL. Secret.";
        owner_url: Secret = Secret::default(), "URL of the owner role for migrations and partitions; empty: the same as database.url. Secret.";
        pool: u32 = 8, "Connections of one process for its main work.";
        acquire_timeout: Duration = secs(5), "How long to wait for a connection before answering 503.";
        statement_timeout: Duration = secs(15), "Postgres ends a statement after this long.";
        partition_days_back: u32 = 2, "Day partitions made before today by migrate and keeper.";
        partition_days_ahead: u32 = 370, "Day partitions kept ahead; at least api.horizon + 2 days.";
    }
    /// How the work is distributed.
    kafka: Kafka {
        bootstrap_servers: String = String::new(), "host:port list; also KAFKA_BOOTSTRAP_SERVERS.";
        topic_prefix: String = "payments.".into(), "Prefix of every topic name; a new one makes a new ring.";
        group: String = "punctual-workers".into(), "Consumer group of the workers.";
        partitions: i32 = 12, "Partitions of each topic; divides 48.";
        replication: i32 = 3, "Replication factor of each topic.";
        min_insync_replicas: i32 = 2, "min.insync.replicas of each topic.";
        security_protocol: String = "plaintext".into(), "plaintext, ssl, sasl_plaintext or sasl_ssl.";
        sasl_mechanism: String = "SCRAM-SHA-512".into(), "SASL mechanism, where the protocol has one.";
        sasl_username: String = String::new(), "SASL user.";
        sasl_password: Secret = Secret::default(), "SASL password. Secret.";
        ssl_ca_location: String = String::new(), "File of trusted certificates; empty: the system's.";
        session_timeout: Duration = secs(15), "A worker silent for so long loses its partitions.";
    }
    /// The REST interface.
    api: Api {
        listen: String = "127.0.0.1:8080".into(), "Address and port.";
        horizon: Duration = secs(365 * 86_400), "Latest due time accepted, from now.";
        due_grace: Duration = secs(0), "How far in the past a due time may lie.";
        max_amount_minor: i64 = 100_000_000, "Largest amount accepted, in minor units.";
        request_timeout: Duration = secs(10), "A request is answered after this long: 503, or 408 while its body has not arrived.";
        header_timeout: Duration = secs(10), "A connection that has not sent its headers by then is closed.";
        max_connections: usize = 4_096, "Connections open at once; more wait.";
        max_streams: usize = 256, "Streams of events open at once, a quarter of them for one actor; more are refused with 503.";
        key_cache: Duration = secs(3), "How long a verified API key is believed; under 5 s.";
        rate_per_actor: u32 = 0, "Requests a second taken from one actor by this process, with as many at once after a pause; more are 429. 0: no limit.";
        rate_per_address: u32 = 0, "The same from one address (an IPv6 /64), whoever it is. 0: no limit.";
        failed_auth_per_address: u32 = 600, "Refused keys and tokens a minute from one address; past that, only those confirmed before are looked at. 0: no limit.";
        trusted_proxies: Vec<IpNet> = Vec::new(), "Networks of proxies whose X-Forwarded-For is believed, like 10.0.0.0/8,fd00::/8; empty: the peer's address counts.";
        drain_grace: Duration = secs(5), "Asked to stop, it says that it is not ready and goes on taking requests for so long, until load balancers have heard it.";
    }
    /// Tokens of an identity provider, taken beside API keys.
    oidc: Oidc {
        issuer: String = String::new(), "Whose tokens are taken, exactly as their iss says it; empty: nobody's.";
        audience: String = String::new(), "What their aud must name.";
        jwks: String = String::new(), "Its public keys (JWKS): an https URL, or a file.";
        refresh: Duration = secs(300), "How often the keys are read anew; a kid that is not known is looked for at once, at most every 10s.";
        leeway: Duration = secs(30), "Its clock and the database's may differ by so much; at most 30s.";
        actor_claim: String = "sub".into(), "Claim that names the actor, which is made if it is new; never one that its users choose themselves.";
        scope_claim: String = "scope".into(), "Claim that says what may be done: a text with spaces, or a list of texts.";
        scopes: String = String::new(), "What its values give, like shop=payments:read+payments:write,support=ops:read; empty: those that are scopes give themselves.";
    }
    /// From the outbox to the ring.
    relay: Relay {
        name: String = String::new(), "Stable name of this instance; empty: host and process id.";
        lead: Duration = secs(90), "How far ahead notices are published.";
        guard: Duration = secs(15), "A minute closer than this gets its notices through payments.due.now.";
        batch: u32 = 1_000, "Notices read and published at once.";
        poll: Duration = ms(500), "Longest sleep between two looks.";
        shard_lease: Duration = secs(10), "A relay silent for so long loses its shards.";
    }
    /// From the ring to the outcome.
    worker: Worker {
        slot: String = String::new(), "Stable slot name (group.instance.id): its partitions wait for it through a restart; empty: others take them at once when it stops.";
        lease: Duration = secs(30), "How long a claim holds.";
        margin: Duration = secs(5), "Kept free on both sides of the lease.";
        claim_batch: usize = 200, "Most rows claimed by one statement.";
        max_in_flight: usize = 256, "Most calls of one gateway in flight in this process; gateway.max_in_flight, if less.";
        late_by: Duration = secs(15), "The late scan claims rows this much overdue; 0 while Kafka is away.";
        late_poll: Duration = secs(1), "How often the late scan looks.";
        defer_after: Duration = secs(60), "A record held for so long by a closed gateway is left to the late scan.";
        max_held: usize = 100_000, "Most notices held in memory for their instant, at 300 bytes or less each.";
        clock_tolerance: Duration = ms(500), "Host and database clock further apart than this stop claiming.";
        drain: Duration = secs(22), "Longest wait for calls in flight at shutdown.";
    }
    /// Loops that watch the schedule.
    keeper: Keeper {
        reap_every: Duration = secs(1), "How often expired leases and deadlines are looked for.";
        reap_batch: u32 = 500, "Rows moved by one pass.";
        partitions_every: Duration = secs(600), "How often partitions are made ahead and the oldest open day is moved.";
        backlog_every: Duration = secs(15), "How often the age of the oldest due row and the like are measured.";
    }
    /// From the history to the topic of events.
    publisher: Publisher {
        name: String = String::new(), "Stable name of this instance; empty: host and process id.";
        batch: u32 = 1_000, "Events read and published at once.";
        poll: Duration = ms(500), "Pause after everything was published.";
        lease: Duration = secs(10), "A publisher silent for so long loses the lead to another.";
    }
    /// From the history to the endpoints that clients named.
    webhooks: Webhooks {
        allow: Vec<IpNet> = Vec::new(), "Networks that endpoints may lie in although they are not of the public internet, like 127.0.0.0/8,fd00::/8; http is taken for these alone.";
        max_in_flight: usize = 64, "Most requests in flight from one process, shared fairly among endpoints.";
        connect_timeout: Duration = secs(5), "Time to connect, with the look-up of the name.";
        timeout: Duration = secs(15), "Time for the whole request; a process that dies in it leaves its deliveries to others three times as long after it began.";
        poll: Duration = ms(500), "Pause after everything that is due was sent.";
        batch: u32 = 1_000, "Events fanned out at once.";
        ladder: Vec<Duration> = vec![secs(5), secs(300), secs(1_800), secs(7_200), secs(18_000), secs(36_000), secs(36_000)], "Waits between tries of one delivery; after the last one it has failed, and can be sent again by its owner.";
        jitter_percent: u32 = 20, "Each wait is lengthened by up to this much.";
        retry_after_cap: Duration = secs(86_400), "Longest Retry-After obeyed.";
        rest_cap: Duration = secs(300), "An endpoint that fails several times in a row rests, at first 1s and then longer and longer, up to this; meanwhile its deliveries keep their tries.";
        disable_after: Duration = secs(5 * 86_400), "An endpoint that has failed for so long without one success is disabled.";
        max_endpoints: u32 = 20, "Endpoints of one actor; more are refused.";
        secret_overlap: Duration = secs(86_400), "After a rotation both secrets sign for so long, where the request names no time; at most 30d.";
        keep_days: u32 = 30, "Days for which deliveries and their tries can be looked at and sent again.";
    }
    /// Our books against the gateways' reports.
    reconcile: Reconcile {
        hour: u32 = 4, "Hour of UTC from which the keeper wants the report of the day before, if gateway.settlement_url says where it is.";
        catch_up_days: u32 = 7, "Days before that which the keeper looks back for ones that were not compared.";
        retry_every: Duration = secs(600), "How often the keeper looks for a day to compare, and again at what waits.";
        grace_days: u32 = 2, "Days after the one on which it was charged until a charge must stand in a report; before, it is late.";
        repair: String = "safe".into(), "What is repaired without a person: none; safe (an unknown outcome, and what was parked because a restore had lost its charge, is completed by a line that fits, what is pending and charged is parked, a refund ends by the line with its key); automatic (besides, parked payments are completed, and unknown ones parked by a line that does not fit).";
        keep_days: u32 = 400, "Days for which the lines of reports are kept.";
    }
    /// The generic HTTP gateway; the `sandbox` gateway is one of these.
    gateway: Gateway {
        name: String = "sandbox".into(), "Name that payments refer to; also the default gateway.";
        url: String = String::new(), "Base URL; charges are POSTed to it with /charges appended; also SANDBOX_URL.";
        account: String = "sandbox-1".into(), "Identity of the account at the gateway; never edited while keys are open.";
        secret: Secret = "sandbox-secret".into(), "Bearer token sent to the gateway. Secret.";
        key_ttl: Duration = secs(86_400), "How long the gateway remembers an idempotency key.";
        key_margin: Duration = secs(3_600), "Distance kept from key_ttl.";
        replays_declines: bool = false, "The gateway replays a stored decline under the same key. False unless proven.";
        replays_5xx: bool = false, "The gateway replays a stored 5xx under the same key. False unless proven.";
        compares_body: bool = true, "The gateway refuses another body under a used key.";
        lookup: bool = true, "The gateway can be asked about a key.";
        voids_by_key: bool = false, "A void by key is a tombstone: every later charge under the key is refused, for ever. False unless proven.";
        refunds: bool = false, "POST /refunds gives money back once a key, and never more than its charge. False unless proven.";
        not_found_horizon: Duration = secs(60), "A send is visible to look-ups after this long.";
        async_final_within: Duration = secs(3_600), "A pending charge is decided by then.";
        callback_secret: Secret = Secret::default(), "Signs the gateway's callbacks (Standard Webhooks, whsec_…); empty: none are taken. Secret.";
        declines_per_day: u32 = 10, "Declines of one destination within 24 hours, of all payments together, at which a soft decline becomes final; the strictest limit of the two large card networks. 0: no cap.";
        declines_per_30_days: u32 = 15, "The same within 30 days. 0: no cap.";
        settlement_url: String = String::new(), "Where a day's settlement report is fetched, with ?day=2026-11-28 and the secret: a URL, or a path after gateway.url like settlement; empty: nowhere, reports are brought as files.";
        settlement_format: String = "sandbox".into(), "Format of those reports, with its options: sandbox, stripe, adyen, camt.053 or camt.054.";
        settlement_within: Duration = secs(600), "Longest time for one report; one of which nothing comes for gateway.total_timeout is given up before.";
        settlement_max_bytes: u64 = 4_294_967_296, "Largest report taken, in bytes.";
        connect_timeout: Duration = secs(5), "Time to connect.";
        total_timeout: Duration = secs(20), "Time for the whole call; less than worker.lease − worker.margin, unless renew_lease.";
        renew_lease: bool = false, "Leases are renewed while the gateway is called, so a call may outlast worker.lease.";
        max_in_flight: usize = 256, "Most calls in flight from one worker.";
        max_in_flight_total: u32 = 0, "Most calls in flight from all workers together. 0: no limit.";
        rate: u32 = 0, "Charges, voids and look-ups a second that the account takes, from all workers together. 0: no limit.";
        lookup_share: u32 = 10, "Per cent of gateway.rate kept for look-ups and voids, which charges may not use.";
        execute_within: Option<Window> = None, "Payments that name no executeWithin are spread over this long after their due time; whole seconds up to 1d. 0s: not at all.";
    }
    /// The simulated gateway; what each switch imitates is told in the README.
    sandbox: Sandbox {
        listen: String = "127.0.0.1:8090".into(), "Address and port.";
        ledger: String = "sandbox-ledger.ndjson".into(), "File of the durable ledger.";
        secret: Secret = "sandbox-secret".into(), "Bearer token expected. Secret.";
        key_ttl: Duration = secs(86_400), "How long an idempotency key is remembered; the same key is then a new charge.";
        replays_declines: bool = false, "Declines are stored and replayed under their key; false: executed anew.";
        replays_5xx: bool = false, "500s are stored and replayed under their key; false: the resend tells what was executed.";
        compares_body: bool = true, "Another body under a used key is refused; false: answered as the first one was.";
        voids_by_key: bool = false, "POST /voids leaves a tombstone under a key that was not decided; false: 404.";
        latency: Latency = Latency::Fixed(ms(20)), "Time before an answer: 20ms, 10ms..50ms, or a table like p50=20ms,p99=300ms,p99.9=2s.";
        seed: u64 = 0, "Chooses latencies and defects; the same seed and requests give the same ones.";
        rate: u32 = 0, "Charges and look-ups a second of the account; above it 429 with Retry-After. 0: no limit.";
        burst: u32 = 0, "Calls taken at once after a pause; 0: one second's worth.";
        outages: Vec<Outage> = Vec::new(), "Windows from the start: kind@from+length or kind@from+length/every; kinds refuse, unavailable, unavailable_charged, silent, silent_charged.";
        callback_url: String = String::new(), "Where decisions about accepted charges (sim_pending_*) are told, like http://127.0.0.1:8080/v1/gateway-callbacks/sandbox; empty: nowhere.";
        callback_secret: Secret = Secret::default(), "Signs those callbacks; the receiver's gateway.callback_secret. Secret.";
        callback_copies: u32 = 1, "Copies of each, at once; with more than one also an early one that says the opposite.";
        callback_late: Duration = secs(0), "From the decision to its callback.";
        fee_fixed_minor: i64 = 25, "Fee of each settled charge, in minor units.";
        fee_basis_points: u32 = 150, "Fee of each settled charge, in hundredths of a per cent, rounded up.";
        settlement_defects: Defects = Defects::default(), "Wrong lines of each day's report, like missing:1,doubled:1,amount:1,currency:1,unknown:1,late:1,orphan:1,refund:1.";
    }
    /// Times of the ladders, scaled for tests.
    ladder: Ladder {
        retry: Vec<Duration> = vec![secs(60), secs(300), secs(1_800), secs(7_200), secs(43_200)], "Waits between sends after a proven non-charge.";
        reask: Vec<Duration> = vec![secs(5), secs(30), secs(120), secs(600), secs(3_600)], "Waits between questions about an unknown outcome; the last one repeats.";
        pending: Vec<Duration> = vec![secs(5), secs(30), secs(120), secs(600)], "Waits between questions about a charge pending at the gateway; the last one repeats.";
        held_back: Vec<Duration> = vec![secs(1), secs(5), secs(15), secs(60), secs(300)], "Waits after a send the gateway did not take; the last one repeats.";
        jitter_percent: u32 = 10, "Each wait is lengthened by up to this much.";
        retry_after_cap: Duration = secs(3_600), "Longest Retry-After obeyed.";
        held_back_limit: i16 = 50, "Sends in a row that the gateway may refuse to take before the payment parks.";
        held_back_for: Duration = secs(86_400), "How long that may last before the payment parks.";
    }
    /// What people may do.
    operations: Operations {
        approve_above_minor: i64 = 100_000, "A larger amount, in minor units, needs a second person to be re-driven; a new gateway key always does.";
        bulk_every: Duration = secs(1), "How often the keeper looks for a batch of a bulk re-drive; each is at most a second's worth.";
    }
    /// The pages for people, served by the API at /ui.
    dashboard: Dashboard {
        environment: String = "production".into(), "Name of this installation, in the head of every page.";
        secure_cookie: bool = true, "Cookies are sent over https alone; false only where the pages are looked at over plain http on one machine.";
        session: Duration = secs(8 * 3_600), "A login ends after so long, or with its key; at most 24h.";
        read_only: bool = false, "Nobody can act from the pages, whatever their key may do.";
        logins_per_address: u32 = 20, "Attempts to log in a minute from one address; more are 429. 0: no limit.";
        max_streams: usize = 256, "Pages that are kept fresh at once by one process; the others are shown anew by hand.";
    }
    /// Where a role other than the API can be looked at.
    metrics: Metrics {
        listen: String = String::new(), "Address of /metrics, /livez and /readyz for roles other than the API; empty: none.";
    }
    /// The commands of people, which are clients of the API like any other.
    client: Client {
        url: String = "http://127.0.0.1:8080".into(), "Where the API is; also PUNCTUAL_URL.";
        api_key: Secret = Secret::default(), "API key of whoever uses the commands; also PUNCTUAL_API_KEY. Secret.";
        timeout: Duration = secs(30), "Longest wait for one answer; longer than api.request_timeout, so that the API's own word comes first.";
    }
}

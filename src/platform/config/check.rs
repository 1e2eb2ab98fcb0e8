//! Settings that are each legal and dangerous together.
//!
//! Every rule here protects a promise that no other place would notice being broken before money or
//! lateness shows it; the sentence that refuses says which.

mod reconcile;
mod webhooks;

use super::load::{Problem, Problems};
use super::{Config, Setting, without_user};
use crate::domain::lease::renewal_interval;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
/// librdkafka's `max.poll.interval.ms` as the workers set it; a session may not outlive it.
const MAX_POLL: Duration = Duration::from_secs(120);
/// Brokers refuse shorter sessions unless told otherwise (`group.min.session.timeout.ms`).
const MIN_SESSION: Duration = Duration::from_secs(6);

/// What is refused, and what is only suspicious.
#[must_use]
pub fn check(config: &Config) -> (Vec<Problem>, Vec<Problem>) {
    let mut found = Found { config, refused: Vec::new(), warned: Vec::new() };
    lease(&mut found);
    gateway(&mut found);
    kafka(&mut found);
    relay(&mut found);
    publisher(&mut found);
    webhooks::webhooks(&mut found);
    reconcile::reconcile(&mut found);
    api(&mut found);
    dashboard(&mut found);
    oidc(&mut found);
    partitions(&mut found);
    loops(&mut found);
    addresses(&mut found);
    sandbox(&mut found);
    client(&mut found);
    (found.refused, found.warned)
}

/// What a role needs and nobody set.
pub type Missing = Problems;

impl Config {
    /// Refuses to go on without these settings.
    ///
    /// # Errors
    /// All of them that are empty.
    pub fn require(&self, names: &[&'static str]) -> Result<(), Missing> {
        let empty = |name: &&&str| Setting::named(name).is_none_or(|setting| (setting.get)(self).is_empty());
        let missing: Vec<Problem> = names
            .iter()
            .filter(empty)
            .map(|name| {
                let variable = Setting::named(name).map(Setting::variable).unwrap_or_default();
                Problem::new(*name, format!("this role needs it and it is not set; set {variable}"))
            })
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(Problems::refused(missing)) }
    }
}

struct Found<'a> {
    config: &'a Config,
    refused: Vec<Problem>,
    warned: Vec<Problem>,
}

impl Found<'_> {
    /// The settings with their values, so that nobody has to look them up.
    fn named(&self, names: &[&str]) -> String {
        let with_value = |name: &&str| {
            let value = Setting::named(name).map_or_else(String::new, |setting| (setting.get)(self.config));
            format!("{name} = {value}")
        };
        names.iter().map(with_value).collect::<Vec<_>>().join(", ")
    }

    fn refuse_unless(&mut self, fine: bool, names: &[&str], why: &str) {
        if !fine {
            self.refused.push(Problem::new(self.named(names), why));
        }
    }

    fn warn_unless(&mut self, fine: bool, names: &[&str], why: &str) {
        if !fine {
            self.warned.push(Problem::new(self.named(names), why));
        }
    }
}

/// Rules R9 and R14: a claim's time, and who may still act in it.
fn lease(found: &mut Found<'_>) {
    let (worker, gateway) = (&found.config.worker, &found.config.gateway);
    found.refuse_unless(
        gateway.renew_lease || gateway.total_timeout < worker.lease.saturating_sub(worker.margin),
        &["gateway.total_timeout", "worker.lease", "worker.margin"],
        "the gateway's time-out must be shorter than lease − margin, or a call outlives its claim",
    );
    found.refuse_unless(
        !gateway.renew_lease || worker.margin + renewal_interval(worker.lease) < worker.lease,
        &["worker.lease", "worker.margin", "gateway.renew_lease"],
        "a send may start until lease − margin − a third of the lease, and here that is never",
    );
    found.refuse_unless(
        worker.margin > Duration::ZERO,
        &["worker.margin"],
        "without a margin the reaper and a slow worker meet",
    );
    found.warn_unless(
        worker.clock_tolerance <= Duration::from_millis(500),
        &["worker.clock_tolerance"],
        "clocks further apart than 500ms should stop claiming",
    );
    found.warn_unless(
        worker.drain >= gateway.total_timeout,
        &["worker.drain", "gateway.total_timeout"],
        "a shutdown will abandon calls in flight, and their outcome will be unknown",
    );
    found.warn_unless(
        worker.drain <= Duration::from_secs(22),
        &["worker.drain"],
        "most orchestrators kill a process 30s after asking it to stop, and after the drain it still leaves the group and closes its connections",
    );
    let counts = ["worker.claim_batch", "worker.max_in_flight", "worker.max_held", "gateway.max_in_flight"];
    let enough = worker.claim_batch > 0
        && worker.max_in_flight > 0
        && worker.max_held > 0
        && gateway.max_in_flight > 0;
    found.refuse_unless(enough, &counts, "each must be at least 1, or nothing is ever claimed");
    found.refuse_unless(
        worker.claim_batch <= worker.max_held,
        &["worker.claim_batch", "worker.max_held"],
        "what is claimed at once is held first, so a batch must fit into the hold",
    );
}

/// Rules R4, R6 and R12: what a gateway key can carry.
fn gateway(found: &mut Found<'_>) {
    let (gateway, ladder) = (&found.config.gateway, &found.config.ladder);
    found.refuse_unless(
        gateway.key_margin < gateway.key_ttl,
        &["gateway.key_margin", "gateway.key_ttl"],
        "the margin must be shorter than the key's life, or no send is ever allowed",
    );
    found.refuse_unless(
        gateway.total_timeout <= gateway.key_margin,
        &["gateway.total_timeout", "gateway.key_margin"],
        "a call begun at the last instant that the key may be sent must end while the gateway remembers it",
    );
    found.refuse_unless(
        gateway.lookup || !gateway.replays_5xx,
        &["gateway.replays_5xx", "gateway.lookup"],
        "a gateway that replays a stored 5xx can only be understood by a look-up",
    );
    found.refuse_unless(
        gateway.connect_timeout <= gateway.total_timeout,
        &["gateway.connect_timeout", "gateway.total_timeout"],
        "connecting is part of the call and cannot take longer",
    );
    found.refuse_unless(
        is_name(&gateway.name) && !gateway.account.is_empty(),
        &["gateway.name", "gateway.account"],
        "the name is 1 to 64 of a-z, 0-9, _ and -; the account is not empty",
    );
    found.refuse_unless(
        gateway.url.is_empty() || gateway.url.starts_with("http://") || gateway.url.starts_with("https://"),
        &["gateway.url"],
        "must begin with http:// or https://",
    );
    found.refuse_unless(
        gateway.callback_secret.is_empty() || gateway.callback_secret.len() >= 24,
        &["gateway.callback_secret"],
        "24 characters at least, or it can be guessed",
    );
    let share_is_fine = (1..=90).contains(&gateway.lookup_share);
    found.refuse_unless(share_is_fine, &["gateway.lookup_share"], "must be from 1 to 90 per cent");
    found.warn_unless(
        is_private(&gateway.url),
        &["gateway.url"],
        "the bearer token and the payee travel unencrypted",
    );
    found.warn_unless(
        is_private(&gateway.settlement_url),
        &["gateway.settlement_url"],
        "the bearer token and the report travel unencrypted",
    );
    let steps = [&ladder.reask, &ladder.pending, &ladder.held_back];
    found.refuse_unless(
        steps.iter().all(|waits| !waits.is_empty()),
        &["ladder.reask", "ladder.pending", "ladder.held_back"],
        "each needs at least one wait, because its last one repeats",
    );
    found.refuse_unless(
        steps.into_iter().chain([&ladder.retry]).flatten().all(|wait| *wait > Duration::ZERO),
        &["ladder.retry", "ladder.reask", "ladder.pending", "ladder.held_back"],
        "a wait of nothing is a storm at the gateway",
    );
    found.refuse_unless(
        ladder.jitter_percent <= 100 && ladder.held_back_limit > 0,
        &["ladder.jitter_percent", "ladder.held_back_limit"],
        "jitter is at most 100 and the limit at least 1",
    );
}

fn kafka(found: &mut Found<'_>) {
    let kafka = &found.config.kafka;
    found.refuse_unless(
        kafka.partitions > 0 && 48 % kafka.partitions == 0,
        &["kafka.partitions"],
        "must divide 48, so that a shard of the outbox has exactly one partition",
    );
    found.refuse_unless(
        (1..=kafka.replication).contains(&kafka.min_insync_replicas),
        &["kafka.min_insync_replicas", "kafka.replication"],
        "must be from 1 to the replication factor, or no notice can be written",
    );
    found.refuse_unless(
        (MIN_SESSION..=MAX_POLL).contains(&kafka.session_timeout),
        &["kafka.session_timeout"],
        "must be from 6s (the broker's minimum) to 2m (the longest gap between two polls)",
    );
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    found.refuse_unless(
        kafka.topic_prefix.chars().all(legal) && kafka.topic_prefix.len() <= 200 && !kafka.group.is_empty(),
        &["kafka.topic_prefix", "kafka.group"],
        "a prefix is up to 200 of letters, digits, . _ and -; the group is not empty",
    );
    found.refuse_unless(
        ["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"].contains(&kafka.security_protocol.as_str()),
        &["kafka.security_protocol"],
        "is one of plaintext, ssl, sasl_plaintext and sasl_ssl",
    );
    let sasl = kafka.security_protocol.starts_with("sasl_");
    found.refuse_unless(
        !sasl || !(kafka.sasl_username.is_empty() || kafka.sasl_password.is_empty()),
        &["kafka.security_protocol", "kafka.sasl_username", "kafka.sasl_password"],
        "SASL needs a user and a password",
    );
    found.refuse_unless(
        !sasl || ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"].contains(&kafka.sasl_mechanism.as_str()),
        &["kafka.sasl_mechanism"],
        "is one of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512",
    );
    found.warn_unless(
        kafka.security_protocol != "sasl_plaintext",
        &["kafka.security_protocol"],
        "the connection is not encrypted",
    );
}

fn relay(found: &mut Found<'_>) {
    let relay = &found.config.relay;
    found.refuse_unless(
        relay.lead <= Duration::from_secs(900),
        &["relay.lead"],
        "at most 15m, so that the ring of 60 minutes never meets its own tail",
    );
    found.refuse_unless(
        relay.guard > Duration::ZERO && relay.guard < relay.lead,
        &["relay.guard", "relay.lead"],
        "the guard must be above zero and shorter than the lead, or the ring is never used",
    );
    found.refuse_unless(
        relay.batch > 0 && relay.poll > Duration::ZERO,
        &["relay.batch", "relay.poll"],
        "both must be above zero, or nothing is published",
    );
    found.refuse_unless(
        relay.shard_lease > relay.poll.saturating_mul(2),
        &["relay.shard_lease", "relay.poll"],
        "the lease must outlast two looks, or shards wander between relays",
    );
}

fn publisher(found: &mut Found<'_>) {
    let publisher = &found.config.publisher;
    found.refuse_unless(
        publisher.batch > 0 && publisher.poll > Duration::ZERO,
        &["publisher.batch", "publisher.poll"],
        "both must be above zero, or nothing is published",
    );
    found.refuse_unless(
        publisher.lease >= Duration::from_secs(1),
        &["publisher.lease"],
        "at least 1s: it is renewed every third of it",
    );
}

/// Minor units; thousands of them still add up.
const LARGEST_AMOUNT: i64 = 1_000_000_000_000_000;

fn api(found: &mut Found<'_>) {
    let (api, database) = (&found.config.api, &found.config.database);
    found.refuse_unless(
        api.key_cache < Duration::from_secs(5),
        &["api.key_cache"],
        "must be below 5s: a revoked key is refused within that time",
    );
    found.refuse_unless(
        api.max_amount_minor > 0 && api.max_connections > 0,
        &["api.max_amount_minor", "api.max_connections"],
        "both must be above zero, or every request is refused",
    );
    found.refuse_unless(
        api.max_amount_minor <= LARGEST_AMOUNT,
        &["api.max_amount_minor"],
        "at most 10^15: what a client creates in a day is added up in 64 bits",
    );
    found.refuse_unless(
        database.acquire_timeout < api.request_timeout,
        &["database.acquire_timeout", "api.request_timeout"],
        "the wait for a connection must end before the request does, or clients learn nothing",
    );
    found.refuse_unless(database.pool > 0, &["database.pool"], "at least one connection is needed");
    found.warn_unless(
        api.drain_grace + api.request_timeout < Duration::from_secs(30),
        &["api.drain_grace", "api.request_timeout"],
        "most orchestrators kill a process 30s after asking it to stop, and requests would be cut off",
    );
}

fn dashboard(found: &mut Found<'_>) {
    let dashboard = &found.config.dashboard;
    found.refuse_unless(
        dashboard.session >= Duration::from_secs(60) && dashboard.session <= Duration::from_secs(86_400),
        &["dashboard.session"],
        "1m to 24h: a cookie that is forgotten somewhere must not let people in for long",
    );
}

fn oidc(found: &mut Found<'_>) {
    let oidc = &found.config.oidc;
    found.refuse_unless(
        oidc.issuer.is_empty() || !(oidc.audience.is_empty() || oidc.jwks.is_empty()),
        &["oidc.issuer", "oidc.audience", "oidc.jwks"],
        "tokens need an audience, or those made for others are taken too, and keys to be verified with",
    );
    let local = ["http://127.", "http://[::1]", "http://localhost"];
    found.refuse_unless(
        !oidc.jwks.starts_with("http://") || local.iter().any(|start| oidc.jwks.starts_with(start)),
        &["oidc.jwks"],
        "keys that come unencrypted can be anybody's; https, or a file",
    );
    found.refuse_unless(
        oidc.leeway <= Duration::from_secs(30),
        &["oidc.leeway"],
        "at most 30s: for so long a token is taken that has ended",
    );
    found.refuse_unless(
        (Duration::from_secs(10)..=DAY).contains(&oidc.refresh),
        &["oidc.refresh"],
        "from 10s to 1d: a key that is withdrawn is believed for so long",
    );
    found.refuse_unless(
        !(oidc.actor_claim.is_empty() || oidc.scope_claim.is_empty()),
        &["oidc.actor_claim", "oidc.scope_claim"],
        "both name a claim",
    );
}

fn partitions(found: &mut Found<'_>) {
    let (database, api, keeper) = (&found.config.database, &found.config.api, &found.config.keeper);
    // A part of a day needs the whole of one.
    let days = |length: Duration| length.as_nanos().div_ceil(DAY.as_nanos());
    found.refuse_unless(
        u128::from(database.partition_days_ahead) >= days(api.horizon) + 2,
        &["database.partition_days_ahead", "api.horizon"],
        "partitions must reach 2 days past the horizon, or accepted due times have no place to be",
    );
    found.refuse_unless(
        u128::from(database.partition_days_back) >= days(api.due_grace),
        &["database.partition_days_back", "api.due_grace"],
        "partitions must reach as far back as due times may lie in the past",
    );
    found.refuse_unless(
        keeper.partitions_every > Duration::ZERO && keeper.partitions_every <= DAY,
        &["keeper.partitions_every"],
        "must be above zero and at most 1d, or the days ahead run out",
    );
}

fn loops(found: &mut Found<'_>) {
    let config = found.config;
    found.refuse_unless(
        config.keeper.reap_every > Duration::ZERO && config.keeper.reap_batch > 0,
        &["keeper.reap_every", "keeper.reap_batch"],
        "both must be above zero, or expired leases stay where they are",
    );
    found.refuse_unless(
        config.keeper.backlog_every > Duration::ZERO,
        &["keeper.backlog_every"],
        "must be above zero: it is the pause of a loop",
    );
    found.refuse_unless(
        config.worker.late_poll > Duration::ZERO,
        &["worker.late_poll"],
        "must be above zero: it is the pause of a loop",
    );
    found.warn_unless(
        config.worker.late_by <= Duration::from_secs(30),
        &["worker.late_by"],
        "a payment whose notice was lost waits this long; the promise is 60s with everything else",
    );
}

fn addresses(found: &mut Found<'_>) {
    let config = found.config;
    let listens = [
        ("api.listen", &config.api.listen),
        ("sandbox.listen", &config.sandbox.listen),
        ("metrics.listen", &config.metrics.listen),
    ];
    for (name, listen) in listens {
        let port = listen.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        let legal = port.is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let may_be_empty = name == "metrics.listen" && listen.is_empty();
        found.refuse_unless(legal || may_be_empty, &[name], "is host:port, for example 127.0.0.1:8080");
    }
    let same = |a: &str, b: &str| a == b && !a.is_empty() && !a.ends_with(":0");
    found.refuse_unless(
        !same(&config.api.listen, &config.sandbox.listen)
            && !same(&config.api.listen, &config.metrics.listen)
            && !same(&config.sandbox.listen, &config.metrics.listen),
        &["api.listen", "sandbox.listen", "metrics.listen"],
        "two roles cannot listen on one address",
    );
}

fn sandbox(found: &mut Found<'_>) {
    let sandbox = &found.config.sandbox;
    found.refuse_unless(
        sandbox.rate > 0 || sandbox.burst == 0,
        &["sandbox.burst", "sandbox.rate"],
        "a burst is of a rate, and none is set",
    );
    found.refuse_unless(
        sandbox.callback_url.is_empty() || !sandbox.callback_secret.is_empty(),
        &["sandbox.callback_secret", "sandbox.callback_url"],
        "a callback that nobody signed is refused by whoever gets it",
    );
    found.refuse_unless(
        (0..=1_000_000).contains(&sandbox.fee_fixed_minor) && sandbox.fee_basis_points <= 10_000,
        &["sandbox.fee_fixed_minor", "sandbox.fee_basis_points"],
        "the fixed part is 0 to 1000000 minor units and the other at most the whole amount",
    );
}

fn client(found: &mut Found<'_>) {
    let client = &found.config.client;
    found.refuse_unless(
        ["http://", "https://"].iter().any(|scheme| client.url.starts_with(scheme)),
        &["client.url"],
        "must begin with http:// or https://",
    );
    found.refuse_unless(
        without_user(&client.url) == client.url,
        &["client.url"],
        "must not carry a user or password; client.api_key says who asks",
    );
    found.refuse_unless(
        !client.timeout.is_zero(),
        &["client.timeout"],
        "nothing is answered in no time at all",
    );
    found.warn_unless(is_private(&client.url), &["client.url"], "the API key and payees travel unencrypted");
}

/// Nobody on the way reads what is sent there.
fn is_private(url: &str) -> bool {
    let local = ["http://127.", "http://[::1]", "http://localhost"];
    !url.starts_with("http://") || local.iter().any(|start| url.starts_with(start))
}

fn is_name(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    (1..=64).contains(&text.len()) && text.chars().all(legal)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;

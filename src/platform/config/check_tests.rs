//! Every combination that is refused or warned about, and the edges that are fine.

use super::super::{Inputs, load};

/// Each line: what is set, then the setting that the refusal must name first.
const DANGEROUS: &[(&[&str], &str)] = &[
    (&["gateway.total_timeout=25s"], "gateway.total_timeout = 25s, worker.lease = 30s"),
    (&["worker.lease=20s"], "gateway.total_timeout = 20s, worker.lease = 20s"),
    (&["gateway.renew_lease=true", "worker.margin=20s"], "worker.lease = 30s, worker.margin = 20s"),
    (&["worker.margin=0s"], "worker.margin = 0s"),
    (&["worker.claim_batch=0"], "worker.claim_batch = 0"),
    (&["worker.max_held=199"], "worker.claim_batch = 200, worker.max_held = 199"),
    (&["gateway.key_margin=1d"], "gateway.key_margin = 1d, gateway.key_ttl = 1d"),
    (&["gateway.key_margin=19s"], "gateway.total_timeout = 20s, gateway.key_margin = 19s"),
    (&["gateway.replays_5xx=true", "gateway.lookup=false"], "gateway.replays_5xx = true"),
    (&["gateway.connect_timeout=21s"], "gateway.connect_timeout = 21s"),
    (&["gateway.name=Bank"], "gateway.name = Bank"),
    (&["gateway.callback_secret=whsec_short"], "gateway.callback_secret = ***"),
    (&["gateway.url=ftp://bank"], "gateway.url = ftp://bank"),
    (&["ladder.reask="], "ladder.reask = "),
    (&["ladder.retry=1m,0s"], "ladder.retry = 1m,0s"),
    (&["ladder.jitter_percent=101"], "ladder.jitter_percent = 101"),
    (&["kafka.partitions=0"], "kafka.partitions = 0"),
    (&["kafka.partitions=10"], "kafka.partitions = 10"),
    (&["kafka.replication=1"], "kafka.min_insync_replicas = 2, kafka.replication = 1"),
    (&["kafka.session_timeout=5s"], "kafka.session_timeout = 5s"),
    (&["kafka.topic_prefix=pay ments."], "kafka.topic_prefix = pay ments."),
    (&["kafka.security_protocol=tls"], "kafka.security_protocol = tls"),
    (&["kafka.security_protocol=sasl_ssl"], "kafka.security_protocol = sasl_ssl"),
    (&["relay.lead=16m"], "relay.lead = 16m"),
    (&["relay.guard=90s"], "relay.guard = 90s, relay.lead = 90s"),
    (&["relay.batch=0"], "relay.batch = 0"),
    (&["publisher.batch=0"], "publisher.batch = 0"),
    (&["publisher.lease=100ms"], "publisher.lease = 100ms"),
    (&["relay.shard_lease=1s"], "relay.shard_lease = 1s"),
    (&["api.key_cache=5s"], "api.key_cache = 5s"),
    (&["api.max_amount_minor=0"], "api.max_amount_minor = 0"),
    (&["api.max_amount_minor=1000000000000001"], "api.max_amount_minor = 1000000000000001"),
    (&["dashboard.session=25h"], "dashboard.session = 25h"),
    (&["oidc.issuer=https://id.example"], "oidc.issuer = https://id.example, oidc.audience = , oidc.jwks = "),
    (&["oidc.jwks=http://id.example/keys"], "oidc.jwks = http://id.example/keys"),
    (&["oidc.leeway=31s"], "oidc.leeway = 31s"),
    (&["oidc.refresh=9s"], "oidc.refresh = 9s"),
    (&["oidc.actor_claim="], "oidc.actor_claim = "),
    (&["api.request_timeout=5s"], "database.acquire_timeout = 5s"),
    (&["database.pool=0"], "database.pool = 0"),
    (&["database.partition_days_ahead=366"], "database.partition_days_ahead = 366, api.horizon = 365d"),
    (&["api.horizon=368d 1s"], "database.partition_days_ahead = 370"),
    (&["api.due_grace=49h"], "database.partition_days_back = 2, api.due_grace = 49h"),
    (&["keeper.partitions_every=25h"], "keeper.partitions_every = 25h"),
    (&["keeper.reap_batch=0"], "keeper.reap_every = 1s, keeper.reap_batch = 0"),
    (&["keeper.backlog_every=0s"], "keeper.backlog_every = 0s"),
    (&["worker.late_poll=0s"], "worker.late_poll = 0s"),
    (&["api.listen=8080"], "api.listen = 8080"),
    (&["sandbox.listen=127.0.0.1:8080"], "api.listen = 127.0.0.1:8080"),
    (&["sandbox.callback_url=http://127.0.0.1:1/x"], "sandbox.callback_secret = "),
    (&["sandbox.burst=5"], "sandbox.burst = 5, sandbox.rate = 0"),
    (&["reconcile.hour=24"], "reconcile.hour = 24"),
    (&["reconcile.catch_up_days=0"], "reconcile.catch_up_days = 0"),
    (&["reconcile.retry_every=0s"], "reconcile.retry_every = 0s"),
    (&["reconcile.grace_days=0"], "reconcile.grace_days = 0"),
    (&["reconcile.repair=person"], "reconcile.repair = person"),
    (&["reconcile.keep_days=16"], "reconcile.keep_days = 16"),
    (&["client.url=punctual.example"], "client.url = punctual.example"),
    (&["client.url=https://ann:hush@h"], "client.url = https://***@h"),
    (&["client.url=https://ann:hu/sh@h"], "client.url = https://***@h"),
    (&["client.timeout=0s"], "client.timeout = 0s"),
    (&["sandbox.fee_basis_points=10001"], "sandbox.fee_fixed_minor = 25, sandbox.fee_basis_points = 10001"),
];

fn with(sets: &[&str]) -> Inputs {
    Inputs { sets: sets.iter().map(|set| (*set).to_owned()).collect(), ..Inputs::default() }
}

#[test]
fn each_dangerous_combination_is_refused_by_name_and_value() {
    for (sets, names) in DANGEROUS {
        let refused = load(&with(sets)).expect_err(&format!("{sets:?} must be refused"));
        assert_eq!(refused.refused.len(), 1, "{sets:?}: {refused}");
        assert!(refused.refused[0].what.starts_with(names), "{sets:?}: {refused}");
    }
}

#[test]
fn the_defaults_and_the_edges_of_the_rules_are_accepted() {
    let edges: &[&[&str]] = &[
        &[],
        &["worker.lease=27001ms", "gateway.total_timeout=22s"],
        &["worker.lease=27s", "gateway.total_timeout=22s", "gateway.renew_lease=true"],
        &["gateway.key_margin=20s"],
        &["relay.lead=15m"],
        &["api.horizon=368d"],
        &["api.due_grace=2d"],
        &["kafka.partitions=48"],
        &["api.key_cache=4999ms"],
        &[
            "oidc.issuer=https://id.example",
            "oidc.audience=punctual",
            "oidc.jwks=keys.json",
            "oidc.leeway=0s",
        ],
        &["api.listen=127.0.0.1:0", "sandbox.listen=127.0.0.1:0"],
        &["kafka.security_protocol=sasl_ssl", "kafka.sasl_username=u", "kafka.sasl_password=p"],
    ];
    for sets in edges {
        let loaded = load(&with(sets)).unwrap_or_else(|why| panic!("{sets:?}: {why}"));
        assert_eq!(loaded.warnings, [], "{sets:?}");
    }
}

#[test]
fn what_is_only_suspicious_is_warned_about() {
    for (set, name) in [
        ("worker.clock_tolerance=2s", "worker.clock_tolerance"),
        ("worker.drain=5s", "worker.drain"),
        ("worker.drain=40s", "worker.drain"),
        ("api.drain_grace=20s", "api.drain_grace"),
        ("worker.late_by=1m", "worker.late_by"),
        ("gateway.url=http://bank.example", "gateway.url"),
        ("client.url=http://punctual.example", "client.url"),
    ] {
        let loaded = load(&with(&[set])).unwrap_or_else(|why| panic!("{set}: {why}"));
        assert_eq!(loaded.warnings.len(), 1, "{set}");
        assert!(loaded.warnings[0].what.starts_with(name), "{set}: {:?}", loaded.warnings);
    }
}

#[test]
fn a_role_names_everything_it_lacks() {
    let config = load(&with(&["database.url=postgres://u@h/d"])).unwrap().config;
    assert!(config.require(&["database.url"]).is_ok());
    let missing = config.require(&["database.url", "gateway.url", "kafka.bootstrap_servers"]).unwrap_err();
    assert_eq!(missing.refused.len(), 2);
    assert!(missing.to_string().contains("gateway.url: this role needs it"));
}

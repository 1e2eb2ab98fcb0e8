//! Each rule finds what it is for: the real file with one thing made wrong.

use super::{TEXT, findings};

/// What is replaced (everywhere), by what, and the finding that it must make.
const WRONG: &[(&str, &str, &str)] = &[
    ("command: [relay]", "command: [realy]", "relay: the binary refuses"),
    ("command: [topics, apply]", "command: [topics, make]", "topics: the binary refuses"),
    ("command: [keeper]", "command: [relay]", "no service runs the role keeper"),
    (
        "PUNCTUAL_WORKER__SLOT: worker-1",
        "PUNCTUAL_WORKER__SLOTT: worker-1",
        "PUNCTUAL_WORKER__SLOTT is no setting",
    ),
    ("PUNCTUAL_KAFKA__PARTITIONS: \"2\"", "PUNCTUAL_KAFKA__PARTITIONS: two", "kafka.partitions"),
    ("PUNCTUAL_KAFKA__PARTITIONS: \"2\"", "PUNCTUAL_KAFKA__PARTITIONS: \"10\"", "must divide 48"),
    ("REPLICAS: \"1\"", "REPLICAS: \"2\"", "kafka.min_insync_replicas"),
    ("PUNCTUAL_GATEWAY__URL: http://sandbox:8090", "PUNCTUAL_LOG: info", "gateway.url: this role needs it"),
    ("http://sandbox:8090", "http://sandbox:8091", "calls sandbox:8091, where nobody listens"),
    ("redpanda:9092\n  PUNCTUAL", "kafka:9092\n  PUNCTUAL", "calls kafka:9092, where nobody listens"),
    ("POSTGRES_PASSWORD: punctual", "POSTGRES_PASSWORD: other", "its database URL does not fit"),
    ("127.0.0.1:8080/readyz", "127.0.0.1:8080/ready", "api: is asked for its health at"),
    ("127.0.0.1:8090/livez", "127.0.0.1:8090/readyz", "sandbox: is asked for its health at"),
    ("127.0.0.1:9464/readyz", "127.0.0.1:9465/readyz", "relay: is asked for its health at"),
    ("[CMD, punctual, health,", "[CMD, punctual, healthy,", "is no command of the binary"),
    ("127.0.0.1:8080:8080", "8080:8080", "api: the port \"8080:8080\" is reachable from elsewhere"),
    ("127.0.0.1:8080:8080", "127.0.0.1:8080:8088", "api: publishes 8088, where it does not listen"),
    ("127.0.0.1:8081:8080", "127.0.0.1:8080:8080", "127.0.0.1:8080 is published twice"),
    ("sandbox:/var/lib/punctual", "sandbox:/var/lib/other", "lies in no volume"),
    ("\n  grafana:\nE", "\nE", "the volume \"grafana\" is not declared"),
    ("      topics: {condition", "      topic: {condition", "depends on topic, which does not exist"),
    (
        "sandbox: {condition: service_healthy}",
        "sandbox: {condition: service_completed_successfully}",
        "which it never says",
    ),
    (
        "sandbox: {condition: service_healthy}",
        "postgres: {condition: service_healthy}",
        "starts before sandbox",
    ),
    ("PUNCTUAL_WORKER__SLOT: worker-2", "PUNCTUAL_WORKER__SLOT: worker-1", "share PUNCTUAL_WORKER__SLOT"),
    ("postgres:15.15-bookworm", "postgres:15", "postgres: the image \"postgres:15\" is not pinned"),
    ("postgres:15.15-bookworm", "postgres:latest", "postgres: the image \"postgres:latest\" is not pinned"),
    ("postgres:15.15-bookworm", "postgres", "postgres: the image \"postgres\" is not pinned"),
    (
        "  read_only: true\n  tmpfs: [/tmp]\n  cap_drop",
        "  tmpfs: [/tmp]\n  cap_drop",
        "api: can write to its image",
    ),
    ("user: \"10001:10001\"", "user: \"0:0\"", "api: runs as root"),
    ("cap_drop: [ALL]", "cap_drop: []", "redpanda: keeps capabilities"),
    ("[\"no-new-privileges:true\"]", "[]", "console: may gain privileges"),
    ("limits: {cpus: \"1\", memory: 256M}", "limits: {cpus: \"1\"}", "keeper: has no resource limits"),
    ("dockerfile: deploy/Dockerfile", "dockerfile: Dockerfile", "nothing builds the image"),
    (
        "prometheus/alerts.yml:/etc/prometheus/alerts.yml:ro",
        "prometheus/alerts.yml:/etc/prometheus/alerts.yml",
        "prometheus: may write deploy/prometheus/alerts.yml",
    ),
    (
        "./deploy/grafana/provisioning:",
        "./deploy/grafana/provisions:",
        "grafana: mounts deploy/grafana/provisions, which does not exist",
    ),
    (
        "      topics: {condition: service_completed_successfully}\n\n  # Two services",
        "      topics: {condition: service_completed_successfully}\n      prometheus: {condition: service_healthy}\n\n  # Two services",
        "relay: depends on prometheus, which is not always there",
    ),
    ("services:", "services: [", "not YAML"),
];

#[test]
fn each_rule_finds_what_it_is_for() {
    // The end of the file, so that a snippet can stand for its last lines.
    let text = format!("{TEXT}E");
    for (right, wrong, finding) in WRONG {
        assert!(text.contains(right), "the file no longer has {right:?}");
        let spoilt = text.replace(right, wrong);
        let found = findings(spoilt.strip_suffix('E').unwrap_or(&spoilt));
        assert!(found.iter().any(|it| it.contains(finding)), "{wrong:?} must give {finding:?}: {found:#?}");
    }
}

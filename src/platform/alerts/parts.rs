//! Alerts about the parts: relay, publisher, keeper, API, Kafka, clocks, days.

use super::{Alert, Series, Severity};

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "RelayStalled",
        severity: Severity::Ticket,
        lasts: "2m",
        asks: "max(punctual_relay_unpublished_due) > 100",
        summary: "Due notices are not published",
        means: "No relay works, or Kafka takes nothing. Payments still execute: workers claim what is 15 s overdue straight from Postgres, and everything at once while Kafka is down. They are late by that much.",
        look: &[
            "Is a relay running? Its log and `/readyz`.",
            "KafkaAway: does it fire too?",
            "`punctual bucket list`.",
        ],
        act: &[
            "Start a relay; its shards move by themselves.",
            "Kafka is away: bring it back. Nothing is to be replayed.",
        ],
        fires: (
            &[Series { name: "punctual_relay_unpublished_due{instance=\"k1\"}", values: "500x320" }],
            &[],
        ),
        silent: &[Series { name: "punctual_relay_unpublished_due{instance=\"k1\"}", values: "20x320" }],
    },
    Alert {
        name: "PublisherStalled",
        severity: Severity::Ticket,
        lasts: "2m",
        asks: "max(punctual_publisher_oldest_age_seconds) > 60",
        summary: "Events are a minute behind the history",
        means: "Readers of `payments.events` learn late what happened. Payments do not wait for it, and no event is lost: the history has them all.",
        look: &[
            "Is a publisher running, and does one lead (`punctual_publisher_leads`)?",
            "Its log: Kafka, or a transaction that stays open for long anywhere in the database?",
        ],
        act: &[
            "Start a publisher.",
            "End a forgotten transaction: `pg_stat_activity`, the oldest `xact_start`.",
        ],
        fires: (
            &[Series { name: "punctual_publisher_oldest_age_seconds{instance=\"p1\"}", values: "0+15x320" }],
            &[],
        ),
        silent: &[Series { name: "punctual_publisher_oldest_age_seconds{instance=\"p1\"}", values: "2x320" }],
    },
    Alert {
        name: "KafkaAway",
        severity: Severity::Ticket,
        lasts: "5m",
        asks: "max(punctual_kafka_up) == 0",
        summary: "No worker reaches Kafka",
        means: "The late scan carries everything from Postgres. Payments execute, a little less evenly; events wait.",
        look: &["The brokers, the network to them, `kafka.bootstrap_servers`."],
        act: &[
            "Bring Kafka back. If its topics are gone: `punctual topics apply`; what is open is found from the database.",
        ],
        fires: (&[Series { name: "punctual_kafka_up{instance=\"w1\"}", values: "0x320" }], &[]),
        silent: &[
            Series { name: "punctual_kafka_up{instance=\"w1\"}", values: "0x320" },
            Series { name: "punctual_kafka_up{instance=\"w2\"}", values: "1x320" },
        ],
    },
    Alert {
        name: "NoticesBad",
        severity: Severity::Ticket,
        lasts: "",
        asks: "sum(increase(punctual_notices_bad_total[15m])) > 0",
        summary: "Records of the due topics cannot be read, or bear no seal of ours",
        means: "Something else writes into the due topics, or two versions do not fit. Such records are kept for people and passed over.",
        look: &[
            "The table `bad_notices`: topic, partition, offset and reason.",
            "`punctual bucket peek`: what lies there.",
        ],
        act: &["Find the writer and take its right away: only relays may write there."],
        fires: (&[Series { name: "punctual_notices_bad_total{instance=\"w1\"}", values: "0x280 1x40" }], &[]),
        silent: &[Series { name: "punctual_notices_bad_total{instance=\"w1\"}", values: "1x320" }],
    },
    Alert {
        name: "KeeperStalled",
        severity: Severity::Page,
        lasts: "1m",
        asks: "time() - max by (task) (punctual_keeper_last_success_timestamp_seconds{task=~\"reap|backlog\"}) > 300",
        summary: "A keeper's task has not done its work for five minutes",
        means: "Expired claims stay PROCESSING, deadlines are not applied, and the gauges that other alerts ask are old: silence elsewhere means nothing.",
        look: &["Is a keeper running? Its log: which error ends the task's passes?"],
        act: &["Start a keeper; any number may run at once."],
        fires: (
            &[Series {
                name: "punctual_keeper_last_success_timestamp_seconds{instance=\"k1\",task=\"reap\"}",
                values: "0x320",
            }],
            &[("task", "reap")],
        ),
        silent: &[Series {
            name: "punctual_keeper_last_success_timestamp_seconds{instance=\"k1\",task=\"reap\"}",
            values: "0+15x320",
        }],
    },
    Alert {
        name: "PartitionsEnd",
        severity: Severity::Page,
        lasts: "10m",
        asks: "min(punctual_partitions_ahead_days) < 3",
        summary: "Fewer than three days have partitions",
        means: "On a day without partitions nothing can be created, claimed or recorded.",
        look: &[
            "`punctual_keeper_failures_total{task=\"partitions\"}` and the keeper's log.",
            "`punctual migrate plan`.",
        ],
        act: &[
            "`punctual migrate run` makes them at once.",
            "Then find out why the keeper did not: rights, locks, disk.",
        ],
        fires: (&[Series { name: "punctual_partitions_ahead_days{instance=\"k1\"}", values: "2x320" }], &[]),
        silent: &[Series { name: "punctual_partitions_ahead_days{instance=\"k1\"}", values: "365x320" }],
    },
    Alert {
        name: "ClockSkew",
        severity: Severity::Ticket,
        lasts: "5m",
        asks: "max by (instance) (abs(punctual_clock_offset_seconds)) > 0.25",
        summary: "A host's clock and the database's are a quarter of a second apart",
        means: "At half a second a worker stops claiming, because \"due\" must be said by both.",
        look: &[
            "`chronyc tracking` or `timedatectl` on that host and on the database's.",
            "`punctual_clocks_apart_total`: did it stop already?",
        ],
        act: &["Mend the time service there. Do not step the database's clock back while payments are due."],
        fires: (
            &[Series { name: "punctual_clock_offset_seconds{instance=\"w1\"}", values: "-0.4x320" }],
            &[("instance", "w1")],
        ),
        silent: &[Series { name: "punctual_clock_offset_seconds{instance=\"w1\"}", values: "0.01x320" }],
    },
    Alert {
        name: "ApiFails",
        severity: Severity::Page,
        lasts: "5m",
        asks: "sum(rate(punctual_intake_request_seconds_count{status=~\"5..\"}[5m])) / sum(rate(punctual_intake_request_seconds_count[5m])) > 0.01",
        summary: "One request in a hundred fails on our side",
        means: "Clients cannot be sure that they are heard. A create may be repeated with its key at any time; what was answered 201 is safe.",
        look: &["`/readyz` of the API: it names what fails.", "Requests by route and status."],
        act: &[
            "503: the database is away or full.",
            "500: a defect; the log line has the request's id and the cause.",
        ],
        fires: (
            &[
                Series {
                    name: "punctual_intake_request_seconds_count{instance=\"a1\",method=\"POST\",route=\"/v1/scheduled-payments\",status=\"503\"}",
                    values: "0+5x320",
                },
                Series {
                    name: "punctual_intake_request_seconds_count{instance=\"a1\",method=\"POST\",route=\"/v1/scheduled-payments\",status=\"201\"}",
                    values: "0+95x320",
                },
            ],
            &[],
        ),
        silent: &[
            Series {
                name: "punctual_intake_request_seconds_count{instance=\"a1\",method=\"POST\",route=\"/v1/scheduled-payments\",status=\"422\"}",
                values: "0+50x320",
            },
            Series {
                name: "punctual_intake_request_seconds_count{instance=\"a1\",method=\"POST\",route=\"/v1/scheduled-payments\",status=\"503\"}",
                values: "0x320",
            },
            Series {
                name: "punctual_intake_request_seconds_count{instance=\"a1\",method=\"POST\",route=\"/v1/scheduled-payments\",status=\"201\"}",
                values: "0+50x320",
            },
        ],
    },
    Alert {
        name: "ProcessDown",
        severity: Severity::Ticket,
        lasts: "2m",
        asks: "up{job=\"punctual\"} == 0",
        summary: "A process of Punctual does not answer Prometheus",
        means: "It died, or cannot be reached. Others take over what it held: partitions within 15 s, claims when their lease ends.",
        look: &["The process's log and exit code (README, \"Exit codes\")."],
        act: &["Start it again. Nothing else is to be done."],
        fires: (
            &[Series { name: "up{job=\"punctual\",instance=\"w1\"}", values: "0x320" }],
            &[("job", "punctual"), ("instance", "w1")],
        ),
        silent: &[Series { name: "up{job=\"punctual\",instance=\"w1\"}", values: "1x320" }],
    },
    Alert {
        name: "ReconciliationDiffers",
        severity: Severity::Page,
        lasts: "10m",
        asks: "sum by (gateway, class) (punctual_reconcile_open_items) > 0",
        summary: "Our books and a gateway's report differ, and nobody has explained it",
        means: "A charge that we do not know of, one that is missing there, another amount, a second charge: somebody may have lost money, or been charged for nothing.",
        look: &[
            "`punctual reconcile items` or `/ui/reconciliation`: each with the field that differs, ours beside theirs.",
            "`punctual payment explain <id>` for what we know of it.",
        ],
        act: &[
            "`punctual reconcile repair` where the line proves what happened; what may move a final state needs a second person.",
            "`punctual reconcile dismiss` with the reason where the report is wrong; tell the gateway.",
            "A second charge: give it back with `punctual refund create`.",
        ],
        fires: (
            &[Series {
                name: "punctual_reconcile_open_items{instance=\"k1\",gateway=\"sandbox\",class=\"missing_here\"}",
                values: "2x320",
            }],
            &[("gateway", "sandbox"), ("class", "missing_here")],
        ),
        silent: &[Series {
            name: "punctual_reconcile_open_items{instance=\"k1\",gateway=\"sandbox\",class=\"missing_here\"}",
            values: "0x320",
        }],
    },
    Alert {
        name: "ReconciliationOverdue",
        severity: Severity::Ticket,
        lasts: "10m",
        asks: "time() - max by (gateway) (punctual_reconcile_last_success_timestamp_seconds) > 172800",
        summary: "No day has been compared with a gateway's report for two days",
        means: "What only the gateway knows stays unseen. Nothing is lost by it: missed days are made up.",
        look: &[
            "`punctual reconcile show`: the last runs and why they failed.",
            "The keeper's log, task reconcile.",
        ],
        act: &["Mend what it says, or bring the report as a file: `punctual reconcile run` takes one."],
        fires: (
            // As if 1970 had been reconciled: the cases begin at that time.
            &[Series {
                name: "punctual_reconcile_last_success_timestamp_seconds{instance=\"k1\",gateway=\"sandbox\"}",
                values: "-200000x320",
            }],
            &[("gateway", "sandbox")],
        ),
        silent: &[Series {
            name: "punctual_reconcile_last_success_timestamp_seconds{instance=\"k1\",gateway=\"sandbox\"}",
            values: "0x320",
        }],
    },
    Alert {
        name: "SumsApart",
        severity: Severity::Ticket,
        lasts: "1h",
        asks: "max by (gateway) (punctual_reconcile_sums_apart) > 0",
        summary: "Sums of a day differ between payments, attempts, ledger and settlement",
        means: "Each payment may look right by itself, and their sum is not.",
        look: &[
            "`punctual reconcile show`: the sums of each day and currency side by side.",
            "ReconciliationDiffers: usually it fires too.",
        ],
        act: &[
            "Explain the differences of that day; what is left is a defect of ours: keep the report and tell us.",
        ],
        fires: (
            &[Series {
                name: "punctual_reconcile_sums_apart{instance=\"k1\",gateway=\"sandbox\"}",
                values: "1x320",
            }],
            &[("gateway", "sandbox")],
        ),
        silent: &[Series {
            name: "punctual_reconcile_sums_apart{instance=\"k1\",gateway=\"sandbox\"}",
            values: "0x320",
        }],
    },
    Alert {
        name: "WebhooksBehind",
        severity: Severity::Ticket,
        lasts: "5m",
        asks: "max(punctual_webhook_oldest_age_seconds) > 120",
        summary: "Webhooks that are due have waited for a sender for two minutes",
        means: "Clients learn late what happened, those whose endpoints answer too. Payments do not wait for it, and every delivery stays owed.",
        look: &[
            "Are publishers running? `punctual_webhook_failures_total` and their logs.",
            "`punctual_webhooks_in_flight` at its limit: slow endpoints, or too few senders?",
        ],
        act: &[
            "Start another publisher: all of them send.",
            "One slow client: `punctual webhooks list`; its own limit is in its endpoint.",
        ],
        fires: (
            &[Series { name: "punctual_webhook_oldest_age_seconds{instance=\"p1\"}", values: "0+15x320" }],
            &[],
        ),
        silent: &[Series { name: "punctual_webhook_oldest_age_seconds{instance=\"p1\"}", values: "5x320" }],
    },
    Alert {
        name: "WebhooksFail",
        severity: Severity::Ticket,
        lasts: "10m",
        asks: "sum by (stage) (rate(punctual_webhook_failures_total[10m])) > 0.02",
        summary: "Passes of the webhooks' sender fail again and again",
        means: "While a pass fails nobody knows how old what is owed is, so WebhooksBehind may stay silent. Nothing is lost: what is owed stays owed.",
        look: &["The publishers' logs: which error, at which stage (fan_out, take, note, count)?"],
        act: &[
            "The database is away or refuses: mend that first.",
            "A row that no pass can read is named in the log: keep it for us.",
        ],
        fires: (
            &[Series {
                name: "punctual_webhook_failures_total{instance=\"p1\",stage=\"fan_out\"}",
                values: "0+1x320",
            }],
            &[("stage", "fan_out")],
        ),
        silent: &[Series {
            name: "punctual_webhook_failures_total{instance=\"p1\",stage=\"fan_out\"}",
            values: "0x300 1x20",
        }],
    },
];

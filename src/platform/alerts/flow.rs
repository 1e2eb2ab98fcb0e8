//! Alerts about the flow of payments: due, claimed, sent, settled, published.

use super::{Alert, Series, Severity};

/// What settles, after trouble with a gateway, whether money moved twice.
const PROOF: &str = "Afterwards, to prove that nothing was paid twice: `punctual audit check --ledger FILE` with the gateway's own ledger; M1 must hold. Without a ledger it stays unknown.";

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "OldestDue",
        severity: Severity::Page,
        lasts: "1m",
        asks: "max by (gateway) (punctual_payments_due_oldest_age_seconds) > 60",
        summary: "A payment has been due for more than a minute and nobody claimed it",
        means: "The late scan takes what is 15 s overdue, so a minute means that nobody can or may claim at this gateway.",
        look: &[
            "`punctual gateway list` or `/ui/gateways`: paused, breaker open, held to a low rate, no slots left?",
            "An open breaker is the usual cause: go on with BreakerOpen, which says where its reason stands.",
            "`punctual switch list`: a kill switch that somebody forgot?",
            "`/readyz` of the workers, `/ui/workers`; NothingCompletes and Quarantined.",
        ],
        act: &[
            "The breaker: it closes by itself once the gateway answers; what BreakerOpen says is all there is to do.",
            "Closed by people: `punctual gateway resume` or `punctual switch off` once the reason is gone.",
            "No worker lives: start one; what is due is claimed oldest first.",
            "More due than permitted: it drains at the rate; `punctual forecast` says until when.",
            PROOF,
        ],
        fires: (
            &[Series {
                name: "punctual_payments_due_oldest_age_seconds{instance=\"k1\",gateway=\"sandbox\"}",
                values: "0+15x320",
            }],
            &[("gateway", "sandbox")],
        ),
        silent: &[Series {
            name: "punctual_payments_due_oldest_age_seconds{instance=\"k1\",gateway=\"sandbox\"}",
            values: "20x320",
        }],
    },
    Alert {
        name: "NothingCompletes",
        severity: Severity::Page,
        lasts: "2m",
        asks: "max(punctual_payments_due_oldest_age_seconds) > 30 and on() sum(rate(punctual_payment_transitions_total{cause=\"settled\"}[5m])) == 0",
        summary: "Payments are due and none has had an outcome for five minutes",
        means: "Workers are dead, cut off, or wait for something that does not come. Money is late, not wrong.",
        look: &[
            "Are workers up? `/readyz` of each names what it lacks.",
            "`punctual gateway list`, `punctual switch list`, or `/ui/gateways` for both.",
            "The database: is it read-only, full, or locked?",
        ],
        act: &[
            "Start workers, or restart one that hangs: its claims are asked about under their keys when their lease ends.",
            "A full disk of Postgres: make room first; nothing else helps.",
        ],
        fires: (
            &[
                Series {
                    name: "punctual_payments_due_oldest_age_seconds{instance=\"k1\",gateway=\"sandbox\"}",
                    values: "0+15x320",
                },
                Series {
                    name: "punctual_payment_transitions_total{instance=\"w1\",to=\"COMPLETED\",cause=\"settled\"}",
                    values: "7x320",
                },
            ],
            &[],
        ),
        silent: &[
            Series {
                name: "punctual_payments_due_oldest_age_seconds{instance=\"k1\",gateway=\"sandbox\"}",
                values: "0+15x320",
            },
            Series {
                name: "punctual_payment_transitions_total{instance=\"w1\",to=\"COMPLETED\",cause=\"settled\"}",
                values: "0+7x320",
            },
        ],
    },
    Alert {
        name: "ClaimsFallBehind",
        severity: Severity::Ticket,
        lasts: "10m",
        asks: "max(punctual_payments{state=\"due\"}) > 500 and max(deriv(punctual_payments{state=\"due\"}[10m])) > 0",
        summary: "More becomes due than is claimed",
        means: "The backlog grows. Payments are executed oldest first, each one later than the one before it.",
        look: &[
            "`punctual forecast`: until when at the permitted rate.",
            "`punctual gateway list`: is the rate the limit, or are slots free?",
        ],
        act: &[
            "Slots used up: start workers.",
            "The rate used up: ask the gateway for more, or let clients use `executeWithin`.",
        ],
        fires: (
            &[Series { name: "punctual_payments{instance=\"k1\",state=\"due\"}", values: "400+10x320" }],
            &[],
        ),
        silent: &[Series { name: "punctual_payments{instance=\"k1\",state=\"due\"}", values: "9000-10x320" }],
    },
    Alert {
        name: "LeaseOverdue",
        severity: Severity::Page,
        lasts: "1m",
        asks: "max(punctual_payments_lease_overdue_seconds) > 60",
        summary: "A claim's lease ended a minute ago and nobody took the payment back",
        means: "The keeper turns expired claims into UNKNOWN within seconds. Until it does, these payments are neither asked about nor can they be claimed.",
        look: &[
            "Is a keeper running? `punctual_keeper_last_success_timestamp_seconds{task=\"reap\"}`.",
            "Its log: which error ends its passes?",
        ],
        act: &[
            "Start a keeper; any number may run.",
            "A row that no pass can move is named in the log: `punctual payment explain <id>`, and keep it for us.",
        ],
        fires: (
            &[Series { name: "punctual_payments_lease_overdue_seconds{instance=\"k1\"}", values: "90x320" }],
            &[],
        ),
        silent: &[Series {
            name: "punctual_payments_lease_overdue_seconds{instance=\"k1\"}",
            values: "8x320",
        }],
    },
    Alert {
        name: "LeasesExpire",
        severity: Severity::Ticket,
        lasts: "",
        asks: "sum(increase(punctual_lease_expired_total[15m])) > 10",
        summary: "Many claims ended without an outcome",
        means: "Workers die, freeze or lose the database between claim and outcome. Each such payment is UNKNOWN and asked about; none is charged twice.",
        look: &[
            "Restarts and memory of the workers.",
            "`punctual_worker_heartbeats_late_total`: frozen machines.",
            "`punctual_settles_abandoned_total`: the database was away.",
        ],
        act: &["Mend the machine or the database. Nothing is to be done for the payments."],
        fires: (&[Series { name: "punctual_lease_expired_total{instance=\"k1\"}", values: "0+1x320" }], &[]),
        silent: &[Series { name: "punctual_lease_expired_total{instance=\"k1\"}", values: "0x320" }],
    },
    Alert {
        name: "FencedWrites",
        severity: Severity::Ticket,
        lasts: "",
        asks: "sum(increase(punctual_fenced_writes_total[15m])) > 5",
        summary: "Workers woke up after their lease and tried to write",
        means: "The fence refused them, as it should, and kept their answers as evidence. Often it means machines that are frozen for longer than a lease.",
        look: &[
            "Which workers: the log line \"fenced\" names them.",
            "Steal time, memory pressure, live migrations of those machines.",
        ],
        act: &["Give the machines what they lack, or lengthen `worker.lease`."],
        fires: (&[Series { name: "punctual_fenced_writes_total{instance=\"w1\"}", values: "0+1x320" }], &[]),
        silent: &[Series { name: "punctual_fenced_writes_total{instance=\"w1\"}", values: "3x320" }],
    },
    Alert {
        name: "SettlesAbandoned",
        severity: Severity::Ticket,
        lasts: "",
        asks: "sum(increase(punctual_settles_abandoned_total[15m])) > 0",
        summary: "Outcomes could not be written while their lease lasted",
        means: "The gateway answered and the database could not be told. The payments become UNKNOWN and the gateway is asked again under the same key.",
        look: &["The database at that time: failover, locks, a full disk."],
        act: &["Nothing for the payments. Find out what the database did."],
        fires: (
            &[Series { name: "punctual_settles_abandoned_total{instance=\"w1\"}", values: "0x280 2x40" }],
            &[],
        ),
        silent: &[Series { name: "punctual_settles_abandoned_total{instance=\"w1\"}", values: "2x320" }],
    },
    Alert {
        name: "BreakerOpen",
        severity: Severity::Page,
        lasts: "1m",
        asks: "max by (gateway) (punctual_gateway_breaker_state) > 0",
        summary: "The breaker of a gateway is open: nothing is charged there",
        means: "Its calls fail, or it refuses our credentials. What was not sent stays PENDING; what was sent without an answer is UNKNOWN and is asked about by itself, under its own key. One probe at a time finds out when it is back, and then the backlog drains at the permitted rate.",
        look: &[
            "`punctual gateway list` or `/ui/gateways`: why, with the HTTP status, and how often in a row. Time-outs, 5xx and refused connections are an outage, 401 and 403 are credentials. The workers' logs have the same of each opening (`last_failure`).",
            "`/ui/payments?q=status:UNKNOWN`: what was sent without an answer; a payment's Attempts have code and HTTP of each call.",
            "The gateway's status page.",
        ],
        act: &[
            "401 or 403: put the credentials right and restart the workers.",
            "An outage: wait. Pausing the gateway does nothing more than the breaker does.",
            PROOF,
        ],
        fires: (
            &[Series {
                name: "punctual_gateway_breaker_state{instance=\"w1\",gateway=\"sandbox\"}",
                values: "2x320",
            }],
            &[("gateway", "sandbox")],
        ),
        silent: &[Series {
            name: "punctual_gateway_breaker_state{instance=\"w1\",gateway=\"sandbox\"}",
            values: "0x320",
        }],
    },
    Alert {
        name: "GatewayFails",
        severity: Severity::Page,
        lasts: "5m",
        asks: "sum by (gateway) (rate(punctual_attempts_total{verdict=~\"unknown|contract_violation\"}[5m])) / sum by (gateway) (rate(punctual_attempts_total[5m])) > 0.05",
        summary: "One in twenty answers of a gateway cannot be trusted",
        means: "Time-outs, 5xx, broken answers, or another amount than asked for. Each is asked about under its key; a contract violation is parked.",
        look: &[
            "`punctual gateway list` or `/ui/gateways`.",
            "`punctual parked list --reason contract_violation`, or `/ui/parked?q=reason:contract_violation`.",
            "Latency beside it (GatewaySlow): time-outs?",
        ],
        act: &[
            "Tell the gateway, with keys from `punctual payment explain`.",
            "It gets worse: `punctual gateway pause`; what is due waits and is paid late rather than unknown.",
        ],
        fires: (
            &[
                Series {
                    name: "punctual_attempts_total{instance=\"w1\",gateway=\"sandbox\",verdict=\"unknown\"}",
                    values: "0+10x320",
                },
                Series {
                    name: "punctual_attempts_total{instance=\"w1\",gateway=\"sandbox\",verdict=\"charged\"}",
                    values: "0+90x320",
                },
            ],
            &[("gateway", "sandbox")],
        ),
        silent: &[
            Series {
                name: "punctual_attempts_total{instance=\"w1\",gateway=\"sandbox\",verdict=\"unknown\"}",
                values: "0+1x320",
            },
            Series {
                name: "punctual_attempts_total{instance=\"w1\",gateway=\"sandbox\",verdict=\"charged\"}",
                values: "0+99x320",
            },
        ],
    },
    Alert {
        name: "GatewaySlow",
        severity: Severity::Ticket,
        lasts: "5m",
        asks: "histogram_quantile(0.99, sum by (gateway, le) (rate(punctual_gateway_request_seconds_bucket{call=\"charge\"}[5m]))) > 10",
        summary: "One charge in a hundred takes longer than 10 s",
        means: "Near `gateway.total_timeout` slow answers become unknown outcomes, and every slot is held for longer.",
        look: &["`punctual gateway list`: calls in flight beside slots."],
        act: &[
            "Tell the gateway.",
            "Slots used up: raise them with its consent, or lower what is due at once.",
        ],
        fires: (
            &[
                Series {
                    name: "punctual_gateway_request_seconds_bucket{instance=\"w1\",gateway=\"sandbox\",call=\"charge\",le=\"10\"}",
                    values: "0+50x320",
                },
                Series {
                    name: "punctual_gateway_request_seconds_bucket{instance=\"w1\",gateway=\"sandbox\",call=\"charge\",le=\"15\"}",
                    values: "0+100x320",
                },
                Series {
                    name: "punctual_gateway_request_seconds_bucket{instance=\"w1\",gateway=\"sandbox\",call=\"charge\",le=\"+Inf\"}",
                    values: "0+100x320",
                },
            ],
            &[("gateway", "sandbox")],
        ),
        silent: &[
            Series {
                name: "punctual_gateway_request_seconds_bucket{instance=\"w1\",gateway=\"sandbox\",call=\"charge\",le=\"1\"}",
                values: "0+100x320",
            },
            Series {
                name: "punctual_gateway_request_seconds_bucket{instance=\"w1\",gateway=\"sandbox\",call=\"charge\",le=\"10\"}",
                values: "0+100x320",
            },
            Series {
                name: "punctual_gateway_request_seconds_bucket{instance=\"w1\",gateway=\"sandbox\",call=\"charge\",le=\"+Inf\"}",
                values: "0+100x320",
            },
        ],
    },
    Alert {
        name: "GatewayForgotten",
        severity: Severity::Ticket,
        lasts: "1h",
        asks: "max by (gateway) (punctual_gateway_closed) > 0",
        summary: "A gateway has been closed by people for an hour",
        means: "A pause or a kill switch holds its payments. Nothing is wrong with that, unless it was forgotten.",
        look: &["`punctual gateway list`, `punctual switch list`, `punctual acts`: who, when and why."],
        act: &["Ask them; then `punctual gateway resume` or `punctual switch off`."],
        fires: (
            &[Series {
                name: "punctual_gateway_closed{instance=\"w1\",gateway=\"sandbox\"}",
                values: "1x320",
            }],
            &[("gateway", "sandbox")],
        ),
        silent: &[Series {
            name: "punctual_gateway_closed{instance=\"w1\",gateway=\"sandbox\"}",
            values: "0x200 1x120",
        }],
    },
    Alert {
        name: "DeclineUnmapped",
        severity: Severity::Ticket,
        lasts: "",
        asks: "sum by (gateway) (increase(punctual_declines_unmapped_total[1h])) > 0",
        summary: "A gateway declined with a code that we do not know",
        means: "Unknown codes are not tried again: such a payment failed, although another try might have gone through.",
        look: &["The log line \"unmapped decline\": the code.", "The gateway's list of codes."],
        act: &["Add the code to the table of declines with its class, and ship it."],
        fires: (
            &[Series {
                name: "punctual_declines_unmapped_total{instance=\"w1\",gateway=\"sandbox\"}",
                values: "0x260 1x60",
            }],
            &[("gateway", "sandbox")],
        ),
        silent: &[Series {
            name: "punctual_declines_unmapped_total{instance=\"w1\",gateway=\"sandbox\"}",
            values: "4x320",
        }],
    },
];

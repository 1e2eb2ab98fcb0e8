//! Alerts about the promises themselves: early, twice, lost, late, unknown.

use super::{Alert, Series, Severity};

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "PaidEarly",
        severity: Severity::Page,
        lasts: "",
        asks: "sum(increase(punctual_payment_early_total[1h])) > 0",
        summary: "A claim began before its payment was due",
        means: "The promise \"never early\" was broken, or a clock made it look so. Both the database's clock and the worker's must say due before a claim.",
        look: &[
            "`punctual audit check`: it names the payment under M3.",
            "`punctual payment explain <id>`: due time, claim, and by whose clock.",
            "`punctual_clock_offset_seconds` of the worker that claimed.",
        ],
        act: &[
            "Throw the kill switch of that gateway: `punctual switch on gateway <name> --reason …`. Nothing is lost by waiting.",
            "Mend the clock (see ClockSkew). If no clock is wrong it is a defect of ours: keep the database and the logs.",
            "Release the switch when the cause is known.",
        ],
        fires: (
            &[Series { name: "punctual_payment_early_total{instance=\"w1\"}", values: "0x260 1x60" }],
            &[],
        ),
        silent: &[Series { name: "punctual_payment_early_total{instance=\"w1\"}", values: "0x320" }],
    },
    Alert {
        name: "PromiseBroken",
        severity: Severity::Page,
        lasts: "",
        asks: "sum by (invariant) (increase(punctual_invariant_violations_total[1h])) > 0",
        summary: "A process saw a promise broken",
        means: "One of the numbered promises (README, \"Were the promises kept?\") does not hold for a payment that the log names. M numbers are about money.",
        look: &[
            "The log line with the promise's number and the payment.",
            "`punctual payment explain <id>`, and the gateway's own record of that key.",
            "`punctual audit check` for everything else that is broken.",
        ],
        act: &[
            "M1 to M10: throw the kill switch of the gateway, then find out what the gateway has: `punctual reconcile run` for its day.",
            "A second charge: give it back with `punctual refund create`; the refund names the charge's reference.",
            "K or H numbers: money is safe; keep the evidence and open a ticket.",
        ],
        fires: (
            &[Series {
                name: "punctual_invariant_violations_total{instance=\"w1\",invariant=\"M1\"}",
                values: "0x260 1x60",
            }],
            &[("invariant", "M1")],
        ),
        silent: &[Series {
            name: "punctual_invariant_violations_total{instance=\"w1\",invariant=\"M1\"}",
            values: "0x320",
        }],
    },
    Alert {
        name: "LatenessBudgetBurnsFast",
        severity: Severity::Page,
        lasts: "2m",
        asks: "(1 - sum(rate(punctual_payment_lateness_seconds_bucket{le=\"60\"}[5m])) / sum(rate(punctual_payment_lateness_seconds_count[5m]))) > 0.0144 and (1 - sum(rate(punctual_payment_lateness_seconds_bucket{le=\"60\"}[1h])) / sum(rate(punctual_payment_lateness_seconds_count[1h]))) > 0.0144",
        summary: "Payments are claimed more than 60 s after they are due, many of them",
        means: "More than 1.4 % of the payments of the last hour and of the last five minutes began late; at this rate a month's budget of one in a thousand is gone in two days.",
        look: &[
            "`punctual gateway list` or `/ui/gateways`: paused, closed by a switch, breaker open, or held to a rate below what is due?",
            "`punctual forecast`: is more due than the rate permits?",
            "OldestDue, BreakerOpen, RelayStalled, KafkaAway: one of them usually says why.",
        ],
        act: &[
            "Mend what those name. Late payments need nothing more: they execute oldest first, at the permitted rate.",
            "More due than permitted: ask the gateway for a higher rate, then `punctual gateway rate`.",
        ],
        fires: (
            &[
                Series {
                    name: "punctual_payment_lateness_seconds_bucket{instance=\"w1\",le=\"60\"}",
                    values: "0+90x320",
                },
                Series {
                    name: "punctual_payment_lateness_seconds_count{instance=\"w1\"}",
                    values: "0+100x320",
                },
            ],
            &[],
        ),
        silent: &[
            Series {
                name: "punctual_payment_lateness_seconds_bucket{instance=\"w1\",le=\"60\"}",
                values: "0+9999x320",
            },
            Series {
                name: "punctual_payment_lateness_seconds_count{instance=\"w1\"}",
                values: "0+10000x320",
            },
        ],
    },
    Alert {
        name: "LatenessBudgetBurnsSlowly",
        severity: Severity::Ticket,
        lasts: "15m",
        asks: "(1 - sum(rate(punctual_payment_lateness_seconds_bucket{le=\"60\"}[30m])) / sum(rate(punctual_payment_lateness_seconds_count[30m]))) > 0.003 and (1 - sum(rate(punctual_payment_lateness_seconds_bucket{le=\"60\"}[6h])) / sum(rate(punctual_payment_lateness_seconds_count[6h]))) > 0.003",
        summary: "More payments begin late than the budget allows",
        means: "Three in a thousand for hours: no outage, but the month's budget of one in a thousand will not last.",
        look: &[
            "The lateness panel by hour: always at full minutes and hours, or spread?",
            "`punctual forecast`: crowds.",
        ],
        act: &[
            "Crowds at one instant: ask their clients to use `executeWithin`, which spreads them.",
            "Spread over the day: more workers, or a higher rate at the gateway.",
        ],
        fires: (
            &[
                Series {
                    name: "punctual_payment_lateness_seconds_bucket{instance=\"w1\",le=\"60\"}",
                    values: "0+990x320",
                },
                Series {
                    name: "punctual_payment_lateness_seconds_count{instance=\"w1\"}",
                    values: "0+1000x320",
                },
            ],
            &[],
        ),
        silent: &[
            Series {
                name: "punctual_payment_lateness_seconds_bucket{instance=\"w1\",le=\"60\"}",
                values: "0+9990x320",
            },
            Series {
                name: "punctual_payment_lateness_seconds_count{instance=\"w1\"}",
                values: "0+10000x320",
            },
        ],
    },
    Alert {
        name: "UnknownForLong",
        severity: Severity::Ticket,
        lasts: "1m",
        asks: "max(punctual_payments_unknown_oldest_age_seconds) > 900",
        summary: "A payment's outcome has been unknown for more than 15 minutes",
        means: "A request may have charged and no trustworthy answer came. It is asked again under the same key, on a ladder; nothing is guessed, and no second charge can come of waiting.",
        look: &[
            "`punctual payment search status:UNKNOWN` or `/ui/payments?q=status:UNKNOWN`, then `punctual payment explain <id>`: what was asked, when it is asked next.",
            "`punctual gateway list`: are look-ups answered at all?",
        ],
        act: &[
            "The gateway is down: wait; it is asked as soon as it answers.",
            "The gateway answers but does not know: ask its support with the key that `explain` shows. Parked in the end, it can be resolved with their evidence.",
        ],
        fires: (
            &[Series {
                name: "punctual_payments_unknown_oldest_age_seconds{instance=\"k1\"}",
                values: "1000x320",
            }],
            &[],
        ),
        silent: &[Series {
            name: "punctual_payments_unknown_oldest_age_seconds{instance=\"k1\"}",
            values: "600x320",
        }],
    },
    Alert {
        name: "PaymentsParked",
        severity: Severity::Ticket,
        lasts: "",
        asks: "sum by (reason) (increase(punctual_parked_total[15m])) > 0",
        summary: "Payments were parked and wait for a person",
        means: "Punctual cannot decide these without evidence that it does not have. They are not charged while they wait.",
        look: &[
            "`punctual parked list` or `/ui/parked`, by reason; `punctual parked show <id>` says which acts are possible and why others are not.",
        ],
        act: &[
            "Follow the reason's row in the README (\"Parked payments\").",
            "Many of one reason after an outage: `punctual parked bulk make --reason …` shows exactly what it would release; then start it.",
        ],
        fires: (
            &[Series {
                name: "punctual_parked_total{instance=\"w1\",reason=\"budget_exhausted\"}",
                values: "0x280 3x40",
            }],
            &[("reason", "budget_exhausted")],
        ),
        silent: &[Series {
            name: "punctual_parked_total{instance=\"w1\",reason=\"budget_exhausted\"}",
            values: "7x320",
        }],
    },
    Alert {
        name: "Quarantined",
        severity: Severity::Page,
        lasts: "",
        asks: "max(punctual_quarantine) > 0",
        summary: "The database is in quarantine: nothing is charged",
        means: "It was restored or promoted, or a notice proved that commits were lost. Claiming now could charge what was charged before, so no claim is made until a person releases it.",
        look: &[
            "`punctual quarantine show`: since when, by what evidence, what a release still needs and from when on it can be had; `advice` is the way out.",
            "README, \"Restore, failover, quarantine\".",
        ],
        act: &[
            "Make sure that it is the right database: the newest one that you can have.",
            "Reconcile what `lacks` names, each with its command, then ask for the release and have a second person grant it.",
            "If that would take days: compare what can be compared now, then two people, each with `punctual quarantine release --anyway`. The README says what that risks; refunds wait either way.",
        ],
        fires: (&[Series { name: "punctual_quarantine{instance=\"w1\"}", values: "1x320" }], &[]),
        silent: &[Series { name: "punctual_quarantine{instance=\"w1\"}", values: "0x320" }],
    },
];

//! Two Grafana dashboards, made from a table: the overview in the order in which a payment flows, and the internals.
//!
//! **Promise.** A panel asks only for declared metrics (`tests/lab/alerts.rs` holds it), so that a renamed metric
//! cannot leave an empty graph behind. **Why a table**: what Grafana exports is a thousand lines in which nobody
//! sees what changed.

use serde_json::{Value, json};

/// What a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things a second.
    PerSecond,
    /// A length of time.
    Seconds,
    /// Things.
    Count,
}

/// How it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawn {
    /// Over time.
    Lines,
    /// The newest value, large; red above the bound.
    Number {
        /// Green below it.
        bound: u32,
    },
}

/// One panel.
#[derive(Debug)]
pub struct Panel {
    /// Above it.
    pub title: &'static str,
    /// What it is for, shown behind a mark.
    pub says: &'static str,
    /// How it is drawn.
    pub drawn: Drawn,
    /// Of its values.
    pub unit: Unit,
    /// What is asked, each with its legend.
    pub asks: &'static [(&'static str, &'static str)],
}

/// A row of panels under a heading.
#[derive(Debug)]
pub struct Row {
    /// The heading.
    pub title: &'static str,
    /// From left to right.
    pub panels: &'static [Panel],
}

/// A dashboard.
#[derive(Debug)]
pub struct Board {
    /// Its file under `deploy/grafana/`, and its address in Grafana.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// From the top.
    pub rows: &'static [Row],
}

/// Both of them.
pub const BOARDS: &[Board] = &[
    Board { name: "punctual-overview", title: "Punctual: payments", rows: OVERVIEW },
    Board { name: "punctual-internals", title: "Punctual: internals", rows: INTERNALS },
];

const fn lines(
    title: &'static str,
    says: &'static str,
    unit: Unit,
    asks: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, says, drawn: Drawn::Lines, unit, asks }
}

const fn number(
    title: &'static str,
    says: &'static str,
    unit: Unit,
    bound: u32,
    asks: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, says, drawn: Drawn::Number { bound }, unit, asks }
}

const OVERVIEW: &[Row] = &[
    Row {
        title: "Are we keeping the promise?",
        panels: &[
            number(
                "Early",
                "Claims before their due instant. Anything but 0 is an incident.",
                Unit::Count,
                1,
                &[("sum(punctual_payment_early_total)", "early")],
            ),
            number(
                "Promises broken",
                "What processes saw broken for themselves, by number.",
                Unit::Count,
                1,
                &[("sum(punctual_invariant_violations_total)", "broken")],
            ),
            number(
                "Oldest due",
                "How overdue the oldest claimable payment is.",
                Unit::Seconds,
                60,
                &[("max(punctual_payments_due_oldest_age_seconds)", "oldest")],
            ),
            number(
                "Unknown",
                "Payments whose outcome is asked about.",
                Unit::Count,
                50,
                &[("max(punctual_payments{state=\"unknown\"})", "unknown")],
            ),
            number(
                "Parked",
                "Payments that wait for a person.",
                Unit::Count,
                1,
                &[("max(punctual_payments{state=\"parked\"})", "parked")],
            ),
            number(
                "Quarantine",
                "1: nothing is charged until a person releases the database.",
                Unit::Count,
                1,
                &[("max(punctual_quarantine)", "quarantine")],
            ),
        ],
    },
    Row {
        title: "In",
        panels: &[
            lines(
                "Created",
                "Payments made durable, and requests that were known.",
                Unit::PerSecond,
                &[
                    ("sum(rate(punctual_payments_created_total[1m]))", "created"),
                    ("sum by (result) (rate(punctual_idempotent_replays_total[1m]))", "{{result}}"),
                ],
            ),
            lines(
                "Requests by status",
                "5xx are ours, 4xx the clients'.",
                Unit::PerSecond,
                &[("sum by (status) (rate(punctual_intake_request_seconds_count[1m]))", "{{status}}")],
            ),
            lines(
                "Time to answer, p99",
                "By route.",
                Unit::Seconds,
                &[(
                    "histogram_quantile(0.99, sum by (route, le) (rate(punctual_intake_request_seconds_bucket[5m])))",
                    "{{route}}",
                )],
            ),
        ],
    },
    Row {
        title: "Due",
        panels: &[
            lines(
                "Lateness",
                "From due to claimed, by the database's clock. The promise is 60 s with everything against us.",
                Unit::Seconds,
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(punctual_payment_lateness_seconds_bucket[5m])))",
                        "p50",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(punctual_payment_lateness_seconds_bucket[5m])))",
                        "p99",
                    ),
                ],
            ),
            lines(
                "Waiting",
                "Due and claimable, under a claim, unknown, parked.",
                Unit::Count,
                &[("max by (state) (punctual_payments)", "{{state}}")],
            ),
            lines(
                "Published and claimed",
                "What relays hand out, and what workers take: by notice or by the late scan.",
                Unit::PerSecond,
                &[
                    ("sum(rate(punctual_relay_published_total[1m]))", "published"),
                    (
                        "sum by (result) (rate(punctual_claims_total{result=~\"claimed|claimed_late\"}[1m]))",
                        "{{result}}",
                    ),
                ],
            ),
        ],
    },
    Row {
        title: "Sent",
        panels: &[
            lines(
                "Attempts by verdict",
                "What the gateways' answers meant.",
                Unit::PerSecond,
                &[(
                    "sum by (gateway, verdict) (rate(punctual_attempts_total[1m]))",
                    "{{gateway}} {{verdict}}",
                )],
            ),
            lines(
                "Time of a charge",
                "p50 and p99 by gateway.",
                Unit::Seconds,
                &[
                    (
                        "histogram_quantile(0.5, sum by (gateway, le) (rate(punctual_gateway_request_seconds_bucket{call=\"charge\"}[5m])))",
                        "{{gateway}} p50",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (gateway, le) (rate(punctual_gateway_request_seconds_bucket{call=\"charge\"}[5m])))",
                        "{{gateway}} p99",
                    ),
                ],
            ),
            lines(
                "Closed",
                "2 while the breaker is open, 1 while one call finds out; 1 where people closed the gateway.",
                Unit::Count,
                &[
                    ("max by (gateway) (punctual_gateway_breaker_state)", "{{gateway}} breaker"),
                    ("max by (gateway) (punctual_gateway_closed)", "{{gateway}} by people"),
                ],
            ),
        ],
    },
    Row {
        title: "Out",
        panels: &[
            lines(
                "Outcomes",
                "Moves by the state that they led to.",
                Unit::PerSecond,
                &[(
                    "sum by (to) (rate(punctual_payment_transitions_total{cause=\"settled\"}[1m]))",
                    "{{to}}",
                )],
            ),
            lines(
                "Parked by reason",
                "Arrivals at the people's desk.",
                Unit::PerSecond,
                &[("sum by (reason) (rate(punctual_parked_total[5m]))", "{{reason}}")],
            ),
            lines(
                "Events behind",
                "Age of the oldest history row that is not published.",
                Unit::Seconds,
                &[("max(punctual_publisher_oldest_age_seconds)", "oldest")],
            ),
        ],
    },
];

const INTERNALS: &[Row] = &[
    Row {
        title: "Ring",
        panels: &[
            lines(
                "Unpublished and due",
                "Notices that no relay has published.",
                Unit::Count,
                &[("max(punctual_relay_unpublished_due)", "unpublished")],
            ),
            lines(
                "Lag by minute topic",
                "Records past the committed offset; staged ones count.",
                Unit::Count,
                &[("max by (minute) (punctual_bucket_lag)", "{{minute}}")],
            ),
            lines(
                "Held in memory",
                "Notices waiting for their instant.",
                Unit::Count,
                &[("sum(punctual_notices_held)", "held")],
            ),
            lines(
                "Rebalances",
                "Changes of assignment.",
                Unit::PerSecond,
                &[("sum by (kind) (rate(punctual_kafka_rebalances_total[5m]))", "{{kind}}")],
            ),
            lines(
                "Longest poll gap, p99",
                "The consumer's loop.",
                Unit::Seconds,
                &[(
                    "histogram_quantile(0.99, sum by (le) (rate(punctual_kafka_poll_gap_seconds_bucket[5m])))",
                    "p99",
                )],
            ),
        ],
    },
    Row {
        title: "Claims",
        panels: &[
            lines(
                "Answers to claims",
                "What came of each notice.",
                Unit::PerSecond,
                &[("sum by (result) (rate(punctual_claims_total[1m]))", "{{result}}")],
            ),
            lines(
                "Leases",
                "Renewed, expired, overdue.",
                Unit::PerSecond,
                &[
                    ("sum by (result) (rate(punctual_leases_renewed_total[1m]))", "{{result}}"),
                    ("sum(rate(punctual_lease_expired_total[5m]))", "expired"),
                ],
            ),
            lines(
                "Fenced and abandoned",
                "Answers that came too late to be written, and outcomes that could not be.",
                Unit::PerSecond,
                &[
                    ("sum(rate(punctual_fenced_writes_total[5m]))", "fenced"),
                    ("sum(rate(punctual_settles_abandoned_total[5m]))", "abandoned"),
                ],
            ),
        ],
    },
    Row {
        title: "Pacing",
        panels: &[
            lines(
                "Calls in flight and slots",
                "By gateway.",
                Unit::Count,
                &[
                    ("sum by (gateway) (punctual_gateway_in_flight)", "{{gateway}} in flight"),
                    ("sum by (gateway) (punctual_gateway_slots)", "{{gateway}} slots"),
                ],
            ),
            lines(
                "Wait for a slot, p99",
                "From claimable to permitted.",
                Unit::Seconds,
                &[(
                    "histogram_quantile(0.99, sum by (gateway, le) (rate(punctual_gateway_permit_wait_seconds_bucket[5m])))",
                    "{{gateway}}",
                )],
            ),
            lines(
                "Retries by rung",
                "Next tries written.",
                Unit::PerSecond,
                &[(
                    "sum by (ladder, step) (rate(punctual_retry_scheduled_total[5m]))",
                    "{{ladder}} {{step}}",
                )],
            ),
        ],
    },
    Row {
        title: "Watch",
        panels: &[
            lines(
                "Since a task's last success",
                "Of the keeper.",
                Unit::Seconds,
                &[("time() - max by (task) (punctual_keeper_last_success_timestamp_seconds)", "{{task}}")],
            ),
            lines(
                "Days ahead",
                "Days from today with partitions.",
                Unit::Count,
                &[("min(punctual_partitions_ahead_days)", "days")],
            ),
            lines(
                "Clocks",
                "Database minus host.",
                Unit::Seconds,
                &[("punctual_clock_offset_seconds", "{{instance}}")],
            ),
            lines(
                "Oldest open day",
                "What every scan has to cover.",
                Unit::Count,
                &[("max(punctual_oldest_open_day_age_days)", "days")],
            ),
        ],
    },
];

/// The dashboard as Grafana imports it; its data source is a variable, so that it fits any installation.
#[must_use]
pub fn json(board: &Board) -> String {
    let mut panels = Vec::new();
    let mut y = 0;
    for row in board.rows {
        panels.push(json!({"type": "row", "id": panels.len() + 1, "title": row.title, "collapsed": false,
            "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}, "panels": []}));
        y += 1;
        let is_numbers = row.panels.iter().all(|panel| panel.drawn != Drawn::Lines);
        let (width, height) = if is_numbers { (24 / row.panels.len().max(1), 4) } else { (8, 8) };
        let across = 24 / width;
        for (place, panel) in row.panels.iter().enumerate() {
            let at = json!({"h": height, "w": width, "x": place % across * width, "y": y + place / across * height});
            panels.push(drawn(panel, panels.len() + 1, &at));
        }
        y += row.panels.len().div_ceil(across) * height;
    }
    let board = json!({
        "uid": board.name, "title": board.title, "tags": ["punctual"], "editable": true, "schemaVersion": 39,
        "timezone": "utc", "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "panels": panels,
        "templating": {"list": [{"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}]},
    });
    format!("{board:#}\n")
}

fn drawn(panel: &Panel, id: usize, at: &Value) -> Value {
    let unit = match panel.unit {
        Unit::PerSecond => "ops",
        Unit::Seconds => "s",
        Unit::Count => "short",
    };
    let source = json!({"type": "prometheus", "uid": "${source}"});
    let targets: Vec<Value> = ('A'..)
        .zip(panel.asks)
        .map(|(name, (ask, legend))| json!({"refId": name.to_string(), "datasource": source, "expr": ask, "legendFormat": legend}))
        .collect();
    let (kind, steps) = match panel.drawn {
        Drawn::Lines => ("timeseries", json!([{"color": "green", "value": null}])),
        Drawn::Number { bound } => {
            ("stat", json!([{"color": "green", "value": null}, {"color": "red", "value": bound}]))
        }
    };
    json!({
        "id": id, "type": kind, "title": panel.title, "description": panel.says, "datasource": source, "gridPos": at,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit, "min": if panel.unit == Unit::Seconds { Value::Null } else { json!(0) },
            "thresholds": {"mode": "absolute", "steps": steps}}, "overrides": []},
        "options": if kind == "stat" { json!({"colorMode": "background", "reduceOptions": {"calcs": ["lastNotNull"]}}) }
                   else { json!({"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]}}) },
    })
}

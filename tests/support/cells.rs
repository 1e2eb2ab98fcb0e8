//! The matrix of unknown outcomes: what a gateway does, what kind of gateway it is, and when it does it;
//! beside each cell what must come of it, written down from the rules before anything ran.
//!
//! A cell is one payment. The sandbox's own ledger says how often it was asked for and charged, the
//! database how it ended. Cells of one gateway run side by side in one installation a key life long: a key
//! that lives a day for first tries and re-asks, one of seconds for what comes after its end.

use super::cells_table::TABLE;
use super::eventually;
use super::installation::Installation;
use super::records::look;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use sqlx::PgConnection;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

/// What kind of gateway it is, in the order of the table's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Personality {
    /// Stores and replays declines and 5xx under their key, and can be asked.
    ReplaysAndTells,
    /// Executes again after a decline or a 5xx, and can be asked.
    ForgetsAndTells,
    /// Replays declines, and cannot be asked: replayed 5xx would then be unsolvable, and are refused at
    /// start.
    ReplaysSilently,
    /// Executes again after a decline, and cannot be asked.
    ForgetsSilently,
}

impl Personality {
    /// All of them, in the order of the columns.
    pub const ALL: [Self; 4] =
        [Self::ReplaysAndTells, Self::ForgetsAndTells, Self::ReplaysSilently, Self::ForgetsSilently];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReplaysAndTells => "replays errors, look-up",
            Self::ForgetsAndTells => "forgets errors, look-up",
            Self::ReplaysSilently => "replays declines, no look-up",
            Self::ForgetsSilently => "forgets errors, no look-up",
        }
    }

    fn column(self) -> usize {
        Self::ALL.iter().position(|one| *one == self).expect("one of them")
    }

    /// The gateway as it is, and as the installation is told that it is.
    pub fn settings(self) -> [(&'static str, &'static str); 5] {
        let (declines, server_errors, lookup) = match self {
            Self::ReplaysAndTells => ("true", "true", "true"),
            Self::ForgetsAndTells => ("false", "false", "true"),
            Self::ReplaysSilently => ("true", "false", "false"),
            Self::ForgetsSilently => ("false", "false", "false"),
        };
        [
            ("sandbox.replays_declines", declines),
            ("sandbox.replays_5xx", server_errors),
            ("gateway.replays_declines", declines),
            ("gateway.replays_5xx", server_errors),
            ("gateway.lookup", lookup),
        ]
    }
}

/// When the gateway does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// Under the first send.
    FirstTry,
    /// Under the first resend: the first send was swallowed without an answer and without a charge.
    ReAsk,
    /// Under the first send, whose answer is lost; nobody asks before the key is too old to be sent.
    KeyExpired,
}

impl When {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstTry => "first try",
            Self::ReAsk => "re-ask",
            Self::KeyExpired => "key expired",
        }
    }
}

/// One payment's way, and where it must end.
#[derive(Debug, Clone)]
pub struct Cell {
    /// As the sandbox names it.
    pub behaviour: &'static str,
    /// When it meets it.
    pub when: When,
    /// What the rules say.
    pub expected: Outcome,
    /// Which rules.
    pub rules: &'static str,
}

impl Cell {
    fn is_done(&self, seen: &Outcome) -> bool {
        seen.is_at_rest() || self.expected.goes_on && self.expected.is_met_by(seen)
    }

    fn payee(&self) -> String {
        match self.when {
            When::FirstTry | When::KeyExpired => self.behaviour.to_owned(),
            When::ReAsk => format!("sim_timeout_not_charged|{}", self.behaviour),
        }
    }
}

/// All cells of one kind of gateway.
pub fn cells(of: Personality) -> Vec<Cell> {
    let cell = |row: &(&'static str, When, [&'static str; 4], &'static str)| {
        let (behaviour, when, expected, rules) = *row;
        Cell { behaviour, when, expected: Outcome::read(expected[of.column()]), rules }
    };
    TABLE.iter().map(cell).collect()
}

/// Where a payment stands, and what the gateway saw of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// State and, where there is one, the reason: `parked contract_violation`.
    pub end: String,
    /// Physical requests that could move money; for an expected outcome that goes on: at least so many.
    pub requests: usize,
    /// The question goes on: more requests may come.
    pub goes_on: bool,
    /// Requests that moved money.
    pub charges: usize,
}

impl Outcome {
    /// Reads `parked contract_violation 2/1`, or `unknown outcome_unknown 3+/1` of what goes on.
    fn read(text: &str) -> Self {
        let (end, counts) = text.rsplit_once(' ').expect("a state and counts");
        let (requests, charges) = counts.split_once('/').expect("requests and charges");
        Self {
            end: end.to_owned(),
            requests: requests.trim_end_matches('+').parse().expect("a count"),
            goes_on: requests.ends_with('+'),
            charges: charges.parse().expect("a count"),
        }
    }

    /// Whether what was seen is what was expected here.
    pub fn is_met_by(&self, seen: &Self) -> bool {
        let enough =
            if self.goes_on { seen.requests >= self.requests } else { seen.requests == self.requests };
        self.end == seen.end && enough && self.charges == seen.charges
    }

    /// Final, or parked.
    pub fn is_at_rest(&self) -> bool {
        ["completed", "failed", "parked", "cancelled"].iter().any(|end| self.end.starts_with(end))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.goes_on { "+" } else { "" };
        write!(f, "{} {}{more}/{}", self.end, self.requests, self.charges)
    }
}

/// How long a key lives in an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLife {
    /// A day: nothing expires.
    Day,
    /// Ten seconds, of which it may be sent for six; questions begin after eight.
    Seconds,
}

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// What every installation of the matrix has.
const SETTINGS: [(&str, &str); 11] = [
    ("gateway.total_timeout", "2s"),
    ("gateway.connect_timeout", "1s"),
    ("gateway.not_found_horizon", "1s"),
    ("worker.lease", "8s"),
    ("worker.margin", "2s"),
    ("kafka.session_timeout", "6s"),
    ("worker.late_by", "3s"),
    ("ladder.retry", "1s"),
    ("ladder.pending", "3s"),
    ("ladder.held_back", "2s"),
    ("ladder.jitter_percent", "0"),
];

fn settings(of: Personality, life: KeyLife) -> Vec<(&'static str, &'static str)> {
    let life = match life {
        KeyLife::Day => vec![("ladder.reask", "2s")],
        KeyLife::Seconds => vec![
            ("gateway.key_ttl", "10s"),
            ("gateway.key_margin", "4s"),
            ("sandbox.key_ttl", "10s"),
            ("ladder.reask", "6s,3s"),
        ],
    };
    SETTINGS.into_iter().chain(of.settings()).chain(life).collect()
}

/// One installation in which these cells of one key life ran, and what came of each.
#[derive(Debug)]
pub struct Lived {
    /// Still running.
    pub site: Installation,
    /// In the order of the cells.
    pub outcomes: Vec<Outcome>,
}

/// Lets the cells run side by side until each stands where it must, or for `within`.
pub async fn live(of: Personality, life: KeyLife, cells: &[Cell], within: Duration) -> Lived {
    let site = site(of, life, &[]).await;
    if life == KeyLife::Seconds {
        // Everything is done and nothing is answered.
        switch(&site, Some("silent_charged")).await;
    }
    let due_at = Utc::now() + TimeDelta::seconds(3);
    let mut ids = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        ids.push(create(&site, &format!("cell-{number}"), &cell.payee(), due_at).await);
    }
    if life == KeyLife::Seconds {
        eventually("every first send has arrived", seconds(60), || async {
            let seen = requests(&site).await;
            ids.iter().all(|id| seen.contains_key(id)).then_some(())
        })
        .await;
        switch(&site, None).await;
    }
    let outcomes = rest(&site, &ids, |place, seen| cells[place].is_done(seen), within).await;
    Lived { site, outcomes }
}

/// An installation of that kind of gateway, everything running; `more` settings come last.
pub async fn site(of: Personality, life: KeyLife, more: &[(&'static str, &'static str)]) -> Installation {
    let settings: Vec<_> = settings(of, life).into_iter().chain(more.iter().copied()).collect();
    let mut site = Installation::new(&settings).await;
    for (role, name) in
        [("keeper", "keeper-1"), ("api", "api-1"), ("relay", "relay-1"), ("worker", "worker-1")]
    {
        site.start(role, name, &[]).await;
    }
    site
}

/// Waits until all of these are done, or `within` is over; gives where they stand then.
pub async fn rest(
    site: &Installation,
    ids: &[String],
    is_done: impl Fn(usize, &Outcome) -> bool,
    within: Duration,
) -> Vec<Outcome> {
    let database = tokio::sync::Mutex::new(look(&site.database.url).await);
    let until = Utc::now() + TimeDelta::from_std(within).expect("short");
    eventually("the payments are done, or their time is over", within * 2, || async {
        let seen = stand(site, &mut *database.lock().await, ids).await;
        let done = seen.iter().enumerate().all(|(place, seen)| is_done(place, seen));
        (done || Utc::now() > until).then_some(seen)
    })
    .await
}

/// Where these payments stand, by the database and the sandbox's ledger.
pub async fn stand(site: &Installation, database: &mut PgConnection, ids: &[String]) -> Vec<Outcome> {
    let uuids: Vec<Uuid> = ids.iter().map(|id| id.parse().expect("a payment's id")).collect();
    let rows: Vec<(Uuid, String, Option<String>)> =
        sqlx::query_as("SELECT id, status, status_reason FROM payments WHERE id = ANY ($1)")
            .bind(uuids)
            .fetch_all(database)
            .await
            .expect("the database answers");
    let rows: BTreeMap<String, (String, Option<String>)> =
        rows.into_iter().map(|(id, status, reason)| (id.to_string(), (status, reason))).collect();
    let ledger = requests(site).await;
    let one = |id: &String| {
        let (status, reason) = rows.get(id).expect("a payment that was created");
        let end = [status.to_lowercase(), reason.clone().unwrap_or_default()].join(" ").trim().to_owned();
        let (requests, charges) = ledger.get(id).copied().unwrap_or_default();
        Outcome { end, requests, goes_on: false, charges }
    };
    ids.iter().map(one).collect()
}

/// By payment: how often it was asked for, and how often that moved money.
async fn requests(site: &Installation) -> BTreeMap<String, (usize, usize)> {
    let mut seen: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for line in site.ledger().await {
        let Some(id) = line["paymentId"].as_str() else { continue };
        let one = seen.entry(id.to_owned()).or_default();
        one.0 += 1;
        one.1 += usize::from(line["charged"] == true);
    }
    seen
}

/// Creates a payment of two sends at most, so that declines end soon.
pub async fn create(site: &Installation, key: &str, payee: &str, due_at: DateTime<Utc>) -> String {
    let due_at = due_at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    let body = json!({"payee": payee, "amount": 1_250, "currency": "EUR", "dueAt": due_at,
                      "retry": {"maxSends": 2}});
    let (status, created) = site.post(key, &body).await.expect("the API answers");
    assert_eq!(status, 201, "{created}");
    created["paymentId"].as_str().expect("an id").to_owned()
}

/// Sends the sandbox away in this manner, or has it come back.
pub async fn switch(site: &Installation, away: Option<&str>) {
    let url = format!("{}/outage", site.url("sandbox-1"));
    let request = match away {
        Some(kind) => site.http.put(url).body(json!({ "kind": kind }).to_string()),
        None => site.http.delete(url),
    };
    let answer = request.bearer_auth("sandbox-secret").send().await.expect("the sandbox answers");
    assert!(answer.status().is_success(), "{}", answer.status());
}

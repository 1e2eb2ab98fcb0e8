//! What is asked of the API, and what is read from its answers.
//!
//! One look is five questions at once; it counts if four are answered. What is wrong may be unknown where all else is
//! known, since the API gives up those checks when its database is slow: that is said, and nothing is called fine.

use super::super::Ended;
use super::super::remote::{of_client, said_something};
use crate::client::Client;
use crate::domain::lateness::Late;
use crate::platform::exit::Exit;
use crate::story::{self, Figure, Waits};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A percentile, as the API writes it.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) enum Within {
    #[serde(rename = "belowMs")]
    Below(i32),
    #[serde(rename = "beyondMs")]
    Beyond(i32),
}

impl From<Within> for Late {
    fn from(within: Within) -> Self {
        match within {
            Within::Below(ms) => Self::Below(ms),
            Within::Beyond(ms) => Self::Beyond(ms),
        }
    }
}

/// `GET /v1/ops/overview`
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Overview {
    pub(super) taken_at: DateTime<Utc>,
    hour: Hour,
    pub(super) minutes: Vec<Minute>,
    pub(super) waiting: Waiting,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hour {
    completed: i64,
    failed: i64,
    cancelled: i64,
    parked: i64,
    unknown: i64,
    retried: i64,
    lateness_p50: Option<Within>,
    lateness_p99: Option<Within>,
    #[serde(rename = "laterThan60s")]
    later: i64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Minute {
    pub(super) due: Option<i64>,
    pub(super) completed: i64,
    pub(super) lateness_p99: Option<Within>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiting {
    due: i64,
    processing: i64,
    unknown: i64,
    parked: i64,
    pub(super) unpublished: i64,
    oldest_unknown_seconds: u64,
    lease_overdue_seconds: u64,
    gateways: Vec<Oldest>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Oldest {
    oldest_due_seconds: u64,
}

/// One of `GET /v1/ops/gateways`
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gateway {
    pub(super) gateway: String,
    pub(super) status: String,
    pub(super) paused: Option<Paused>,
    pub(super) kill_switches: Vec<Switch>,
    pub(super) breaker: Breaker,
    pub(super) asked_to_wait_until: Option<DateTime<Utc>>,
    pub(super) rate: Option<Rate>,
    pub(super) calls: Calls,
    pub(super) in_flight: i64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Paused {
    pub(super) by: String,
    pub(super) reason: String,
    pub(super) since: DateTime<Utc>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Switch {
    pub(super) kind: String,
    pub(super) value: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Breaker {
    pub(super) state: String,
    pub(super) until: Option<DateTime<Utc>>,
    pub(super) cause: Option<String>,
    pub(super) trips: i64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rate {
    pub(super) configured: i64,
    pub(super) held_now: i64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Calls {
    pub(super) last_ten_seconds: i64,
    pub(super) failed: i64,
}

/// `GET /v1/ops/workers`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Crew {
    pub(super) workers: Vec<Worker>,
    pub(super) relays: Vec<Relay>,
    pub(super) publishers: Vec<Publisher>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Worker {
    pub(super) worker: String,
    pub(super) gateway: String,
    pub(super) claims: i64,
    pub(super) oldest_claim_at: Option<DateTime<Utc>>,
    pub(super) heard_at: Option<DateTime<Utc>>,
    pub(super) demand: Option<i64>,
    pub(super) slots: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Relay {
    pub(super) relay: String,
    pub(super) partitions: i64,
    pub(super) until: DateTime<Utc>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Publisher {
    pub(super) publisher: String,
    pub(super) until: DateTime<Utc>,
}

#[derive(Debug, Clone, Deserialize)]
struct Forecast {
    gateways: Vec<Foretold>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Foretold {
    charges_per_second: Option<i64>,
    minutes: Vec<Span>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    from: DateTime<Utc>,
    due: i64,
    precision: String,
    left_at_end: Option<i64>,
}

/// One of `GET /v1/ops/problems`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Problem {
    pub(super) check: String,
    pub(super) level: String,
    pub(super) saw: String,
    pub(super) means: String,
    pub(super) fix: String,
    /// The alert whose page says more.
    pub(super) runbook: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Listed<T> {
    data: Vec<T>,
}

/// Everything that was seen at once.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) overview: Overview,
    pub(super) gateways: Vec<Gateway>,
    pub(super) crew: Crew,
    forecast: Forecast,
    /// The worst first; `None`: the API could not find out.
    pub(super) problems: Option<Vec<Problem>>,
    /// As they came.
    pub(super) documents: Value,
}

impl Look {
    /// Of these documents.
    ///
    /// # Errors
    /// One of them is not what this version knows.
    pub(super) fn read(documents: Value) -> Result<Self, Ended> {
        let gateways: Listed<Gateway> = part(&documents, "gateways")?;
        let problems: Option<Listed<Problem>> = part(&documents, "problems")?;
        Ok(Self {
            overview: part(&documents, "overview")?,
            gateways: gateways.data,
            crew: part(&documents, "workers")?,
            forecast: part(&documents, "forecast")?,
            problems: problems.map(|problems| problems.data),
            documents,
        })
    }

    /// The figures of the dashboard's first page, in its order.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let (hour, waiting) = (&self.overview.hour, &self.overview.waiting);
        let late = hour.lateness_p50.map(Late::from).zip(hour.lateness_p99.map(Late::from));
        let whole = self.overview.minutes.iter().rev().find(|minute| minute.due.is_some());
        let waits = Waits {
            due: waiting.due,
            oldest_due: Duration::from_secs(
                waiting.gateways.iter().map(|oldest| oldest.oldest_due_seconds).max().unwrap_or(0),
            ),
            unknown: waiting.unknown,
            oldest_unknown: Duration::from_secs(waiting.oldest_unknown_seconds),
            parked: waiting.parked,
            processing: waiting.processing,
            lease_overdue: Duration::from_secs(waiting.lease_overdue_seconds),
        };
        let mut all = vec![
            story::lateness(late, hour.later, waits.oldest_due),
            story::completed(hour.completed, whole.map(|minute| minute.completed)),
        ];
        all.extend(story::waiting(&waits));
        all.push(story::coming(Some(self.coming())));
        all
    }

    fn coming(&self) -> story::Coming {
        let mut all = story::Coming { due: 0, is_exact: true, left: None };
        for gateway in &self.forecast.gateways {
            all.due += gateway.minutes.iter().map(|span| span.due).sum::<i64>();
            all.is_exact &= gateway.minutes.iter().all(|span| span.precision == "exact");
            if gateway.charges_per_second.is_some() {
                let left = gateway.minutes.last().and_then(|span| span.left_at_end).unwrap_or(0);
                all.left = Some(all.left.unwrap_or(0) + left);
            }
        }
        all
    }

    /// What falls due in each minute of the next hour, over all gateways.
    pub(super) fn next_hour(&self) -> Vec<i64> {
        let mut minutes: BTreeMap<DateTime<Utc>, i64> = BTreeMap::new();
        for span in self.forecast.gateways.iter().flat_map(|gateway| &gateway.minutes) {
            *minutes.entry(span.from).or_default() += span.due;
        }
        minutes.into_values().collect()
    }

    /// What became of payments in the last hour, in the dashboard's words.
    pub(super) fn outcomes(&self) -> [(&'static str, i64); 6] {
        let hour = &self.overview.hour;
        [
            ("completed", hour.completed),
            ("will be tried again", hour.retried),
            ("were unknown for a while", hour.unknown),
            ("parked", hour.parked),
            ("failed", hour.failed),
            ("cancelled", hour.cancelled),
        ]
    }
}

fn part<T: DeserializeOwned>(documents: &Value, name: &str) -> Result<T, Ended> {
    T::deserialize(&documents[name]).map_err(|error| {
        let told =
            format!("the API answers {name} otherwise than this version knows it ({error}); is it as new?");
        Ended::with(Exit::Failed, told)
    })
}

/// Asks once.
///
/// # Errors
/// The API's refusal, no answer, or one that is not understood.
pub(super) async fn look(client: &Client) -> Result<Look, Ended> {
    let ask = async |segments: &[&str]| {
        let body = client.call("GET", segments).send().await.map_err(of_client)?.body;
        said_something(&body)?;
        Ok::<Value, Ended>(body)
    };
    let problems = async { Ok::<Option<Value>, Ended>(ask(&["ops", "problems"]).await.ok()) };
    let (overview, gateways, workers, forecast, problems) = futures_util::try_join!(
        ask(&["ops", "overview"]),
        ask(&["ops", "gateways"]),
        ask(&["ops", "workers"]),
        ask(&["forecast"]),
        problems
    )?;
    Look::read(json!({
        "problems": problems, "overview": overview, "forecast": forecast, "gateways": gateways, "workers": workers,
    }))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An hour in which one gateway broke.
    pub(in crate::cli::top) fn documents() -> Value {
        let minute = |n: u32| {
            json!({"from": format!("2030-01-31T08:{n:02}:00Z"), "due": n, "claimed": n, "completed": n, "failed": 0,
                "cancelled": 0, "parked": 0, "unknown": 0, "retried": 0, "latenessP50": {"belowMs": 50},
                "latenessP99": if n == 30 { json!({"belowMs": 600_000}) } else { json!({"belowMs": 250}) }})
        };
        let span = |n: u32| {
            json!({"from": format!("2030-01-31T09:{n:02}:00Z"), "due": 20, "precision": "exact", "leftAtEnd": 0,
                "drainedAt": null})
        };
        json!({
            "problems": {"data": [{"check": "gateways", "level": "bad", "saw": "the breaker of acme is open",
                "means": "nothing is claimed of it", "fix": "look at the gateway; it closes by itself",
                "runbook": "PunctualBreakerOpen"}]},
            "overview": {
                "takenAt": "2030-01-31T09:00:01Z",
                "hour": {"completed": 1_770, "failed": 1, "cancelled": 2, "parked": 3, "unknown": 4, "retried": 5,
                    "latenessP50": {"belowMs": 50}, "latenessP99": {"belowMs": 250}, "laterThan60s": 2},
                "minutes": (0..60).map(minute).collect::<Vec<_>>(),
                "waiting": {"due": 7, "processing": 6, "unknown": 4, "parked": 10_000, "unpublished": 9,
                    "oldestUnknownSeconds": 30, "leaseOverdueSeconds": 0,
                    "gateways": [{"gateway": "acme", "oldestDueSeconds": 75}]},
            },
            "gateways": {"data": [
                {"gateway": "acme", "account": "main", "status": "broken", "paused": null, "killSwitches": [],
                    "breaker": {"state": "open", "until": "2030-01-31T09:00:31Z", "cause": "a server error (HTTP 503)", "trips": 3},
                    "askedToWaitUntil": null, "rate": {"configured": 40, "limit": null, "heldNow": 20},
                    "calls": {"lastTenSeconds": 12, "failed": 11}, "inFlight": 2, "workers": []},
                {"gateway": "bank", "account": "main", "status": "paused",
                    "paused": {"by": "key:alice", "reason": "ticket 7", "since": "2030-01-31T08:00:00Z"},
                    "killSwitches": [{"kind": "gateway", "value": "bank"}],
                    "breaker": {"state": "closed", "until": null, "cause": null, "trips": 0}, "askedToWaitUntil": null,
                    "rate": null, "calls": {"lastTenSeconds": 0, "failed": 0}, "inFlight": 0, "workers": []},
            ]},
            "workers": {"takenAt": "2030-01-31T09:00:01Z", "workers": [
                {"worker": "worker-1", "gateway": "acme", "claims": 6, "oldestClaimAt": "2030-01-31T08:59:51Z",
                    "heardAt": "2030-01-31T09:00:00Z", "demand": 8, "slots": 64}],
                "relays": [{"relay": "relay-1", "partitions": 4, "shards": [0, 1], "since": "2030-01-31T08:00:00Z",
                    "until": "2030-01-31T09:00:11Z"}],
                "publishers": [{"publisher": "publisher-1", "epoch": 1, "until": "2030-01-31T09:00:11Z"}]},
            "forecast": {"takenAt": "2030-01-31T09:00:01Z", "gateways": [{"gateway": "acme", "chargesPerSecond": 40,
                "overdue": 7, "overduePrecision": "exact", "minutes": (0..60).map(span).collect::<Vec<_>>(),
                "days": []}]},
        })
    }

    #[test]
    fn figures_are_those_of_the_first_page_in_its_words_and_order() {
        let look = Look::read(documents()).unwrap();
        let told: Vec<(&str, String, String)> =
            look.figures().into_iter().map(|it| (it.label, it.value, it.note)).collect();
        let of = |label, value: &str, note: &str| (label, value.to_owned(), note.to_owned());
        assert_eq!(
            told,
            [
                of("Lateness p50 / p99", "< 50 ms / < 250 ms", "the oldest waits for 1 min now"),
                of("Completed in the last hour", "1,770", "59 in the last whole minute"),
                of("Due and waiting", "7", "the oldest for 1 min"),
                of("Outcome unknown", "4", "the oldest for 30 s; they are asked about"),
                of("Parked", "10,000+", "wait for a person"),
                of("With gateways now", "6", "under a claim"),
                of("Due in the next hour", "1,200", "the permitted rate is enough"),
            ]
        );
        assert_eq!(look.next_hour(), vec![20; 60]);
    }

    #[test]
    fn an_answer_that_is_not_understood_is_named() {
        let mut documents = documents();
        documents["overview"]["hour"] = Value::Null;
        let ended = Look::read(documents.clone()).unwrap_err();
        assert!(
            ended.exit == Exit::Failed && ended.message.contains("answers overview otherwise"),
            "{ended:?}"
        );
        documents["overview"] = super::tests::documents()["overview"].clone();
        documents["problems"] = Value::Null;
        assert!(Look::read(documents).unwrap().problems.is_none(), "not known, which is not none");
    }
}

//! `punctual bucket list` and `bucket peek`: what lies in the ring, beside what the database says of it.
//!
//! Kafka is asked first and the database after it, so that what is in the ring is known to the database.
//! Nothing is written anywhere, and no group is joined.

use super::{failed, refused};
use crate::bucket::BadNotice;
use crate::bucket::dump::DumpError;
use crate::bucket::survey::{self, Part, Peeked};
use crate::cli::{self, Bucket, Ended, Output};
use crate::domain::bucket::{Channel, coming_minute, label};
use crate::domain::forecast::{Drained, Precision, drain};
use crate::domain::ids::{GatewayName, PaymentId};
use crate::domain::intent::{Authenticity, check_notice};
use crate::intake::{Account, Survey};
use crate::platform::config::{Config, Kafka};
use crate::platform::exit::Exit;
use crate::schedule::{self, Access, Forecast, PaymentState, Postgres};
use chrono::{DateTime, SecondsFormat, Utc};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Looks and prints.
///
/// # Errors
/// [`Exit::NotFound`] where a topic of the ring is missing; otherwise what failed.
pub async fn bucket(command: Bucket, config: Config) -> Result<(), Ended> {
    config.require(&["database.url", "kafka.bootstrap_servers"])?;
    let schedule = schedule::connect(&config.database, Access::Api).await.map_err(refused)?;
    let shown = match command {
        Bucket::List { output } => list(&schedule, &config, output).await,
        Bucket::Peek { bucket, limit, output } => peek(&schedule, &config.kafka, bucket, limit, output).await,
    };
    schedule.close().await;
    cli::print(&shown?)
}

/// The same look for the interface.
pub(super) struct Ring {
    /// For what is due.
    pub(super) schedule: Postgres,
    /// Of Kafka and of the gateway.
    pub(super) config: Config,
}

impl Survey for Ring {
    fn buckets(&self) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            let lines = surveyed(&self.schedule, &self.config).await.map_err(|ended| ended.message)?;
            Ok(Value::Array(lines.iter().map(line_as_json).collect()))
        })
    }
}

/// Reads from Kafka on a thread that may block.
async fn blocking<T: Send + 'static>(
    kafka: &Kafka,
    read: impl FnOnce(&Kafka) -> Result<T, DumpError> + Send + 'static,
) -> Result<T, Ended> {
    let kafka = kafka.clone();
    let read = tokio::task::spawn_blocking(move || read(&kafka)).await.map_err(failed)?;
    read.map_err(|error| match error {
        DumpError::NoTopic(_) => Ended::with(Exit::NotFound, error.to_string()),
        DumpError::Settings(_) | DumpError::Kafka(_) | DumpError::Silent | DumpError::NotAnEvent { .. } => {
            failed(error)
        }
    })
}

/// A topic of the ring with its partitions, and of a minute with what falls due in it.
struct Line {
    channel: Channel,
    minute: Option<DateTime<Utc>>,
    parts: Vec<Part>,
    /// Of each gateway.
    due: Vec<(GatewayName, Drained)>,
}

impl Line {
    fn sum(&self, of: impl Fn(&Part) -> i64) -> i64 {
        self.parts.iter().map(of).sum()
    }

    fn due(&self) -> i64 {
        self.due.iter().map(|(_, one)| one.due.count).sum()
    }

    fn first_at(&self) -> Option<DateTime<Utc>> {
        self.due.iter().filter_map(|(_, one)| one.due.first_at).min()
    }

    fn drained_at(&self) -> Option<DateTime<Utc>> {
        self.due.iter().filter(|(_, one)| one.due.count > 0).filter_map(|(_, one)| one.drained_at).max()
    }

    fn name(&self) -> String {
        self.minute.map_or_else(|| "now".to_owned(), label)
    }
}

async fn surveyed(schedule: &Postgres, config: &Config) -> Result<Vec<Line>, Ended> {
    let now = schedule.database_now().await.map_err(failed)?;
    let ring = blocking(&config.kafka, move |kafka| survey::survey(kafka, now)).await?;
    let forecast = schedule.forecast(&[GatewayName(config.gateway.name.clone())]).await.map_err(failed)?;
    Ok(lines(ring, now, &forecast, &Account::of(&config.gateway)))
}

async fn list(schedule: &Postgres, config: &Config, output: Output) -> Result<String, Ended> {
    let lines = surveyed(schedule, config).await?;
    Ok(output.shown(|| as_table(&lines), || lines.iter().map(line_as_json).collect()))
}

fn lines(
    ring: Vec<(Channel, Vec<Part>)>,
    now: DateTime<Utc>,
    forecast: &Forecast,
    account: &Account,
) -> Vec<Line> {
    let mut due: BTreeMap<DateTime<Utc>, Vec<(GatewayName, Drained)>> = BTreeMap::new();
    for of in &forecast.gateways {
        let rate = account.rate_of(of);
        for one in drain(forecast.taken_at, of.overdue.count, &of.minutes, rate) {
            let minute = crate::domain::bucket::minute_start(one.due.from);
            due.entry(minute).or_default().push((of.gateway.clone(), one));
        }
    }
    let line = |(channel, parts)| {
        let minute = match channel {
            Channel::Ring(slot) => Some(coming_minute(slot, now)),
            Channel::Now => None,
        };
        let due = minute.and_then(|minute| due.remove(&minute)).unwrap_or_default();
        Line { channel, minute, parts, due }
    };
    ring.into_iter().map(line).collect()
}

fn as_table(lines: &[Line]) -> String {
    let mut text = format!(
        "{:<18}{:>10}  {:<20}{:>10}{:>10}{:>12}{:>12}  {}\n",
        "bucket", "due", "first due", "staged", "lag", "position", "end", "worked off at"
    );
    let second = |at: Option<DateTime<Utc>>| at.map_or_else(|| "-".to_owned(), at_second);
    for line in lines {
        // Writing into a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "{:<18}{:>10}  {:<20}{:>10}{:>10}{:>12}{:>12}  {}",
            line.name(),
            line.minute.map_or_else(|| "-".to_owned(), |_| line.due().to_string()),
            second(line.first_at()),
            line.sum(Part::staged),
            line.sum(Part::lag),
            line.sum(|part| part.committed.unwrap_or(part.begin)),
            line.sum(|part| part.end),
            second(line.drained_at()),
        );
    }
    text
}

fn line_as_json(line: &Line) -> Value {
    let part = |part: &Part| {
        json!({"partition": part.partition, "begin": part.begin, "end": part.end, "committed": part.committed,
            "staged": part.staged(), "lag": part.lag()})
    };
    let due = |(gateway, one): &(GatewayName, Drained)| {
        json!({"gateway": gateway, "due": one.due.count, "precision": precision(one.due.precision),
            "firstAt": one.due.first_at.map(exact), "drainedAt": one.drained_at.map(exact)})
    };
    let topic = match line.channel {
        Channel::Ring(slot) => format!("m{:02}", slot.minute()),
        Channel::Now => "now".to_owned(),
    };
    json!({"bucket": line.name(), "slot": topic, "due": line.due.iter().map(due).collect::<Vec<_>>(),
        "staged": line.sum(Part::staged), "lag": line.sum(Part::lag),
        "partitions": line.parts.iter().map(part).collect::<Vec<_>>()})
}

fn precision(precision: Precision) -> &'static str {
    match precision {
        Precision::Exact => "exact",
        Precision::AtLeast => "atLeast",
        Precision::About => "about",
    }
}

/// What a record's seal says.
fn seal(secret: &[u8; 32], of: &Peeked) -> &'static str {
    match &of.read {
        Err(_) => "unreadable",
        Ok(read) => match read.mac.as_deref().map(|mac| check_notice(secret, &read.notice, mac)) {
            Some(Authenticity::Authentic) => "authentic",
            Some(Authenticity::Forged) => "forged",
            None => "missing",
        },
    }
}

async fn peek(
    schedule: &Postgres,
    kafka: &Kafka,
    bucket: Channel,
    limit: usize,
    output: Output,
) -> Result<String, Ended> {
    let records = blocking(kafka, move |kafka| survey::peek(kafka, bucket, limit)).await?;
    let ids = records.iter().filter_map(|record| Some(record.read.as_ref().ok()?.notice.payment));
    let states = schedule.states(ids).await.map_err(failed)?;
    let secret = schedule.installation_secret();
    let record = |record: &Peeked| record_as_json(record, seal(secret, record), &states);
    Ok(output.shown(|| records_as_table(&records, secret, &states), || records.iter().map(record).collect()))
}

fn records_as_table(
    records: &[Peeked],
    secret: &[u8; 32],
    states: &BTreeMap<PaymentId, PaymentState>,
) -> String {
    let mut text = format!(
        "{:<10}{:<38}{:<29}{:>7}  {:<10} {:<9} {}\n",
        "record", "payment", "not before", "attempt", "seal", "offset", "the database says"
    );
    for record in records {
        let place = format!("{}/{}", record.partition, record.offset);
        let done = if record.is_complete { "done" } else { "open" };
        let seal = seal(secret, record);
        let _ = match &record.read {
            Ok(read) => {
                let notice = &read.notice;
                let says = states.get(&notice.payment).map_or_else(|| "unknown payment".to_owned(), says);
                let (id, at) = (notice.payment.to_string(), exact(notice.not_before));
                writeln!(
                    text,
                    "{place:<10}{id:<38}{at:<29}{:>7}  {seal:<10} {done:<9} {says}",
                    notice.attempt
                )
            }
            Err(BadNotice { reason, .. }) => {
                writeln!(text, "{place:<10}{:<38}{:<29}{:>7}  {seal:<10} {done:<9} {reason}", "-", "-", "-")
            }
        };
    }
    text
}

fn says(state: &PaymentState) -> String {
    let next = if state.status.is_claimable() {
        format!(", next at {}", exact(state.next_attempt_at))
    } else {
        String::new()
    };
    format!("{}, {} claims{next}", state.status.as_str(), state.attempt)
}

fn record_as_json(record: &Peeked, seal: &str, states: &BTreeMap<PaymentId, PaymentState>) -> Value {
    let (notice, says, bad) = match &record.read {
        Ok(read) => {
            let says = states.get(&read.notice.payment).map(|it| {
                json!({"status": it.status, "attempt": it.attempt,
                    "nextAttemptAt": it.status.is_claimable().then(|| exact(it.next_attempt_at))})
            });
            let notice = &read.notice;
            let notice = json!({"paymentId": notice.payment, "gateway": notice.gateway, "lane": notice.lane,
                "dueAt": exact(notice.due_at), "notBefore": exact(notice.not_before), "attempt": notice.attempt});
            (Some(notice), says, None)
        }
        Err(bad) => (None, None, Some(bad.reason.to_string())),
    };
    let headers: Vec<Value> = record.headers.iter().map(|(name, value)| json!([name, value])).collect();
    json!({"partition": record.partition, "offset": record.offset, "takenAt": record.taken_at.map(exact),
        "headers": headers, "notice": notice, "unreadable": bad, "seal": seal, "isComplete": record.is_complete,
        "payment": says})
}

fn exact(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

fn at_second(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

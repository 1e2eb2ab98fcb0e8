//! `punctual audit check`: reads the ledger, the database, the topics and the clients' log, window by
//! window, and prints what [`crate::audit`] finds.
//!
//! **The order of reading matters on a running installation.** The publisher's cursor and the committed
//! offsets first, then the topics, then the ledger, the database last: so whatever is in the others must
//! be in the database, and what moved after the ledger was read is not compared with it. Nothing is
//! written anywhere.

use super::{failed, refused, usage};
use crate::audit::{Given, LedgerLine, Lines, Operation, Records, Report, Requirement, Rules};
use crate::bucket::Names;
use crate::bucket::dump::{Dump, DumpError, Place, Span};
use crate::cli::{self, AuditCheck, Ended};
use crate::client;
use crate::domain::ids::PaymentId;
use crate::platform::config::Config;
use crate::platform::exit::Exit;
use crate::schedule::audit::{Extent, Window};
use crate::schedule::{self, Access, Postgres};
use chrono::{Days, NaiveDate};
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncBufReadExt;

/// Checks, prints, and ends as the report says.
///
/// # Errors
/// [`Exit::Differences`] for a broken promise, [`Exit::Undecided`] for what was required and is unknown;
/// otherwise what failed.
pub async fn audit_check(asked: AuditCheck, config: Config) -> Result<(), Ended> {
    config.require(&["database.url"])?;
    let required = asked.require.iter().map(|name| Requirement::named(name)).collect::<Result<_, _>>();
    let mut report = Report::new(required.map_err(usage)?);
    let schedule = schedule::connect(&config.database, Access::Owner).await.map_err(refused)?;
    let done = look(&asked, &config, &schedule, &mut report).await;
    schedule.close().await;
    done?;
    cli::print(&asked.output.shown(|| report.as_table(), || report.as_json()))?;
    if let Some(told) = asked.unlooked_at() {
        cli::say(told);
    }
    match report.exit() {
        Exit::Differences => Err(Ended::with(Exit::Differences, "a promise is broken")),
        Exit::Undecided => Err(Ended::with(Exit::Undecided, "something that was asked for is unknown")),
        _ => Ok(()),
    }
}

async fn look(
    asked: &AuditCheck,
    config: &Config,
    schedule: &Postgres,
    report: &mut Report,
) -> Result<(), Ended> {
    let extent = schedule.audit_extent().await.map_err(failed)?;
    let span = if asked.topics { Some(Arc::new(Mutex::new(span(asked, config).await?))) } else { None };
    let rules = Rules::of(config, asked.overdue.into());
    for pick in picks(asked, &extent) {
        let records = one(asked, config, schedule, span.clone(), pick).await?;
        report.look(&records, &rules);
    }
    Ok(())
}

/// One window, and what no window has.
#[derive(Debug, Clone)]
struct Pick {
    window: Window,
    /// All days that are looked at, where this window also answers for what names another day or none: a
    /// charge of a payment that nobody knows must not fall between two windows.
    and_outside: Option<(NaiveDate, NaiveDate)>,
}

impl Pick {
    fn wants(&self, day: Option<NaiveDate>) -> bool {
        match (day, self.and_outside) {
            (None, and_outside) => and_outside.is_some(),
            (Some(day), _) if (self.window.from..=self.window.to).contains(&day) => true,
            (Some(day), Some((first, last))) => !(first..=last).contains(&day),
            (Some(_), None) => false,
        }
    }
}

/// The days that were asked for, or all that the schedule has, in pieces.
fn picks(asked: &AuditCheck, extent: &Extent) -> Vec<Pick> {
    let today = extent.now.date_naive();
    let (first, last) = extent.days.unwrap_or((today, today));
    let (first, last) = (asked.from.unwrap_or(first), asked.to.unwrap_or(last));
    let mut picks = Vec::new();
    let mut from = first;
    while from <= last {
        let days = Days::new(u64::from(asked.window.max(1)));
        let after = from.checked_add_days(days).unwrap_or(NaiveDate::MAX);
        let to = after.pred_opt().unwrap_or(after).min(last);
        // Whoever asks for certain days wants nothing of the others.
        let whole = picks.is_empty() && asked.from.is_none() && asked.to.is_none();
        let window = Window { from, to, published_to: extent.published_to.clone() };
        picks.push(Pick { window, and_outside: whole.then_some((first, last)) });
        from = after;
    }
    picks
}

async fn one(
    asked: &AuditCheck,
    config: &Config,
    schedule: &Postgres,
    span: Option<Arc<Mutex<Span>>>,
    pick: Pick,
) -> Result<Records, Ended> {
    let given = Given {
        ledger: asked.ledger.is_some(),
        database: true,
        topics: span.is_some(),
        operations: asked.operations.is_some(),
    };
    let topics = match span {
        Some(span) => dump(span, pick.clone()).await?,
        None => Dump::default(),
    };
    let ledger_read_at = schedule.database_now().await.map_err(failed)?;
    let of_line = |line: &LedgerLine| pick.wants(line.payment_id.map(PaymentId::due_day));
    let ledger = lines(asked.ledger.as_deref(), of_line).await?;
    // A create that was not answered names no payment, but it says when it should have been due.
    let due_day = |it: &Operation| {
        let asked = it.asked.as_ref().map(|asked| asked.due_at.date_naive());
        it.payment_id.map(PaymentId::due_day).or(asked)
    };
    let operations = lines(asked.operations.as_deref(), |it| pick.wants(due_day(it))).await?;
    let is_published = pick.window.published_to.is_some();
    let written = schedule.audit(pick.window.clone()).await.map_err(failed)?;
    let names = Names::new(&config.kafka.topic_prefix);
    let place = |(topic, partition, offset): (String, i32, i64)| {
        Some(Place { channel: names.channel(&topic)?, partition, offset })
    };
    Ok(Records {
        given,
        ledger,
        ledger_read_at: given.ledger.then_some(ledger_read_at),
        operations,
        topics,
        kept: written.kept.into_iter().filter_map(place).collect(),
        is_published,
        taken_at: written.taken_at,
        payments: written.payments,
        attempts: written.attempts,
        history: written.history,
        keys: written.keys,
        refunds: written.refunds,
        differences: written.differences,
        compared: written.compared,
    })
}

async fn span(asked: &AuditCheck, config: &Config) -> Result<Span, Ended> {
    config.require(&["kafka.bootstrap_servers"])?;
    let (kafka, since) = (config.kafka.clone(), asked.since);
    let taken = tokio::task::spawn_blocking(move || Span::take(&kafka, since)).await;
    taken.map_err(failed)?.map_err(failed)
}

async fn dump(span: Arc<Mutex<Span>>, pick: Pick) -> Result<Dump, Ended> {
    let read = tokio::task::spawn_blocking(move || {
        let span = span.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dump = span.read(|id| pick.wants(Some(id.due_day())))?;
        if !pick.wants(None) {
            // Told once, not by every window.
            dump.unreadable.clear();
        }
        Ok::<_, DumpError>(dump)
    });
    read.await.map_err(failed)?.map_err(failed)
}

/// What is wanted of a file, or of what an address answers.
async fn lines<T: DeserializeOwned>(
    source: Option<&str>,
    wanted: impl Fn(&T) -> bool,
) -> Result<Vec<T>, Ended> {
    let Some(source) = source else { return Ok(Vec::new()) };
    let of = |error: &dyn std::fmt::Display| Ended::with(Exit::Failed, format!("{source}: {error}"));
    let mut lines = Lines::new(wanted);
    if source.starts_with("http://") || source.starts_with("https://") {
        client::lines_at(source, |line| lines.take(line)).await.map_err(|error| of(&error))?;
    } else {
        let file = tokio::fs::File::open(source).await.map_err(|error| of(&error))?;
        let mut file = tokio::io::BufReader::new(file);
        let mut line = Vec::new();
        while file.read_until(b'\n', &mut line).await.map_err(|error| of(&error))? > 0 {
            if !lines.take(&line) {
                break;
            }
            line.clear();
        }
    }
    lines.kept().map_err(|bad| of(&bad))
}

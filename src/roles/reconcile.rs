//! `punctual reconcile run`, and the keeper's daily round: a report is got from the gateway or a file, and handed to
//! [`crate::reconcile`]; what came of it is told.
//!
//! The database's clock is read before the report is asked for, so that none counts as complete that was made before its
//! day ended. **If this dies here**, the report counts or does not; whoever repeats it does no harm, and two who do it
//! at once neither.

mod daily;
mod told;

pub(super) use daily::daily;

use super::{failed, refused, usage};
use crate::cli::{self, Ended, ReconcileRun, reconcile_sheet};
use crate::domain::ids::{GatewayName, Operator};
use crate::domain::matching::ItemStatus;
use crate::gateway::{self, GatewayConfigError, HttpGateway, NotFetched, Settlements};
use crate::platform::clock::{Host, SharedClock};
use crate::platform::config::Config;
use crate::platform::dice::{Dice, Os};
use crate::platform::exit::Exit;
use crate::reconcile::read::Format;
use crate::reconcile::{Order, ReconcileError, Reconciled, Terms, reconcile};
use crate::schedule::{
    self, Access, Postgres, Purpose, ReconciliationItem, ReconciliationItemFilter, ScheduleError, Shorter,
    Withdrawn,
};
use chrono::NaiveDate;
use serde_json::Value;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use told::Told;

/// Items read at once.
const PAGE: u32 = 500;

/// What is to be reconciled.
#[derive(Debug, Clone)]
struct Day {
    /// Whose.
    gateway: GatewayName,
    /// Which.
    day: NaiveDate,
    /// Tells its report from others of the day, where it does not say so itself.
    source: Option<String>,
    /// Who asks.
    by: Operator,
    if_shorter: Shorter,
    if_withdrawn: Withdrawn,
    purpose: Purpose,
}

/// Where its report is.
#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    /// The gateway has it.
    Gateway(&'a HttpGateway),
    /// In a file.
    File(&'a PathBuf, &'a Format),
}

/// Why a day could not be reconciled; the variants say what to do.
#[derive(Debug, thiserror::Error)]
enum NotReconciled {
    /// Ask again later, or bring it as a file.
    #[error(transparent)]
    NotFetched(#[from] NotFetched),
    /// Correct the settings.
    #[error("gateway.settlement_format: {0}")]
    NoFormat(String),
    /// Look at the file's name and rights.
    #[error("{0} cannot be opened: {1}")]
    NoFile(String, std::io::Error),
    /// As it says.
    #[error(transparent)]
    Reconcile(#[from] ReconcileError),
}

impl From<ScheduleError> for NotReconciled {
    fn from(error: ScheduleError) -> Self {
        Self::Reconcile(error.into())
    }
}

impl From<NotReconciled> for Ended {
    fn from(why: NotReconciled) -> Self {
        let (exit, told) = match &why {
            NotReconciled::NotFetched(NotFetched::NoSource)
            | NotReconciled::NoFormat(_)
            | NotReconciled::Reconcile(
                ReconcileError::OtherDay { .. }
                | ReconcileError::DayOutOfRange
                | ReconcileError::Forgotten { .. },
            ) => (Exit::Usage, why.to_string()),
            NotReconciled::Reconcile(ReconcileError::Shorter { before }) => {
                let told = format!(
                    "{why}: {}. Cut short, or right? Look at both; --even-if-shorter says that it is right",
                    before.id
                );
                (Exit::Conflict, told)
            }
            NotReconciled::Reconcile(ReconcileError::Withdrawn { before }) => {
                let told = format!("{why}: {}. If it is right, --even-if-withdrawn says so", before.id);
                (Exit::Conflict, told)
            }
            NotReconciled::NotFetched(_)
            | NotReconciled::NoFile(..)
            | NotReconciled::Reconcile(
                ReconcileError::Refused(_)
                | ReconcileError::Unread(_)
                | ReconcileError::Changed
                | ReconcileError::Schedule(_),
            ) => (Exit::Failed, why.to_string()),
        };
        Ended::with(exit, told)
    }
}

/// As it is configured.
fn terms(config: &Config) -> Result<Terms, Ended> {
    let settings = &config.reconcile;
    // Settings with another word are refused when they are read.
    Terms::read(settings.grace_days, &settings.repair)
        .ok_or_else(|| usage("reconcile.repair must be none, safe or automatic"))
}

/// Reconciles one day, and prints what was found.
///
/// # Errors
/// [`Exit::Differences`] where something waits for people, [`Exit::Undecided`] where nothing does and the report is not
/// complete; otherwise why there is nothing to say.
pub async fn reconcile_run(asked: ReconcileRun, config: Config) -> Result<(), Ended> {
    config.require(&["database.url"])?;
    let terms = terms(&config)?;
    let gateway = match &asked.file {
        Some(_) => None,
        None => Some(source_of(&config, Arc::new(Host), &asked.gateway)?),
    };
    let source = match (&gateway, &asked.file, &asked.format) {
        (Some(gateway), _, _) => Source::Gateway(gateway),
        (None, Some(file), Some(format)) => Source::File(file, format),
        // clap has asked for the one with the other.
        (None, _, _) => return Err(usage("--file needs --format")),
    };
    let day = Day {
        gateway: GatewayName(asked.gateway.clone()),
        day: asked.day,
        source: asked.source.clone(),
        by: Operator("cli".into()),
        if_shorter: if asked.even_if_shorter { Shorter::Accept } else { Shorter::Refuse },
        if_withdrawn: if asked.even_if_withdrawn { Withdrawn::Accept } else { Withdrawn::Refuse },
        purpose: if asked.dry_run { Purpose::Trial } else { Purpose::Count },
    };
    let schedule = schedule::connect(&config.database, Access::Worker).await.map_err(refused)?;
    let done = reconciled(&schedule, &day, source, terms).await;
    let told = match done {
        Ok(done) => shown(&schedule, Told::of(day.gateway, day.day, done), &asked).await,
        Err(why) => Err(why.into()),
    };
    schedule.close().await;
    ended(&told?)
}

/// Prints it; a sheet page by page, so that memory does not grow with it.
async fn shown(schedule: &Postgres, mut told: Told, asked: &ReconcileRun) -> Result<Told, Ended> {
    let mut after = None;
    let print = |items: &[Value]| {
        if asked.csv { cli::print(&reconcile_sheet::rows(items)) } else { Ok(()) }
    };
    if asked.csv {
        cli::print(&reconcile_sheet::headline())?;
    }
    // What a trial found is in its answer.
    print(&told.open)?;
    while told.is_kept() {
        let page = open_items(schedule, &told, after).await.map_err(failed)?;
        after = page.last().map(|item| item.number);
        let items = Told::kept(&page);
        print(&items)?;
        let room = told::SHOWN.saturating_sub(told.open.len());
        told.open.extend(items.into_iter().take(room));
        if page.len() < PAGE as usize || !asked.csv {
            break;
        }
    }
    if !asked.csv {
        cli::print(&asked.output.shown(|| told.text(), || told.document()))?;
    }
    Ok(told)
}

fn ended(told: &Told) -> Result<(), Ended> {
    let (exit, why) = match told.waiting_for_people() {
        0 if told.done.compared.is_complete => {
            if let Some(stop) = told.stop_first() {
                cli::say(stop);
            }
            return Ok(());
        }
        0 => {
            let why = "nothing waits for people so far; the day is not over, or its report is not complete";
            (Exit::Undecided, why.to_owned())
        }
        1 => (Exit::Differences, "1 difference waits for people".to_owned()),
        open => (Exit::Differences, format!("{open} differences wait for people")),
    };
    let stop = told.stop_first().map_or_else(String::new, |stop| format!("\n{stop}"));
    Err(Ended::with(exit, why + &stop))
}

/// The gateway of that name, to be asked for its reports.
fn source_of(config: &Config, clock: SharedClock, name: &str) -> Result<HttpGateway, Ended> {
    if name != config.gateway.name {
        let configured = &config.gateway.name;
        let why = format!("only {configured} is configured here, so the report of {name} has to be a --file");
        return Err(usage(why));
    }
    config.require(&["gateway.url"])?;
    gateway::connect(&config.gateway, clock).map_err(|error: GatewayConfigError| usage(error))
}

/// Gets the report and has it reconciled.
async fn reconciled(
    schedule: &Postgres,
    day: &Day,
    source: Source<'_>,
    terms: Terms,
) -> Result<Reconciled, NotReconciled> {
    // Before the report is asked for: what happened later may not be in it.
    let seen_at = schedule.database_now().await?;
    let (file, format) = match source {
        Source::File(path, format) => {
            let no_file = |error| NotReconciled::NoFile(path.display().to_string(), error);
            (File::open(path).map_err(no_file)?, format.clone())
        }
        Source::Gateway(gateway) => {
            let named = gateway.settlement_format().ok_or(NotFetched::NoSource)?;
            let format: Format =
                named.parse().map_err(|error| NotReconciled::NoFormat(format!("{error}")))?;
            (gateway.settlement(day.day).await?.into_reader().into_inner(), format)
        }
    };
    let order = Order {
        id: Os.claim_id().0,
        gateway: day.gateway.clone(),
        day: day.day,
        format,
        file,
        source: day.source.clone(),
        asked_by: day.by.clone(),
        seen_at,
        if_shorter: day.if_shorter,
        if_withdrawn: day.if_withdrawn,
        purpose: day.purpose,
    };
    Ok(reconcile(schedule, &order, terms).await?)
}

/// What is open of the day as it is kept.
async fn open_items(
    schedule: &Postgres,
    told: &Told,
    after: Option<i64>,
) -> Result<Vec<ReconciliationItem>, ScheduleError> {
    let filter = ReconciliationItemFilter {
        gateway: Some(told.gateway.clone()),
        day: Some(told.day),
        status: Some(ItemStatus::Open),
        ..ReconciliationItemFilter::default()
    };
    schedule.reconciliation_items(&filter, after, PAGE).await
}

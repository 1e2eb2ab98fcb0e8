//! A report's file into the schedule: read once to know that it is well, and once more to load it.
//!
//! **Promises.** A file that is refused loads nothing, not even for a moment, and one that was loaded before is not loaded
//! again: both are known after the first reading. Memory is a few batches of lines, whatever the file's size.
//! **Relies on** the file staying as it is between the readings; if it does not, its hash says so and the report is
//! given up. **Why twice**: lines go in by small transactions, since a long one would hold up the publisher, and
//! reading is cheaper than taking lines out again.
//!
//! If this dies here, the report does not count; see `schedule/reconcile_runs.rs`.

use super::read::{Format, Refused, Report, Stopped, read};
use super::{Order, ReconcileError};
use crate::domain::settlement::Line;
use crate::schedule::{
    Finished, LineSum, NewReport, Postgres, Purpose, ReconciliationRun, ReportBegun, ScheduleError,
};
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom};
use tokio::sync::{Mutex, mpsc};

/// Lines of one transaction.
const BATCH: usize = 4_000;
/// Batches that wait for the database while the next one is read. Two more are on their way into it.
const AHEAD: usize = 2;
/// Bytes of the file read at once.
const BLOCK: usize = 256 * 1024;

/// What became of loading.
#[derive(Debug)]
pub(super) enum Loaded {
    /// It counts now.
    Counts(ReconciliationRun),
    /// It is there for one comparison.
    OnTrial(NewReport),
    /// The very same file counted before.
    Same(ReconciliationRun),
}

/// Reads the file whole and loads it.
pub(super) async fn load(schedule: &Postgres, order: &Order) -> Result<(Report, Loaded), ReconcileError> {
    let report = look(order).await?;
    if let Some(says) = report.day.filter(|says| *says != order.day) {
        return Err(ReconcileError::OtherDay { says });
    }
    let new = new_report(order, &report);
    match schedule.begin_report(&new, order.if_shorter).await? {
        ReportBegun::Begun => {}
        ReportBegun::Same(run) => return Ok((report, Loaded::Same(run))),
        ReportBegun::Withdrawn(before) => return Err(ReconcileError::Withdrawn { before: Box::new(before) }),
        ReportBegun::Shorter(before) => return Err(ReconcileError::Shorter { before: Box::new(before) }),
        ReportBegun::DayOutOfRange => return Err(ReconcileError::DayOutOfRange),
    }
    let filled = fill(schedule, order, &new).await;
    match filled {
        Ok(()) => {}
        Err(error) => {
            // Best effort: what is left does not count, and goes with the next report of the day.
            if let Err(left) = schedule.fail_report(&new, &error.to_string()).await {
                tracing::warn!(%left, "lines of a report that was given up are left for now");
            }
            return Err(error);
        }
    }
    match new.purpose {
        Purpose::Trial => {
            schedule.ready_lines(&new).await?;
            Ok((report, Loaded::OnTrial(new)))
        }
        Purpose::Count => match schedule.finish_report(&new).await? {
            Finished::Counts(run) => Ok((report, Loaded::Counts(run))),
            Finished::Same(run) => {
                schedule.fail_report(&new, "somebody else loaded the very same file meanwhile").await?;
                Ok((report, Loaded::Same(run)))
            }
            Finished::NotWhole => {
                schedule.fail_report(&new, "lines are missing, or it was withdrawn meanwhile").await?;
                Err(ReconcileError::Changed)
            }
        },
    }
}

/// The first reading: nothing is kept of it but what it comes to.
async fn look(order: &Order) -> Result<Report, ReconcileError> {
    let (format, file) = (order.format.clone(), again(&order.file)?);
    let read = move || read(&format, file, |_: Line| Ok::<(), Infallible>(()));
    let report = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?;
    report.map_err(|stopped| match stopped {
        Stopped::Refused(refused) => ReconcileError::Refused(refused),
        Stopped::Unread(error) => ReconcileError::Unread(error),
        Stopped::By(never) => match never {},
    })
}

/// The same file from its first byte. Readings of one order follow each other.
fn again(file: &File) -> io::Result<BufReader<File>> {
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(0))?;
    Ok(BufReader::with_capacity(BLOCK, file))
}

fn new_report(order: &Order, report: &Report) -> NewReport {
    let sums = report.sums.iter().map(|sum| LineSum {
        lines: sum.lines,
        gross_minor: sum.gross_minor,
        fee_minor: sum.fee_minor,
        net_minor: sum.net_minor,
        ..LineSum::of(sum.kind, sum.currency, sum.net_currency)
    });
    let (format, options) = named(&order.format);
    let source = order.source.clone().or_else(|| report.source_id.clone()).unwrap_or_default();
    NewReport {
        id: order.id,
        gateway: order.gateway.clone(),
        day: order.day,
        format,
        options,
        source: source.chars().take(200).collect(),
        sha256: report.sha256,
        asked_by: order.asked_by.clone(),
        lines: report.lines,
        is_complete: report.is_complete,
        seen_at: order.seen_at,
        sums: sums.collect(),
        purpose: order.purpose,
        if_withdrawn: order.if_withdrawn,
    }
}

/// What it is, and how it is read.
fn named(format: &Format) -> (String, String) {
    let text = format.to_string();
    let (name, options) = text.split_once(':').unwrap_or((&text, ""));
    (name.to_owned(), options.to_owned())
}

/// Nobody takes lines any more.
struct Gone;

/// Batch by batch into the schedule; after a failure nobody takes more. What was under way then is done when both have
/// come back.
async fn pass_on(
    schedule: &Postgres,
    new: &NewReport,
    take: &Mutex<mpsc::Receiver<Vec<Line>>>,
) -> Result<(), ScheduleError> {
    loop {
        let next = take.lock().await.recv().await;
        let Some(lines) = next else { return Ok(()) };
        if let Err(error) = schedule.load_lines(new, lines).await {
            take.lock().await.close();
            return Err(error);
        }
    }
}

/// The second reading, a few batches ahead of the database.
async fn fill(schedule: &Postgres, order: &Order, new: &NewReport) -> Result<(), ReconcileError> {
    let (give, take) = mpsc::channel::<Vec<Line>>(AHEAD);
    let (format, file) = (order.format.clone(), again(&order.file)?);
    let reading = tokio::task::spawn_blocking(move || {
        let mut batch = Vec::with_capacity(BATCH);
        let read = read(&format, file, |line| {
            batch.push(line);
            if batch.len() < BATCH {
                return Ok(());
            }
            let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
            give.blocking_send(full).map_err(|_| Gone)
        });
        match read {
            Ok(report) if batch.is_empty() => Ok(report),
            Ok(report) => give.blocking_send(batch).map(|()| report).map_err(|_| Stopped::By(Gone)),
            Err(stopped) => Err(stopped),
        }
    });
    let take = Mutex::new(take);
    // One writes its batch down while the other one's is on its way.
    let (one, other) = tokio::join!(pass_on(schedule, new, &take), pass_on(schedule, new, &take));
    drop(take);
    let read = reading.await.map_err(io::Error::other)?;
    one.and(other)?;
    match read {
        Ok(report) if report.sha256 == new.sha256 => Ok(()),
        // It was well a moment ago.
        Ok(_) | Err(Stopped::Refused(Refused { .. })) => Err(ReconcileError::Changed),
        Err(Stopped::Unread(error)) => Err(ReconcileError::Unread(error)),
        // Only who takes lines goes away, and that was answered above.
        Err(Stopped::By(Gone)) => Err(ReconcileError::Changed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_format_is_and_how_it_is_read_are_told_apart() {
        for (text, name, options) in [
            ("sandbox", "sandbox", ""),
            ("stripe:key=payment_metadata[a:b]", "stripe", "key=payment_metadata[a:b]"),
            ("adyen:charges=debit,totals=required", "adyen", "charges=debit,totals=required"),
            ("camt.053:charges=credit", "camt.053", "charges=credit"),
        ] {
            let format: Format = text.parse().expect("a format");
            assert_eq!(named(&format), (name.to_owned(), options.to_owned()), "{text}");
        }
    }
}

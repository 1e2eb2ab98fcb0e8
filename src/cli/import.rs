//! `punctual import`: a file of payments, created once however often it is run.
//!
//! **Promise.** Every row has an idempotency key that depends on nothing but the file, so a run that was
//! killed, lost its answers or was started twice creates no payment twice. What is refused stands in a
//! file of its own, in a form that can be mended and imported. Memory does not grow with the file.
//!
//! **How.** The file is read twice: once for the digest that its keys are made of, once for its rows. Rows
//! go out in groups ([`sender`]), several at once, and their results are taken in the file's order, so that
//! one number says how far the import has come ([`place`]). That number only saves time: without it
//! everything would be sent again under the same keys and answered as before.
//!
//! **If this dies here**, run the same command again.
//!
//! **Why not a transaction of the whole file**: a file of a million rows with one bad one should not be
//! nothing. Who wants all or nothing sends a batch with `atomic` to the API.

mod check;
mod lines;
mod place;
mod quotes;
mod rejects;
mod sender;
mod source;
mod strict;

use super::Ended;
use super::output::{Face, Output, print, record, say};
use super::remote::Remote;
use crate::platform::config::Config;
use crate::platform::exit::Exit;
use clap::{Args, ValueEnum};
use futures_util::StreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use place::{Counts, Place};
use rejects::Rejects;
use sender::{Outcome, Sender};
use serde_json::json;
use source::{Row, Source};
use std::path::{Path, PathBuf};

pub(super) const HELP: &str = "\
CSV: a headline with the API's names, one payment a line:
  payee,amount,currency,dueAt,externalId,metadata.order,retry.maxSends
amount is whole minor units; an empty cell is a field that is not there. Besides: executeBefore, \
executeWithin, gateway, description, retry.onSoftDecline, retry.onExhausted, idempotencyKey.
NDJSON: one object a line, as the API takes it, with or without idempotencyKey.

Keys: a column's values (--key-column, or idempotencyKey), or else the digest of the whole file and the \
line's number. In the second case a file that was changed is another import, and would create its rows \
again: mend the file of rejects and import that. A second row of one key is rejected (duplicate_item_key); \
for that some 40 bytes of each key are remembered.

Quotes of a CSV file are looked at before anything is sent: where one is not closed, rows after it would be \
taken for text, and the whole file is refused with the line. Files are UTF-8; a row that is not is rejected \
and kept as it came, in a CSV file of rejects as bytes, in NDJSON as base64.

Run it again after an interruption: it goes on where it was, from FILE.import.

Exit codes: 0 every row is a payment; 1 some were rejected, or the API stayed away; 2 the file or the \
command is wrong; 4 the key may not.";

/// What to import, and how.
#[derive(Debug, Clone, Args)]
pub(super) struct Import {
    /// The file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its form; without it by its ending (.csv; .ndjson or .jsonl).
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The column or field whose value is the idempotency key.
    #[arg(long, value_name = "NAME")]
    key_column: Option<String>,
    /// Where rejected rows go; without it FILE.rejects. A file that is there is never written over.
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Rows of one request, where the API takes several.
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    batch: u16,
    /// Requests at once.
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    in_flight: u16,
    /// Stop after the API took nothing for so long; the same command goes on later.
    #[arg(long, value_name = "LENGTH", default_value = "10m")]
    give_up_after: humantime::Duration,
    /// Read and check every row, say what is wrong with it, send nothing.
    #[arg(long)]
    dry_run: bool,
    /// How to print the sum; with --dry-run and a list of what is wrong.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Comma-separated values with a headline.
    Csv,
    /// One JSON object a line.
    #[value(alias = "jsonl")]
    Ndjson,
}

/// Runs it.
///
/// # Errors
/// See the exit codes in [`HELP`].
pub(super) async fn run(asked: Import, config: &Config) -> Result<(), Ended> {
    let format = format(&asked)?;
    let digest = source::digest(&asked.file)?;
    let source = Source::open(&asked.file, format, asked.key_column.as_deref(), &digest)?;
    if asked.dry_run {
        return check::dry_run(source, asked.output);
    }
    let remote = Remote::of(config)?;
    let give_up_after = asked.give_up_after.into();
    let place_file = beside(&asked.file, "import");
    let rejects_file = asked.rejects.clone().unwrap_or_else(|| beside(&asked.file, "rejects"));
    let mut place = Place::take(&place_file, &digest, &config.client.url, &rejects_file)?;
    if place.counts.lines > 0 {
        say(&format!("going on after line {}", place.counts.lines));
    }
    let mut rejects = Rejects::open(rejects_file, place.rejects_kept, source.headline())?;
    // What is refused without the API is refused before it is waited for.
    let way = sender::way(&remote, give_up_after).await.map_err(goes_on)?;
    place.keep(&rejects)?;
    let bar = bar(&asked.file);
    let sender = Sender { remote: &remote, way, give_up_after };
    let done = send_all(&asked, source, &sender, &mut place, &mut rejects, &bar).await;
    bar.finish_and_clear();
    place.keep(&rejects)?;
    done.map_err(goes_on)?;
    place.forget()?;
    summed_up(&asked, place.counts, &rejects)
}

fn goes_on(mut ended: Ended) -> Ended {
    ended.message.push_str("\nThe same command goes on where it was.");
    ended
}

/// Rows in groups, several at once; what comes of them in the order of the file.
async fn send_all(
    asked: &Import,
    source: Source,
    sender: &Sender<'_>,
    place: &mut Place,
    rejects: &mut Rejects,
    bar: &ProgressBar,
) -> Result<(), Ended> {
    let after = place.counts.lines;
    let rows = source.filter(move |row| !row.as_ref().is_ok_and(|row| row.line <= after));
    let groups = sender.way.groups(rows, usize::from(asked.batch));
    let results = futures_util::stream::iter(groups).map(|group| async move { sender.send(group?).await });
    let mut results = std::pin::pin!(results.buffered(usize::from(asked.in_flight)));
    let mut unkept = 0;
    while let Some(group) = results.next().await {
        for (row, outcome) in group? {
            take(&row, &outcome, place, rejects)?;
            bar.set_position(row.ends_at);
            unkept += 1;
        }
        bar.set_message(place.counts.words());
        // Often enough that little is sent twice, seldom enough that the disk is no limit.
        if unkept >= usize::from(asked.batch) {
            place.keep(rejects)?;
            unkept = 0;
        }
    }
    Ok(())
}

/// What came of a row: a reject is written before it is counted, because what is counted is not looked at again.
fn take(row: &Row, outcome: &Outcome, place: &mut Place, rejects: &mut Rejects) -> Result<(), Ended> {
    if let Outcome::Rejected(why) = outcome {
        rejects.add(row, why)?;
    }
    place.counts.add(row, outcome);
    Ok(())
}

fn format(asked: &Import) -> Result<Format, Ended> {
    let ending = asked.file.extension().and_then(|ending| ending.to_str()).unwrap_or("");
    match (asked.format, ending.to_ascii_lowercase().as_str()) {
        (Some(format), _) => Ok(format),
        (None, "csv") => Ok(Format::Csv),
        (None, "ndjson" | "jsonl") => Ok(Format::Ndjson),
        // A file of rejects is named after what it is made of.
        (None, "rejects") => match asked.file.file_stem().and_then(|stem| Path::new(stem).extension()) {
            Some(ending) if ending.eq_ignore_ascii_case("csv") => Ok(Format::Csv),
            _ => Ok(Format::Ndjson),
        },
        (None, _) => {
            Err(Ended::with(Exit::Usage, "the file's name does not say its form: --format csv|ndjson"))
        }
    }
}

/// `FILE.ending`
fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// By bytes, since nobody knows how many rows there are; hidden by itself off a terminal.
fn bar(file: &Path) -> ProgressBar {
    let length = std::fs::metadata(file).map_or(0, |about| about.len());
    let bar = ProgressBar::new(length);
    // A constant template, tried by every import on a terminal.
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {msg} {elapsed}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn summed_up(asked: &Import, counts: Counts, rejects: &Rejects) -> Result<(), Ended> {
    let rejected_to = if counts.rejected > 0 { rejects.path().display().to_string() } else { String::new() };
    let fields = [
        ("rows", counts.rows.to_string()),
        ("payments", counts.payments.to_string()),
        ("of them known before", counts.known.to_string()),
        ("rejected", counts.rejected.to_string()),
        ("rejects", rejected_to.clone()),
    ];
    let document = json!({
        "rows": counts.rows,
        "payments": counts.payments,
        "known": counts.known,
        "rejected": counts.rejected,
        "rejects": (counts.rejected > 0).then_some(&rejected_to),
    });
    print(&record(asked.output, Face::of_stdout(), &fields, &document))?;
    if counts.rejected == 0 {
        return Ok(());
    }
    let why = format!(
        "{} of {} rows were rejected; mend {rejected_to} and import it",
        counts.rejected, counts.rows
    );
    Err(Ended::with(Exit::Failed, why))
}

/// One row's way out of a group.
type Done = Vec<(Row, Outcome)>;

#[cfg(test)]
mod tests {
    use super::rejects::Why;
    use super::source::CameAs;
    use super::*;

    #[test]
    fn a_reject_that_cannot_be_written_is_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gone").join("rejects");
        let mut rejects = Rejects::open(path.clone(), None, None).unwrap();
        let mut place = Place::take(&folder.path().join("x.import"), "d", "http://h", &path).unwrap();
        let row = |line| {
            let came_as = CameAs::Line("{}".to_owned());
            Row { line, ends_at: 0, draft: Err(Why::new("", "")), came_as }
        };
        take(&row(1), &Outcome::Created, &mut place, &mut rejects).unwrap();
        let rejected = Outcome::Rejected(Why::new("due_in_past", "Past."));
        assert!(take(&row(2), &rejected, &mut place, &mut rejects).is_err());
        assert_eq!(place.counts, Counts { lines: 1, rows: 1, payments: 1, known: 0, rejected: 0 });
    }
}

//! An import at size: stopped with SIGINT, then with SIGKILL, run a third time, and exact.

use crate::figures::{Figures, Holds};
use crate::support::api::Api;
use crate::support::imports::{Interrupted, file, finished, interrupted_and_resumed};

/// Most memory of an import, whatever the file's size, in KiB.
const MOST_KIB: u64 = 64 * 1024;
/// Most that a file may hold above one of a fiftieth of its rows.
const MOST_ABOVE_KIB: u64 = 16 * 1024;
/// Least rows a second of the last run.
const LEAST_PER_S: u128 = 300;

/// Imports `PUNCTUAL_IMPORT_ROWS` rows (100,000 where nobody says).
pub async fn a_file_is_imported_once_however_often_it_is_stopped(figures: &mut Figures) {
    let rows =
        std::env::var("PUNCTUAL_IMPORT_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(100_000);
    figures
        .part(&format!("punctual import: {rows} rows, stopped by SIGINT and by SIGKILL, run a third time"));
    let api = Api::start(|_| {}).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (small, _) = file(folder.path(), rows / 50);
    let (_, _, small_kib) = finished(&api, &small).await;

    let api = Api::start(|_| {}).await;
    let ran = interrupted_and_resumed(&api, rows).await;
    let in_the_middle = |before: i64| before > 0 && before < rows;
    let stopped = format!("{} and {}", ran.before[0], ran.before[1]);
    let middle = ran.before[0] < ran.before[1] && ran.before.into_iter().all(in_the_middle);
    figures.holds(
        "payments when the first and the second run were stopped",
        stopped,
        "more, not all",
        Holds(middle),
    );
    let signals = format!("{:?}", ran.signals);
    let stopped = ran.signals == [Some(2), Some(9)];
    figures.holds("the signals that ended them", signals, "SIGINT, SIGKILL", Holds(stopped));
    exact(figures, &ran);

    let left = u128::try_from(rows - ran.before[1]).unwrap_or(0);
    let per_s = left * 1_000 / ran.took.as_millis().max(1);
    let shown = format!("{} s, {per_s} rows a second", ran.took.as_secs());
    let bound = format!("at least {LEAST_PER_S} rows a second");
    figures.holds("time of the third run", shown, &bound, Holds(per_s >= LEAST_PER_S));
    let shown = format!("{} KiB", ran.peak_kib);
    let is_small = (1..=MOST_KIB).contains(&ran.peak_kib);
    figures.holds("memory at its peak", shown, &format!("≤ {MOST_KIB} KiB"), Holds(is_small));
    let above = ran.peak_kib.saturating_sub(small_kib);
    let flat = small_kib > 0 && above <= MOST_ABOVE_KIB;
    let bound = format!("≤ {MOST_ABOVE_KIB} KiB above");
    figures.holds(
        &format!("the same with {} rows: {small_kib} KiB", rows / 50),
        format!("{above} KiB above"),
        &bound,
        Holds(flat),
    );
}

/// Every row is one payment, or stands in the file of rejects.
fn exact(figures: &mut Figures, ran: &Interrupted) {
    let rows = ran.rows;
    let (made, different) = ran.made;
    let bound = rows.to_string();
    figures.holds("payments at the end", made, &bound, Holds(made == rows));
    figures.holds(
        "rows that they are of: none twice, none missing",
        different,
        &bound,
        Holds(different == rows),
    );
    let right = ran.rejected.iter().zip(&ran.wrong).filter(|(found, wanted)| found == wanted).count();
    let shown = format!("{right} right of {}", ran.rejected.len());
    let bound = format!("all of {}, by line and code", ran.wrong.len());
    let holds = !ran.wrong.is_empty() && right == ran.wrong.len() && ran.rejected.len() == right;
    figures.holds("the file of rejects", shown, &bound, Holds(holds));
    let code = format!("{:?}", ran.last.code);
    figures.holds(
        "exit code of the third run",
        code,
        "Some(1): some were rejected",
        Holds(ran.last.code == Some(1)),
    );
    let told: serde_json::Value = serde_json::from_str(&ran.last.out).unwrap_or_default();
    let sum = format!("{} payments, {} rejected of {}", told["payments"], told["rejected"], told["rows"]);
    let wanted =
        format!("{rows} payments, {} rejected of {}", ran.wrong.len(), rows + ran.wrong.len() as i64);
    let holds = sum == wanted;
    figures.holds("what it told of all three runs together", sum, "as above", Holds(holds));
}

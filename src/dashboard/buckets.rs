//! Buckets: the ring as a strip of sixty minutes, what is due by the database beside what lies there by Kafka.
//!
//! Kafka may be away; then the strip shows what the database knows, and says so.

use super::act::Told;
use super::api::Listed;
use super::forecast::heat;
use super::show::{self, Shown};
use super::text;
use super::{Frame, Place, Ui, Viewer};
use askama::Template;
use axum::extract::State;
use axum::http::Method;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Seen {
    bucket: String,
    slot: String,
    staged: i64,
    lag: i64,
    due: Vec<SeenDue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenDue {
    due: i64,
    first_at: Option<DateTime<Utc>>,
    drained_at: Option<DateTime<Utc>>,
}

/// Records that were read a moment ago are unread until the next commit says so. A worker that is behind leaves payments
/// waiting: while none that is due waits for longer than this, none is.
const MOMENT: Duration = Duration::from_secs(15);

/// The bucket of what is due already.
const NOW: &str = "now";

/// One minute of the ring, or what is due already.
struct Bucket {
    minute: String,
    slot: String,
    due: i64,
    /// Of the fullest one, in tenths.
    heat: i64,
    staged: Option<i64>,
    lag: Option<i64>,
    oldest: Option<DateTime<Utc>>,
    drained_at: Option<DateTime<Utc>>,
}

#[derive(Template)]
#[template(path = "buckets.html")]
struct Page {
    frame: Frame,
    /// Why Kafka's side is missing.
    unseen: Option<String>,
    buckets: Vec<Bucket>,
    /// Of all buckets.
    due: i64,
    /// Records that lie in the minutes of the ring, as the table has them; unknown where Kafka was not seen.
    staged: Option<i64>,
    /// Records of what is due already that nobody has read, as the table has them in the row `now`.
    behind: Option<i64>,
    /// What is due waits for longer than a moment.
    is_late: bool,
}

impl Page {
    /// Twelve minutes a row; what is due already stands in the table.
    fn rows(&self) -> Vec<Vec<&Bucket>> {
        let minutes: Vec<&Bucket> = self.buckets.iter().filter(|bucket| bucket.slot != NOW).collect();
        minutes.chunks(12).map(<[&Bucket]>::to_vec).collect()
    }

    /// The minute in which most falls due.
    fn fullest(&self) -> Option<&Bucket> {
        self.buckets.iter().rev().max_by_key(|bucket| bucket.due).filter(|bucket| bucket.due > 0)
    }
}

impl Bucket {
    /// `14:05`; of what is due already a word.
    fn clock(&self) -> &str {
        self.minute.get(11..16).unwrap_or(&self.minute)
    }

    fn label(&self) -> String {
        let staged = self.staged.map_or_else(|| "?".to_owned(), text::count);
        let lag = self.lag.map_or_else(|| "?".to_owned(), text::count);
        format!("{}: {} due, {staged} published, {lag} unread", self.minute, text::count(self.due))
    }

    /// What is due already, and not of the ring.
    fn is_now(&self) -> bool {
        self.slot == NOW
    }

    fn is_unread(&self) -> bool {
        self.is_now() && self.lag.is_some_and(|lag| lag > 0)
    }
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer) -> Shown {
    let (buckets, unseen) = match ui.ask(&viewer, Method::GET, "/v1/ops/buckets", None).await {
        Told::Done(found) | Told::Asked(found) => (
            serde_json::from_value::<Listed<Seen>>(found)
                .map(|found| of_ring(found.data))
                .unwrap_or_default(),
            None,
        ),
        Told::Refused(problem) => (of_database(&ui).await?, Some(problem.code.title().to_owned())),
    };
    let frame = ui.frame(&viewer, Place::Buckets).await;
    let due = buckets.iter().map(|bucket| bucket.due).sum();
    let (staged, behind) = if unseen.is_some() { (None, None) } else { (ahead(&buckets), unread(&buckets)) };
    let is_late = behind.is_some_and(|behind| behind > 0) && ui.is_late().await;
    show::page(&Page { frame, unseen, buckets: shaded(buckets), due, staged, behind, is_late })
}

/// Records that wait in the ring for their minute; what was published as due at once waits for none.
fn ahead(buckets: &[Bucket]) -> Option<i64> {
    buckets.iter().filter(|bucket| !bucket.is_now()).map(|bucket| bucket.staged).sum()
}

fn unread(buckets: &[Bucket]) -> Option<i64> {
    buckets.iter().filter(|bucket| bucket.is_now()).map(|bucket| bucket.lag).sum()
}

impl Ui {
    /// Does anything that is due wait for longer than a moment, or is that not known?
    async fn is_late(&self) -> bool {
        let shot = self.shot().await;
        let pulse = shot.as_ref().and_then(|shot| shot.seen.pulse.as_ref());
        pulse.is_none_or(|pulse| pulse.waiting.oldest_due.iter().any(|(_, overdue)| *overdue > MOMENT))
    }
}

fn of_ring(seen: Vec<Seen>) -> Vec<Bucket> {
    let bucket = |it: Seen| Bucket {
        due: it.due.iter().map(|of| of.due).sum(),
        heat: 0,
        staged: Some(it.staged),
        lag: Some(it.lag),
        oldest: it.due.iter().filter_map(|of| of.first_at).min(),
        drained_at: it.due.iter().filter(|of| of.due > 0).filter_map(|of| of.drained_at).max(),
        minute: it.bucket,
        slot: it.slot,
    };
    seen.into_iter().map(bucket).collect()
}

/// What the forecast says of the same minutes.
async fn of_database(ui: &Ui) -> Result<Vec<Bucket>, show::Trouble> {
    let forecast = ui.0.intake.forecast().await?;
    let mut minutes: BTreeMap<DateTime<Utc>, Bucket> = BTreeMap::new();
    for due in forecast.gateways.iter().flat_map(|of| &of.minutes) {
        let minute = crate::domain::bucket::minute_start(due.from);
        let place = minutes.entry(minute).or_insert_with(|| Bucket {
            minute: minute.format("%Y-%m-%dT%H:%MZ").to_string(),
            slot: minute.format("m%M").to_string(),
            due: 0,
            heat: 0,
            staged: None,
            lag: None,
            oldest: None,
            drained_at: None,
        });
        place.due += due.count;
        place.oldest = [place.oldest, due.first_at].into_iter().flatten().min();
    }
    Ok(minutes.into_values().collect())
}

fn shaded(mut buckets: Vec<Bucket>) -> Vec<Bucket> {
    let most = buckets.iter().map(|it| it.due).max().unwrap_or(0);
    for bucket in &mut buckets {
        bucket.heat = heat(bucket.due, most);
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_figures_above_the_table_are_sums_of_its_columns() {
        let seen: Vec<Seen> = serde_json::from_value(json!([
            {"bucket": "2030-01-31T09:01Z", "slot": "m01", "staged": 3, "lag": 5, "due": []},
            {"bucket": "2030-01-31T09:02Z", "slot": "m02", "staged": 4, "lag": 4, "due": []},
            {"bucket": "now", "slot": "now", "staged": 2, "lag": 2, "due": []},
        ]))
        .unwrap();
        let buckets = of_ring(seen);
        assert_eq!(ahead(&buckets), Some(7), "what is due at once was not published ahead");
        assert_eq!(unread(&buckets), Some(2));
        assert_eq!(buckets.iter().map(Bucket::is_unread).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!((ahead(&[]), unread(&[])), (Some(0), Some(0)));
    }
}

//! Forecast: what falls due in the next hour and month at each gateway, against the rate that is permitted.

use super::show::{self, Shown};
use super::text;
use super::{Frame, Place, Ui, Viewer};
use crate::domain::forecast::{Drained, Precision, drain};
use askama::Template;
use axum::extract::State;
use chrono::{DateTime, Utc};

/// What one gateway has before it.
struct Ahead {
    gateway: String,
    /// Of the hour.
    sum: String,
    /// The minute in which most falls due, with how much.
    fullest: Option<(String, String)>,
    rate: Option<u32>,
    overdue: String,
    minutes: Vec<Span>,
    days: Vec<Span>,
}

/// A minute or a day.
struct Span {
    from: DateTime<Utc>,
    due: String,
    /// Of the fullest one, in tenths, for the shade.
    heat: i64,
    /// Its bar, of a hundred.
    height: i64,
    left: String,
    drained_at: Option<DateTime<Utc>>,
    counted_at: DateTime<Utc>,
    /// More is due in it than is permitted within it.
    is_over: bool,
}

/// For the template.
impl Span {
    fn clock(&self) -> String {
        self.from.format("%H:%M").to_string()
    }

    fn day(&self) -> String {
        self.from.format("%Y-%m-%d").to_string()
    }
}

/// The words of a row of bars, for those who do not see it.
struct Bars;

impl Bars {
    /// Where a bar begins, and how wide it is, in a picture of 600.
    fn place(number: &usize, of: &[Span]) -> (usize, usize) {
        let step = 600 / of.len().max(1);
        (number * step, step.saturating_sub(2).max(1))
    }
}

#[derive(Template)]
#[template(path = "forecast.html")]
struct Page {
    frame: Frame,
    taken_at: DateTime<Utc>,
    ahead: Vec<Ahead>,
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer) -> Shown {
    let forecast = ui.0.intake.forecast().await?;
    let ahead = forecast.gateways.iter().map(|of| {
        let rate = ui.0.intake.account().rate_of(of);
        let spans = |due| spans(&drain(forecast.taken_at, of.overdue.count, due, rate), rate);
        Ahead {
            gateway: of.gateway.0.clone(),
            sum: text::count(of.minutes.iter().map(|minute| minute.count).sum()),
            fullest: of
                .minutes
                .iter()
                .max_by_key(|minute| (minute.count, minute.from))
                .filter(|most| most.count > 0)
                .map(|most| (most.from.format("%H:%M").to_string(), number(most.count, most.precision))),
            rate,
            overdue: number(of.overdue.count, of.overdue.precision),
            minutes: spans(&of.minutes),
            days: spans(&of.days),
        }
    });
    let ahead = ahead.collect();
    let frame = ui.frame(&viewer, Place::Forecast).await;
    show::page(&Page { frame, taken_at: forecast.taken_at, ahead })
}

fn spans(drained: &[Drained], rate: Option<u32>) -> Vec<Span> {
    let most = drained.iter().map(|one| one.due.count).max().unwrap_or(0);
    let span = |one: &Drained| Span {
        from: one.due.from,
        due: number(one.due.count, one.due.precision),
        heat: heat(one.due.count, most),
        height: share(one.due.count, most),
        left: rate.map_or_else(|| "–".to_owned(), |_| text::count(one.left_at_end)),
        drained_at: one.drained_at.filter(|_| one.has_work()),
        counted_at: one.due.counted_at,
        is_over: one.left_at_end > 0,
    };
    drained.iter().map(span).collect()
}

/// Tenths of the most; anything at all is one at least.
pub(super) fn heat(count: i64, most: i64) -> i64 {
    if count <= 0 || most <= 0 {
        return 0;
    }
    i64::try_from((i128::from(count) * 9 + i128::from(most) - 1) / i128::from(most)).unwrap_or(9)
}

/// Hundredths of the most, for a bar that is seen: anything at all is two at least.
fn share(count: i64, most: i64) -> i64 {
    if count <= 0 || most <= 0 {
        return 0;
    }
    i64::try_from(i128::from(count) * 100 / i128::from(most)).unwrap_or(100).max(2)
}

/// A count with how far it may be trusted.
pub(super) fn number(count: i64, precision: Precision) -> String {
    let sign = match precision {
        Precision::Exact => "",
        Precision::AtLeast => "≥ ",
        Precision::About => "≈ ",
    };
    format!("{sign}{}", text::count(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shade_is_the_share_of_the_fullest_and_nothing_is_none() {
        assert_eq!([0, 1, 50, 99, 100].map(|count| heat(count, 100)), [0, 1, 5, 9, 9]);
        assert_eq!([0, 1, 500, 1_000].map(|count| share(count, 1_000)), [0, 2, 50, 100]);
        assert_eq!((heat(1, 1_000_000), heat(0, 0), heat(i64::MAX, i64::MAX)), (1, 0, 9));
    }
}

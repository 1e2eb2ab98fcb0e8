//! A payment's life as a picture: its states, the legal moves between them, the moves that it made and where it stands.
//!
//! **Promises.** The lines are those of the rules' own table ([`MOVES`]), so a move that becomes legal is drawn, and
//! none is drawn that is not. The picture has a title and a description in words for those who do not see it, and it
//! holds nothing but our own words. It is an SVG without styles of its own: the page's style gives colours.

use super::text::Html;
use crate::domain::state::{MOVES, Status};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A box's width and height.
const BOX: (i32, i32) = (116, 34);

/// Where a state's box has its middle.
fn place(status: Status) -> (i32, i32) {
    match status {
        Status::Pending => (80, 60),
        Status::Processing => (280, 60),
        Status::Unknown => (280, 160),
        Status::Completed => (480, 60),
        Status::Refunded => (660, 60),
        Status::Parked => (480, 160),
        Status::Cancelled => (80, 250),
        Status::Failed => (480, 250),
    }
}

/// A move between two states, whatever its cause.
type Line = (Status, Status);

/// Every line once, in the order of the table.
fn lines() -> Vec<Line> {
    let mut seen = BTreeSet::new();
    let pairs = MOVES.iter().filter_map(|(from, _, to)| Some(((*from)?, *to)));
    pairs.filter(|line| seen.insert(*line)).collect()
}

/// Parts of a line that its ends are looked for in.
const STEPS: i32 = 400;

/// The first point of the line from `from` to `to` that lies outside the box around `middle`.
fn edge(middle: (i32, i32), from: (i32, i32), to: (i32, i32)) -> (i32, i32) {
    let at = |step: i32| (from.0 + (to.0 - from.0) * step / STEPS, from.1 + (to.1 - from.1) * step / STEPS);
    let is_outside =
        |(x, y): &(i32, i32)| (x - middle.0).abs() > BOX.0 / 2 || (y - middle.1).abs() > BOX.1 / 2;
    (0..=STEPS).map(at).find(is_outside).unwrap_or(to)
}

/// One line; those that go back run a little beside those that go forth.
fn line((from, to): Line, is_made: Made) -> String {
    let (a, b) = (place(from), place(to));
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let aside = |along: i32| 6 * along.signum();
    let (ox, oy) = (aside(-dy), aside(dx));
    let (begin, end) = ((a.0 + ox, a.1 + oy), (b.0 + ox, b.1 + oy));
    let ((x1, y1), (x2, y2)) = (edge(a, begin, end), edge(b, end, begin));
    let (class, head) = match is_made {
        Made::Yes => ("line made", "head-made"),
        Made::No => ("line", "head"),
    };
    format!(
        "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" marker-end=\"url(#{head})\"/>"
    )
}

/// Did the payment make this move?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Yes,
    No,
}

fn head(id: &str) -> String {
    format!(
        "<marker id=\"{id}\" class=\"{id}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker>"
    )
}

/// The picture of a payment that made these moves and stands here.
pub(super) fn of(here: Status, made: &[(Option<Status>, Status)]) -> Html {
    let moved: BTreeSet<Line> =
        made.iter().filter_map(|(from, to)| Some(((*from)?, *to))).filter(|(from, to)| from != to).collect();
    let been: BTreeSet<Status> = made.iter().map(|(_, to)| *to).chain([here]).collect();
    let way: Vec<&str> =
        made.iter().filter(|(from, to)| *from != Some(*to)).map(|(_, to)| to.as_str()).collect();
    let mut svg = format!(
        "<svg class=\"life\" viewBox=\"0 0 740 290\" role=\"img\" aria-labelledby=\"life-title life-way\"><title \
         id=\"life-title\">It stands at {}</title><desc id=\"life-way\">It went: {}.</desc><defs>{}{}</defs>",
        here.as_str(),
        way.join(", "),
        head("head"),
        head("head-made")
    );
    // What was made is drawn last, over the rest.
    let (made, not): (Vec<Line>, Vec<Line>) = lines().into_iter().partition(|line| moved.contains(line));
    not.into_iter().for_each(|it| svg.push_str(&line(it, Made::No)));
    made.into_iter().for_each(|it| svg.push_str(&line(it, Made::Yes)));
    for status in Status::ALL {
        let (x, y) = place(status);
        let class = match (status == here, been.contains(&status)) {
            (true, _) => "state here",
            (false, true) => "state been",
            (false, false) => "state",
        };
        // Writing to a text cannot fail.
        let _ = write!(
            svg,
            "<g class=\"{class}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\"/><text x=\"{x}\" y=\"{}\" \
             text-anchor=\"middle\">{}</text></g>",
            x - BOX.0 / 2,
            y - BOX.1 / 2,
            BOX.0,
            BOX.1,
            y + 5,
            status.as_str()
        );
    }
    svg.push_str("</svg>");
    Html::made(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_legal_move_is_a_line_and_no_other() {
        let svg = of(Status::Pending, &[(None, Status::Pending)]).to_string();
        let legal: BTreeSet<Line> = MOVES.iter().filter_map(|(from, _, to)| Some(((*from)?, *to))).collect();
        assert_eq!(svg.matches("<line ").count(), legal.len());
        assert_eq!(svg.matches("class=\"line made\"").count(), 0);
        assert_eq!(svg.matches("<rect ").count(), Status::ALL.len());
    }

    #[test]
    fn the_way_is_drawn_and_told_in_words_with_the_place_where_it_stands() {
        let made = [
            (None, Status::Pending),
            (Some(Status::Pending), Status::Processing),
            (Some(Status::Processing), Status::Processing),
            (Some(Status::Processing), Status::Unknown),
            (Some(Status::Unknown), Status::Processing),
            (Some(Status::Processing), Status::Completed),
        ];
        let svg = of(Status::Completed, &made).to_string();
        assert!(svg.contains("<title id=\"life-title\">It stands at COMPLETED</title>"), "{svg}");
        assert!(svg.contains("It went: PENDING, PROCESSING, UNKNOWN, PROCESSING, COMPLETED."), "{svg}");
        assert_eq!(svg.matches("class=\"line made\"").count(), 4, "each line once");
        assert_eq!(svg.matches("class=\"state here\"").count(), 1);
        assert_eq!(svg.matches("class=\"state been\"").count(), 3);
        assert!(!svg.contains("style="), "the policy of the pages forbids it");
    }

    #[test]
    fn a_line_begins_and_ends_at_the_border_of_its_boxes() {
        for (from, to) in lines() {
            let drawn = line((from, to), Made::No);
            let number = |name: &str| -> i32 {
                let (_, rest) = drawn.split_once(&format!(" {name}=\"")).unwrap();
                rest.split('"').next().unwrap().parse().unwrap()
            };
            for (status, x, y) in [(from, "x1", "y1"), (to, "x2", "y2")] {
                let (middle_x, middle_y) = place(status);
                let (dx, dy) = ((number(x) - middle_x).abs(), (number(y) - middle_y).abs());
                let (half_x, half_y) = (BOX.0 / 2, BOX.1 / 2);
                let is_outside = dx > half_x || dy > half_y;
                assert!(is_outside && dx <= half_x + 6 && dy <= half_y + 6, "{from:?} to {to:?}: {drawn}");
            }
        }
    }

    #[test]
    fn no_two_boxes_touch() {
        for one in Status::ALL {
            for other in Status::ALL.into_iter().filter(|other| *other != one) {
                let ((x1, y1), (x2, y2)) = (place(one), place(other));
                assert!((x1 - x2).abs() > BOX.0 || (y1 - y2).abs() > BOX.1, "{one:?} {other:?}");
            }
        }
    }
}

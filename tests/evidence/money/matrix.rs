//! The matrix of unknown outcomes, held against the table in `tests/support/cells_table.rs`.

use crate::figures::{Figures, Holds};
use crate::support::audit::audit;
use crate::support::cells::{Cell, KeyLife, Outcome, Personality, When, cells, live};
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::time::Duration;

/// Each cell is at rest by then; one that is not is told as it stands.
const WITHIN: Duration = Duration::from_secs(75);
/// Installations side by side.
const SIDE_BY_SIDE: usize = 4;

/// All cells of one installation, with what was seen of each and what the checker says.
struct Seen {
    of: Personality,
    life: KeyLife,
    cells: Vec<(Cell, Outcome)>,
    audited: crate::support::audit::Audited,
}

/// Every cell beside what the rules say of it.
pub async fn every_unknown_ends_as_the_rules_say(figures: &mut Figures) {
    figures.part(
        "Unknown outcomes: what came of each behaviour at four kinds of gateway; state, reason, requests/charges",
    );
    let wanted = Personality::ALL.into_iter().flat_map(|of| [(of, KeyLife::Day), (of, KeyLife::Seconds)]);
    let runs = wanted.map(|(of, life)| one(of, life));
    let all: Vec<Seen> = futures_util::stream::iter(runs).buffered(SIDE_BY_SIDE).collect().await;
    for of in Personality::ALL {
        println!(
            "  column {}: {}",
            Personality::ALL.iter().position(|one| *one == of).unwrap_or(0) + 1,
            of.name()
        );
    }
    rows(figures, &all);
    let cells = all.iter().flat_map(|seen| &seen.cells);
    let (met, count) = cells.fold((0, 0), |(met, count), (cell, seen)| {
        (met + usize::from(cell.expected.is_met_by(seen)), count + 1)
    });
    let kinds: std::collections::BTreeSet<_> =
        all.iter().flat_map(|seen| &seen.cells).map(|(cell, _)| cell.behaviour).collect();
    figures.holds("behaviours", kinds.len(), "at least 16", Holds(kinds.len() >= 16));
    figures.holds(
        "cells as the rules say",
        format!("{met} of {count}"),
        "all",
        Holds(met == count && count >= 192),
    );
    let twice = all.iter().flat_map(|seen| &seen.cells).filter(|(_, seen)| seen.charges > 1).count();
    figures.holds("payments charged more than once", twice, "0", Holds(twice == 0));
    for seen in &all {
        let name = format!("audit check: {}, key of {:?}", seen.of.name(), seen.life);
        let shown = format!("{} promises, {} looked at", seen.audited.promises, seen.audited.looked_at);
        figures.holds(&name, shown, "none broken", Holds(seen.audited.holds()));
        seen.audited.broken.iter().for_each(|broken| println!("      {broken}"));
    }
}

async fn one(of: Personality, life: KeyLife) -> Seen {
    let wanted = |cell: &Cell| (cell.when == When::KeyExpired) == (life == KeyLife::Seconds);
    let cells: Vec<Cell> = cells(of).into_iter().filter(wanted).collect();
    let lived = live(of, life, &cells, WITHIN).await;
    let audited = audit(&lived.site, None);
    Seen { of, life, cells: cells.into_iter().zip(lived.outcomes).collect(), audited }
}

/// A line a behaviour and moment, a column a kind of gateway.
fn rows(figures: &mut Figures, all: &[Seen]) {
    let mut rows: BTreeMap<(When, usize), Vec<(&Cell, &Outcome)>> = BTreeMap::new();
    let order: Vec<&str> = cells(Personality::ALL[0]).iter().map(|cell| cell.behaviour).collect();
    for (cell, seen) in all.iter().flat_map(|seen| &seen.cells) {
        let place = order.iter().position(|behaviour| *behaviour == cell.behaviour).unwrap_or(0);
        rows.entry((cell.when, place)).or_default().push((cell, seen));
    }
    for ((when, _), cells) in rows {
        let Some((first, _)) = cells.first() else { continue };
        let name = format!("{}: {}", when.name(), first.behaviour);
        let told = |text: Vec<String>| {
            let same = text.iter().all(|one| *one == text[0]);
            if same { format!("all {}", text[0]) } else { text.join(" | ") }
        };
        let seen = told(cells.iter().map(|(_, seen)| seen.to_string()).collect());
        let wrong: Vec<String> = cells
            .iter()
            .filter(|(cell, seen)| !cell.expected.is_met_by(seen))
            .map(|(cell, seen)| format!("seen {seen}, the rules say {}", cell.expected))
            .collect();
        let bound =
            if wrong.is_empty() { format!("as the rules say: {}", first.rules) } else { wrong.join("; ") };
        figures.holds(&name, seen, &bound, Holds(wrong.is_empty() && cells.len() == Personality::ALL.len()));
    }
}

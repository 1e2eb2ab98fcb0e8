//! Ten thousand cancels within five milliseconds of the due instant, with answers lost on the way.

use crate::figures::{Figures, Holds};
use crate::support::audit::audit;
use crate::support::cancels::{Plan, race, tally};
use crate::support::cells::rest;
use std::time::Duration;

/// So many payments, each cancelled once.
const RACES: usize = 10_000;

/// What was answered, and what became of it.
pub async fn no_granted_cancel_is_ever_charged(figures: &mut Figures) {
    figures.part(
        "Cancels within 5 ms of the due instant, answers cut off between client, API, Postgres and worker",
    );
    let plan = Plan { seed: 1, races: RACES, side_by_side: 140, within: Duration::from_secs(240) };
    let raced = race(&plan).await;
    let ids: Vec<String> = raced.races.iter().map(|race| race.id.clone()).collect();
    let ends = rest(&raced.site, &ids, |_, end| end.is_at_rest(), Duration::from_secs(60)).await;
    let tally = tally(&raced.races, &ends);
    figures.holds("cancels raced", ids.len(), &format!("{RACES}"), Holds(ids.len() == RACES));
    let all = tally.granted + tally.refused + tally.unknown;
    let near =
        raced.races.iter().filter(|race| race.off.abs() <= chrono::TimeDelta::milliseconds(10)).count();
    let offs = format!("{near} of {}", raced.races.len());
    figures.holds("begun within 10 ms of the due instant", offs, "a third of them", Holds(near * 3 >= RACES));
    figures.holds(
        "answered otherwise than 200, 409, 503 or not at all",
        tally.other,
        "0",
        Holds(tally.other == 0),
    );
    figures.met("answered 200", tally.granted);
    figures.met("answered 409", tally.refused);
    figures.met("unknown to the client", tally.unknown);
    let least = RACES / 100;
    let in_number = tally.granted >= least && tally.refused >= least;
    let both = format!("{} of each, at the least", tally.granted.min(tally.refused));
    figures.holds("both ends of the race in number", both, &format!("at least {least}"), Holds(in_number));
    figures.violations("200, and charged or not CANCELLED", tally.granted, tally.granted_and_charged, &[]);
    figures.violations("409, and not paid once", tally.refused, tally.refused_and_not_paid, &[]);
    let neither = tally.unknown - tally.unknown_cancelled - tally.unknown_paid;
    figures.violations("unknown, and neither cancelled uncharged nor paid once", tally.unknown, neither, &[]);
    figures.met("unknown to the client, and cancelled", tally.unknown_cancelled);
    figures.met("unknown to the client, and paid", tally.unknown_paid);
    figures.violations("charged more than once", all, tally.doubles, &[]);
    for (what, cuts) in ["API → client", "Postgres → API, of a COMMIT", "Postgres → worker, of a COMMIT"]
        .iter()
        .zip(raced.cuts)
    {
        figures.met(&format!("answers cut off {what}"), usize::try_from(cuts).unwrap_or(usize::MAX));
    }
    let log = crate::once::folder("cancels").join("operations.ndjson");
    let lines = raced.races.iter().flat_map(|race| &race.operations);
    let lines = lines.map(|it| serde_json::to_string(it).expect("JSON") + "\n");
    std::fs::write(&log, lines.collect::<String>()).expect("a log");
    let audited = audit(&raced.site, Some(&log));
    let shown = format!("{} promises, {} looked at", audited.promises, audited.looked_at);
    figures.holds("audit check, with the client's log", shown, "none broken", Holds(audited.holds()));
    audited.broken.iter().for_each(|broken| println!("      {broken}"));
}

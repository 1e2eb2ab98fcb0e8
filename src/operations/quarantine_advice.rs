//! What people do about a quarantine, and when, in sentences: for whoever is woken by it and has never seen one.
//!
//! **Promises.** Each thing that is missing names its gateway and day, the instant from which it can be had and the
//! command that brings it; the advice says which way out there is now. Whoever has no time to wait is told what the
//! way without waiting risks, and that it takes two. Nothing is decided here; if this is wrong, people are misled, and
//! the schedule refuses all the same.

use super::quarantine::WORD_STANDS;
use crate::intake::utc;
use crate::schedule::{Insists, Lack, LackKind, QuarantineView};
use chrono::{DateTime, Utc};

/// What is missing, in a sentence.
pub(super) fn sentence(lack: &Lack) -> String {
    let (gateway, day) = (&lack.gateway.0, lack.day);
    let from = lack.askable_from.map_or_else(|| "now".to_owned(), utc);
    let run = format!("`punctual reconcile run --gateway {gateway} --day {day}`");
    match lack.kind {
        LackKind::DayNotOver => format!(
            "{gateway}, {day}: commits of this day may be missing, and it is not over. Its whole report can be asked \
             for from {from}: {run} then.{}",
            so_far(lack)
        ),
        LackKind::DayNotCompared => format!(
            "{gateway}, {day}: commits of this day may be missing, and no whole report of it that was seen after claims \
             stopped is compared: {run}."
        ),
        LackKind::LaterDayNotOver => format!(
            "{gateway}, {day}: a charge of the lost time may still be booked on this day, which is not over. Its whole \
             report can be asked for from {from}: {run} then."
        ),
        LackKind::LaterDayNotCompared => format!(
            "{gateway}, {day}: a charge of the lost time may be booked on this day, and no whole report of it is \
             compared: {run}."
        ),
        LackKind::OpenRepairs => {
            let items = lack.items.unwrap_or_default();
            format!(
                "{gateway}, {day}: {items} differences are open; repair or dismiss each: `punctual reconcile items \
                 --status open --gateway {gateway} --day {day} --all`."
            )
        }
        LackKind::NoGatewayKnown => {
            "No gateway is known here whose reports could be compared; set gateway.name, or start \
                                     a worker, which announces its own."
                .to_owned()
        }
    }
}

/// What two people who do not wait may lean on.
fn so_far(lack: &Lack) -> String {
    match lack.partly_seen_at {
        Some(at) => format!(" What it had at {} is compared already.", utc(at)),
        None => " What it has so far can be compared now, with the same command.".to_owned(),
    }
}

/// From when on nothing has to be waited for; `None`: nothing has to be now.
pub(super) fn releasable_from(view: &QuarantineView) -> Option<DateTime<Utc>> {
    let waits = |lack: &&Lack| match lack.kind {
        LackKind::DayNotOver | LackKind::LaterDayNotOver => true,
        LackKind::DayNotCompared
        | LackKind::LaterDayNotCompared
        | LackKind::OpenRepairs
        | LackKind::NoGatewayKnown => false,
    };
    view.lacks.iter().filter(waits).filter_map(|lack| lack.askable_from).max()
}

/// The way out, now.
pub(super) fn advice(view: &QuarantineView) -> String {
    let Some(open) = view.open() else {
        return match view.refunds_held.is_empty() {
            true => "Claims are made; nothing has to be done.".to_owned(),
            false => "Claims are made. Refunds wait until every day of the lost time and those behind it are compared: \
                      `punctual reconcile run` for each; then they go on by themselves."
                .to_owned(),
        };
    };
    if let Some(asked) = &open.asked {
        let until = utc(asked.at + WORD_STANDS);
        let anyway = match asked.insists {
            Insists::Anyway => " --anyway",
            Insists::OnNothing => "",
        };
        return format!(
            "{} asked for the release. Somebody else agrees with `punctual quarantine release{anyway} --reason …` before \
             {until}; after that the first word is void.",
            asked.by.0
        );
    }
    if view.lacks.is_empty() {
        return "Nothing is missing. One person asks for the release with `punctual quarantine release --reason …`, and \
                within a day another one agrees with the same command."
            .to_owned();
    }
    let wait = match releasable_from(view) {
        Some(from) => format!("the last of it can be had from {}", utc(from)),
        None => "all of it can be had now".to_owned(),
    };
    format!(
        "Nothing is charged until two people release it. What is missing (`lacks`) comes first, each with its command; \
         {wait}. Whoever cannot wait for that: two people, each with `punctual quarantine release --anyway --reason …`, \
         within a day of each other. Then a payment that was charged in the lost time and stands in no compared report \
         is sent again: under its own key, which is the same charge while the gateway remembers the key, and a second \
         one after that. So compare first what can be compared now, today's report as far as it goes included. Refunds \
         wait either way until all days are compared."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{GatewayName, Operator};
    use crate::schedule::{LossKind, Quarantine, ReleaseAsk};
    use chrono::NaiveDate;
    use std::collections::BTreeSet;

    fn day(day: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 11, day).unwrap()
    }

    fn midnight_after(of: u32) -> DateTime<Utc> {
        (day(of) + chrono::TimeDelta::days(1)).and_time(chrono::NaiveTime::MIN).and_utc()
    }

    fn lack(kind: LackKind, of: u32) -> Lack {
        Lack {
            kind,
            gateway: GatewayName("sandbox".into()),
            day: day(of),
            items: (kind == LackKind::OpenRepairs).then_some(3),
            askable_from: Some(midnight_after(of)),
            partly_seen_at: None,
        }
    }

    fn view(lacks: Vec<Lack>, asked: Option<ReleaseAsk>) -> QuarantineView {
        let open = Quarantine {
            id: 1,
            since: midnight_after(1),
            kind: LossKind::Log,
            reason: "a test".into(),
            released_lineage: "1/1".into(),
            found_lineage: "1/1".into(),
            lost_from: midnight_after(1),
            lost_from_by: None,
            proven_from: None,
            evidence_count: 1,
            asked,
            released: None,
        };
        QuarantineView { quarantines: vec![open], evidence: Vec::new(), lacks, refunds_held: BTreeSet::new() }
    }

    #[test]
    fn what_is_missing_is_said_with_gateway_day_instant_and_command() {
        let run = "`punctual reconcile run --gateway sandbox --day 2026-11-28`";
        for (kind, words) in [
            (
                LackKind::DayNotOver,
                vec!["not over", "from 2026-11-29T00:00:00", run, "so far can be compared now"],
            ),
            (LackKind::DayNotCompared, vec!["seen after claims stopped", run]),
            (LackKind::LaterDayNotOver, vec!["may still be booked", "from 2026-11-29T00:00:00", run]),
            (LackKind::LaterDayNotCompared, vec!["may be booked", run]),
            (LackKind::OpenRepairs, vec!["3 differences", "--day 2026-11-28 --all"]),
        ] {
            let said = sentence(&lack(kind, 28));
            assert!(said.starts_with("sandbox, 2026-11-28: "), "{said}");
            for word in words {
                assert!(said.contains(word), "{word:?} in {said}");
            }
        }
        let partly = Lack { partly_seen_at: Some(midnight_after(27)), ..lack(LackKind::DayNotOver, 28) };
        assert!(sentence(&partly).ends_with("What it had at 2026-11-28T00:00:00Z is compared already."));
        assert!(sentence(&lack(LackKind::NoGatewayKnown, 28)).contains("gateway.name"));
    }

    #[test]
    fn the_advice_names_the_instant_the_two_people_and_the_way_without_waiting() {
        let today = lack(LackKind::DayNotOver, 28);
        let later = lack(LackKind::LaterDayNotOver, 30);
        let compared = lack(LackKind::DayNotCompared, 29);
        let waits = view(vec![today, later, compared.clone()], None);
        assert_eq!(releasable_from(&waits), Some(midnight_after(30)));
        let said = advice(&waits);
        for word in ["from 2026-12-01T00:00:00", "two people", "--anyway", "Refunds wait"] {
            assert!(said.contains(word), "{word:?} in {said}");
        }
        let now = view(vec![compared], None);
        assert_eq!(releasable_from(&now), None);
        assert!(advice(&now).contains("can be had now"));
        assert!(advice(&view(Vec::new(), None)).starts_with("Nothing is missing."));
        let asked = ReleaseAsk {
            by: Operator("key:ann".into()),
            reason: "compared".into(),
            at: midnight_after(28),
            insists: Insists::Anyway,
        };
        let said = advice(&view(Vec::new(), Some(asked)));
        assert!(said.starts_with("key:ann asked") && said.contains("release --anyway"), "{said}");
        assert!(said.contains("before 2026-11-30T00:00:00"), "{said}");
    }

    #[test]
    fn after_a_release_people_are_told_whether_refunds_still_wait() {
        let none = QuarantineView { quarantines: Vec::new(), ..view(Vec::new(), None) };
        assert!(advice(&none).contains("nothing has to be done"));
        let held = BTreeSet::from([GatewayName("sandbox".into())]);
        assert!(advice(&QuarantineView { refunds_held: held, ..none }).contains("Refunds wait"));
    }
}

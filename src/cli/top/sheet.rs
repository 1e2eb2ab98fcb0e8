//! One snapshot as a list: for pipes, files, and whoever asks once.

use super::super::Ended;
use super::super::output::{Column, Face, List, Output, Reader, at};
use super::screen::{PROBLEMS_UNKNOWN, gateway_cells, worker_cells};
use super::seen::Look;
use serde_json::{Value, json};

const COLUMNS: &[Column] = &[
    Column { head: "WHAT", of: |item| at(item, "/what") },
    Column { head: "NAME", of: |item| at(item, "/name") },
    Column { head: "VALUE", of: |item| at(item, "/value") },
    Column { head: "NOTE", of: |item| at(item, "/note") },
];

fn line(what: &str, name: &str, value: &str, note: &str) -> Value {
    json!({"what": what, "name": name, "value": value, "note": note})
}

/// What is wrong first, then as on the screen.
fn lines(look: &Look) -> Vec<Value> {
    let mut all = match &look.problems {
        Some(problems) => problems
            .iter()
            .map(|it| line("problem", &it.check, &it.level, &format!("{}: {}. {}", it.saw, it.means, it.fix)))
            .collect(),
        None => vec![line("problem", "", "unseen", PROBLEMS_UNKNOWN)],
    };
    all.extend(look.figures().iter().map(|it| {
        let shape = it.tone.shape();
        let note = if shape.is_empty() { it.note.clone() } else { format!("{shape} {}", it.note) };
        line("figure", it.label, &it.value, &note)
    }));
    all.extend(
        look.outcomes().iter().map(|(word, count)| line("outcome", word, &count.to_string(), "last hour")),
    );
    for gateway in &look.gateways {
        let [name, stands, breaker, rate, in_flight, calls, note] = gateway_cells(gateway);
        let cells = [
            format!("breaker {breaker}"),
            format!("rate {rate}"),
            format!("{in_flight} in flight"),
            calls,
            note,
        ];
        let told = cells.into_iter().filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("; ");
        all.push(line("gateway", &name, &stands, &told));
    }
    let now = look.overview.taken_at;
    for worker in &look.crew.workers {
        let [name, gateway, claims, oldest, heard, _] = worker_cells(worker, now);
        let note = format!("{gateway}; oldest claim {oldest}; heard {heard}");
        all.push(line(
            "worker",
            &name,
            &format!("{claims} {}", if worker.claims == 1 { "claim" } else { "claims" }),
            &note,
        ));
    }
    all
}

/// Prints it.
///
/// # Errors
/// Standard output cannot be written to.
pub(super) fn print_all(look: &Look, face: Face) -> Result<(), Ended> {
    let mut list = List::new(Output::Table, face, COLUMNS);
    match list.page(&lines(look))? {
        Reader::Reads => list.end(),
        Reader::Left => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::tests::documents;
    use super::*;

    #[test]
    fn a_snapshot_begins_with_what_is_wrong_and_has_a_line_for_each_figure_gateway_and_worker() {
        let told = lines(&Look::read(documents()).unwrap());
        let what: Vec<&str> = told.iter().map(|it| it["what"].as_str().unwrap()).collect();
        assert_eq!((what[0], what[1]), ("problem", "figure"));
        let count = |of| what.iter().filter(|it| **it == of).count();
        assert_eq!((count("problem"), count("figure"), count("outcome")), (1, 7, 6));
        assert_eq!((count("gateway"), count("worker")), (2, 1));
        assert!(told[0]["note"].as_str().unwrap().ends_with("it closes by itself"), "{}", told[0]);
        let paused = told.iter().find(|it| it["name"] == "bank").unwrap();
        assert_eq!(paused["value"], "paused by a person");
        assert!(paused["note"].as_str().unwrap().contains("key:alice: ticket 7"), "{paused}");
        let mut unknown = documents();
        unknown["problems"] = Value::Null;
        assert_eq!(lines(&Look::read(unknown).unwrap())[0]["value"], "unseen");
    }
}

//! Payments of every kind of luck, and a worker killed among them: the small run of `make
//! evidence-main`, under the same checker.

use crate::support::mixed::{Crew, FEW_KINDS, Plan, Ran, Trouble, run};
use punctual::audit::{Valid, check};
use punctual::domain::invariants::Invariant;
use std::time::Duration;

#[tokio::test]
async fn sixty_payments_of_every_kind_keep_every_promise_while_a_worker_is_killed_among_them() {
    let plan = Plan {
        seed: 7,
        kinds: FEW_KINDS,
        times: 1,
        cancels: 12,
        over: Duration::from_secs(10),
        crew: Crew { apis: 1, relays: 1, workers: 2, publishers: 1 },
        troubles: vec![(Duration::from_secs(3), Trouble::WorkerLost)],
    };
    let ran = run(&plan, &[], None).await;
    assert_eq!(ran.records.payments.len(), 72);
    assert_eq!(ran.waiting, 0, "neither final nor parked");
    assert!(ran.open_at_kill() > 0, "the kill hit no open claim, so it proved nothing");
    use Invariant::{K5, K6, L6, M10, M11, R1, R2};
    let not_here = [M10, M11, L6, K5, K6, R1, R2];
    for checked in check(&ran.records, &ran.rules) {
        let expected = if not_here.contains(&checked.invariant) { Valid::Unknown } else { Valid::True };
        assert_eq!(checked.valid(), expected, "{checked:#?}");
    }
    the_command_says_so_too(&ran).await;
}

/// As a process over the run's own ledger, database, topics and log: 0; over a forged ledger 10; and 11 where
/// what was required never happened.
async fn the_command_says_so_too(ran: &Ran) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, lines: Vec<String>| {
        let path = folder.path().join(name);
        std::fs::write(&path, lines.join("\n")).expect("a file");
        path.display().to_string()
    };
    let log = ran.records.operations.iter().map(|it| serde_json::to_string(it).expect("JSON")).collect();
    let log = file("operations.ndjson", log);
    let mut ledger: Vec<String> = ran.site.ledger().await.iter().map(ToString::to_string).collect();
    let honest = file("ledger.ndjson", ledger.clone());
    let charge = ledger.iter().find(|line| line.contains("\"charged\":true")).expect("a charge").clone();
    ledger.push(charge);
    let forged = file("forged.ndjson", ledger);
    // A ring is used by one test after another.
    let since = ran.records.operations.iter().map(|it| it.at).min().expect("operations").to_rfc3339();
    let check = |ledger: &str, more: &[&str]| {
        let asked =
            ["audit", "check", "--ledger", ledger, "--operations", &log, "--topics", "--since", &since];
        let output = ran.site.output(&[&asked[..], more].concat());
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, text) = check(&honest, &["--require", "K4", "--require", "epoch_bumps", "--window", "1"]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = check(&forged, &[]);
    assert_eq!(code, Some(10), "{text}");
    assert!(text.contains("M1  BROKEN") && text.contains("charged 2 times"), "{text}");
    let (code, text) = check(&honest, &["--require", "repairs"]);
    assert_eq!(code, Some(11), "{text}");
    assert!(text.contains("UNKNOWN  repairs"), "{text}");
    let (code, text) = ran.site.tell(&["audit", "check", "--require", "nothing_of_the_kind"]);
    assert_eq!(code, Some(2), "{text}");
}

//! Payments of every kind of luck, and a worker killed among them: the small run of `make
//! evidence-main`, under the same checker.

use crate::support::mixed::{Crew, FEW_KINDS, Plan, Trouble, run};
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
    let not_here = [Invariant::M10, Invariant::L6, Invariant::K5, Invariant::R1, Invariant::R2];
    for checked in check(&ran.records, &ran.rules) {
        let expected = if not_here.contains(&checked.invariant) { Valid::Unknown } else { Valid::True };
        assert_eq!(checked.valid(), expected, "{checked:#?}");
    }
}

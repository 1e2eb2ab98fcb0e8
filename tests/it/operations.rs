//! What people do with parked payments, on real Postgres: guards, races, second persons, many at once; through the
//! interface; and whole, with a worker and the sandbox.

mod approvals;
mod bulk;
mod guards;
pub(crate) mod http;
pub(crate) mod reconciliations;
mod payments;
mod releases;
mod search;
mod search_plans;
mod whole;

use crate::schedule::world::{World, notice, parks};
use punctual::domain::decision::Decision;
use punctual::domain::ids::{Operator, PaymentId};
use punctual::domain::notice::Notice;
use punctual::domain::parked::KeyWanted;
use punctual::domain::reason::Reason;
use punctual::schedule::{Answered, Redrive, Schedule, SettledAs};

/// One person.
fn alice() -> Operator {
    Operator::of_key("alice")
}

/// Another one.
fn bob() -> Operator {
    Operator::of_key("bob")
}

/// The decline codes that may be retried, as far as these tests decline.
fn retryable() -> Vec<String> {
    vec!["insufficient_funds".into()]
}

fn order(payment: PaymentId, key: KeyWanted) -> Redrive {
    let reason = "the gateway is back".to_owned();
    Redrive { payment, key, by: alice(), reason, version: None, approval: None }
}

/// Settles one claim as decided.
async fn settle(world: &World, outcome: (Answered, Decision)) {
    let settled = world.worker.settle(vec![outcome]).await.map_err(|failed| failed.error).expect("settled");
    assert!(matches!(settled[0].result(), SettledAs::Written(_)));
}

/// A payment that is parked with one send that nobody answered.
async fn parked(world: &World, key: &str) -> Notice {
    let due = world.due(key).await;
    let claimed = world.claim_one(&due).await;
    settle(world, parks(claimed, Reason::OutcomeUnknown)).await;
    notice(&world.row(due.payment).await)
}

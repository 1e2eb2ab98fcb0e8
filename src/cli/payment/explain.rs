//! `payment explain`: one payment's whole story in sentences that can be passed on.
//!
//! Made of two answers of the API, the payment and its history; so it says what any client of the API can know,
//! and, where the key may see that, what operators are shown of it. No payee is in it, no clock of this machine,
//! and no guess: what the history does not say is not said. What it says of the future is what the rules of this
//! version do. All times are in UTC, all amounts in major units.
//!
//! The history is also checked as far as a client can: its rows must be numbered without a gap, each must
//! begin in the state in which the one before it ended and name that one's hash.

use crate::cli::Ended;
use crate::cli::output::{Output, items, print};
use crate::cli::remote::{Remote, of_client};
use crate::client::{Call, ClientError};
use crate::domain::state::Status;
use crate::platform::config::Kafka;
use crate::platform::exit::Exit;
use crate::story::{self, Operators, Payment, Story};
use serde_json::Value;

pub(super) const HELP: &str = "\
Made of the payment and its history: its schedule and notice, every claim, what the gateway answered, the \
events that were published, who did what and why, where the money is, what happens next, and what may be done \
now; a key with ops:read or ops:refund sees what operators may do. No payee is in it, so it can be passed on; the \
last section, on Kafka, is for whoever looks further, and goes by the kafka settings of this command.

Exit codes: 0 told; 5 no such payment; 10 told, and rows of its history are missing or do not fit together.";

/// Asks and tells.
///
/// # Errors
/// [`Exit::Differences`] where the history does not fit together; otherwise the API's refusal.
pub(super) async fn explain(remote: &Remote, kafka: &Kafka, id: &str, output: Output) -> Result<(), Ended> {
    let payment = remote.client.get(id).await.map_err(of_client)?;
    let path = ["scheduled-payments", id, "history"];
    let history = remote.client.call("GET", &path).send().await.map_err(of_client)?.body;
    let payment = story::payment(payment).map_err(|why| Ended::with(Exit::Failed, why))?;
    let operators = operators(remote, &payment).await?;
    let story = Story::of(&payment, history, &operators, kafka);
    let story = story.map_err(|why| Ended::with(Exit::Failed, why))?;
    print(&output.shown(|| story.text(), || story.document()))?;
    match story.broken {
        None => Ok(()),
        Some(what) => {
            Err(Ended::with(Exit::Differences, format!("its history does not fit together: {what}")))
        }
    }
}

/// What operators are shown of it, as far as this key may see it.
async fn operators(remote: &Remote, payment: &Payment) -> Result<Operators, Ended> {
    let id = payment.payment_id.to_string();
    let mut operators = Operators::default();
    if payment.status == Status::Parked {
        operators.parked = seen(remote.client.call("GET", &["ops", "parked", &id])).await?;
    }
    if matches!(payment.status, Status::Completed | Status::Parked | Status::Refunded) {
        let refunds = remote.client.call("GET", &["ops", "refunds"]).query(&[("paymentId", id)]);
        operators.refunds = seen(refunds).await?.map(|page| items(&page).to_vec()).unwrap_or_default();
    }
    if story::may_be_reported(payment) {
        let path = ["ops", "reconciliation-items"];
        let of_it = remote.client.call("GET", &path).query(&[("paymentId", payment.payment_id.to_string())]);
        operators.items = seen(of_it).await?.map(|page| items(&page).to_vec()).unwrap_or_default();
    }
    Ok(operators)
}

/// The answer; nothing where the key may not see it, or where it is over (it was parked a moment ago).
async fn seen(call: Call<'_>) -> Result<Option<Value>, Ended> {
    match call.send().await {
        Ok(answer) => Ok(Some(answer.body)),
        Err(ClientError::Refused { status: 403 | 404 | 409, .. }) => Ok(None),
        Err(error) => Err(of_client(error)),
    }
}

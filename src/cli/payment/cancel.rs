//! `payment cancel`: exit code 0 means CANCELLED and nothing else, so that a script may go on from it.

use super::COLUMNS;
use crate::cli::Ended;
use crate::cli::output::{Column, Face, List, Output, at, say};
use crate::cli::remote::{Remote, confirm, of_client, payment_of};
use crate::domain::state::Status;
use crate::platform::exit::Exit;
use clap::Args;
use serde_json::{Value, json};

pub(super) const HELP: &str = "\
Where submission to the gateway has started it is refused, and the answer names the state. Where the outcome \
is unknown and the gateway voids, the wish is recorded: the payment is not cancelled yet, and the same \
command says later what became of it.

Exit codes, for one payment: 0 it is CANCELLED; 5 no such payment; 6 its state does not allow it, or the \
wish is recorded and not decided. For several: 0 all are CANCELLED, 1 otherwise.";

/// Which, and how.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct Cancel {
    /// Their ids.
    #[arg(value_name = "PAYMENT_ID", required = true)]
    ids: Vec<String>,
    /// Do not ask; needed where there is no terminal to ask at.
    #[arg(short, long)]
    yes: bool,
    /// Look, say what would happen, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// How to print the answers.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

const WOULD: &[Column] = &[
    Column { head: "PAYMENT", of: |item| at(item, "/paymentId") },
    Column { head: "STATUS", of: |item| at(item, "/status") },
    Column { head: "IT WOULD", of: |item| at(item, "/would") },
];

/// One payment's answer to a cancel.
struct Cancelled {
    id: String,
    /// As the API answered, or the refusal.
    result: Result<Value, Ended>,
}

/// Cancels them, or says what a cancel would meet.
///
/// # Errors
/// See the exit codes in [`HELP`].
pub(super) async fn cancel(remote: &Remote, asked: &Cancel) -> Result<(), Ended> {
    let Cancel { ids, yes, dry_run, output } = asked;
    if *dry_run {
        return foretold(remote, ids, *output).await;
    }
    let what = match ids.as_slice() {
        [one] => format!("Cancel payment {one} for good"),
        several => format!("Cancel {} payments for good", several.len()),
    };
    confirm(*yes, &what)?;
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        let answer = remote.client.call("DELETE", &["scheduled-payments", id]).send().await;
        let result = answer.map_err(of_client).and_then(|answer| match answer.status {
            202 => {
                let told = format!(
                    "{id} is not cancelled yet: its outcome is unknown, and the wish is recorded. Nothing is \
                     charged from the next claim on; the same command says later what became of it"
                );
                Err(Ended::with(Exit::Conflict, told))
            }
            _ => cancelled(id, answer.body),
        });
        answers.push(Cancelled { id: id.clone(), result });
    }
    let done: Vec<Value> = answers.iter().filter_map(|it| it.result.as_ref().ok().cloned()).collect();
    let mut list = List::new(*output, Face::of_stdout(), COLUMNS);
    if !done.is_empty() || *output == Output::Json {
        list.page(&done)?;
        list.end()?;
    }
    let mut refused: Vec<Ended> = Vec::new();
    for Cancelled { id, result } in answers {
        if let Err(ended) = result {
            say(&format!("{id}: {}", ended.message));
            refused.push(ended);
        }
    }
    match (refused.len(), ids.len()) {
        (0, _) => Ok(()),
        (1, 1) => Err(Ended::told(refused[0].exit)),
        (not, all) => Err(Ended::with(Exit::Failed, format!("{not} of {all} payments are not cancelled"))),
    }
}

/// Success is a payment that is CANCELLED, and nothing else.
fn cancelled(id: &str, body: Value) -> Result<Value, Ended> {
    let body = payment_of(body)?;
    let status = at(&body, "/status");
    if status == Status::Cancelled.as_str() {
        return Ok(body);
    }
    let told = format!("success was answered, and not that {id} is cancelled, but: {body}");
    Err(Ended::with(Exit::Failed, told))
}

/// What a cancel would meet now; the answer may differ by the time it is asked for.
async fn foretold(remote: &Remote, ids: &[String], output: Output) -> Result<(), Ended> {
    let mut all = Vec::with_capacity(ids.len());
    for id in ids {
        let (status, would) = match remote.client.get(id).await {
            Ok(payment) => {
                let payment = payment_of(payment)?;
                let status = payment.get("status").and_then(Value::as_str).and_then(Status::from_text);
                (at(&payment, "/status"), would(status))
            }
            Err(error) => match of_client(error) {
                ended if ended.exit == Exit::NotFound => (String::new(), "be refused: no such payment"),
                ended => return Err(ended),
            },
        };
        all.push(json!({"paymentId": id, "status": status, "would": would}));
    }
    let mut list = List::new(output, Face::of_stdout(), WOULD);
    list.page(&all)?;
    list.end()?;
    let count = |would: &str| all.iter().filter(|it| it["would"] == would).count();
    let (yes, wished, done) = (count(CANCELLED), count(WISHED), count(DONE));
    say(&format!(
        "dry run: {yes} would be cancelled, {wished} refused or wished for, {done} are cancelled, {} would be \
         refused",
        all.len() - yes - wished - done
    ));
    Ok(())
}

const CANCELLED: &str = "be cancelled";
const WISHED: &str = "be refused, or the wish recorded where its gateway voids";
const DONE: &str = "change nothing: it is cancelled";

fn would(status: Option<Status>) -> &'static str {
    match status {
        Some(Status::Pending) => CANCELLED,
        Some(Status::Cancelled) => DONE,
        Some(Status::Unknown) => WISHED,
        Some(Status::Processing) => "be refused: it is being submitted",
        Some(Status::Completed | Status::Failed | Status::Refunded) => "be refused: it is final",
        Some(Status::Parked) => "be refused: an operator decides",
        None => "be refused: its state is not known here",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_says_cancelled_is_a_success() {
        for body in [
            json!({}),
            Value::Null,
            json!({"paymentId": "p"}),
            json!({"paymentId": "p", "status": "PENDING"}),
            json!({"status": "CANCELLED"}),
        ] {
            assert_eq!(cancelled("p", body).unwrap_err().exit, Exit::Failed);
        }
        assert!(cancelled("p", json!({"paymentId": "p", "status": "CANCELLED"})).is_ok());
    }
}

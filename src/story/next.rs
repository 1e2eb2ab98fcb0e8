//! Where the money is, and what happens next: from the state, and from what the attempts left open.
//!
//! Nothing is called clean that may have been charged: a payment is "not charged" only in the states that
//! promise it (PENDING, FAILED, CANCELLED).

use super::told::{Payment, Row, second};
use crate::domain::history::Event;
use crate::domain::state::{Cause, Status};

/// Where the money is.
pub(super) fn money(payment: &Payment, rows: &[Row]) -> Vec<String> {
    let amount = payment.money();
    let reference = payment.gateway_reference.as_deref();
    let at = reference.map_or_else(String::new, |it| format!(", reference {it} at {}", payment.gateway));
    let sentence = match payment.status {
        Status::Completed => format!("Exactly one charge of {amount} exists{at}."),
        Status::Refunded => format!("The charge was given back in full{at}."),
        Status::Pending if payment.attempts.is_empty() => "Nothing was charged: nothing was sent.".to_owned(),
        Status::Pending => {
            "Nothing was charged, and none of our requests can still charge anything: every try was refused or \
             never sent."
                .to_owned()
        }
        Status::Failed => "Nothing was charged, and nothing will be.".to_owned(),
        Status::Cancelled => "It was never charged, and never will be.".to_owned(),
        Status::Processing => "A request may be on its way to the gateway at this moment.".to_owned(),
        Status::Unknown => open_sends(payment),
        Status::Parked if reference.is_some() => {
            format!("The gateway speaks of a charge{at}; a human must look whether it is right.")
        }
        Status::Parked => parked(payment),
    };
    let mut lines = vec![sentence];
    let fenced = rows.iter().filter(|row| row.told() == Some(Event::Fenced)).count();
    if fenced > 0 {
        lines.push(format!(
            "{fenced} late {} kept as evidence beside it.",
            if fenced == 1 { "answer is" } else { "answers are" }
        ));
    }
    lines
}

/// Outcomes after which a charge may exist.
const OPEN: [&str; 5] = ["unknown", "in_progress", "pending_at_gateway", "contract_violation", "charged"];

fn open_count(payment: &Payment) -> usize {
    let newest = payment.attempts.iter().map(|attempt| attempt.epoch).max();
    let open = |outcome: &Option<String>| outcome.as_deref().is_none_or(|it| OPEN.contains(&it));
    payment.attempts.iter().filter(|it| Some(it.epoch) == newest && open(&it.outcome)).count()
}

fn open_sends(payment: &Payment) -> String {
    format!(
        "Not known yet: of {} the gateway gave no answer that decides. All of them carry one key, so they can \
         make one charge at most.",
        counted(open_count(payment))
    )
}

fn counted(attempts: usize) -> String {
    if attempts == 1 { "one attempt".to_owned() } else { format!("{attempts} attempts") }
}

fn parked(payment: &Payment) -> String {
    match open_count(payment) {
        0 => "No answer of the gateway speaks of a charge.".to_owned(),
        open => format!(
            "Not known: {} ended without an answer that decides. Nobody may call it unpaid.",
            counted(open)
        ),
    }
}

/// What happens next by itself.
pub(super) fn next(payment: &Payment, rows: &[Row]) -> Vec<String> {
    let at = payment.next_attempt_at.map_or_else(|| "its instant".to_owned(), second);
    let mut lines = Vec::new();
    match payment.status {
        Status::Pending => {
            let what = if payment.attempts.is_empty() { "claimed and sent" } else { "tried again" };
            lines.push(format!("At {at} it is {what}."));
            lines.extend(
                payment
                    .execute_before
                    .map(|before| format!("If no charge has started by {}, it fails.", second(before))),
            );
        }
        Status::Processing => {
            lines.push(
                "Its worker records what the gateway answers. If it does not within its lease, the payment \
                 becomes UNKNOWN and the gateway is asked."
                    .to_owned(),
            );
        }
        Status::Unknown if payment.cancel_requested_at.is_some() => {
            lines.push(format!(
                "At {at} the gateway is asked, and told to refuse the key. No charge is sent any more, by the \
                 client's wish; its cancel, asked again, says what became of it."
            ));
        }
        Status::Unknown => {
            lines.push(format!(
                "At {at} the gateway is asked; if it does not know the key, the same request is sent again under \
                 the same key."
            ));
        }
        Status::Completed | Status::Refunded | Status::Failed | Status::Cancelled => {
            lines.push("Nothing.".to_owned());
        }
        Status::Parked => lines.push("Nothing by itself: it waits for an operator's decision.".to_owned()),
    }
    let redriven = rows.iter().any(|row| row.told() == Some(Event::Moved(Cause::Redriven)));
    if redriven && !payment.status.is_final() {
        lines.push("It was released from parking before.".to_owned());
    }
    lines
}

//! What happened, a sentence or two for each row of history.

use super::people;
use super::reconciled;
use super::told::{Attempt, Payment, Row, money, second};
use crate::domain::bucket::{Slot, label};
use crate::domain::history::Event;
use crate::domain::reason::Reason;
use crate::domain::state::{Cause, Status};
use chrono::TimeDelta;
use serde_json::Value;

/// Which payment, and where it stands.
pub(super) fn headline(payment: &Payment) -> String {
    let why = payment.why().map_or_else(String::new, |why| format!(" {why}"));
    format!(
        "Payment {}: {} through {}. {}.{why}",
        payment.payment_id,
        payment.money(),
        payment.gateway,
        payment.status.as_str()
    )
}

/// What the client asked for, and where its first notice belongs.
pub(super) fn schedule(payment: &Payment) -> Vec<String> {
    let due = second(payment.due_at);
    let first = payment.first_try_at();
    let mut lines = vec![match payment.execute_within {
        Some(seconds) if seconds > 0 => format!(
            "It is due at {due} and may first be tried within {seconds} s of that; its own instant is {}.",
            second(first)
        ),
        Some(_) | None => format!("It is due at {due}; nothing is charged before."),
    }];
    lines.push(format!(
        "Its first notice belongs to {}, bucket m{:02} of the ring; one that was made too late for its bucket \
         goes past the ring.",
        label(first),
        Slot::of(first).minute()
    ));
    lines.push(match payment.execute_before {
        Some(at) => format!("From {} on no charge is started.", second(at)),
        None => "It has no deadline: if it is late, it is still paid.".to_owned(),
    });
    let retry = &payment.retry;
    let soft = if retry.on_soft_decline == "fail" { "fails it at once" } else { "is tried again later" };
    let spent = if retry.on_exhausted == "fail" { "it fails" } else { "it waits for a human" };
    let sends = if retry.max_sends == 1 { "send" } else { "sends" };
    lines.push(format!(
        "It may take {} {sends}; a decline that may pass {soft}, and when the sends are spent {spent}.",
        retry.max_sends
    ));
    lines.extend(payment.external_id.iter().map(|id| format!("The client calls it {id}.")));
    lines
}

/// The sentences of one row.
pub(super) fn of(row: &Row, payment: &Payment) -> String {
    let by = if row.by == "client" { "the client" } else { row.by.as_str() };
    let Some(event) = row.told() else {
        return format!("{by} did something that this version does not know ({}).", row.cause);
    };
    let said = row.says("reason").map_or_else(String::new, |reason| format!(" The reason given: {reason}."));
    match event {
        Event::Fenced => format!(
            "An answer of {by} came too late: {} It is kept as evidence and changed nothing.",
            answered(row, payment)
        ),
        Event::CancelWished => {
            let who = if row.by == "client" { "The client" } else { by };
            format!(
                "{who} wished to cancel. No claim from here on sends a charge; the gateway is told to refuse what may \
                 be under way.{said}"
            )
        }
        Event::Noted if row.says("callback").is_some() => {
            format!("{by} called and said that it has decided, so it is asked at once.")
        }
        Event::Noted if row.says("refund").is_some() => people::given_back(row, by, &said),
        Event::Noted => format!("A remark of {by}.{said}"),
        Event::Moved(cause) => moved(cause, row, payment, by, &said),
    }
}

fn moved(cause: Cause, row: &Row, payment: &Payment, by: &str, said: &str) -> String {
    match cause {
        Cause::Created => {
            "The client asked for it; payment and first notice were committed together.".to_owned()
        }
        Cause::Claimed => claimed(row, payment, by),
        Cause::Cancelled if row.by == "client" => {
            "The client cancelled it before anything was submitted.".to_owned()
        }
        Cause::Cancelled => {
            format!("{by} cancelled it for the client before anything was submitted.{said}")
        }
        Cause::DeadlinePassed => {
            "Its deadline passed before a charge could start, so none is started any more.".to_owned()
        }
        Cause::Settled => format!("{} {}", answered(row, payment), became(row)),
        Cause::LeaseExpired => "The worker that held it recorded no outcome within its lease. A request may \
                                have reached the gateway, so it is asked, and nothing is guessed."
            .to_owned(),
        Cause::Reconciled => {
            let line = reconciled::line(row);
            format!("The gateway's own report decided it: {}.{line}{said}", row.to.as_str())
        }
        Cause::Redriven => redriven(row, by, said),
        Cause::Resolved => {
            let source = row.detail.pointer("/evidence/source").and_then(Value::as_str);
            let seen = source.map_or_else(String::new, |source| format!(" Seen in: {source}."));
            format!("{by} decided it with evidence: {}.{seen}{said}", row.to.as_str())
        }
        Cause::Refunded if row.says("refund").is_some() => people::given_back(row, by, said),
        Cause::Refunded => format!("{by} gave all of it back.{said}"),
        Cause::Repaired => {
            let allowed = row.says("approvedBy").map_or_else(String::new, |who| format!(" {who} agreed."));
            let line = reconciled::line(row);
            format!("The gateway's own report proved a charge that was not known here.{line}{allowed}{said}")
        }
        Cause::Poisoned => {
            "The database refused its row in a batch, so it was set aside by itself.".to_owned()
        }
    }
}

fn redriven(row: &Row, by: &str, said: &str) -> String {
    let key = if row.detail["newEpoch"] == true { " under a new gateway key" } else { "" };
    let allowed = row.says("approvedBy").map_or_else(String::new, |who| format!("; {who} allowed it"));
    format!("{by} released it for another try{key}{allowed}.{said}")
}

fn claimed(row: &Row, payment: &Payment, by: &str) -> String {
    let number = format!("claim {}, fence {}, key epoch {}", row.attempt, row.fence, row.epoch);
    match row.from {
        Some(Status::Unknown) => format!("{by} claimed it to ask what became of it ({number})."),
        _ if row.attempt > 1 => format!("{by} claimed it for another try ({number})."),
        _ => {
            let late = payment.lateness_ms.map_or_else(String::new, |ms| format!(", {}", lateness(ms)));
            format!("{by} claimed it{late} ({number}); submission to the gateway began.")
        }
    }
}

fn lateness(ms: i64) -> String {
    if ms < 1_000 {
        return format!("{ms} ms after its instant");
    }
    let whole = TimeDelta::milliseconds(ms).num_seconds();
    let (hours, minutes, seconds) = (whole / 3_600, whole / 60 % 60, whole % 60);
    let words: Vec<String> = [(hours, "h"), (minutes, "min"), (seconds, "s")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    format!("{} after its instant", words.join(" "))
}

/// What the gateway answered, or what stood in the way.
fn answered(row: &Row, payment: &Payment) -> String {
    // A late answer is of an earlier claim than the one that the row stands beside.
    let own = payment.attempt(row.attempt).filter(|_| row.told() != Some(Event::Fenced));
    let http = own.map(circumstances).unwrap_or_default();
    let code = row.says("code").unwrap_or("no code");
    let asked = row.says("how") == Some("looked_up");
    let voided = row.says("how") == Some("void");
    match row.says("verdict").unwrap_or("") {
        "charged" => {
            let amount = row.detail.get("amountMinor").and_then(Value::as_i64);
            let amount = amount.map_or_else(
                || payment.money(),
                |minor| money(minor, row.says("currency").unwrap_or(&payment.currency)),
            );
            let reference = row.says("reference").unwrap_or("none");
            let how = if asked { "The gateway was asked and showed" } else { "The gateway made" };
            format!("{how} a charge of {amount}, reference {reference}{http}.")
        }
        "declined" if asked => format!("The gateway was asked and showed a decline ({code}){http}."),
        "declined" => format!("The gateway declined ({code}){http}."),
        "not_sent" => not_sent(code, &http),
        "in_progress" => format!("The gateway is still at work on an earlier request under this key{http}."),
        "pending_at_gateway" => format!("The gateway took it and decides later{http}."),
        "unknown" if asked => {
            format!("The gateway was asked and gave no usable answer ({}){http}.", doubt(code))
        }
        "unknown" if voided => {
            format!(
                "The gateway was told to refuse the key and gave no usable answer ({}){http}.",
                doubt(code)
            )
        }
        "unknown" => format!("No usable answer came from the gateway: {}{http}.", doubt(code)),
        "contract_violation" => {
            format!(
                "The gateway's answer cannot be true: {}{http}.",
                row.says("what").unwrap_or("see its log")
            )
        }
        "voided" => format!("The gateway proved that it refuses every charge under this key{http}."),
        "" => "No answer was recorded.".to_owned(),
        other => format!("The gateway's answer was {other}{http}."),
    }
}

fn circumstances(attempt: &Attempt) -> String {
    let words: Vec<String> = [
        attempt.http_status.map(|status| format!("HTTP {status}")),
        attempt.took_ms.map(|ms| format!("{ms} ms")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

fn doubt(code: &str) -> &str {
    match code {
        "timed_out" => "it ran out of time",
        "connection_lost" => "the connection broke",
        "server_error" => "an error on its side",
        "unreadable" => "it could not be read",
        "not_the_gateway" => "something else answered in its place",
        "key_mismatch" => "it knows the key with another request",
        "lease_expired" => "the lease ran out",
        other => other,
    }
}

fn not_sent(code: &str, http: &str) -> String {
    let why = match code {
        "dns" | "refused" | "tls" => "the gateway could not be reached",
        "not_authorised" => "the gateway does not accept our credentials",
        "rate_limited" => "the gateway asked us to slow down",
        "rejected" => "the gateway called the request invalid",
        "breaker_open" => "calls to the gateway are stopped while it fails",
        "paced" => "the gateway's rate left no room",
        "lease_too_short" => "too little of the lease was left",
        "key_expired" => "its key is too old to be sent",
        "deadline_passed" => "its deadline had passed",
        "killed" => "a kill switch is on",
        "cancel_wished" => "the client wished to cancel",
        "not_started" => "the worker gave it back",
        "host_clock_early" => "the worker's clock said that it is not due",
        "only_asked" => return format!("The gateway was asked, and its answer decides nothing{http}."),
        other => other,
    };
    format!("Nothing was sent: {why}{http}.")
}

/// What the answer made of the payment.
fn became(row: &Row) -> String {
    let why = row.says("reason").and_then(Reason::from_text).map_or("", Reason::explanation);
    let sentence = match row.to {
        Status::Completed => "That is its one charge.",
        Status::Pending => "Nothing was charged; it waits for its next try.",
        Status::Unknown => {
            "Whether it was charged is not known, so it is asked about and nothing is guessed."
        }
        Status::Failed => "It failed for good:",
        Status::Cancelled => "It is cancelled:",
        Status::Parked => "It was set aside for a human:",
        Status::Processing | Status::Refunded => return row.to.as_str().to_owned(),
    };
    match row.to {
        Status::Failed | Status::Cancelled | Status::Parked if !why.is_empty() => format!("{sentence} {why}"),
        Status::Failed | Status::Cancelled | Status::Parked => {
            sentence.trim_end_matches(':').to_owned() + "."
        }
        _ => sentence.to_owned(),
    }
}

#[cfg(test)]
#[path = "sentence_tests.rs"]
mod tests;

//! The promises about states, by the database's own rows: H1 to H5 and H7 to H10.

use super::checked::Checked;
use super::index::Index;
use super::records::{LedgerLine, Records, Rules};
use crate::domain::history::{self, Event};
use crate::domain::invariants::Invariant as Is;
use crate::domain::state::{Cause, Status};
use crate::domain::verdict::{DeclineClass, NotSent};
use crate::gateway::decline_class;
use crate::schedule::audit::{AttemptRow, PaymentRow, Told};
use chrono::TimeDelta;
use std::collections::BTreeMap;
use std::time::Duration;

/// Moves, numbers and ends, whatever the hashes say: they are computed anew.
pub(super) fn history_is_legal_and_whole(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H1);
    for payment in &records.payments {
        let rows = index.history_of(payment.id);
        let mut prev = history::FIRST_PREV;
        let sealed = rows.iter().map(|told| {
            prev = told.row.hash(&prev);
            (&told.row, prev)
        });
        let legal = history::verify(sealed);
        let whole = !rows.is_empty() && i32::try_from(rows.len()) == Ok(payment.history_seq);
        checked.look(legal.is_ok() && whole, || format!("{}: {} rows, {legal:?}", payment.id, rows.len()));
    }
    checked
}

/// Only the comparison with the row shows a chain that was cut at its end.
pub(super) fn chains_verify(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H2);
    for payment in &records.payments {
        let sealed = index.history_of(payment.id).iter().map(|told| (&told.row, told.hash));
        let last = history::verify(sealed);
        let verifies = last.is_ok_and(|last| last == payment.history_hash);
        checked.look(verifies, || match last {
            Ok(_) => format!("{}: its chain does not end in the payment's hash", payment.id),
            Err(broken) => format!("{}: {broken}", payment.id),
        });
    }
    checked
}

pub(super) fn fences_grow(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H3);
    if !records.attempts.is_empty() {
        let once = index.claims.len() == records.attempts.len();
        checked.look(once, || "a claim id was used twice".to_owned());
    }
    for (payment, attempts) in index.attempts() {
        let fences: Vec<i64> = attempts.iter().map(|attempt| attempt.fence).collect();
        let grows = fences.windows(2).all(|pair| pair[0] < pair[1]);
        let numbered = attempts.iter().zip(1..).all(|(attempt, number)| attempt.attempt == number);
        let last = index.payments.get(&payment).map(|payment| payment.fence);
        let holds = grows && numbered && last == fences.last().copied();
        checked.look(holds, || format!("{payment}: fences {fences:?}, the row's {last:?}"));
    }
    checked
}

pub(super) fn each_stale_settle_is_told(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H4);
    for payment in &records.payments {
        let attempts = index.attempts_of(payment.id);
        let rows = index.history_of(payment.id);
        let fenced = attempts.iter().filter(|attempt| attempt.fenced).count();
        let told = rows.iter().filter(|told| told.row.event == Event::Fenced).count();
        let moved = attempts.iter().any(|attempt| attempt.fenced && attempt.settled_to.is_some());
        checked.look(fenced == told && !moved, || {
            format!("{}: {fenced} fenced, {told} told, one of them moved it: {moved}", payment.id)
        });
    }
    checked
}

/// A final row was moved last by its last move, and a move out of it is a refund or a repair.
pub(super) fn final_rows_rest(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H5);
    for payment in &records.payments {
        let moves: Vec<&Told> = index
            .history_of(payment.id)
            .iter()
            .copied()
            .filter(|told| matches!(told.row.event, Event::Moved(_)))
            .collect();
        for pair in moves.windows(2).filter(|pair| is_final(pair[0].row.to)) {
            let event = pair[1].row.event;
            let allowed = event == Event::Moved(Cause::Refunded) || event == Event::Moved(Cause::Repaired);
            checked
                .look(allowed, || format!("{}: left {:?} by {}", payment.id, pair[0].row.to, event.as_str()));
        }
        if is_final(payment.status) {
            let last = moves.last().map(|told| told.row.at);
            checked.look(last == Some(payment.last_moved_at), || {
                format!("{} says it moved at {}, history at {last:?}", payment.id, payment.last_moved_at)
            });
        }
    }
    checked
}

fn is_final(status: Status) -> bool {
    match status {
        Status::Completed | Status::Failed | Status::Cancelled | Status::Refunded => true,
        Status::Pending | Status::Processing | Status::Unknown | Status::Parked => false,
    }
}

pub(super) fn status_is_the_last_row(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H7);
    for payment in &records.payments {
        let last = index.history_of(payment.id).last().map(|told| told.row.to);
        checked.look(last == Some(payment.status), || {
            format!("{} is {:?}, history ends in {last:?}", payment.id, payment.status)
        });
    }
    checked
}

/// Sends counted anew from the claims, and each claim after a proven non-charge held against the rung of
/// the ladder that it had to wait for. A wait counts from the claim before it: later than that the
/// decision cannot have begun, so the bound is safe whatever the call took.
pub(super) fn retries_keep_budget_and_spacing(index: &Index<'_>, rules: &Rules) -> Checked {
    let mut checked = Checked::new(Is::H8);
    for (id, attempts) in index.attempts() {
        let Some(payment) = index.payments.get(&id) else { continue };
        let redriven = |told: &&&Told| told.row.event == Event::Moved(Cause::Redriven);
        let granted = index.history_of(id).iter().filter(redriven).count();
        let allowed = usize::try_from(payment.max_sends).unwrap_or(0) + granted;
        let sends = attempts.iter().filter(|attempt| spends(attempt)).count();
        checked.look(sends <= allowed, || format!("{id}: {sends} sends, {allowed} allowed"));
        for pair in attempts.windows(2) {
            let (before, next) = (pair[0], pair[1]);
            let Some(wait) = least_wait(attempts, before, rules) else { continue };
            // A wish to cancel that came meanwhile is honoured at once, and sends nothing.
            let wished = |told: &&&Told| {
                let meanwhile = before.claimed_at <= told.row.at && told.row.at <= next.claimed_at;
                told.row.event == Event::CancelWished && meanwhile
            };
            if index.history_of(id).iter().any(|told| wished(&told)) {
                continue;
            }
            let waited = next.claimed_at - before.claimed_at;
            let holds = TimeDelta::from_std(wait).is_ok_and(|wait| waited >= wait);
            checked.look(holds, || {
                format!("{id}: attempt {} came {waited} after the one before, not {wait:?}", next.attempt)
            });
        }
    }
    checked
}

/// From PENDING, and not handed back as never sent.
fn spends(attempt: &AttemptRow) -> bool {
    attempt.was == Status::Pending && (attempt.fenced || attempt.verdict.as_deref() != Some("not_sent"))
}

/// The rung that stands between a proven non-charge and the next claim; `None` where the outcome is
/// another one.
fn least_wait(attempts: &[&AttemptRow], before: &AttemptRow, rules: &Rules) -> Option<Duration> {
    if before.fenced || before.settled_to.as_deref() != Some(Status::Pending.as_str()) {
        return None;
    }
    let held_back = [
        NotSent::Dns,
        NotSent::Refused,
        NotSent::Tls,
        NotSent::NotAuthorised,
        NotSent::RateLimited,
        NotSent::BreakerOpen,
        NotSent::Paced,
    ];
    match before.verdict.as_deref() {
        Some("declined") => {
            let sends = attempts.iter().filter(|it| it.attempt <= before.attempt && spends(it)).count();
            let ladder = &rules.retry;
            ladder.get(sends.saturating_sub(1)).or(ladder.last()).copied()
        }
        Some("not_sent") if held_back.iter().any(|why| before.code.as_deref() == Some(why.as_str())) => {
            rules.held_back.iter().min().copied()
        }
        _ => None,
    }
}

/// A refusal for good that was written as such: nobody claimed or asked the gateway to charge after it.
pub(super) fn nothing_is_sent_after_a_hard_decline(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H9);
    for attempt in records.attempts.iter().filter(|attempt| is_hard(attempt)) {
        let Some(settled_at) = attempt.settled_at else { continue };
        // The late request of a frozen worker is no send of ours any more, as long as it charges nothing.
        let excused = |line: &LedgerLine| !line.charged && index.was_open_at(line, settled_at);
        let mut lines = index.lines_of(attempt.payment).iter();
        let line = lines.find(|line| line.could_charge() && line.at > settled_at && !excused(line));
        let sent = index
            .attempts_of(attempt.payment)
            .iter()
            .find(|later| later.claimed_at > settled_at && later.how.as_deref() == Some("sent"));
        checked.look(line.is_none() && sent.is_none(), || {
            let line = line.map(|line| line.told());
            format!("{} was declined for good at {settled_at}, then {sent:?}, {line:?}", attempt.payment)
        });
    }
    checked
}

pub(super) fn is_hard(attempt: &AttemptRow) -> bool {
    if attempt.fenced || attempt.verdict.as_deref() != Some("declined") {
        return false;
    }
    match decline_class(attempt.code.as_deref().unwrap_or(""), None) {
        DeclineClass::Hard | DeclineClass::NeedsCustomer | DeclineClass::Unmapped => true,
        DeclineClass::Soft | DeclineClass::Ambiguous => false,
    }
}

/// The id names its partition and its due time; within a partition the key holds it unique.
pub(super) fn ids_are_unique(records: &Records) -> Checked {
    let mut checked = Checked::new(Is::H10);
    let mut rows: BTreeMap<_, Vec<&PaymentRow>> = BTreeMap::new();
    for payment in &records.payments {
        rows.entry(payment.id).or_default().push(payment);
    }
    for (id, rows) in rows {
        let honest = rows
            .iter()
            .all(|row| row.due_day == id.due_day() && row.due_at.timestamp_millis() == id.due_ms());
        checked.look(rows.len() == 1 && honest, || {
            format!("{id}: {} rows, at their place: {honest}", rows.len())
        });
    }
    checked
}

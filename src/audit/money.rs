//! The promises about money, by the gateway's own ledger: M1 to M6, M8, M9, M11 and H6.

use super::checked::Checked;
use super::index::Index;
use super::reconciled;
use super::records::{LedgerLine, Records, Requested, Rules};
use crate::domain::history::Event;
use crate::domain::invariants::Invariant as Is;
use crate::domain::reason::Reason;
use crate::domain::state::{Cause, Status};
use crate::schedule::audit::{AttemptRow, PaymentRow};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;

pub(super) fn charged_at_most_once(records: &Records) -> Checked {
    let mut checked = Checked::new(Is::M1);
    let mut count: BTreeMap<_, u32> = BTreeMap::new();
    for line in records.ledger.iter().filter(|line| line.charged) {
        *count.entry(line.payment_id).or_default() += 1;
    }
    for (payment, charges) in count {
        checked.look(payment.is_some() && charges == 1, || format!("{payment:?}: charged {charges} times"));
    }
    checked
}

pub(super) fn each_request_has_an_earlier_claim(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::M2);
    for line in records.ledger.iter().filter(|line| line.is_under_key()) {
        let claim = index.claim_of(line).filter(|claim| {
            Some(claim.payment) == line.payment_id
                && Some(claim.fence) == line.fence
                && claim.claimed_at <= line.at
        });
        checked.look(claim.is_some(), || format!("no earlier claim for {}", line.told()));
    }
    checked
}

/// By the client's own due instant where it is known, else by the row's; the ledger's copy is our word.
pub(super) fn nothing_early(records: &Records, index: &Index<'_>) -> Checked {
    let granted = records.operations.iter().filter(|operation| operation.granted());
    let asked: BTreeMap<_, _> =
        granted.filter_map(|it| Some((it.payment_id?, it.asked.as_ref()?.due_at))).collect();
    let mut checked = Checked::new(Is::M3);
    for line in records.ledger.iter().filter(|line| line.is_under_key()) {
        let row = index.payment_of(line).map(|payment| payment.due_at);
        let asked = line.payment_id.and_then(|id| asked.get(&id).copied()).or(row);
        let due = row == asked && row == line.due_at && row.is_some_and(|due| line.at >= due);
        checked.look(due, || format!("due at {asked:?}, row says {row:?}: {}", line.told()));
    }
    checked
}

pub(super) fn amounts_are_equal(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::M4);
    // A void names a key and nothing else.
    for line in records.ledger.iter().filter(|line| line.request == Requested::Charge) {
        let equal = index.payment_of(line).is_some_and(|payment| {
            line.amount == Some(payment.amount)
                && line.currency.as_ref() == Some(&payment.currency)
                && line.payee.as_ref() == Some(&payment.payee)
        });
        checked.look(equal, || format!("not as the payment says: {}", line.told()));
    }
    checked
}

pub(super) fn keys_follow_payment_and_epoch(records: &Records, index: &Index<'_>, rules: &Rules) -> Checked {
    let mut checked = Checked::new(Is::M5);
    for line in records.ledger.iter().filter(|line| line.is_under_key()) {
        let claim = index.claim_of(line);
        let key = claim.map(|claim| match claim.epoch {
            0 => claim.payment.to_string(),
            epoch => format!("{}:{epoch}", claim.payment),
        });
        checked.look(key.is_some() && key == line.key, || format!("{key:?} belongs there: {}", line.told()));
        if let Some(claim) = claim {
            let opened = key_opened_at(index.attempts_of(claim.payment), claim);
            let end = cut_off(opened, rules);
            checked.look(line.at < end, || format!("the key was sendable until {end}: {}", line.told()));
        }
    }
    for (_, attempts) in index.attempts() {
        for pair in attempts.windows(2).filter(|pair| pair[0].epoch != pair[1].epoch) {
            let (before, after) = (pair[0].epoch, pair[1]);
            let proven = attempts.iter().any(|a| {
                a.epoch == before
                    && matches!(a.verdict.as_deref(), Some("declined" | "voided"))
                    && a.settled_at.is_some_and(|at| at <= after.claimed_at)
            });
            checked
                .look(proven && after.epoch == before + 1, || format!("no proof for the epoch of {after:?}"));
        }
    }
    checked
}

/// When the key of this claim's epoch got its age (rule R6): at its first claim, or at the first one after
/// the claim that had opened it proved that nothing was sent.
fn key_opened_at(attempts: &[&AttemptRow], claim: &AttemptRow) -> DateTime<Utc> {
    let mut opened_by: Option<&AttemptRow> = None;
    for attempt in attempts.iter().filter(|it| it.epoch == claim.epoch && it.attempt < claim.attempt) {
        let opener = *opened_by.get_or_insert(attempt);
        let is_opener = opener.attempt == attempt.attempt;
        if is_opener && !attempt.fenced && attempt.verdict.as_deref() == Some("not_sent") {
            opened_by = None;
        }
    }
    opened_by.map_or(claim.claimed_at, |opener| opener.claimed_at)
}

/// The gate lets nothing through later; what it let through arrives within the longest call.
fn cut_off(opened: DateTime<Utc>, rules: &Rules) -> DateTime<Utc> {
    let life = rules.key_ttl.saturating_sub(rules.key_margin) + rules.gateway_total;
    let life = TimeDelta::from_std(life).unwrap_or(TimeDelta::MAX);
    opened.checked_add_signed(life).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

pub(super) fn one_request_per_attempt(records: &Records) -> Checked {
    let mut checked = Checked::new(Is::M6);
    let mut count: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for line in records.ledger.iter().filter(|line| line.request == Requested::Charge) {
        count.entry(line.claim_id).or_default().push(line.seq);
    }
    for (claim, lines) in count {
        let holds = claim.is_some() && lines.len() == 1;
        checked.look(holds, || format!("claim {claim:?}: ledger lines {lines:?}"));
    }
    checked
}

/// FAILED and CANCELLED are the end of all requests, unless the gateway's own record repaired them;
/// PARKED is until somebody who may acts. Excepted are voids, which may come late, with what a tombstone
/// refuses, and the late request of a frozen worker's earlier claim: after FAILED it must not charge, and for
/// its sake what is not proven is PARKED.
pub(super) fn nothing_after_the_end(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::M8);
    for payment in &records.payments {
        let rows = index.history_of(payment.id);
        for (place, told) in rows.iter().enumerate() {
            if !matches!(told.row.event, Event::Moved(_)) {
                continue;
            }
            let left = rows.iter().skip(place + 1).find(|later| is_authorised(later.row.event));
            let until = left.map(|left| left.row.at);
            let during = |line: &&&LedgerLine| {
                line.could_charge() && line.at > told.row.at && until.is_none_or(|until| line.at < until)
            };
            let excused = |line: &&&LedgerLine| index.was_open_at(line, told.row.at);
            let later = index.lines_of(payment.id).iter().filter(during).find(|line| !excused(line));
            let charged = index.charged.contains(&payment.id);
            let holds = match told.row.to {
                Status::Failed | Status::Cancelled => later.is_none() && (!charged || until.is_some()),
                Status::Parked => later.is_none(),
                Status::Pending
                | Status::Processing
                | Status::Unknown
                | Status::Completed
                | Status::Refunded => continue,
            };
            checked.look(holds, || {
                let later = later.map(|line| line.told());
                format!("{} is {:?}; charged {charged}, later {later:?}", payment.id, told.row.to)
            });
        }
    }
    checked
}

/// Moves that lead out of an end, or of what is held for a human.
fn is_authorised(event: Event) -> bool {
    match event {
        Event::Moved(cause) => match cause {
            Cause::Repaired | Cause::Redriven | Cause::Resolved | Cause::Reconciled | Cause::Refunded => true,
            Cause::Created
            | Cause::Claimed
            | Cause::Cancelled
            | Cause::DeadlinePassed
            | Cause::Settled
            | Cause::LeaseExpired
            | Cause::Poisoned => false,
        },
        Event::Fenced | Event::CancelWished | Event::Noted => false,
    }
}

pub(super) fn sums_are_equal(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::M9);
    let mut sums: BTreeMap<&str, (i128, i128)> = BTreeMap::new();
    let at_rest = |line: &&LedgerLine| line.payment_id.is_none_or(|id| !index.is_in_motion(id));
    for line in records.ledger.iter().filter(|line| line.charged).filter(at_rest) {
        let currency = line.currency.as_deref().unwrap_or("?");
        sums.entry(currency).or_default().0 += i128::from(line.amount.unwrap_or(0));
    }
    for payment in records.payments.iter().filter(|payment| !index.is_in_motion(payment.id)) {
        let listed = index.charged.contains(&payment.id)
            && (matches!(payment.status, Status::Unknown | Status::Processing | Status::Parked)
                || reconciled::is_listed(records, payment));
        if matches!(payment.status, Status::Completed | Status::Refunded) || listed {
            sums.entry(&payment.currency).or_default().1 += i128::from(payment.amount);
        }
    }
    for (currency, (theirs, ours)) in sums {
        checked.look(theirs == ours, || format!("{currency}: the gateway charged {theirs}, we say {ours}"));
    }
    checked
}

/// Claims after the wish have a higher fence than the row had at the wish.
pub(super) fn nothing_is_charged_after_a_wish(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::M11);
    for payment in &records.payments {
        let mut rows = index.history_of(payment.id).iter();
        let Some(wish) = rows.find(|told| told.row.event == Event::CancelWished) else { continue };
        let after = |line: &&&LedgerLine| {
            let is_later = line.fence.is_some_and(|fence| fence > wish.row.fence.0);
            is_later && line.request == Requested::Charge
        };
        let line = index.lines_of(payment.id).iter().find(after);
        checked.look(line.is_none(), || format!("{}: {:?}", payment.id, line.map(|line| line.told())));
    }
    if checked.looked_at == 0 {
        Checked::unknown(Is::M11, "nobody's wish to cancel is on record")
    } else {
        checked
    }
}

pub(super) fn completed_means_charged(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H6);
    for payment in records.payments.iter().filter(|payment| !index.is_in_motion(payment.id)) {
        let charged = index.charged.contains(&payment.id);
        let holds = match payment.status {
            Status::Completed | Status::Refunded => charged,
            Status::Pending | Status::Failed | Status::Cancelled => !charged,
            Status::Parked => !charged || undecided(payment),
            // The question is open, and asked.
            Status::Processing | Status::Unknown => true,
        };
        checked.look(holds, || format!("{} is {:?}, charged: {charged}", payment.id, payment.status));
    }
    checked
}

/// Parked because nobody but the gateway's people can say whether it was charged.
fn undecided(payment: &PaymentRow) -> bool {
    const UNDECIDED: [Reason; 7] = [
        Reason::ContractViolation,
        Reason::OutcomeUnknown,
        Reason::KeyExpiredUndecided,
        Reason::UnknownTooLong,
        Reason::UnprovenDecline,
        Reason::AccountChanged,
        Reason::ChargeFound,
    ];
    let reason = payment.reason.as_deref().and_then(Reason::from_text);
    reason.is_some_and(|reason| UNDECIDED.contains(&reason))
}

//! The promises, asked of what was written down: pure functions from records to findings.
//!
//! Each check says how many things it looked at: a check that looked at nothing has proven nothing,
//! and whoever prints it must say UNKNOWN. The gateway key is computed here anew, so that a fault in
//! the product's own function is found. One clock (this machine's) stamps both ledger and database.

use super::records::{AttemptRow, LedgerLine, PaymentRow, Records, Told};
use punctual::domain::history;
use punctual::domain::ids::PaymentId;
use punctual::domain::invariants::Invariant as Is;
use punctual::domain::reason::Reason;
use punctual::domain::state::Status;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// What one check found.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The promise.
    pub invariant: Is,
    /// How many things it looked at.
    pub looked_at: usize,
    /// What broke it, for people.
    pub broken: Vec<String>,
}

impl Checked {
    fn new(invariant: Is) -> Self {
        Self { invariant, looked_at: 0, broken: Vec::new() }
    }

    /// Looks at one thing.
    fn look(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        self.looked_at += 1;
        if !holds {
            self.broken.push(otherwise());
        }
    }
}

/// All checks, in the order of the table of promises.
pub fn check(records: &Records) -> Vec<Checked> {
    let index = Index::of(records);
    vec![
        charged_at_most_once(records),
        each_request_has_an_earlier_claim(records, &index),
        nothing_early(records, &index),
        amounts_are_equal(records, &index),
        keys_follow_payment_and_epoch(records, &index),
        one_request_per_attempt(records),
        granted_cancels_hold(records, &index),
        nothing_after_the_end(records, &index),
        sums_are_equal(records, &index),
        history_is_legal_and_whole(records, &index),
        chains_verify(records, &index),
        fences_grow(records, &index),
        each_stale_settle_is_told(records, &index),
        completed_means_charged(records, &index),
        status_is_the_last_row(records, &index),
        events_tell_everything(records, &index),
        settled_or_waiting(records),
        acknowledged_creates_exist(records, &index),
        parked_have_a_reason(records),
    ]
}

struct Index<'a> {
    payments: BTreeMap<PaymentId, &'a PaymentRow>,
    claims: BTreeMap<Uuid, &'a AttemptRow>,
    attempts: BTreeMap<PaymentId, Vec<&'a AttemptRow>>,
    history: BTreeMap<PaymentId, Vec<&'a Told>>,
    charged: BTreeSet<PaymentId>,
}

impl<'a> Index<'a> {
    fn of(records: &'a Records) -> Self {
        let mut attempts: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for attempt in &records.attempts {
            attempts.entry(attempt.payment).or_default().push(attempt);
        }
        let mut history: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for told in &records.history {
            history.entry(told.row.payment).or_default().push(told);
        }
        Self {
            payments: records.payments.iter().map(|payment| (payment.id, payment)).collect(),
            claims: records.attempts.iter().map(|attempt| (attempt.claim_id, attempt)).collect(),
            attempts,
            history,
            charged: charges(records).filter_map(|line| line.payment_id).collect(),
        }
    }

    fn payment_of(&self, line: &LedgerLine) -> Option<&'a PaymentRow> {
        self.payments.get(&line.payment_id?).copied()
    }

    fn claim_of(&self, line: &LedgerLine) -> Option<&'a AttemptRow> {
        self.claims.get(&line.claim_id?).copied()
    }
}

fn charges(records: &Records) -> impl Iterator<Item = &LedgerLine> {
    records.ledger.iter().filter(|line| line.charged)
}

fn charged_at_most_once(records: &Records) -> Checked {
    let mut checked = Checked::new(Is::M1);
    let mut count: BTreeMap<_, u32> = BTreeMap::new();
    for line in charges(records) {
        *count.entry(line.payment_id).or_default() += 1;
    }
    for (payment, charges) in count {
        checked.look(payment.is_some() && charges == 1, || format!("{payment:?}: charged {charges} times"));
    }
    checked
}

fn each_request_has_an_earlier_claim(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::M2);
    for line in &records.ledger {
        let claim = index.claim_of(line).filter(|claim| {
            Some(claim.payment) == line.payment_id
                && Some(claim.fence) == line.fence
                && claim.claimed_at <= line.at
        });
        checked.look(claim.is_some(), || format!("no earlier claim for {line:?}"));
    }
    checked
}

/// By the client's own due instant where it is known, else by the row's; the ledger's copy is our word.
fn nothing_early(records: &Records, index: &Index<'_>) -> Checked {
    let asked: BTreeMap<_, _> = records.acknowledged.iter().map(|ack| (ack.id, ack.due_at)).collect();
    let mut checked = Checked::new(Is::M3);
    for line in &records.ledger {
        let row = index.payment_of(line).map(|payment| payment.due_at);
        let asked = line.payment_id.and_then(|id| asked.get(&id).copied()).or(row);
        let due =
            row.is_some() && row == asked && row == line.due_at && row.is_some_and(|due| line.at >= due);
        checked.look(due, || format!("due at {asked:?}, row says {row:?}: {line:?}"));
    }
    checked
}

fn amounts_are_equal(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::M4);
    for line in &records.ledger {
        let equal = index.payment_of(line).is_some_and(|payment| {
            line.amount == Some(payment.amount)
                && line.currency.as_ref() == Some(&payment.currency)
                && line.payee.as_ref() == Some(&payment.payee)
        });
        checked.look(equal, || format!("not as the payment says: {line:?}"));
    }
    checked
}

fn keys_follow_payment_and_epoch(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::M5);
    for line in &records.ledger {
        let key = index.claim_of(line).map(|claim| match claim.epoch {
            0 => claim.payment.to_string(),
            epoch => format!("{}:{epoch}", claim.payment),
        });
        checked.look(key.is_some() && key == line.key, || format!("{key:?} belongs there: {line:?}"));
    }
    for attempts in index.attempts.values() {
        for pair in attempts.windows(2).filter(|pair| pair[0].epoch != pair[1].epoch) {
            let (before, after) = (pair[0].epoch, pair[1]);
            let proven = attempts.iter().any(|a| {
                a.epoch == before
                    && a.verdict.as_deref() == Some("declined")
                    && a.settled_at.is_some_and(|at| at <= after.claimed_at)
            });
            checked
                .look(proven && after.epoch == before + 1, || format!("no proof for the epoch of {after:?}"));
        }
    }
    checked
}

fn one_request_per_attempt(records: &Records) -> Checked {
    let mut checked = Checked::new(Is::M6);
    let mut count: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for line in &records.ledger {
        count.entry(line.claim_id).or_default().push(line.seq);
    }
    for (claim, lines) in count {
        checked
            .look(claim.is_some() && lines.len() == 1, || format!("claim {claim:?}: ledger lines {lines:?}"));
    }
    checked
}

/// 200 means that it never was and never is charged; 409 means that it was too late, and so it is not
/// CANCELLED. An answer that was lost says neither, and what follows of the row is for the others.
fn granted_cancels_hold(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::M7);
    for cancel in &records.cancelled {
        let status = index.payments.get(&cancel.id).map(|payment| payment.status);
        let asked = records.ledger.iter().filter(|line| line.payment_id == Some(cancel.id)).count();
        let holds = match cancel.status {
            Some(200) => status == Some(Status::Cancelled) && asked == 0,
            Some(409) => status.is_some_and(|status| status != Status::Cancelled),
            Some(_) => false,
            None => true,
        };
        checked.look(holds, || format!("{cancel:?}: {status:?}, {asked} requests"));
    }
    checked
}

fn nothing_after_the_end(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::M8);
    for told in &records.history {
        if matches!(told.row.to, Status::Failed | Status::Cancelled) && told.row.from != Some(told.row.to) {
            let id = told.row.payment;
            let later = records.ledger.iter().find(|l| l.payment_id == Some(id) && l.at > told.row.at);
            checked.look(!index.charged.contains(&id) && later.is_none(), || {
                format!("{id} is {:?}; charged {}, later {later:?}", told.row.to, index.charged.contains(&id))
            });
        }
    }
    checked
}

fn sums_are_equal(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::M9);
    let mut sums: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for line in charges(records) {
        sums.entry(line.currency.as_deref().unwrap_or("?")).or_default().0 += line.amount.unwrap_or(0);
    }
    for payment in &records.payments {
        let listed = matches!(payment.status, Status::Unknown | Status::Processing | Status::Parked)
            && index.charged.contains(&payment.id);
        if payment.status == Status::Completed || listed {
            sums.entry(&payment.currency).or_default().1 += payment.amount;
        }
    }
    for (currency, (theirs, ours)) in sums {
        checked.look(theirs == ours, || format!("{currency}: the gateway charged {theirs}, we say {ours}"));
    }
    checked
}

/// Moves, numbers and ends, whatever the hashes say: they are computed anew.
fn history_is_legal_and_whole(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H1);
    for payment in &records.payments {
        let rows = index.history.get(&payment.id).map_or(&[][..], Vec::as_slice);
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
fn chains_verify(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H2);
    for payment in &records.payments {
        let rows = index.history.get(&payment.id).map_or(&[][..], Vec::as_slice);
        let sealed = rows.iter().map(|told| (&told.row, told.hash.clone().try_into().unwrap_or([0; 32])));
        let last = history::verify(sealed);
        let verifies = last.is_ok_and(|last| last.as_slice() == payment.history_hash);
        checked.look(verifies, || format!("{}: {last:?}", payment.id));
    }
    checked
}

fn fences_grow(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H3);
    checked.look(index.claims.len() == records.attempts.len(), || "a claim id was used twice".to_owned());
    for (payment, attempts) in &index.attempts {
        let fences: Vec<i64> = attempts.iter().map(|attempt| attempt.fence).collect();
        let grows = fences.windows(2).all(|pair| pair[0] < pair[1]);
        let numbered = attempts.iter().zip(1..).all(|(attempt, number)| attempt.attempt == number);
        let last = index.payments.get(payment).map(|payment| payment.fence);
        let holds = grows && numbered && last == fences.last().copied();
        checked.look(holds, || format!("{payment}: fences {fences:?}, the row's {last:?}"));
    }
    checked
}

fn each_stale_settle_is_told(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H4);
    for payment in &records.payments {
        let attempts = index.attempts.get(&payment.id).map_or(&[][..], Vec::as_slice);
        let rows = index.history.get(&payment.id).map_or(&[][..], Vec::as_slice);
        let fenced = attempts.iter().filter(|attempt| attempt.fenced).count();
        let told = rows.iter().filter(|told| told.row.event == history::Event::Fenced).count();
        let moved = attempts.iter().any(|attempt| attempt.fenced && attempt.settled_to.is_some());
        checked.look(fenced == told && !moved, || {
            format!("{}: {fenced} fenced, {told} told, one of them moved it: {moved}", payment.id)
        });
    }
    checked
}

fn completed_means_charged(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H6);
    for payment in &records.payments {
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
    const UNDECIDED: [Reason; 5] = [
        Reason::ContractViolation,
        Reason::KeyExpiredUndecided,
        Reason::UnknownTooLong,
        Reason::UnprovenDecline,
        Reason::AccountChanged,
    ];
    let reason = payment.reason.as_deref().and_then(Reason::from_text);
    reason.is_some_and(|reason| UNDECIDED.contains(&reason))
}

fn status_is_the_last_row(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::H7);
    for payment in &records.payments {
        let last = index.history.get(&payment.id).and_then(|rows| rows.last()).map(|told| told.row.to);
        checked.look(last == Some(payment.status), || {
            format!("{} is {:?}, history ends in {last:?}", payment.id, payment.status)
        });
    }
    checked
}

/// What a consumer sees of one payment: 1, 2, 3, … to its last row, once repetitions are left out.
fn events_tell_everything(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::K4);
    let mut seen: BTreeMap<PaymentId, Vec<i64>> = BTreeMap::new();
    for (payment, sequence) in &records.events {
        let sequences = seen.entry(*payment).or_default();
        if !sequences.contains(sequence) {
            sequences.push(*sequence);
        }
    }
    if records.events.is_empty() {
        return checked;
    }
    for payment in index.payments.values() {
        let sequences = seen.get(&payment.id).map_or(&[][..], Vec::as_slice);
        let whole = sequences.iter().copied().eq(1..=i64::from(payment.history_seq));
        checked.look(whole, || format!("{}: events {sequences:?}, {} rows", payment.id, payment.history_seq));
    }
    checked
}

/// Final, parked, or claimable at an instant of its ladder that a claim may be under way for; never
/// still held by a claim. Those that wait are counted by the caller, who knows for how long is right.
fn settled_or_waiting(records: &Records) -> Checked {
    let mut checked = Checked::new(Is::L1);
    for payment in &records.payments {
        let holds = payment.status != Status::Processing;
        checked.look(holds, || format!("{} is still {:?}", payment.id, payment.status));
    }
    checked
}

fn acknowledged_creates_exist(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::L2);
    for ack in &records.acknowledged {
        let row = index.payments.get(&ack.id);
        let same = row.is_some_and(|row| {
            row.amount == ack.amount
                && row.currency == ack.currency
                && row.payee == ack.payee
                && row.due_at == ack.due_at
        });
        checked.look(same, || format!("acknowledged {ack:?}, stored {row:?}"));
    }
    checked
}

fn parked_have_a_reason(records: &Records) -> Checked {
    let mut checked = Checked::new(Is::L7);
    for payment in &records.payments {
        let listed = payment.parked.as_deref().is_some_and(|reason| !reason.is_empty());
        let holds = payment.status != Status::Parked || listed && payment.reason == payment.parked;
        checked.look(holds, || format!("{} is parked, list says {:?}", payment.id, payment.parked));
    }
    checked
}

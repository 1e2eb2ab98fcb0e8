//! Every promise that a run of one world can break, asked of what is left of it: the gateway's ledger,
//! the rows with their attempts and histories, and what clients were told. One function, by the numbers
//! of `domain::invariants`.
//!
//! Keys and bodies are made anew here, from the row alone, so that a fault in the product's own
//! functions is found. What is broken while the run goes on (K1, K2, K3, and whatever the schedule in
//! memory panics about) is told by the trace.

use super::account::body_of;
use super::clients::Told;
use super::dials::Dials;
use super::gateway::LedgerLine;
use crate::domain::history::{Event, HistoryRow};
use crate::domain::ids::PaymentId;
use crate::domain::invariants::{Invariant as Is, row_faults};
use crate::domain::payment::Payment;
use crate::domain::state::{Cause, Status};
use crate::domain::verdict::{DeclineClass, NotSent, Verdict};
use crate::schedule::{AttemptRow, Memory};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;

/// A promise that a run broke.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Which.
    pub invariant: Is,
    /// Whose; `None` of the world.
    pub payment: Option<PaymentId>,
    /// For people.
    pub what: String,
}

/// One payment with everything that is known of it.
struct Case<'a> {
    row: Payment,
    history: Vec<HistoryRow>,
    attempts: Vec<AttemptRow>,
    lines: Vec<&'a LedgerLine>,
    told: Option<&'a Told>,
    dials: &'a Dials,
    found: Vec<Violation>,
}

/// Checks a run that has ended: every process is gone and every request has arrived.
pub(super) fn check(
    memory: &Memory,
    ledger: &[LedgerLine],
    told: &BTreeMap<PaymentId, Told>,
    dials: &Dials,
) -> Vec<Violation> {
    let mut lines: BTreeMap<PaymentId, Vec<&LedgerLine>> = BTreeMap::new();
    ledger.iter().for_each(|line| lines.entry(line.payment).or_default().push(line));
    let faults = memory.history_faults().into_iter();
    let mut found: Vec<_> = faults.map(|(id, what)| violation(Is::H2, Some(id), what)).collect();
    let (mut theirs, mut ours) = (0_i128, 0_i128);
    for row in memory.payments() {
        let id = row.id;
        let lines = lines.remove(&id).unwrap_or_default();
        let amount = i128::from(row.amount.minor.get());
        let charges = lines.iter().filter(|line| line.moved_at.is_some()).count();
        theirs += amount * charges as i128;
        let is_open = matches!(row.status, Status::Unknown | Status::Processing | Status::Parked);
        if row.status == Status::Completed || (is_open && charges > 0) {
            ours += amount;
        }
        let mut case = Case {
            history: memory.history(id),
            attempts: memory.attempts(id),
            told: told.get(&id),
            row,
            lines,
            dials,
            found: Vec::new(),
        };
        case.money();
        case.requests();
        case.state();
        case.retries();
        found.append(&mut case.found);
    }
    for (id, told) in told {
        if told.acknowledged && memory.payment(*id).is_none() {
            found.push(violation(Is::L2, Some(*id), "acknowledged and not there"));
        }
    }
    for (id, lines) in lines {
        found.push(violation(Is::M2, Some(id), format!("{} requests of no payment", lines.len())));
    }
    if theirs != ours {
        found.push(violation(Is::M9, None, format!("the gateway charged {theirs}, we say {ours}")));
    }
    found
}

/// What must hold some time after the last fault (L1, L5, L7).
pub(super) fn check_end(memory: &Memory, now: DateTime<Utc>) -> Vec<Violation> {
    let mut found = Vec::new();
    for row in memory.payments() {
        let is_over = row.status.is_final() || row.status == Status::Parked;
        if !is_over && row.due_at <= now {
            let what = format!("{:?}, next at {}", row.status, row.next_attempt_at);
            found.push(violation(Is::L1, Some(row.id), what));
        }
        if row.status == Status::Parked && row.reason.is_none() {
            found.push(violation(Is::L7, Some(row.id), "parked without a reason"));
        }
    }
    found
}

fn violation(invariant: Is, payment: Option<PaymentId>, what: impl Into<String>) -> Violation {
    Violation { invariant, payment, what: what.into() }
}

impl Case<'_> {
    fn must(&mut self, holds: bool, invariant: Is, what: impl FnOnce() -> String) {
        if !holds {
            self.found.push(violation(invariant, Some(self.row.id), what()));
        }
    }

    /// What the gateway's ledger says of its money: M1, M7, M8, H6.
    fn money(&mut self) {
        let moved: Vec<_> = self.lines.iter().filter_map(|line| line.moved_at).collect();
        let (status, charges) = (self.row.status, moved.len());
        self.must(charges <= 1, Is::M1, || format!("charged {charges} times"));
        let granted = self.told.is_some_and(|told| told.cancelled);
        self.must(!granted || charges == 0, Is::M7, || "cancelled, and charged".to_owned());
        self.must(!granted || status == Status::Cancelled, Is::M7, || format!("cancelled, and {status:?}"));
        let holds = match status {
            Status::Completed | Status::Refunded => charges == 1,
            Status::Failed | Status::Cancelled => charges == 0,
            // Clean, by promise.
            Status::Pending => charges == 0,
            // The question is open, or a person's.
            Status::Processing | Status::Unknown | Status::Parked => true,
        };
        let invariant = if matches!(status, Status::Failed | Status::Cancelled) { Is::M8 } else { Is::H6 };
        self.must(holds, invariant, || format!("{status:?}, charged {charges} times"));
    }

    /// Each request of the ledger: M2 to M6.
    fn requests(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let mut of_claim: BTreeMap<_, u32> = BTreeMap::new();
        for line in &lines {
            *of_claim.entry(line.claim).or_default() += 1;
            let attempt = self.attempts.iter().find(|attempt| attempt.claim_id == line.claim).cloned();
            let claimed = attempt.as_ref();
            let holds = claimed.is_some_and(|it| it.fence == line.fence && it.claimed_at <= line.at);
            self.must(holds, Is::M2, || format!("no earlier claim for {line:?}"));
            let wish = self.row.cancel_wish_at;
            let before = claimed.zip(wish).is_none_or(|(claim, wish)| claim.claimed_at <= wish);
            self.must(before, Is::M11, || format!("wished at {wish:?}, then claimed and sent: {line:?}"));
            let due = self.row.due_at;
            self.must(line.at >= due, Is::M3, || format!("at {}, due at {due}", line.at));
            let body = body_of(&self.row, &payee_of(self.row.id));
            let same = line.amount == self.row.amount && line.body == body;
            self.must(same, Is::M4, || format!("{:?} is not {body:?}", line.body));
            let key = claimed.map(|it| match it.epoch.0 {
                0 => self.row.id.to_string(),
                epoch => format!("{}:{epoch}", self.row.id),
            });
            self.must(key.as_ref() == Some(&line.key), Is::M5, || format!("{key:?} belongs to {line:?}"));
            let life = TimeDelta::from_std(self.dials.truth.key_ttl).unwrap_or(TimeDelta::MAX);
            // Nothing is sent under a key that the gateway may have forgotten since its first send.
            let first_line = lines.iter().filter(|other| other.key == line.key).map(|other| other.at).min();
            let in_time = first_line.is_none_or(|first| line.at - first < life);
            self.must(in_time, Is::M5, || format!("past the key's life: {line:?}, first {first_line:?}"));
            let cut_off = TimeDelta::from_std(self.dials.profile.key_ttl - self.dials.profile.key_margin);
            // A claim that sent nothing may have given the key's age back.
            let sent = claimed.and_then(|it| {
                self.attempts.iter().find(|other| other.epoch == it.epoch && !was_not_sent(other))
            });
            let opened = sent.map(|it| it.claimed_at + cut_off.unwrap_or(TimeDelta::MAX));
            let in_time = opened.is_some_and(|until| line.left_at < until);
            self.must(in_time, Is::M5, || format!("left past the key's cut-off {opened:?}: {line:?}"));
        }
        for (claim, count) in of_claim {
            self.must(count == 1, Is::M6, || format!("{count} requests under {claim:?}"));
        }
        self.epochs();
        self.lines = lines;
    }

    /// A new epoch follows only a definitive non-charge (M5).
    fn epochs(&mut self) {
        let attempts = self.attempts.clone();
        for pair in attempts.windows(2).filter(|pair| pair[0].epoch != pair[1].epoch) {
            let before = pair[0].epoch;
            let proven = attempts.iter().any(|it| {
                it.epoch == before
                    && it.answer.as_ref().is_some_and(|answer| answer.decline().is_some())
                    && it.entered.is_some()
            });
            let next = pair[1].epoch.0 == before.0 + 1;
            self.must(proven && next, Is::M5, || format!("no proof for the epoch of {:?}", pair[1]));
        }
    }

    /// Rows and histories: H1 to H5, H7.
    fn state(&mut self) {
        let faults = row_faults(&self.row);
        self.must(faults.is_empty(), Is::H1, || format!("{faults:?}"));
        let seqs = (1..).zip(&self.history).all(|(seq, row)| row.seq == seq);
        let rows = self.history.len();
        let whole = rows as i64 == i64::from(self.row.history_seq);
        self.must(seqs && whole, Is::H1, || format!("{rows} rows"));
        let last = self.history.last().map(|row| row.to);
        let status = self.row.status;
        self.must(last == Some(status), Is::H7, || format!("{status:?}, history ends in {last:?}"));
        let fences: Vec<_> = self.attempts.iter().map(|attempt| attempt.fence.0).collect();
        let grows = fences.windows(2).all(|pair| pair[0] < pair[1]);
        self.must(grows, Is::H3, || format!("fences {fences:?}"));
        let fenced = self.attempts.iter().filter(|attempt| attempt.fenced).count();
        let told = self.history.iter().filter(|row| row.event == Event::Fenced).count();
        let moved = self.attempts.iter().any(|attempt| attempt.fenced && attempt.entered.is_some());
        self.must(fenced == told && !moved, Is::H4, || format!("{fenced} fenced, {told} told"));
        let stale = self.attempts.windows(2).find(|pair| {
            pair[0].entered.is_some() && pair[0].settled_at.is_some_and(|at| at > pair[1].claimed_at)
        });
        let stale = stale.map(|pair| (pair[0].attempt, pair[1].attempt));
        self.must(stale.is_none(), Is::H4, || format!("written after the next one was claimed: {stale:?}"));
        let ended = self.history.iter().position(|row| row.to.is_final());
        let after = ended.map_or(&[][..], |at| &self.history[at + 1..]);
        let stays = after.iter().all(|row| row.event == Event::Fenced);
        self.must(stays, Is::H5, || "it moved after its end".to_owned());
    }

    /// Budget and spacing, and nothing after a hard decline: H8, H9.
    fn retries(&mut self) {
        let (sends, most) = (self.row.sends, self.row.retry.max_sends);
        self.must(sends <= most, Is::H8, || format!("{sends} sends of {most}"));
        let ladder = self.dials.ladders.retry.clone();
        let mut declines = 0_usize;
        let attempts = self.attempts.clone();
        for (at, attempt) in attempts.iter().enumerate() {
            let Some(decline) = attempt.answer.as_ref().and_then(|answer| answer.decline()) else { continue };
            if attempt.entered.is_none() {
                continue;
            }
            if let Some(next) = attempts.get(at + 1) {
                let rung = ladder[declines.min(ladder.len() - 1)];
                let waited = next.claimed_at - attempt.claimed_at;
                let rung = TimeDelta::from_std(rung).unwrap_or(TimeDelta::MAX);
                // A wish that came meanwhile is honoured at once, and sends nothing.
                let meanwhile = attempt.claimed_at..=next.claimed_at;
                let wished = self.row.cancel_wish_at.is_some_and(|at| meanwhile.contains(&at));
                self.must(wished || waited >= rung, Is::H8, || {
                    format!("{next:?} came {waited} after {attempt:?}")
                });
                let hard = decline.class == DeclineClass::Hard;
                self.must(!hard, Is::H9, || format!("claimed again after {attempt:?}"));
            }
            declines += 1;
        }
        let killed = |verdict: &Verdict| matches!(verdict, Verdict::NotSent { why: NotSent::Killed, .. });
        let any = attempts.iter().any(|it| it.answer.as_ref().is_some_and(|answer| killed(&answer.verdict)));
        self.must(!any, Is::H8, || "stopped by a switch that nobody threw".to_owned());
        let claims = self.history.iter().filter(|row| row.event == Event::Moved(Cause::Claimed)).count();
        self.must(claims == attempts.len(), Is::H3, || {
            format!("{claims} claims, {} attempts", attempts.len())
        });
    }
}

fn was_not_sent(attempt: &AttemptRow) -> bool {
    attempt.answer.as_ref().is_some_and(|answer| matches!(answer.verdict, Verdict::NotSent { .. }))
}

/// Each payment's own, so that a mixed-up request is seen.
pub(super) fn payee_of(id: PaymentId) -> String {
    format!("acct_{:x}", id.as_uuid().as_u128() & 0xffff_ffff_ffff)
}

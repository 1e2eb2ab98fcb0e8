//! Situations that a run met: a promise that no fault put to the test is not shown by its line alone.

use super::index::Index;
use super::records::{Given, Op, Records};
use super::state::is_hard;
use crate::domain::history::Event;
use crate::domain::state::{Cause, Status};
use chrono::TimeDelta;
use std::collections::{BTreeMap, BTreeSet};

/// One kind of situation.
#[derive(Debug, Clone, Copy)]
pub struct Situation {
    /// Its name, as `--require` takes it.
    pub name: &'static str,
    /// What is counted.
    pub meaning: &'static str,
    seen_with: fn(Given) -> bool,
    count: fn(&Records, &Index<'_>) -> usize,
}

macro_rules! situations {
    ($( $name:ident : $input:ident, $meaning:literal, $count:expr; )*) => {
        /// Every kind of situation, in the order in which it is told.
        pub static SITUATIONS: &[Situation] = &[ $( Situation {
            name: stringify!($name),
            meaning: $meaning,
            seen_with: |given| given.$input,
            count: $count,
        } ),* ];
    };
}

fn events(records: &Records, event: Event) -> usize {
    records.history.iter().filter(|told| told.row.event == event).count()
}

fn later_than(index: &Index<'_>, bound: TimeDelta) -> usize {
    let late = |(id, attempts): &(_, &[_])| {
        let claimed: Option<&&crate::schedule::audit::AttemptRow> = attempts.first();
        let planned = index.payments.get(id).map(|payment| payment.first_attempt_at());
        claimed.zip(planned).is_some_and(|(claim, planned)| claim.claimed_at - planned > bound)
    };
    index.attempts().filter(late).count()
}

/// Creates without an answer whose payment is there although nobody was told: the COMMIT got through.
fn lost_commits(records: &Records) -> usize {
    let mut unanswered: BTreeSet<&str> = BTreeSet::new();
    let kept: BTreeSet<&str> = records.keys.iter().map(|row| row.key.as_str()).collect();
    for create in records.operations.iter().filter(|it| it.op == Op::Create && it.is_unknown()) {
        unanswered.extend(create.key.as_deref());
    }
    unanswered.intersection(&kept).count()
}

/// How many there are beyond the first of each.
fn repeated<T: Ord>(all: impl Iterator<Item = T>) -> usize {
    let mut count = 0;
    let mut seen = BTreeSet::new();
    for one in all {
        count += usize::from(!seen.insert(one));
    }
    count
}

fn answered(records: &Records, op: Op, status: u16) -> usize {
    records.operations.iter().filter(|it| it.op == op && it.status == Some(status)).count()
}

situations! {
    requests: ledger, "requests in the gateway's ledger", |r, _| r.ledger.len();
    charges: ledger, "requests that moved money", |r, _| r.ledger.iter().filter(|line| line.charged).count();
    payments: database, "payments looked at", |r, _| r.payments.len();
    claims: database, "claims", |r, _| r.attempts.len();
    claims_later_than_1s: database, "first claims more than 1 s after due", |_, i| later_than(i, TimeDelta::seconds(1));
    claims_later_than_15s: database, "first claims more than 15 s after due", |_, i| later_than(i, TimeDelta::seconds(15));
    claims_later_than_60s: database, "first claims more than 60 s after due", |_, i| later_than(i, TimeDelta::seconds(60));
    fenced_settles: database, "answers that came after their claim had ended", |r, _| events(r, Event::Fenced);
    lease_expiries: database, "claims whose worker wrote no outcome", |r, _| events(r, Event::Moved(Cause::LeaseExpired));
    unknown_outcomes: database, "calls without a trustworthy answer",
        |r, _| r.attempts.iter().filter(|a| a.settled_to.as_deref() == Some(Status::Unknown.as_str())).count();
    re_asks: database, "claims of payments whose outcome was unknown",
        |r, _| r.attempts.iter().filter(|a| a.was == Status::Unknown).count();
    look_ups: database, "outcomes found by asking", |r, _| r.attempts.iter().filter(|a| a.how.as_deref() == Some("looked_up")).count();
    voids: database, "keys voided, or found decided by a void", |r, _| r.attempts.iter().filter(|a| a.how.as_deref() == Some("void")).count();
    epoch_bumps: database, "claims under a later epoch's key", |r, _| r.attempts.iter().filter(|a| a.epoch > 0).count();
    hard_declines: database, "refusals for good", |r, _| r.attempts.iter().filter(|a| is_hard(a)).count();
    parkings: database, "payments held for a human", |r, _| r.history.iter().filter(|t| t.row.to == Status::Parked).count();
    deadlines_passed: database, "payments failed by executeBefore", |r, _| events(r, Event::Moved(Cause::DeadlinePassed));
    repairs: database, "final states repaired", |r, _| events(r, Event::Moved(Cause::Repaired));
    creates: operations, "creates that were acknowledged", |r, _| answered(r, Op::Create, 201);
    creates_repeated: operations, "creates acknowledged again under their key",
        |r, _| repeated(r.operations.iter().filter(|it| it.op == Op::Create && it.granted()).map(|it| (&it.actor, &it.key)));
    unanswered: operations, "operations whose outcome the client does not know", |r, _| r.operations.iter().filter(|it| it.is_unknown()).count();
    lost_commits: operations, "creates that were made and not answered", |r, _| lost_commits(r);
    cancels_granted: operations, "cancels answered 200", |r, _| answered(r, Op::Cancel, 200);
    cancels_wished: operations, "cancels answered 202", |r, _| answered(r, Op::Cancel, 202);
    cancels_refused: operations, "cancels answered 409", |r, _| answered(r, Op::Cancel, 409);
    reads: operations, "reads answered 200", |r, _| answered(r, Op::Read, 200);
    notices: topics, "notices in the ring", |r, _| r.topics.notices.len();
    notices_repeated: topics, "notices there more than once", |r, _| repeated(r.topics.notices.iter().map(|n| (n.payment, n.attempt)));
    notices_unreadable: topics, "records of the ring that cannot be read", |r, _| r.topics.unreadable.len();
    events: topics, "events", |r, _| r.topics.events.len();
    events_repeated: topics, "events there more than once", |r, _| repeated(r.topics.events.iter().map(|e| (e.payment, e.sequence)));
}

/// How often each situation was met; `None` where its input was not given.
#[derive(Debug, Clone, Default)]
pub struct Coverage(BTreeMap<&'static str, Option<usize>>);

impl Coverage {
    /// Counts one window's.
    #[must_use]
    pub fn of(records: &Records) -> Self {
        let index = Index::of(records);
        let one = |situation: &Situation| {
            let seen = (situation.seen_with)(records.given);
            (situation.name, seen.then(|| (situation.count)(records, &index)))
        };
        Self(SITUATIONS.iter().map(one).collect())
    }

    /// Adds another window's.
    pub fn add(&mut self, other: Self) {
        for (name, count) in other.0 {
            let sum = self.0.entry(name).or_default();
            *sum = match (*sum, count) {
                (Some(before), Some(more)) => Some(before + more),
                (one, other) => one.or(other),
            };
        }
    }

    /// How often this one was met; `None`: not to be seen with these inputs.
    #[must_use]
    pub fn met(&self, name: &str) -> Option<usize> {
        self.0.get(name).copied().flatten()
    }
}

//! Where a record goes when a step is done with it: to its offset with a proof, or back to the hold.
//!
//! **Promises.** There is no third way, and no way without a proof to the first. **Relies on** the
//! channel's other end being the loop that fed the step; if that is gone, the process is going, no
//! offset was completed, and Kafka brings the record again.

use super::place::Record;
use super::seat::Seat;
use super::step::Step;
use super::tally::Tally;
use crate::bucket::Proof;
use crate::domain::ids::GatewayName;
use crate::domain::invariants::Invariant;
use crate::platform::failpoints::{Point, reach};
use crate::platform::violation;
use crate::schedule::{
    ClaimAnswer, ClaimTerms, Claimed, Early, Refused, RefusedBecause, Schedule, Settled, SettledAs,
};
use chrono::{DateTime, TimeDelta, Utc};

/// The shortest wait before a record is presented again, so that clocks which differ by less than
/// the tolerance cannot make a busy loop.
const SHORTEST_WAIT_MS: i64 = 20;
/// The wait after a verb that failed: the database needs it more than the record does.
const AFTER_FAILURE_MS: i64 = 500;
/// The wait under quarantine, which a person ends (rule R17).
const QUARANTINED_MS: i64 = 5_000;
/// How long after its instant the notice of a payment that is switched off is held (rule R11).
const SWITCHED_OFF_MS: i64 = 60_000;

impl<S: Schedule> Step<S> {
    /// Durably refused: nothing is left to do for this notice. One that the database cannot explain
    /// proves that commits were lost (rule R17; its seal was checked when it came in): the loop stops
    /// all claiming first, and completes it then.
    pub(super) fn refused(&self, record: Record, proof: Refused) {
        self.progress.refused_one(proof.why());
        let payment = record.notice.payment;
        match proof.why() {
            RefusedBecause::NoSuchPayment | RefusedBecause::AheadOfRow => {
                let (broken, what) = if proof.why() == RefusedBecause::NoSuchPayment {
                    (Invariant::K3, "a notice names a payment that the database does not know")
                } else {
                    (Invariant::H3, "a notice knows of a later claim than the database")
                };
                violation::seen(broken, Some(payment), what);
                // A closed channel is the end of this process; see the module's head.
                let _loop_gone = self.lost.send((record, proof)).is_err();
                return;
            }
            RefusedBecause::Cancelled
            | RefusedBecause::Final(_)
            | RefusedBecause::Parked
            | RefusedBecause::HeldByAnother
            | RefusedBecause::Stale
            | RefusedBecause::OtherGateway => tracing::debug!(%payment, why = ?proof.why(), "refused"),
        }
        complete(record, proof);
    }

    /// Not yet, by the database's word: waits for it, never dropped. Given back where it is held no longer: its
    /// payment is switched off, and the late scan has the row as soon as that ends, or later.
    pub(super) fn early(&self, record: Record, until: DateTime<Utc>, why: Early) -> Option<Record> {
        self.progress.early_one(why);
        let least_ms = match why {
            Early::NotDue | Early::Contended => SHORTEST_WAIT_MS,
            Early::Quarantined => QUARANTINED_MS,
            Early::SwitchedOff => {
                let held = self.clock.wall() - record.notice.not_before;
                match SWITCHED_OFF_MS - held.num_milliseconds() {
                    left if left > 0 => left,
                    _ => return Some(record),
                }
            }
        };
        self.back_to_the_hold(record, until, least_ms);
        None
    }

    /// A settled group in order. Where the settle never succeeded there are no proofs, and each
    /// record is presented to `claim` again, which refuses it (the claim still holds, or a newer
    /// notice exists) or wins it anew.
    pub(super) fn settled(&self, seats: Vec<Seat>, tallies: Vec<Tally>, proofs: Vec<Settled>) {
        let mut proofs = proofs.into_iter();
        for (seat, tally) in seats.into_iter().zip(tallies) {
            match (proofs.next(), seat.record) {
                (Some(proof), record) => {
                    self.progress.settled_one(proof.result(), &tally);
                    if proof.result() == SettledAs::Fenced {
                        tracing::warn!(payment = %tally.payment, "an outcome came after its claim had ended; kept as evidence");
                    }
                    if let Some(record) = record {
                        complete(record, proof);
                    }
                }
                (None, record) => {
                    self.progress.abandoned_one();
                    if let Some(record) = record {
                        self.present_again(record);
                    }
                }
            }
        }
    }

    /// After a failure: once more, a moment later.
    pub(super) fn present_again(&self, record: Record) {
        self.back_to_the_hold(record, self.clock.wall(), AFTER_FAILURE_MS);
    }

    fn back_to_the_hold(&self, record: Record, until: DateTime<Utc>, least_ms: i64) {
        let until = until.max(self.clock.wall() + TimeDelta::milliseconds(least_ms));
        // A closed channel is the end of this process; see the module's head.
        let _loop_gone = self.again.send((record, until)).is_err();
    }

    /// Records that a closed gateway held too long, or more of than its share (rule R11): those whose row is
    /// durable, claimable and overdue are complete, for the late scan owns them; of the others it is asked
    /// why not.
    pub async fn defer(&self, records: Vec<Record>) {
        if records.is_empty() {
            return;
        }
        let notices: Vec<_> = records.iter().map(|record| record.notice.clone()).collect();
        let mut answers = match self.schedule.defer(&notices).await {
            Ok(answers) => answers.into_iter(),
            Err(error) => {
                tracing::warn!(%error, "nothing was deferred");
                Vec::new().into_iter()
            }
        };
        let mut unclear = Vec::new();
        for record in records {
            match answers.next() {
                Some(Some(proof)) => {
                    self.progress.deferred_one();
                    complete(record, proof);
                }
                Some(None) => unclear.push(record),
                None => self.present_again(record),
            }
        }
        if !unclear.is_empty() {
            self.ask_why(unclear).await;
        }
    }

    /// Why the late scan does not own these. Most often nothing is left to do for them, and without this
    /// the cancelled payments of a closed gateway would fill the hold for good. Asked in the name of no
    /// gateway, so that nothing is won and no slot is needed.
    async fn ask_why(&self, records: Vec<Record>) {
        let terms = ClaimTerms { gateway: GatewayName(String::new()), ..self.terms() };
        let notices: Vec<_> = records.iter().map(|record| record.notice.clone()).collect();
        let ids: Vec<_> = records.iter().map(|_| self.dice.claim_id()).collect();
        // Whatever failed, nothing was won.
        let mut answers = self.schedule.claim(&terms, &notices, &ids).await.unwrap_or_default().into_iter();
        for record in records {
            match answers.next() {
                Some(ClaimAnswer::Refused(proof)) if proof.why() != RefusedBecause::OtherGateway => {
                    self.refused(record, proof);
                }
                Some(ClaimAnswer::Refused(_) | ClaimAnswer::Early { .. } | ClaimAnswer::Claimed(_))
                | None => {
                    self.present_again(record);
                }
            }
        }
    }

    /// The database's "now", from the claim's own instant and the time since it was asked for:
    /// never behind the truth, and ahead of it by the claim's way there at most.
    pub(super) fn now(&self, claimed: &Claimed) -> DateTime<Utc> {
        let since = self.clock.mono().0.saturating_sub(claimed.asked_at().0);
        // A step that runs longer than chrono can count does not exist.
        claimed.claimed_at() + TimeDelta::from_std(since).unwrap_or(TimeDelta::MAX)
    }
}

fn complete(record: Record, proof: impl Into<Proof>) {
    if let Some(place) = record.position {
        reach(Point::BeforeOffset);
        place.complete(proof);
    }
}

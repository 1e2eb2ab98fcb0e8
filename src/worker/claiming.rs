//! The claims as a step makes them, with what to do when an answer is lost (rule R3).
//!
//! **Promises.** Every record comes back with an answer, or has been given back to be presented
//! again; a [`Claimed`] only ever comes from an acknowledged COMMIT. **Relies on** `recover` being a
//! write by claim id: a plain read can show a commit that a standby never got.
//!
//! **If this dies here** between COMMIT and its answer, the claim stands with nothing sent; its
//! lease ends it.

use super::clock_guard::Sample;
use super::patience::Patience;
use super::place::Record;
use super::progress::ClaimedBy;
use super::seat::Permit;
use super::step::Step;
use crate::domain::ids::{ClaimId, PaymentId};
use crate::domain::invariants::Invariant;
use crate::domain::notice::Notice;
use crate::platform::violation;
use crate::schedule::{ClaimAnswer, ClaimTerms, Claimed, Schedule, ScheduleError};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::time::Duration;

type Asked = Vec<(Record, Permit)>;
type Answers = Vec<(Record, Permit, ClaimAnswer)>;

impl<S: Schedule> Step<S> {
    /// The terms of one claim. `asked_at` is read here, before the claim travels, so that its time
    /// on the way only shortens what this worker allows itself (rule R14).
    pub(super) fn terms(&self) -> ClaimTerms {
        let profile = self.gateway.profile();
        ClaimTerms {
            gateway: profile.name.clone(),
            account: profile.account.clone(),
            renderer: profile.renderer,
            worker: self.worker.clone(),
            lease: self.lease,
            asked_at: self.clock.mono(),
        }
    }

    /// One answer a record, in order; records without one were given back.
    pub(super) async fn claim(&self, terms: &ClaimTerms, records: Asked) -> Answers {
        let notices: Vec<Notice> = records.iter().map(|(record, _)| record.notice.clone()).collect();
        let claim_ids: Vec<ClaimId> = records.iter().map(|_| self.dice.claim_id()).collect();
        let before = self.clock.wall();
        match self.schedule.claim(terms, &notices, &claim_ids).await {
            Ok(answers) => {
                self.progress.claim_answered();
                let claims = answers.iter().filter_map(|answer| match answer {
                    ClaimAnswer::Claimed(claimed) => Some(claimed.as_ref()),
                    ClaimAnswer::Early { .. } | ClaimAnswer::Refused(_) => None,
                });
                for (notice, answer) in notices.iter().zip(&answers) {
                    contradictions(notice, answer);
                }
                self.progress.claimed(claims.clone(), ClaimedBy::Notice);
                self.sample(before, claims);
                self.pair(records, answers.into_iter().map(Some))
            }
            Err(ScheduleError::CommitUnknown(error)) => {
                tracing::warn!(%error, claims = claim_ids.len(), "the answer to a claim's COMMIT was lost");
                let asked: Vec<_> =
                    notices.iter().map(|notice| notice.payment).zip(claim_ids.iter().copied()).collect();
                let mut ours = self.recover(terms, &asked).await;
                // What is not among them is not ours, and is presented again to learn why.
                let answers = claim_ids.iter().map(|claim_id| ours.remove(claim_id));
                self.pair(
                    records,
                    answers.map(|claimed| claimed.map(|it| ClaimAnswer::Claimed(Box::new(it)))),
                )
            }
            Err(error @ (ScheduleError::Unavailable(_) | ScheduleError::Defect(_))) => {
                let in_a_row = self.progress.claim_unanswered();
                if in_a_row.is_power_of_two() {
                    tracing::warn!(%error, notices = notices.len(), in_a_row, "nothing was claimed");
                }
                self.pair(records, std::iter::empty())
            }
        }
    }

    /// At most `limit` overdue rows, none of `but_lanes`. If the answer to its COMMIT was lost, nobody here knows what it
    /// won: nothing is sent, and the reaper has those payments asked about.
    pub(super) async fn claim_late(
        &self,
        terms: &ClaimTerms,
        late_by: Duration,
        but_lanes: &[i16],
        limit: usize,
    ) -> Vec<Claimed> {
        let claim_ids: Vec<_> = (0..limit).map(|_| self.dice.claim_id()).collect();
        let before = self.clock.wall();
        match self.schedule.claim_late(terms, late_by, but_lanes, &claim_ids).await {
            Ok(ours) => {
                self.progress.claimed(ours.iter(), ClaimedBy::LateScan);
                self.sample(before, ours.iter());
                ours
            }
            Err(error) => {
                tracing::warn!(%error, "the late scan claimed nothing that is known");
                Vec::new()
            }
        }
    }

    /// Asks for its claims until the database answers or the lease is over.
    async fn recover(
        &self,
        terms: &ClaimTerms,
        asked: &[(PaymentId, ClaimId)],
    ) -> BTreeMap<ClaimId, Claimed> {
        let mut patience = Patience::until(terms.asked_at, terms.lease.length);
        loop {
            match self.schedule.recover(terms, asked).await {
                Ok(ours) => {
                    self.progress.claimed(ours.iter(), ClaimedBy::Notice);
                    return ours.into_iter().map(|claimed| (claimed.claim_id(), claimed)).collect();
                }
                Err(error) => {
                    if !patience.goes_on(&error, self.clock.as_ref()).await {
                        return BTreeMap::new();
                    }
                }
            }
        }
    }

    fn pair(&self, records: Asked, mut answers: impl Iterator<Item = Option<ClaimAnswer>>) -> Answers {
        let mut paired = Vec::with_capacity(records.len());
        for (record, permit) in records {
            match answers.next().flatten() {
                Some(answer) => paired.push((record, permit, answer)),
                None => self.present_again(record),
            }
        }
        paired
    }

    /// The newest claim's instant tells how far the clocks are apart (rule R9). Not asked of
    /// recovered claims, whose instant lies before the question.
    fn sample<'a>(&self, before: DateTime<Utc>, claims: impl Iterator<Item = &'a Claimed>) {
        let after = self.clock.wall();
        if let Some(database) = claims.map(Claimed::claimed_at).max() {
            self.clocks.observe(Sample { before, database, after }, &self.brake);
        }
    }
}

/// A claim's answer names the payment that was asked for, one claim further (invariant H3).
fn contradictions(notice: &Notice, answer: &ClaimAnswer) {
    let ClaimAnswer::Claimed(claimed) = answer else { return };
    let payment = claimed.payment();
    if payment.id != notice.payment {
        violation::seen(Invariant::H3, Some(notice.payment), "the claim's answer is another payment's");
    } else if payment.attempt != notice.attempt + 1 {
        violation::seen(Invariant::H3, Some(payment.id), "the claim's answer is not one claim further");
    }
}

//! Carries allowed refunds out: claim, ask or call, record; some at a time, beside the charges.
//!
//! **Promises.** Under one claim at most one request that gives money back (rule R15), behind the same last check
//! as a charge: lease, key age, kill switches. A refund that may have been sent is asked about under its key
//! first, and sent again under that key only while the gateway remembers it. What cannot be known is recorded as
//! unknown and asked about again; nothing is guessed.
//!
//! **Relies on** the loop's pacer and brake: refunds use the permits of questions, and stop with the charges.
//! **Why no notices**: refunds are few, and one index answers which are due; they are not told to be punctual.
//!
//! **If this dies here**, the lease runs out, and whoever runs this next asks.

use super::brake::Brake;
use super::failure::Failure;
use super::pacer::Pacer;
use super::patience::Patience;
use crate::domain::ids::{ClaimId, WorkerName};
use crate::domain::lease::{Lease, Mono, SendGate};
use crate::domain::pace::Call;
use crate::domain::refund::{LearnedBy, RefundLookup, RefundStatus, RefundVerdict, RefundView, decide};
use crate::domain::retry::{Ladders, PerMille};
use crate::domain::verdict::{NotSent, Verdict};
use crate::gateway::{Profile, Refunds};
use crate::platform::clock::SharedClock;
use crate::platform::dice::SharedDice;
use crate::platform::metrics;
use crate::schedule::{
    AnsweredRefund, ClaimTerms, ClaimedRefund, How, Postgres, RefundAnswer, RefundOrder, RefundSettled,
    ScheduleError,
};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks for due refunds.
const EVERY: Duration = Duration::from_secs(1);
/// Most refunds under way from one worker: one that hangs for its whole time holds up no other.
const AT_ONCE: usize = 32;
/// Most that one look claims, so that they start together.
const CLAIMED_AT_ONCE: usize = 8;
/// Most expired leases taken back at once.
const REAPED_AT_ONCE: u32 = 100;
/// Beyond the call itself, for its permit, its question and its record.
const AROUND_A_CALL: Duration = Duration::from_secs(10);

/// What it is made of.
pub struct RefundParts {
    /// The database.
    pub schedule: Postgres,
    /// The account.
    pub gateway: Arc<dyn Refunds>,
    /// The account's permits and kill switches, as the loop keeps them.
    pub pacer: Arc<Pacer>,
    /// What stops the charges stops it.
    pub brake: Arc<Brake>,
    /// The ladders of charges.
    pub ladders: Ladders,
    /// Least distance of a send from the end of its lease.
    pub margin: Duration,
    /// Most calls at once that the process has room for.
    pub at_once: usize,
    /// The worker's name.
    pub name: WorkerName,
    /// The host's clocks.
    pub clock: SharedClock,
    /// Chance.
    pub dice: SharedDice,
}

/// See the module's head.
pub struct Refunder {
    parts: RefundParts,
    lease: Lease,
}

impl Refunder {
    /// Does nothing before [`Refunder::run`].
    #[must_use]
    pub fn new(parts: RefundParts) -> Self {
        let call = parts.gateway.profile().total_timeout;
        // A claim may ask and then send, and its lease is not renewed.
        let length = call * 2 + parts.margin + AROUND_A_CALL;
        let lease = Lease { length, margin: parts.margin, gateway_total: call };
        Self { parts, lease }
    }

    /// Works until `stop` resolves; what it has begun then ends first.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let mut stop = pin!(stop);
        let most = AT_ONCE.min(self.parts.at_once).min(self.parts.gateway.profile().max_in_flight).max(1);
        let mut under_way = FuturesUnordered::new();
        let mut look = self.parts.clock.sleep(EVERY);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(()) = under_way.next() => continue,
                () = &mut look => look = self.parts.clock.sleep(EVERY),
            }
            let free = most - under_way.len();
            let claiming = self.claim(free.min(CLAIMED_AT_ONCE));
            let mut claiming = pin!(claiming);
            // What is under way goes on while the database answers.
            let claimed = loop {
                tokio::select! {
                    biased;
                    claimed = &mut claiming => break claimed,
                    Some(()) = under_way.next() => {}
                }
            };
            match claimed {
                Ok(claimed) => under_way.extend(claimed.into_iter().map(|claimed| self.carry_out(claimed))),
                Err(error) => tracing::warn!(%error, "refunds wait for the next look"),
            }
        }
        while under_way.next().await.is_some() {}
    }

    /// One look for what is due, and all that it leads to. Answers how many refunds were claimed.
    ///
    /// # Errors
    /// If nothing could be claimed.
    pub async fn turn(&self) -> Result<usize, ScheduleError> {
        let claimed = self.claim(CLAIMED_AT_ONCE).await?;
        Ok(join_all(claimed.into_iter().map(|claimed| self.carry_out(claimed))).await.len())
    }

    /// Takes expired leases back, and claims what is due, so many at most.
    async fn claim(&self, most: usize) -> Result<Vec<ClaimedRefund>, ScheduleError> {
        let parts = &self.parts;
        parts.schedule.reap_refunds(parts.margin, REAPED_AT_ONCE).await?;
        if most == 0 || parts.brake.thrown().is_some() || parts.pacer.closed().is_some() {
            return Ok(Vec::new());
        }
        let profile = parts.gateway.profile();
        let terms = ClaimTerms {
            gateway: profile.name.clone(),
            account: profile.account.clone(),
            renderer: profile.renderer,
            worker: parts.name.clone(),
            lease: self.lease,
            asked_at: parts.clock.mono(),
        };
        let ids: Vec<ClaimId> = (0..most).map(|_| parts.dice.claim_id()).collect();
        parts.schedule.claim_refunds(&terms, &ids).await
    }

    async fn carry_out(&self, claimed: ClaimedRefund) {
        let (id, payment, asked_at) = (claimed.order().id, claimed.order().payment, claimed.asked_at());
        let answered = self.attempt(claimed).await;
        let (order, answer) = (answered.order(), answered.answer());
        let parts = &self.parts;
        let profile = parts.gateway.profile();
        let view = RefundView {
            amount: order.amount,
            others_open: order.others_open,
            by: if answer.how == How::LookedUp { LearnedBy::LookUp } else { LearnedBy::Request },
            asks: order.asks,
            attempt: order.attempt,
            key_ends_at: order.first_sent_at.map(|first| after(first, profile.key_ttl)),
        };
        let jitter = PerMille(u32::try_from(parts.dice.bits() % 1_000).unwrap_or(0));
        let now = parts.clock.wall();
        let decision = decide(&view, &answer.verdict, profile.replays_declines, &parts.ladders, now, jitter);
        metrics::REFUND_ATTEMPTS.add(1, [answer.verdict.as_str()]);
        if decision.to == RefundStatus::Unknown && decision.next_at.is_none() {
            tracing::error!(refund = %id, %payment, verdict = answer.verdict.as_str(), "refund_needs_human");
        }
        let mut patience = Patience::until(asked_at, self.lease.length);
        loop {
            match parts.schedule.settle_refund(&answered, &decision).await {
                Ok(RefundSettled::Written { to, is_whole }) => {
                    tracing::info!(refund = %id, %payment, to = to.as_str(), "refund_settled");
                    if is_whole {
                        metrics::PAYMENT_TRANSITIONS.add(1, ["REFUNDED", "refunded"]);
                    }
                    return;
                }
                Ok(RefundSettled::Fenced) => {
                    tracing::warn!(refund = %id, %payment, "a late answer about a refund was kept as evidence");
                    return;
                }
                Err(error) if patience.goes_on(&error, parts.clock.as_ref()).await => {}
                Err(_) => return,
            }
        }
    }

    /// Asks where something may have been sent, and sends where nothing is known to have come of it.
    async fn attempt(&self, claimed: ClaimedRefund) -> AnsweredRefund {
        let parts = &self.parts;
        if claimed.order().others_open > 0 && parts.gateway.profile().lookup {
            if let Err(why) = parts.pacer.looks_up(parts.clock.as_ref(), None).await {
                return claimed.answered(nothing_sent(why, None));
            }
            let found = parts.gateway.lookup_refund(claimed.order()).await;
            self.told(call_of_lookup(&found));
            match found {
                RefundLookup::Found(verdict) => {
                    return claimed.answered(RefundAnswer::silent(verdict, How::LookedUp));
                }
                RefundLookup::Unavailable { retry_after } => {
                    return claimed.answered(nothing_sent(NotSent::OnlyAsked, retry_after));
                }
                // It proves nothing; the same key again collapses on whatever is there.
                RefundLookup::NotFound => {}
            }
        }
        self.send(claimed).await
    }

    async fn send(&self, claimed: ClaimedRefund) -> AnsweredRefund {
        let parts = &self.parts;
        if let Some(why) = parts.brake.thrown() {
            return claimed.answered(nothing_sent(why, None));
        }
        if let Err(why) = parts.pacer.looks_up(parts.clock.as_ref(), None).await {
            return claimed.answered(nothing_sent(why, None));
        }
        let request = match parts.gateway.prepare_refund(claimed.order()) {
            Ok(request) => request,
            Err(error) => {
                let verdict = RefundVerdict::ContractViolation { what: error.to_string() };
                return claimed.answered(RefundAnswer::silent(verdict, How::NotStarted));
            }
        };
        let gate = self.gate(claimed.order(), claimed.asked_at());
        let answered = parts.gateway.refund(claimed, request, gate).await;
        if let Some(call) = call_of(&answered.answer().verdict) {
            let refused = matches!(call, Call::Unauthorised);
            let refused = refused.then(|| Failure::unauthorised(answered.answer().http_status));
            parts.pacer.last_failure.note(refused);
            self.told(call);
        }
        answered
    }

    /// How a call ended, for the account. That it failed is kept from it: many refunds that hang at once would open
    /// the breaker of the charges, which find a dead gateway by themselves.
    fn told(&self, call: Call) {
        if !matches!(call, Call::Failed) {
            self.parts.pacer.ended(call, None, self.parts.clock.mono());
        }
    }

    /// The check right before the first byte.
    fn gate(&self, order: &RefundOrder, asked_at: Mono) -> SendGate {
        let profile: &Profile = self.parts.gateway.profile();
        let usable = profile.key_ttl.saturating_sub(profile.key_margin);
        SendGate {
            send_before: self.lease.send_before(asked_at),
            not_before: DateTime::UNIX_EPOCH,
            key_usable_until: order.first_sent_at.map(|first| after(first, usable)),
            key_usable_until_mono: order.key_age.map(|age| Mono(asked_at.0 + usable.saturating_sub(age))),
            execute_before: None,
            switches: Some(self.parts.pacer.watch_payer(order.payer, order.amount.currency)),
        }
    }
}

/// A length that fits no calendar is none at all: nothing is sent on the strength of it.
fn after(first: DateTime<Utc>, length: Duration) -> DateTime<Utc> {
    first + TimeDelta::from_std(length).unwrap_or(TimeDelta::zero())
}

fn nothing_sent(why: NotSent, retry_after: Option<Duration>) -> RefundAnswer {
    RefundAnswer::silent(RefundVerdict::NotSent { why, retry_after }, How::NotStarted)
}

fn call_of(verdict: &RefundVerdict) -> Option<Call> {
    match verdict {
        RefundVerdict::NotSent { why, retry_after } => {
            Call::of(&Verdict::NotSent { why: *why, retry_after: *retry_after })
        }
        RefundVerdict::Unknown(doubt) => Call::of(&Verdict::Unknown(*doubt)),
        RefundVerdict::Refunded { .. }
        | RefundVerdict::Declined { .. }
        | RefundVerdict::Underway { .. }
        | RefundVerdict::ContractViolation { .. } => Some(Call::Answered),
    }
}

fn call_of_lookup(found: &RefundLookup) -> Call {
    match found {
        RefundLookup::Found(_) | RefundLookup::NotFound => Call::Answered,
        RefundLookup::Unavailable { retry_after: Some(length) } => Call::RateLimited(Some(*length)),
        RefundLookup::Unavailable { retry_after: None } => Call::Failed,
    }
}

//! The gateway as one worker process sees it: the real contract of `Gateway`, over a network that
//! loses and delays.
//!
//! The last check is made where the real client makes it, right before the first byte. What may lie
//! between check and byte is a pause of the process, and nothing else. Once a request has left, it is
//! the network's: it arrives whatever becomes of its process.

use super::dials::Chance;
use super::gateway::{Bank, Fate, LedgerLine};
use super::host::{Host, HostClock};
use super::trace::Met;
use crate::domain::ids::{PaymentId, gateway_key};
use crate::domain::lease::SendGate;
use crate::domain::payment::Payment;
use crate::domain::verdict::{Doubt, Lookup, NotSent, Verdict};
use crate::gateway::{CannotRender, FrozenRequest, Gateway, Profile};
use crate::platform::clock::Clock;
use crate::schedule::{Answer, Answered, Claimed, How};
use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// A worker process's account.
pub(super) struct Account {
    pub(super) profile: Profile,
    pub(super) bank: Arc<Bank>,
    pub(super) host: Arc<Host>,
    pub(super) chance: Arc<Chance>,
}

/// The bytes of a request, made again by the checker from the row alone.
pub(super) fn body_of(payment: &Payment, payee: &str) -> String {
    format!("{} {} {} {payee}", payment.id, payment.amount.minor.get(), payment.amount.currency)
}

impl Account {
    /// Hands a request to the network, which carries it to the bank; answers what comes back, if anything
    /// does. `lost` is met where the bank did it and nobody hears.
    fn post(
        &self,
        payment: PaymentId,
        lost: Met,
        arrives: impl FnOnce(&Bank, &Fate) -> Verdict + Send + 'static,
    ) -> oneshot::Receiver<Verdict> {
        let (answer, answered) = oneshot::channel();
        let fate = self.bank.fate(self.profile.async_final_within);
        let bank = Arc::clone(&self.bank);
        let payment = Some(payment);
        let Some(way) = fate.way else {
            self.bank.trace.met(Met::RequestLost, payment, 0);
            // Nobody ever answers: the sender waits for its own time-out.
            tokio::spawn(async move {
                bank.time.sleep(Duration::from_secs(60)).await;
                drop(answer);
            });
            return answered;
        };
        tokio::spawn(async move {
            bank.time.sleep(way).await;
            let verdict = arrives(&bank, &fate);
            if answer.is_closed() {
                bank.trace.met(Met::RequestLate, payment, way.as_micros() as u64);
            }
            bank.time.sleep(fate.work).await;
            if fate.answer_lost {
                bank.trace.met(lost, payment, 0);
                bank.time.sleep(Duration::from_secs(60)).await;
            } else {
                // Fails when the sender has given up or died.
                let _given_up = answer.send(verdict);
            }
        });
        answered
    }

    async fn send(&self, claimed: &Claimed, request: &FrozenRequest) -> (Verdict, How) {
        let payment = claimed.payment();
        let line = LedgerLine {
            key: request.key.clone(),
            payment: payment.id,
            claim: claimed.claim_id(),
            fence: payment.fence,
            amount: payment.amount,
            body: request.body.expose_secret().to_owned(),
            left_at: self.host.time.wall(),
            at: payment.due_at,
            moved_at: None,
            declined: None,
        };
        let answered = self.post(payment.id, Met::AnswerLost, |bank, fate| bank.arrives(line, fate));
        let verdict = self.heard(answered).await;
        let how = if matches!(verdict, Verdict::NotSent { .. }) { How::NotStarted } else { How::Sent };
        (verdict, how)
    }

    async fn heard(&self, answered: oneshot::Receiver<Verdict>) -> Verdict {
        let clock = HostClock(Arc::clone(&self.host));
        let verdict = tokio::select! {
            biased;
            answer = answered => answer.unwrap_or(Verdict::Unknown(Doubt::ConnectionLost)),
            () = clock.sleep(self.profile.total_timeout) => Verdict::Unknown(Doubt::TimedOut),
        };
        self.host.pass().await;
        verdict
    }
}

impl Gateway for Account {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn prepare(&self, claimed: &Claimed) -> Result<FrozenRequest, CannotRender> {
        let payment = claimed.payment();
        let body = body_of(payment, claimed.payee().expose_secret());
        let hash = Sha256::digest(&body).into();
        Ok(FrozenRequest {
            key: gateway_key(payment.id, payment.epoch),
            body: SecretString::from(body),
            hash,
        })
    }

    fn charge(&self, claimed: Claimed, request: FrozenRequest, gate: SendGate) -> BoxFuture<'_, Answered> {
        Box::pin(async move {
            let faults = self.bank.faults.lock().unwrap().clone();
            // To connect.
            let longest = if self.chance.hits(faults.gateway_slow) { 2_500 } else { 10 };
            self.host
                .take(self.chance.between(Duration::from_micros(100), Duration::from_millis(longest)))
                .await;
            if self.chance.hits(faults.gateway_unsent) {
                let why = self.chance.pick(&[NotSent::Refused, NotSent::Dns, NotSent::Tls]);
                self.bank.trace.met(Met::NotSent, Some(claimed.payment().id), why as u64);
                return claimed.not_started(why);
            }
            let clock = HostClock(Arc::clone(&self.host));
            let began = clock.mono();
            if let Err(why) = gate.check(clock.wall(), began) {
                return claimed.not_started(why);
            }
            if self.chance.hits(faults.pauses.min(20)) {
                self.host.take(Duration::from_micros(1)).await;
            }
            let (verdict, how) = self.send(&claimed, &request).await;
            let took = Some(clock.mono().0.saturating_sub(began.0));
            let request_hash = Some(request.hash);
            claimed.answered(Answer { request_hash, took, ..Answer::silent(verdict, how) })
        })
    }

    fn lookup<'a>(&'a self, payment: &'a Payment) -> BoxFuture<'a, Lookup> {
        Box::pin(async move {
            let way = self.chance.between(Duration::from_micros(200), Duration::from_millis(20));
            self.host.take(way).await;
            let per_mille = self.bank.faults.lock().unwrap().lookup_down;
            let found = if self.chance.hits(per_mille) {
                self.bank.trace.met(Met::LookupDown, Some(payment.id), 0);
                Lookup::Unavailable { retry_after: None }
            } else {
                self.bank.shows(&gateway_key(payment.id, payment.epoch), payment.id)
            };
            self.host.take(way).await;
            found
        })
    }

    fn void<'a>(&'a self, claimed: &'a Claimed, gate: SendGate) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let not_sent = |why| Answer::silent(Verdict::NotSent { why, retry_after: None }, How::NotStarted);
            let payment = claimed.payment();
            let to_connect = self.chance.between(Duration::from_micros(100), Duration::from_millis(10));
            self.host.take(to_connect).await;
            let faults = self.bank.faults.lock().unwrap().clone();
            if self.chance.hits(faults.gateway_unsent) {
                self.bank.trace.met(Met::NotSent, Some(payment.id), 1);
                return not_sent(NotSent::Refused);
            }
            let clock = HostClock(Arc::clone(&self.host));
            let began = clock.mono();
            if let Err(why) = gate.check(clock.wall(), began) {
                return not_sent(why);
            }
            if self.chance.hits(faults.pauses.min(20)) {
                self.host.take(Duration::from_micros(1)).await;
            }
            let (id, key) = (payment.id, gateway_key(payment.id, payment.epoch));
            let answered = self.post(id, Met::VoidLost, move |bank, _| bank.voids(&key, id));
            let verdict = self.heard(answered).await;
            let took = Some(clock.mono().0.saturating_sub(began.0));
            Answer { took, ..Answer::silent(verdict, How::Voided) }
        })
    }
}

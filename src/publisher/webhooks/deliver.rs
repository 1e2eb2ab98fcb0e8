//! Takes what is due, sends it, notes what it met: the loop of every process that delivers.
//!
//! **Promises.** No more than `webhooks.max_in_flight` requests are under way, and bodies exist only for these. What
//! was met is kept until it is noted, or until leases end and it is sent again. At shutdown nothing more is taken;
//! what is under way is finished and noted. **Why tasks**: a slow database must not stop the clocks of requests, nor
//! a slow receiver the noting of others. **If this dies** anywhere, leases run out; the module says what follows.

use super::Deliverer;
use super::call::Request;
use super::decide::{Fault, Met, decide};
use super::sign::sign;
use crate::domain::event;
use crate::domain::webhook::test_message;
use crate::platform::metrics;
use crate::platform::shutdown::Shutdown;
use crate::platform::trace::{self, Kind, Span};
use crate::schedule::{Became, OwedEvent, Postgres, ScheduleError, TakenWebhook, TryMet, unless_defect};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use uuid::Uuid;

/// After trouble with the database.
const TROUBLE: Duration = Duration::from_secs(1);
/// How long results are gathered, so that many are noted at once.
const GATHER: Duration = Duration::from_millis(5);
/// Tries to note the last results at shutdown.
const LAST_TRIES: u32 = 3;

/// What is going on in one process.
struct Desk {
    deliverer: Arc<Deliverer>,
    under_way: JoinSet<TryMet>,
    /// Met and not noted yet.
    met: Vec<TryMet>,
    /// Where the walk over endpoints goes on.
    after: Uuid,
}

pub(super) async fn run(
    deliverer: &Arc<Deliverer>,
    schedule: &Postgres,
    nudge: &Notify,
    shutdown: &Shutdown,
    goes_on: &impl Fn() -> bool,
) -> Result<(), ScheduleError> {
    let mut desk = Desk {
        deliverer: Arc::clone(deliverer),
        under_way: JoinSet::new(),
        met: Vec::new(),
        after: Uuid::nil(),
    };
    let mut result = Ok(());
    while goes_on() && result.is_ok() {
        result = desk.round(schedule, nudge, shutdown).await;
    }
    // Each ends within its own time limit.
    while let Some(ended) = desk.under_way.join_next().await {
        desk.met.extend(ended.ok());
    }
    for _ in 0..LAST_TRIES {
        if desk.met.is_empty() || result.is_err() {
            break;
        }
        match desk.note(schedule).await {
            Ok(true) => {}
            Ok(false) => deliverer.clock.sleep(TROUBLE).await,
            Err(defect) => result = Err(defect),
        }
    }
    if !desk.met.is_empty() {
        tracing::warn!(left = desk.met.len(), "tries were not noted; these events are sent again");
    }
    metrics::WEBHOOKS_IN_FLIGHT.set(0.0, []);
    result
}

impl Desk {
    /// Notes, takes, and waits for whatever comes first: an answer, something new, or the next look.
    async fn round(
        &mut self,
        schedule: &Postgres,
        nudge: &Notify,
        shutdown: &Shutdown,
    ) -> Result<(), ScheduleError> {
        if !self.note(schedule).await? {
            shutdown.pause(&*self.deliverer.clock, TROUBLE).await;
            return Ok(());
        }
        let pause = self.take(schedule).await?;
        self.gauge();
        let deliverer = Arc::clone(&self.deliverer);
        tokio::select! {
            biased;
            () = shutdown.wait() => return Ok(()),
            Some(ended) = self.under_way.join_next() => self.met.extend(landed(ended)),
            () = nudge.notified() => {}
            () = deliverer.clock.sleep(pause) => {}
        }
        if !self.met.is_empty() {
            deliverer.clock.sleep(GATHER).await;
            while let Some(ended) = self.under_way.try_join_next() {
                self.met.extend(landed(ended));
            }
        }
        Ok(())
    }

    fn gauge(&self) {
        let under_way = u32::try_from(self.under_way.len()).unwrap_or(u32::MAX);
        metrics::WEBHOOKS_IN_FLIGHT.set(f64::from(under_way), []);
    }

    /// Takes what is due and fits, and sends it off; answers the longest pause until the next look.
    async fn take(&mut self, schedule: &Postgres) -> Result<Duration, ScheduleError> {
        let settings = &self.deliverer.settings;
        let room = settings.max_in_flight.saturating_sub(self.under_way.len());
        if room == 0 {
            return Ok(settings.poll);
        }
        // A try ends within its time-out; the rest is for noting it while the database has trouble.
        let lease = settings.timeout.saturating_mul(3);
        let taken = schedule.take_webhooks(&self.deliverer.holder, lease, room, self.after).await;
        let Some(found) = unless_defect("taking webhooks that are due", taken)? else {
            metrics::WEBHOOK_FAILURES.add(1, ["take"]);
            return Ok(TROUBLE);
        };
        // More endpoints behind these: they are not made to wait for an answer of one before them.
        let goes_on = !found.after.is_nil();
        self.after = found.after;
        for taken in found.taken {
            let deliverer = Arc::clone(&self.deliverer);
            self.under_way.spawn(async move { deliverer.send(taken).await });
        }
        Ok(if goes_on { Duration::ZERO } else { settings.poll })
    }

    /// Notes everything that was met; `false`: not now.
    async fn note(&mut self, schedule: &Postgres) -> Result<bool, ScheduleError> {
        if self.met.is_empty() {
            return Ok(true);
        }
        let Deliverer { holder, settings, .. } = &*self.deliverer;
        let noted =
            schedule.note_webhooks(holder, &self.met, settings.rest_cap, settings.disable_after).await;
        let Some(noted) = unless_defect("noting what webhooks met", noted)? else {
            metrics::WEBHOOK_FAILURES.add(1, ["note"]);
            return Ok(false);
        };
        for met in self.met.drain(..) {
            let counted = noted.noted.contains(&(met.place.endpoint, met.place.payment, met.place.seq));
            metrics::WEBHOOK_DELIVERIES.add(1, [if counted { result(&met) } else { "fenced" }]);
        }
        for (endpoint, why) in noted.disabled {
            metrics::WEBHOOK_ENDPOINTS_DISABLED.add(1, [why.as_str()]);
            tracing::warn!(%endpoint, why = why.as_str(), "an endpoint of webhooks is disabled");
        }
        Ok(true)
    }
}

fn result(met: &TryMet) -> &'static str {
    match met.became {
        Became::Delivered => "delivered",
        Became::Owed(_) => "again",
        Became::Failed => "failed",
    }
}

/// A task that panicked has noted nothing: its lease runs out.
fn landed(ended: Result<TryMet, tokio::task::JoinError>) -> Option<TryMet> {
    ended.inspect_err(|error| tracing::error!(%error, "a request to an endpoint broke off")).ok()
}

impl Deliverer {
    /// Sends it once, and says what became of it.
    async fn send(&self, taken: TakenWebhook) -> TryMet {
        let at = self.clock.wall();
        let started = self.clock.mono();
        let body = match &taken.event {
            OwedEvent::Event(event) => {
                Some((event::json(event), "application/cloudevents+json; charset=UTF-8"))
            }
            OwedEvent::Test => {
                let place = taken.place;
                let message = test_message(place.endpoint, place.payment, place.event_at);
                Some((message, "application/cloudevents+json; charset=UTF-8"))
            }
            OwedEvent::Gone => None,
        };
        let Some((body, content_type)) = body else { return gone(&taken, at) };
        let webhook_id = format!("{}/{}", taken.place.payment, taken.place.seq);
        let signed = sign(webhook_id, at, &body, &taken.receiver.secrets);
        let mut span = traced(&taken);
        let traceparent = span.traceparent();
        let request = Request { url: taken.receiver.url.clone(), signed, body, content_type, traceparent };
        let met = self.caller.call(request).await;
        let took = self.clock.mono().0.saturating_sub(started.0);
        let (became, stops) = decide(&met, taken.rung, &self.settings, self.dice.per_mille());
        let (status, error, excerpt) = match met {
            Met::Answer { status, excerpt, .. } => (Some(status), None, excerpt),
            Met::Fault(fault) => (None, Some(fault.as_str().to_owned()), String::new()),
        };
        match status {
            Some(status) => span.say("http.response.status_code", || i64::from(status)),
            None => span.failed("no answer"),
        }
        span.end();
        metrics::WEBHOOK_REQUEST.record(took, [answered(status)]);
        if error.as_deref() == Some(Fault::Forbidden.as_str()) {
            tracing::warn!(endpoint = %taken.place.endpoint, "an endpoint's name leads to an address that is not called");
        }
        TryMet {
            place: taken.place,
            receiver: taken.receiver,
            fence: taken.fence,
            became,
            endpoint: Some(stops),
            at,
            took,
            status,
            error,
            excerpt,
        }
    }
}

/// One try as a trace of its own, beside that of the request that its payment came from. The endpoint is named by its
/// id: a url may hold what only its owner knows.
fn traced(taken: &TakenWebhook) -> Span {
    let post = match &taken.event {
        OwedEvent::Event(event) => event.payment.as_ref().and_then(|payment| payment.traceparent.as_deref()),
        OwedEvent::Test | OwedEvent::Gone => None,
    };
    let mut span = trace::span("webhook", Kind::Client).linked([post]).start();
    span.say("http.request.method", || "POST");
    span.say("punctual.endpoint.id", || taken.place.endpoint.to_string());
    span.say("punctual.payment.id", || taken.place.payment.to_string());
    span.say("punctual.event.sequence", || i64::from(taken.place.seq));
    span.say("punctual.try", || i64::from(taken.number));
    span
}

/// The kind of an answer, for the metric.
fn answered(status: Option<u16>) -> &'static str {
    match status {
        Some(200..300) => "2xx",
        Some(300..400) => "3xx",
        Some(400..500) => "4xx",
        Some(500..600) => "5xx",
        Some(_) => "other",
        None => "none",
    }
}

fn gone(taken: &TakenWebhook, at: chrono::DateTime<chrono::Utc>) -> TryMet {
    TryMet {
        place: taken.place,
        receiver: Arc::clone(&taken.receiver),
        fence: taken.fence,
        became: Became::Failed,
        endpoint: None,
        at,
        took: Duration::ZERO,
        status: None,
        error: Some("the event is not kept any more".to_owned()),
        excerpt: String::new(),
    }
}

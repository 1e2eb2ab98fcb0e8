//! The simulated gateway: a process of its own with a durable ledger, the oracle of every test.
//!
//! **Promises**: one line for each physical request to `POST /charges`, `/voids` or `/refunds`, durable first;
//! one charge under one key while the key lives; behaviours chosen by the destination reference
//! (`behaviour.rs`). **Relies on** nothing of the money path and shares no code with it: a fault in
//! one cannot hide in the other. **If this dies**, nobody was answered for what is not in the file,
//! and a restart remembers everything that is.
//!
//! ```text
//! POST /charges         Authorization: Bearer <secret>, Idempotency-Key, {"paymentId","amount","currency","payee"}
//!   200 {"id":"ch_7","status":"charged","key","paymentId","amount","currency"}   202 "pending"
//!   402 {"error":{"type":"declined","code","key","reference"}}
//!   400 "invalid_request"  401 "unauthorized"  409 "in_use"  422 "key_reused"  429 "rate_limited" + Retry-After
//!   503 "unavailable"      Idempotent-Replayed: true on a stored answer
//!   409 "voided" under a voided key, for ever
//! GET /charges?key=     200 {"key","charges":[…]} with "in_progress" while one runs, "voided":true; 404 "not_found"
//! POST /voids           authorised, {"key"}; with sandbox.voids_by_key, else 404
//!   200 {"key","status":"voided"}: no charge under this key, ever   200 202 402 what became of it   409 "in_use"
//! POST /refunds         authorised, Idempotency-Key, {"refundId","charge","paymentId","amount","currency"}
//!   200 {"id":"re_9","status":"refunded","key","refundId","charge","paymentId","amount","currency"}: once a key
//!   402 declined: charge_not_found, currency_differs, above_charge (in sum), refund_not_possible   422 "key_reused"
//! GET /refunds?key=     200 such an object; 404 "not_found"
//! GET /settlement?day=  NDJSON, authorised: one line a movement of money, then one that ends it (`settlement`)
//!
//! What only tests, rehearsals and people ask for; no outage but a refused connection touches it:
//! GET /ledger           NDJSON, one line a physical request: seq at key paymentId epoch claimId fence dueAt
//!                       amount currency payee verdict charged (amount and currency as asked; open to all); a charge
//!                       that took something else has "taken":{"amount","currency"} too;
//!                       a void's has "request":"void" and no amount, currency or payee; a refund's has
//!                       "request":"refund", its "charge", no payee, and "charged":false: its verdict says "refunded"
//! GET /ledger/summary   requests (of charges), voids, refundRequests, refunds, charges, paymentsCharged, paymentsChargedMoreThanOnce,
//!                       earliestMarginMs, early, earlyCharges
//! GET /settlement/defects?day=   NDJSON, authorised: what is wrong in that report
//! PUT /outage           authorised, {"kind":"silent","forMs":5000}; without forMs until it is switched off,
//!                       which cannot be said to one that refuses
//! DELETE /outage        authorised: ends it; configured windows go on
//! GET /outage           {"kind":"silent"} or {"kind":null}
//! GET /livez            200
//! ```
//! A pending charge that will succeed is `charged` in the line of the request that made it. An outage
//! executes or does not, by its kind ([`crate::platform::config::OutageKind`]): a line of `verdict`
//! `outage` moved nothing, and one that was executed has the verdict and `charged` it has on any day.

mod behaviour;
mod book;
mod callbacks;
mod connection;
mod draw;
mod entry;
mod judged;
mod latency;
mod ledger;
mod line;
mod name;
mod oracle;
mod outage;
mod quota;
mod refunds;
mod report;
mod routes;
mod settlement;
mod summary;
mod wire;

pub use ledger::LedgerError;

use crate::platform::clock::SharedClock;
use crate::platform::config::Sandbox as Settings;
use book::{Book, Rules};
use callbacks::Callbacks;
use connection::{Peer, Resettable};
use ledger::Ledger;
use outage::Outages;
use quota::Quota;
use routes::{Shared, routes};
use settlement::Terms;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// How long open connections get to end at shutdown.
const GRACE: Duration = Duration::from_secs(5);

/// Why the sandbox does not run.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The address cannot be listened on; choose another.
    #[error("sandbox.listen {address}: {source}")]
    Listen {
        /// As configured.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The ledger cannot be used; nothing was answered.
    #[error("sandbox.ledger: {0}")]
    Ledger(#[from] LedgerError),
    /// A line could not be made durable; it stopped without answering.
    #[error("the ledger cannot be written: {0}")]
    NotDurable(#[source] io::Error),
    /// The server ended by itself.
    #[error("the server ended: {0}")]
    Server(#[source] io::Error),
}

/// A sandbox that listens, with its ledger read back, not yet answering.
pub struct Sandbox {
    listener: Resettable,
    address: SocketAddr,
    shared: Shared,
    stop: watch::Sender<bool>,
    write_fault: oneshot::Receiver<io::Error>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Reads the ledger back and binds; port 0 takes a free one.
    ///
    /// # Errors
    /// [`SandboxError::Listen`] or [`SandboxError::Ledger`].
    pub async fn bind(settings: &Settings, clock: SharedClock) -> Result<Self, SandboxError> {
        let mut book = Book::new(Rules {
            key_ttl: settings.key_ttl,
            replays_declines: settings.replays_declines,
            replays_5xx: settings.replays_5xx,
            compares_body: settings.compares_body,
            voids_by_key: settings.voids_by_key,
        });
        let (ledger, write_fault) = Ledger::open(Path::new(&settings.ledger), |line| {
            book.absorb(&line).map_err(|error| error.to_string())
        })?;
        let refused = |source| SandboxError::Listen { address: settings.listen.clone(), source };
        let outages = Outages::new(settings.outages.clone(), clock.mono().0);
        let listening = Resettable::bind(&settings.listen, outages.refusing(), SharedClock::clone(&clock));
        let listener = listening.await.map_err(refused)?;
        let address = listener.address();
        let (stop, stopping) = watch::channel(false);
        let shared = Shared {
            book: Mutex::new(book),
            ledger,
            callbacks: Callbacks::of(settings, SharedClock::clone(&clock)),
            clock,
            bearer: format!("Bearer {}", &*settings.secret),
            outages,
            quota: Quota::new(settings.rate, settings.burst).map(Mutex::new),
            latency: settings.latency.clone(),
            seed: settings.seed,
            look_ups: AtomicU64::new(0),
            terms: Terms {
                fee_fixed: settings.fee_fixed_minor,
                fee_basis_points: settings.fee_basis_points,
                seed: settings.seed,
                defects: settings.settlement_defects.clone(),
            },
            stopping,
        };
        Ok(Self { listener, address, shared, stop, write_fault })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown`; then ends requests in flight and gives the ledger back.
    ///
    /// # Errors
    /// [`SandboxError::NotDurable`] or [`SandboxError::Server`].
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> Result<(), SandboxError> {
        let Self { listener, shared, stop, write_fault, .. } = self;
        let shared = Arc::new(shared);
        let clock = SharedClock::clone(&shared.clock);
        let mut stopping = shared.stopping.clone();
        let mut overdue = shared.stopping.clone();
        let service = routes(Arc::clone(&shared)).into_make_service_with_connect_info::<Peer>();
        let server = axum::serve(listener, service).with_graceful_shutdown(async move {
            // An error means that `stop` is gone, and `run` with it.
            let _ = stopping.wait_for(|stop| *stop).await;
        });
        let grace = async move {
            let _ = overdue.wait_for(|stop| *stop).await;
            clock.sleep(GRACE).await;
        };
        let stopper = async move {
            shutdown.await;
            stop.send_replace(true);
            // Held, so that `wait_for` above keeps answering.
            std::future::pending::<()>().await;
        };
        let outages = async {
            shared.outages.keep(&shared.clock).await;
        };
        let ended = tokio::select! {
            biased;
            Ok(error) = write_fault => Err(SandboxError::NotDurable(error)),
            served = server.into_future() => served.map_err(SandboxError::Server),
            () = stopper => Ok(()),
            () = outages => Ok(()),
            () = grace => Ok(()),
        };
        shared.ledger.close().await;
        ended
    }
}

/// [`Sandbox::bind`] and [`Sandbox::run`] in one.
///
/// # Errors
/// See [`SandboxError`].
pub async fn serve(
    settings: &Settings,
    clock: SharedClock,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), SandboxError> {
    let sandbox = Sandbox::bind(settings, clock).await?;
    tracing::info!(address = %sandbox.local_addr(), ledger = settings.ledger, "sandbox gateway listening");
    sandbox.run(shutdown).await
}

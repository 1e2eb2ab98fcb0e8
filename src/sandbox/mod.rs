//! The simulated gateway: a process of its own with a durable ledger, the oracle of every test.
//!
//! **Promises**: one line for each physical request to `POST /charges`, durable before it is answered;
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
//!   Idempotent-Replayed: true on a stored answer
//! GET /charges?key=     200 {"key","charges":[…]} with "in_progress" while one runs; 404 "not_found"
//! GET /ledger           NDJSON, one line a physical request: seq at key paymentId epoch claimId fence dueAt
//!                       amount currency payee verdict charged (amount and currency as asked; open to all)
//! GET /ledger/summary   requests, charges, paymentsCharged, paymentsChargedMoreThanOnce,
//!                       earliestMarginMs, early, earlyCharges
//! GET /livez            200
//! ```
//! A pending charge that will succeed is `charged` in the line of the request that made it.

mod behaviour;
mod book;
mod connection;
mod entry;
mod ledger;
mod line;
mod routes;
mod wire;

pub use ledger::LedgerError;

use crate::platform::clock::SharedClock;
use crate::platform::config::Sandbox as Settings;
use book::{Book, Rules};
use connection::{Peer, Resettable};
use ledger::Ledger;
use routes::{Shared, routes};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
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
    listener: TcpListener,
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
            replays_errors: settings.replays_errors,
            compares_body: settings.compares_body,
        });
        let (ledger, write_fault) = Ledger::open(Path::new(&settings.ledger), |line| {
            book.absorb(&line).map_err(|error| error.to_string())
        })?;
        let refused = |source| SandboxError::Listen { address: settings.listen.clone(), source };
        let listener = TcpListener::bind(&settings.listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (stop, stopping) = watch::channel(false);
        let shared = Shared {
            book: Mutex::new(book),
            ledger,
            clock,
            bearer: format!("Bearer {}", &*settings.secret),
            latency: settings.latency,
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
        let server = axum::serve(Resettable(listener), service).with_graceful_shutdown(async move {
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
        let ended = tokio::select! {
            biased;
            Ok(error) = write_fault => Err(SandboxError::NotDurable(error)),
            served = server.into_future() => served.map_err(SandboxError::Server),
            () = stopper => Ok(()),
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

//! The listening end: an accept loop of our own, because the usual one has no limit on how long a
//! client may take over its headers, nor on how many connections are open.
//!
//! HTTP/1.1 only. A connection that has not sent a whole head in `header_timeout` is closed, also
//! one that idles between two requests. A head that cannot be parsed, or has more than 64 KiB (hyper
//! looks between two reads, so twice that may pass) or 100 lines, is answered by hyper itself, with a
//! bare status: it offers no place for a body. Past `max_connections` the loop stops accepting, so that
//! the kernel's queue and then the clients wait. A client that takes nothing of its answer for [`UNTAKEN`] is cut
//! (`outflow`).
//!
//! On shutdown `/readyz` says so at once, and for `grace` everything else goes on: whoever sends clients
//! here needs that long to hear it, and a client that is met by a closed port has an error that nobody
//! had to cause. What is answered meanwhile carries `Connection: close`, so that clients leave between
//! two requests and not in one. Then the listener closes, connections that are idle still are closed, and
//! requests in flight have `drain` to end.

use super::address::Peer;
use super::outflow::Outflow;
use crate::platform::clock::SharedClock;
use crate::platform::config::Api;
use axum::Router;
use axum::http::{HeaderValue, Request, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower::ServiceExt;

/// How long a client may take nothing of what is written to it.
const UNTAKEN: Duration = Duration::from_secs(30);

/// Why the interface does not listen.
#[derive(Debug, thiserror::Error)]
pub enum CannotListen {
    /// The setting is not an address; correct it.
    #[error("api.listen = {listen:?} is not an address with a port, such as 127.0.0.1:8080: {source}")]
    NotAnAddress {
        /// The setting.
        listen: String,
        /// The system's word.
        source: io::Error,
    },
    /// Someone else listens there; stop it, or choose another port.
    #[error("api.listen = {listen:?} is taken by another process; stop it or set api.listen to a free port")]
    Taken {
        /// The setting.
        listen: String,
    },
    /// The system refuses, for example a port below 1024.
    #[error("api.listen = {listen:?} cannot be listened on: {source}")]
    Refused {
        /// The setting.
        listen: String,
        /// The system's word.
        source: io::Error,
    },
}

/// Starts to listen on `api.listen`.
///
/// # Errors
/// [`CannotListen`], which names the setting.
pub async fn listen(listen: &str) -> Result<TcpListener, CannotListen> {
    let owned = || listen.to_owned();
    match TcpListener::bind(listen).await {
        Ok(listener) => Ok(listener),
        Err(source) => Err(match source.kind() {
            io::ErrorKind::AddrInUse => CannotListen::Taken { listen: owned() },
            io::ErrorKind::InvalidInput => CannotListen::NotAnAddress { listen: owned(), source },
            _ if !listen.contains(':') => CannotListen::NotAnAddress { listen: owned(), source },
            _ => CannotListen::Refused { listen: owned(), source },
        }),
    }
}

/// The limits of connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For a whole request head, and for idling before the next.
    pub header_timeout: Duration,
    /// For a client to take nothing of its answer.
    pub untaken: Duration,
    /// Connections open at once.
    pub max_connections: usize,
    /// From the word to stop until no new connection is taken.
    pub grace: Duration,
    /// For requests in flight after that.
    pub drain: Duration,
}

impl From<&Api> for Limits {
    fn from(api: &Api) -> Self {
        Self {
            header_timeout: api.header_timeout,
            untaken: UNTAKEN,
            max_connections: api.max_connections,
            grace: api.drain_grace,
            // Every request ends by its own limit; the second is for writing its answer.
            drain: api.request_timeout + Duration::from_secs(1),
        }
    }
}

/// Serves until `stop` turns true (or its sender is gone), goes on for the grace period, then drains.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    limits: Limits,
    clock: SharedClock,
    mut stop: watch::Receiver<bool>,
) {
    let (close, closing) = watch::channel(false);
    let mut door = Door {
        room: Arc::new(Semaphore::new(limits.max_connections.clamp(1, Semaphore::MAX_PERMITS))),
        listener,
        app,
        limits,
        words: Words { leaving: stop.clone(), closing },
        open: JoinSet::new(),
        clock,
    };
    door.takes_until(stopped(&mut stop)).await;
    let grace = door.clock.sleep(limits.grace);
    door.takes_until(grace).await;
    let Door { listener, mut open, clock, .. } = door;
    drop(listener);
    close.send_replace(true);
    let all_closed = async { while open.join_next().await.is_some() {} };
    tokio::select! {
        biased;
        () = all_closed => {}
        () = clock.sleep(limits.drain) => tracing::warn!("connections were still open at the end of the drain"),
    }
    // Dropping the set ends what is left.
}

/// Where connections come in.
struct Door {
    listener: TcpListener,
    app: Router,
    limits: Limits,
    room: Arc<Semaphore>,
    words: Words,
    open: JoinSet<()>,
    clock: SharedClock,
}

impl Door {
    /// Takes connections until `until` resolves.
    async fn takes_until(&mut self, until: impl Future<Output = ()>) {
        let mut until = pin!(until);
        loop {
            tokio::select! {
                biased;
                () = until.as_mut() => return,
                // Reaped as they end, so that the set holds open connections only.
                Some(_) = self.open.join_next() => {}
                accepted = accept(&self.listener, &self.room, &self.clock) => {
                    if let Some((stream, peer, permit)) = accepted {
                        let _ = stream.set_nodelay(true);
                        let (app, words) = (self.app.clone(), self.words.clone());
                        let stream = Outflow::of(stream, self.limits.untaken, self.clock.clone());
                        let accepted = (stream, Peer(peer), permit);
                        self.open.spawn(connection(accepted, app, self.limits, words));
                    }
                }
            }
        }
    }
}

/// What a connection is told.
#[derive(Clone)]
struct Words {
    /// Answer, and say that the next request belongs elsewhere.
    leaving: watch::Receiver<bool>,
    /// Answer what is here, and close.
    closing: watch::Receiver<bool>,
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone: nobody could stop us later.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The next connection and its place; `None` after an error, to be tried again.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
    clock: &SharedClock,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    // The semaphore is never closed.
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, permit)),
        Err(error) if is_of_the_peer(&error) => None,
        Err(error) => {
            // Usually out of file descriptors: the connection stays queued, so a loop without a
            // pause would spin.
            tracing::warn!(%error, "could not accept a connection");
            clock.sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::ConnectionAborted | K::ConnectionReset | K::ConnectionRefused)
}

async fn connection(
    (stream, peer, permit): (Outflow, Peer, OwnedSemaphorePermit),
    app: Router,
    limits: Limits,
    words: Words,
) {
    let Words { leaving, mut closing } = words;
    let app = ServiceExt::<Request<Incoming>>::map_request(app, move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request
    });
    let app = ServiceExt::<Request<Incoming>>::map_response(app, move |mut answer: Response| {
        if *leaving.borrow() || leaving.has_changed().is_err() {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout).max_buf_size(64 * 1024);
    let mut serving = pin!(http.serve_connection(stream, TowerToHyperService::new(app)));
    let ended = tokio::select! {
        biased;
        ended = serving.as_mut() => Some(ended),
        () = stopped(&mut closing) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
    drop(permit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::clock::{Clock, Host};
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Notify;

    struct Server {
        address: SocketAddr,
        stop: watch::Sender<bool>,
        done: tokio::task::JoinHandle<()>,
    }

    async fn server(app: Router, header_ms: u64, max_connections: usize, drain_ms: u64) -> Server {
        server_with(app, header_ms, max_connections, 0, drain_ms).await
    }

    async fn server_with(
        app: Router,
        header_ms: u64,
        max_connections: usize,
        grace_ms: u64,
        drain_ms: u64,
    ) -> Server {
        let listener = listen("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let limits = Limits {
            header_timeout: Duration::from_millis(header_ms),
            untaken: Duration::from_millis(200),
            max_connections,
            grace: Duration::from_millis(grace_ms),
            drain: Duration::from_millis(drain_ms),
        };
        let done = tokio::spawn(serve(listener, app, limits, Arc::new(Host), stopped));
        Server { address, stop, done }
    }

    fn app() -> Router {
        Router::new().route("/", get(|| async { "fine" }))
    }

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    async fn answer(stream: &mut TcpStream) -> String {
        let mut bytes = vec![0; 1024];
        let length = stream.read(&mut bytes).await.unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// Reads until the server closes.
    async fn closed(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text).await;
        text
    }

    #[tokio::test]
    async fn a_client_that_dawdles_over_its_headers_is_cut_and_others_are_served() {
        let server = server(app(), 100, 10, 1_000).await;
        let mut slow = TcpStream::connect(server.address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ").await.unwrap();
        let mut silent = TcpStream::connect(server.address).await.unwrap();
        let mut quick = TcpStream::connect(server.address).await.unwrap();
        quick.write_all(REQUEST).await.unwrap();
        assert!(answer(&mut quick).await.starts_with("HTTP/1.1 200"));
        // Each of these returns only because the server closes the connection.
        assert!(!closed(&mut slow).await.contains("200"));
        assert_eq!(closed(&mut silent).await, "");
        assert_eq!(closed(&mut quick).await, "", "an idle connection is closed as well");
    }

    #[tokio::test]
    async fn past_the_cap_a_connection_waits_for_a_place() {
        let server = server(app(), 60_000, 1, 1_000).await;
        let mut first = TcpStream::connect(server.address).await.unwrap();
        first.write_all(REQUEST).await.unwrap();
        assert!(answer(&mut first).await.starts_with("HTTP/1.1 200"));
        let mut second = TcpStream::connect(server.address).await.unwrap();
        second.write_all(REQUEST).await.unwrap();
        let mut byte = [0];
        tokio::select! {
            biased;
            _ = second.peek(&mut byte) => panic!("answered while the only place was taken"),
            () = Host.sleep(Duration::from_millis(100)) => {}
        }
        drop(first);
        assert!(answer(&mut second).await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn shutdown_closes_idle_connections_and_lets_requests_end() {
        let (entered, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (entered2, go2) = (entered.clone(), go.clone());
        let slow = get(move || async move {
            entered2.notify_one();
            go2.notified().await;
            "ended"
        });
        let server = server(Router::new().route("/", slow), 60_000, 10, 60_000).await;
        let mut idle = TcpStream::connect(server.address).await.unwrap();
        let mut busy = TcpStream::connect(server.address).await.unwrap();
        busy.write_all(REQUEST).await.unwrap();
        entered.notified().await;
        server.stop.send(true).unwrap();
        assert_eq!(closed(&mut idle).await, "");
        assert!(!server.done.is_finished());
        go.notify_one();
        assert!(closed(&mut busy).await.ends_with("ended"));
        server.done.await.unwrap();
        assert!(TcpStream::connect(server.address).await.is_err(), "still listening");
    }

    #[tokio::test]
    async fn in_the_grace_period_everything_is_answered_and_told_to_go_elsewhere_next() {
        let server = server_with(app(), 60_000, 10, 60_000, 1_000).await;
        let mut idle = TcpStream::connect(server.address).await.unwrap();
        idle.write_all(REQUEST).await.unwrap();
        assert!(!answer(&mut idle).await.to_lowercase().contains("connection: close"));
        server.stop.send(true).unwrap();
        idle.write_all(REQUEST).await.unwrap();
        let last = closed(&mut idle).await.to_lowercase();
        assert!(last.starts_with("http/1.1 200") && last.contains("connection: close"), "{last}");
        let mut fresh = TcpStream::connect(server.address).await.unwrap();
        fresh.write_all(REQUEST).await.unwrap();
        let last = closed(&mut fresh).await.to_lowercase();
        assert!(last.starts_with("http/1.1 200") && last.contains("connection: close"), "{last}");
        assert!(!server.done.is_finished());
        server.done.abort();
    }

    #[tokio::test]
    async fn after_the_grace_period_idle_connections_close_and_none_is_taken() {
        let server = server_with(app(), 60_000, 10, 50, 60_000).await;
        let mut idle = TcpStream::connect(server.address).await.unwrap();
        idle.write_all(REQUEST).await.unwrap();
        assert!(answer(&mut idle).await.starts_with("HTTP/1.1 200"));
        server.stop.send(true).unwrap();
        assert_eq!(closed(&mut idle).await, "");
        server.done.await.unwrap();
        assert!(TcpStream::connect(server.address).await.is_err(), "still listening");
    }

    #[tokio::test]
    async fn a_request_that_does_not_end_is_dropped_after_the_drain() {
        let entered = Arc::new(Notify::new());
        let entered2 = entered.clone();
        let stuck = get(move || async move {
            entered2.notify_one();
            std::future::pending::<()>().await;
        });
        let server = server(Router::new().route("/", stuck), 60_000, 10, 50).await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        entered.notified().await;
        server.stop.send(true).unwrap();
        server.done.await.unwrap();
        assert_eq!(closed(&mut stream).await, "");
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_gives_its_place_back_with_all_that_its_answer_holds() {
        struct Held(Arc<Notify>);
        impl Drop for Held {
            fn drop(&mut self) {
                self.0.notify_one();
            }
        }
        let freed = Arc::new(Notify::new());
        let freed2 = freed.clone();
        let endless = get(move || {
            let held = Held(freed2.clone());
            async move {
                let bytes = futures_util::stream::unfold(held, |held| async move {
                    Some((Ok::<_, std::convert::Infallible>(vec![0_u8; 64 * 1024]), held))
                });
                axum::body::Body::from_stream(bytes)
            }
        });
        let app = Router::new().route("/endless", endless).route("/", get(|| async { "fine" }));
        let server = server(app, 60_000, 1, 1_000).await;
        let mut silent = TcpStream::connect(server.address).await.unwrap();
        silent.write_all(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        freed.notified().await;
        // The only place is free as well, although the client has not gone.
        let mut next = TcpStream::connect(server.address).await.unwrap();
        next.write_all(REQUEST).await.unwrap();
        assert!(answer(&mut next).await.starts_with("HTTP/1.1 200"));
        drop(silent);
    }

    #[tokio::test]
    async fn a_listener_that_cannot_be_had_names_the_setting() {
        let taken = listen("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error = listen(&address).await.unwrap_err();
        assert!(matches!(error, CannotListen::Taken { .. }));
        assert!(error.to_string().contains("api.listen") && error.to_string().contains(&address));
        for bad in ["", "8080", "localhost", "127.0.0.1:99999"] {
            let error = listen(bad).await.unwrap_err();
            assert!(matches!(error, CannotListen::NotAnAddress { .. }), "{bad}: {error:?}");
            assert!(error.to_string().contains("api.listen"));
        }
    }
}

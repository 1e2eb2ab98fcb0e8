//! A TCP proxy that breaks the network on purpose.
//!
//! It stands before Postgres, a gateway or a broker and behaves as told by [`Fault`]; a change
//! takes effect at once, on the open connections too, except where a fault says otherwise.
//! Each direction of a connection is a pump of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// What the network does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: bytes pass.
    Pass,
    /// New connections are refused, as when nothing listens. Open ones pass.
    Refuse,
    /// Bytes vanish in the given direction; connections open and stay open.
    BlackHole(Way),
    /// Open connections are reset, new ones are accepted and reset.
    Reset,
    /// Each piece of bytes waits, in both directions.
    Delay(Duration),
    /// Once: when these bytes have gone to the server, its answer is thrown away as it arrives and
    /// the connection closes. So the server *has* acted and the client cannot know it.
    CutAfter(Vec<u8>),
    /// Like [`Fault::CutAfter`] with the last of these, once all of them have gone to the server in
    /// this order on one connection: "the COMMIT after the statement that names me".
    CutAfterAll(Vec<Vec<u8>>),
    /// From these bytes on (within one piece), what goes to the server waits, connection by connection,
    /// until the fault changes: a message that was on its way for a very long time.
    HoldFrom(Vec<u8>),
}

/// Which bytes vanish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From client to server.
    ToServer,
    /// From server to client.
    ToClient,
    /// All.
    Both,
}

/// A running proxy; it and its connections end with the value.
#[derive(Debug)]
pub struct Proxy {
    /// Where clients connect.
    pub address: SocketAddr,
    fault: watch::Sender<Fault>,
    shared: Arc<Counters>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    cuts: AtomicU64,
    holds: AtomicU64,
}

impl Proxy {
    /// Listens on a free loopback port and forwards to `upstream`.
    pub async fn start(upstream: SocketAddr) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, punctual::dev::ports::free()));
        let listener = TcpListener::bind(address).await.expect("a port that was free just now");
        let (fault, _) = watch::channel(Fault::Pass);
        let shared = Arc::new(Counters::default());
        let task = tokio::spawn(accept(listener, address, upstream, fault.clone(), shared.clone()));
        Self { address, fault, shared, task }
    }

    /// In front of what a URL points to; gives the same URL through the proxy.
    pub async fn before(url: &str) -> (Self, String) {
        let mut through = reqwest::Url::parse(url).expect("a URL");
        let host = through.host_str().expect("a host").trim_matches(['[', ']']).to_owned();
        let port = through.port_or_known_default().unwrap_or(5432);
        let upstream = tokio::net::lookup_host((host, port)).await.expect("an address").next();
        let proxy = Self::start(upstream.expect("an address")).await;
        through.set_host(Some("127.0.0.1")).expect("a host can be set");
        through.set_port(Some(proxy.address.port())).expect("a port can be set");
        let through = through.to_string().trim_end_matches('/').to_owned();
        (proxy, through)
    }

    /// Cuts once as soon as these bytes have gone to the server, unless something else is wrong already.
    pub fn arm(&self, pattern: &[u8]) {
        self.fault.send_if_modified(|fault| {
            let passes = *fault == Fault::Pass;
            if passes {
                *fault = Fault::CutAfter(pattern.to_vec());
            }
            passes
        });
    }

    /// Behaves like this from now on. Returns when new connections meet it.
    pub async fn set(&self, fault: Fault) {
        let refuses = fault == Fault::Refuse;
        self.fault.send_replace(fault);
        // Listening begins and ends in the proxy's own task.
        super::eventually("the proxy follows", Duration::from_secs(5), || async {
            (TcpListener::bind(self.address).await.is_ok() == refuses).then_some(())
        })
        .await;
    }

    /// Connections taken so far.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How often [`Fault::CutAfter`] has cut.
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// How often [`Fault::HoldFrom`] has held.
    pub fn holds(&self) -> u64 {
        self.shared.holds.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    address: SocketAddr,
    upstream: SocketAddr,
    fault: watch::Sender<Fault>,
    shared: Arc<Counters>,
) {
    let mut listener = Some(listener);
    let mut changes = fault.subscribe();
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        let refuses = *changes.borrow_and_update() == Fault::Refuse;
        if refuses {
            listener = None;
        } else if listener.is_none() {
            listener = TcpListener::bind(address).await.ok();
        }
        let incoming = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            changed = changes.changed() => if changed.is_err() { return },
            Some(_) = connections.join_next() => {}
            accepted = incoming => {
                let Ok((client, _)) = accepted else { continue };
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                connections.spawn(connection(client, upstream, fault.clone(), shared.clone()));
            }
        }
    }
}

async fn connection(
    mut client: TcpStream,
    upstream: SocketAddr,
    fault: watch::Sender<Fault>,
    shared: Arc<Counters>,
) {
    let Ok(mut server) = TcpStream::connect(upstream).await else { return };
    let _best_effort = (client.set_nodelay(true), server.set_nodelay(true));
    // True once the bytes of a cut are on their way to the server.
    let (cutting, _) = watch::channel(false);
    let pump = |way| {
        let (fault, shared, cutting) = (fault.clone(), shared.clone(), cutting.clone());
        Pump { way, fault, shared, cutting, seen: Vec::new(), found: 0 }
    };
    let (up, down) = (pump(Way::ToServer), pump(Way::ToClient));
    let end = {
        let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
        let (up, down) = (up.run(from_client, to_server), down.run(from_server, to_client));
        tokio::pin!(up, down);
        // A direction that has closed leaves the other open; anything else ends both.
        tokio::select! {
            biased;
            end = &mut up => if end == End::Closed { down.await } else { end },
            end = &mut down => if end == End::Closed { up.await } else { end },
        }
    };
    match end {
        End::Closed => {}
        End::Cut => drop(shared.cuts.fetch_add(1, Ordering::SeqCst)),
        // Closing without lingering sends a reset instead of an orderly end.
        End::Reset => drop((client.set_zero_linger(), server.set_zero_linger())),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Cut,
    Reset,
}

struct Pump {
    way: Way,
    fault: watch::Sender<Fault>,
    shared: Arc<Counters>,
    cutting: watch::Sender<bool>,
    /// The end of what has passed, long enough to find a pattern that two reads share.
    seen: Vec<u8>,
    /// How many of several patterns have passed.
    found: usize,
}

impl Pump {
    async fn run(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> End {
        let mut changes = self.fault.subscribe();
        let mut bytes = vec![0; 16 * 1024];
        loop {
            if *changes.borrow_and_update() == Fault::Reset {
                return End::Reset;
            }
            let read = tokio::select! {
                biased;
                changed = changes.changed() => if changed.is_err() { return End::Closed } else { continue },
                read = from.read(&mut bytes) => read,
            };
            if self.way == Way::ToClient && *self.cutting.borrow() {
                return End::Cut;
            }
            let bytes = match read {
                Ok(read @ 1..) => &bytes[..read],
                _ => break,
            };
            let fault = self.fault.borrow().clone();
            match fault {
                Fault::BlackHole(way) if way == self.way || way == Way::Both => continue,
                Fault::Delay(pause) => tokio::time::sleep(pause).await,
                Fault::CutAfter(pattern) if self.way == Way::ToServer => self.look_for(&[pattern], bytes),
                Fault::CutAfterAll(patterns) if self.way == Way::ToServer => self.look_for(&patterns, bytes),
                Fault::HoldFrom(pattern)
                    if self.way == Way::ToServer
                        && bytes.windows(pattern.len()).any(|window| window == pattern) =>
                {
                    self.shared.holds.fetch_add(1, Ordering::SeqCst);
                    let _gone = changes.wait_for(|fault| !matches!(fault, Fault::HoldFrom(_))).await;
                }
                _ => {}
            }
            if to.write_all(bytes).await.is_err() {
                break;
            }
        }
        let _closed_already = to.shutdown().await;
        End::Closed
    }

    /// Marks the connection before the bytes are forwarded, so that the answer cannot overtake.
    fn look_for(&mut self, patterns: &[Vec<u8>], bytes: &[u8]) {
        self.seen.extend_from_slice(bytes);
        while let Some(pattern) = patterns.get(self.found) {
            let Some(at) = self.seen.windows(pattern.len()).position(|window| window == pattern) else {
                break;
            };
            self.seen.drain(..at + pattern.len());
            self.found += 1;
        }
        if self.found >= patterns.len() {
            self.found = 0;
            // Once: the next connection passes.
            let first = self.fault.send_if_modified(|fault| {
                let armed = matches!(fault, Fault::CutAfter(_) | Fault::CutAfterAll(_));
                if armed {
                    *fault = Fault::Pass;
                }
                armed
            });
            if first {
                self.cutting.send_replace(true);
            }
        }
        let keep = patterns.get(self.found).map_or(0, |pattern| pattern.len().saturating_sub(1));
        self.seen.drain(..self.seen.len().saturating_sub(keep));
    }
}

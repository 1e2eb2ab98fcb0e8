//! TCP connections that can be reset from inside a request, and a listener that can refuse.
//!
//! **Promises**: while the sandbox refuses, the port answers a connection attempt as a machine
//! without the service does, and every open connection is reset, except one that is just being told
//! so. **How**: the port stays bound by a socket that does not listen, so that nobody is given it as a
//! free one meanwhile; the one that listens comes and goes.

use crate::platform::clock::SharedClock;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use tokio::sync::watch;

/// Connections that wait to be taken.
const BACKLOG: u32 = 4_096;

/// Between two attempts to listen again after an outage.
const LISTEN_AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Marks {
    reset: AtomicBool,
    spared: AtomicBool,
}

/// One client's connection, as its requests see it.
#[derive(Debug, Clone, Default)]
pub(super) struct Peer(Arc<Marks>);

impl Peer {
    /// Nothing is written any more: the next thing the client sees is a reset.
    pub(super) fn reset(&self) {
        self.0.reset.store(true, Ordering::Release);
    }

    /// An outage that begins does not cut this connection off.
    pub(super) fn spare(&self) {
        self.0.spared.store(true, Ordering::Release);
    }
}

/// A listener whose connections can be reset and that can refuse them.
pub(super) struct Resettable {
    /// Bound, not listening.
    _port: TcpSocket,
    address: SocketAddr,
    listening: Option<TcpListener>,
    refusing: watch::Receiver<bool>,
    clock: SharedClock,
}

impl Resettable {
    /// Takes the port and listens; port 0 takes a free one.
    pub(super) async fn bind(
        listen: &str,
        refusing: watch::Receiver<bool>,
        clock: SharedClock,
    ) -> io::Result<Self> {
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "no such address");
        for address in lookup_host(listen).await? {
            let both = bound(address).and_then(|port| {
                let address = port.local_addr()?;
                Ok((port, address, bound(address)?.listen(BACKLOG)?))
            });
            match both {
                Ok((port, address, tcp)) => {
                    let listening = Some(tcp);
                    return Ok(Self { _port: port, address, listening, refusing, clock });
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Lets the two sockets of one port be, and a restart take a port whose connections still linger.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Resolves when the sandbox begins to refuse; for ever if it ends before.
async fn until(mut refusing: watch::Receiver<bool>, wanted: bool) {
    if refusing.wait_for(|refusing| *refusing == wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A stream that turns every further read and write into a reset once its [`Peer`] says so or the
/// sandbox begins to refuse.
pub(super) struct Stream {
    tcp: TcpStream,
    peer: Peer,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Stream {
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let marks = &self.peer.0;
        if !marks.reset.load(Ordering::Acquire) {
            if marks.spared.load(Ordering::Acquire) || self.cut.as_mut().poll(cx).is_pending() {
                return Ok(());
            }
            // Also keeps the finished future from being asked again.
            self.peer.reset();
        }
        // With linger 0 the drop that follows sends RST instead of FIN.
        self.tcp.set_zero_linger()?;
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

impl Listener for Resettable {
    type Io = Stream;
    type Addr = Peer;

    async fn accept(&mut self) -> (Stream, Peer) {
        loop {
            if *self.refusing.borrow() {
                // Closing it also resets what waited to be taken.
                self.listening = None;
                until(self.refusing.clone(), false).await;
                continue;
            }
            let listening = match &mut self.listening {
                Some(listening) => listening,
                None => match bound(self.address).and_then(|socket| socket.listen(BACKLOG)) {
                    Ok(tcp) => self.listening.insert(tcp),
                    Err(error) => {
                        tracing::error!(%error, address = %self.address, "cannot listen again yet");
                        self.clock.sleep(LISTEN_AGAIN).await;
                        continue;
                    }
                },
            };
            let tcp = tokio::select! {
                biased;
                () = until(self.refusing.clone(), true) => continue,
                (tcp, _) = Listener::accept(listening) => tcp,
            };
            // Only latency is lost without it.
            let _ = tcp.set_nodelay(true);
            let peer = Peer::default();
            let cut = Box::pin(until(self.refusing.clone(), true));
            return (Stream { tcp, peer: peer.clone(), cut }, peer);
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer::default())
    }
}

impl Connected<IncomingStream<'_, Resettable>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Resettable>) -> Self {
        stream.remote_addr().clone()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}

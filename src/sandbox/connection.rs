//! TCP connections that can be reset from inside a request.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// One client's connection, as its requests see it.
#[derive(Debug, Clone, Default)]
pub(super) struct Peer(Arc<AtomicBool>);

impl Peer {
    /// Nothing is written any more: the next thing the client sees is a reset.
    pub(super) fn reset(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A listener whose connections can be reset.
pub(super) struct Resettable(pub(super) TcpListener);

/// A stream that turns every further read and write into a reset once its [`Peer`] says so.
pub(super) struct Stream {
    tcp: TcpStream,
    peer: Peer,
}

impl Stream {
    fn check(&self) -> io::Result<()> {
        if !self.peer.0.load(Ordering::Acquire) {
            return Ok(());
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
        let (tcp, _) = Listener::accept(&mut self.0).await;
        // Only latency is lost without it.
        let _ = tcp.set_nodelay(true);
        let peer = Peer::default();
        (Stream { tcp, peer: peer.clone() }, peer)
    }

    fn local_addr(&self) -> io::Result<Peer> {
        self.0.local_addr().map(|_: SocketAddr| Peer::default())
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
        self.check()?;
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}

//! The way out of a connection: a client that takes nothing of its answer for too long is cut.
//!
//! **Promise.** What is written to a client that has stopped reading holds its connection, and whatever the answer
//! itself holds (a place among the streams of events), for no longer than the limit. Heads and bodies that come in
//! have limits of their own, and so has the work between them; without this one a client could ask, read nothing, and
//! keep its connection for good, since the kernel does not give up on a peer that says that its window is shut.
//!
//! What the kernel takes on the client's behalf counts as taken: the time begins once its buffers are full. A client
//! that takes a little now and then goes on.

use crate::platform::clock::SharedClock;
use futures_util::future::BoxFuture;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;

/// A connection whose client must take what is written to it.
pub(super) struct Outflow {
    io: TokioIo<TcpStream>,
    longest: Duration,
    clock: SharedClock,
    /// Runs while the client takes nothing.
    waits: Option<BoxFuture<'static, ()>>,
}

impl Outflow {
    /// Cut once the client has taken nothing for `longest`.
    pub(super) fn of(stream: TcpStream, longest: Duration, clock: SharedClock) -> Self {
        Self { io: TokioIo::new(stream), longest, clock, waits: None }
    }

    /// What came of a write, or that its time is over.
    fn judged(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let (clock, longest) = (&self.clock, self.longest);
        let waits = self.waits.get_or_insert_with(|| clock.sleep(longest));
        if waits.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.waits = None;
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Read for Outflow {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(cx, buf)
    }
}

impl Write for Outflow {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outflow = self.get_mut();
        let written = Pin::new(&mut outflow.io).poll_write(cx, buf);
        outflow.judged(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outflow = self.get_mut();
        let written = Pin::new(&mut outflow.io).poll_write_vectored(cx, bufs);
        outflow.judged(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::clock::{Clock, Host};
    use std::future::poll_fn;
    use std::sync::Arc;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    async fn pair(longest_ms: u64) -> (Outflow, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        (Outflow::of(stream, Duration::from_millis(longest_ms), Arc::new(Host)), client)
    }

    async fn write(outflow: &mut Outflow, bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| Pin::new(&mut *outflow).poll_write(cx, bytes)).await
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_cut_once_the_buffers_are_full() {
        let (mut outflow, client) = pair(50).await;
        let bytes = vec![0; 64 * 1024];
        let cut = loop {
            if let Err(error) = write(&mut outflow, &bytes).await {
                break error;
            }
        };
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut);
        drop(client);
    }

    #[tokio::test]
    async fn a_client_that_reads_goes_on_for_longer_than_the_limit() {
        let (mut outflow, mut client) = pair(300).await;
        // Slower than the limit in sum, and faster at each step.
        let reader = tokio::spawn(async move {
            let (mut buffer, mut read, mut rests_at) = (vec![0; 64 * 1024], 0, 0);
            while read < 32 * 1024 * 1024 {
                if read >= rests_at {
                    rests_at += 1024 * 1024;
                    Host.sleep(Duration::from_millis(20)).await;
                }
                read += client.read(&mut buffer).await.unwrap();
            }
        });
        let bytes = vec![0; 64 * 1024];
        let mut written = 0;
        while written < 32 * 1024 * 1024 {
            written += write(&mut outflow, &bytes).await.unwrap();
        }
        reader.await.unwrap();
    }
}

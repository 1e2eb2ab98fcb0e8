//! The one check right before the write, as a request body (rules R14, R15).
//!
//! **Promises**: the body's bytes are handed to the connection at most once, and only if
//! [`SendGate::check`] said yes at that very moment; afterwards [`Watch::finish`] says whether they
//! were. **Relies on** HTTP/1: hyper buffers the head and asks for the body before it flushes, and a
//! head that promises a body is no request without it. **Why a body**: connecting, the pool's queue
//! and TLS all lie before the first poll, so nothing that takes time lies between check and write.
//! **If this dies** between check and write, a claim stands without an answer; its lease expires
//! and the payment is asked about, never assumed unsent.
//!
//! The state moves once: WAITING → CHECKED (bytes or a refusal were handed out) by the connection's
//! task, or WAITING → ABANDONED by the caller who stopped waiting. Whoever comes second sees that,
//! so a request given up on while it still queued can never be written later.

use crate::domain::lease::SendGate;
use crate::domain::verdict::NotSent;
use crate::platform::clock::SharedClock;
use crate::platform::failpoints::{Point, reach};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

const WAITING: u8 = 0;
const CHECKED: u8 = 1;
const ABANDONED: u8 = 2;

#[derive(Debug, Default)]
struct Shared {
    state: AtomicU8,
    refused: OnceLock<NotSent>,
}

impl Shared {
    fn leave_waiting(&self, to: u8) -> bool {
        self.state.compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Whether a request's body left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Its bytes were handed to the connection: the gateway may have all of them.
    Maybe,
    /// The gate refused; nothing was and nothing will be written.
    Refused(NotSent),
    /// It was never asked for, and from now on never will be.
    Never,
}

/// The caller's side of one body. Dropping it abandons a body that still waits.
#[derive(Debug)]
pub(super) struct Watch(Arc<Shared>);

impl Watch {
    /// Says whether the body left, and makes sure that it does not leave any more.
    pub(super) fn finish(&self) -> Left {
        if self.0.leave_waiting(ABANDONED) || self.0.state.load(Ordering::Acquire) == ABANDONED {
            return Left::Never;
        }
        // A refusal may be a moment from being stored; until it is, `Maybe` is the safe answer.
        self.0.refused.get().map_or(Left::Maybe, |why| Left::Refused(*why))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.leave_waiting(ABANDONED);
    }
}

/// Why a body gave no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoBytes {
    /// The check right before the write said no.
    #[error("the send gate refused: {0:?}")]
    Refused(NotSent),
    /// Asked for a second time, or after the caller gave up.
    #[error("this body was already sent or given up")]
    Spent,
}

/// A body that checks the gate at its first poll and gives its bytes at most once. Not `Clone`.
pub(super) struct GatedBody {
    shared: Arc<Shared>,
    bytes: Bytes,
    gate: SendGate,
    clock: SharedClock,
    ended: bool,
}

/// A body of `bytes` behind `gate`, and the watch over it.
pub(super) fn gated(bytes: Bytes, gate: SendGate, clock: SharedClock) -> (GatedBody, Watch) {
    let shared = Arc::new(Shared::default());
    let watch = Watch(Arc::clone(&shared));
    (GatedBody { shared, bytes, gate, clock, ended: false }, watch)
}

impl Body for GatedBody {
    type Data = Bytes;
    type Error = NoBytes;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NoBytes>>> {
        self.ended = true;
        if !self.shared.leave_waiting(CHECKED) {
            return Poll::Ready(Some(Err(NoBytes::Spent)));
        }
        if let Err(why) = self.gate.check(self.clock.wall(), self.clock.mono()) {
            // First and only set: the exchange above lets one poll through.
            let _ = self.shared.refused.set(why);
            return Poll::Ready(Some(Err(NoBytes::Refused(why))));
        }
        reach(Point::GatePassed);
        reach(Point::AfterSend);
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.bytes)))))
    }

    // True right after the only frame, so that hyper never has to ask again.
    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        // usize is at most 64 bits wide on every supported target.
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::lease::Mono;
    use crate::platform::clock::Clock;
    use chrono::{DateTime, Utc};
    use futures_util::future::BoxFuture;
    use http_body_util::BodyExt;
    use std::time::Duration;

    struct Fixed(u64);

    impl Clock for Fixed {
        fn wall(&self) -> DateTime<Utc> {
            DateTime::from_timestamp(1_000, 0).expect("in range")
        }
        fn mono(&self) -> Mono {
            Mono(Duration::from_secs(self.0))
        }
        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    fn body(mono_s: u64) -> (GatedBody, Watch) {
        let gate = SendGate {
            send_before: Mono(Duration::from_secs(10)),
            not_before: DateTime::from_timestamp(1_000, 0).expect("in range"),
            key_usable_until: None,
            key_usable_until_mono: None,
            execute_before: None,
            switches: None,
        };
        gated(Bytes::from_static(b"money"), gate, Arc::new(Fixed(mono_s)))
    }

    async fn next(body: &mut GatedBody) -> Option<Result<Bytes, NoBytes>> {
        Some(body.frame().await?.map(|frame| frame.into_data().expect("only data")))
    }

    #[tokio::test]
    async fn an_open_gate_gives_the_bytes_once_and_never_again() {
        let (mut body, watch) = body(9);
        assert_eq!(body.size_hint().exact(), Some(5));
        assert!(!body.is_end_stream());
        assert_eq!(next(&mut body).await, Some(Ok(Bytes::from_static(b"money"))));
        assert!(body.is_end_stream());
        assert_eq!(next(&mut body).await, Some(Err(NoBytes::Spent)));
        assert_eq!(watch.finish(), Left::Maybe);
    }

    #[tokio::test]
    async fn a_closed_gate_gives_nothing_and_says_why() {
        let (mut body, watch) = body(10);
        assert_eq!(next(&mut body).await, Some(Err(NoBytes::Refused(NotSent::LeaseTooShort))));
        assert_eq!(watch.finish(), Left::Refused(NotSent::LeaseTooShort));
        assert_eq!(next(&mut body).await, Some(Err(NoBytes::Spent)));
    }

    #[tokio::test]
    async fn a_body_given_up_while_waiting_can_never_be_written_later() {
        let (mut body, watch) = body(9);
        assert_eq!(watch.finish(), Left::Never);
        assert_eq!(watch.finish(), Left::Never);
        assert_eq!(next(&mut body).await, Some(Err(NoBytes::Spent)));
    }

    #[tokio::test]
    async fn dropping_the_caller_gives_up_a_waiting_body() {
        let (mut body, watch) = body(9);
        drop(watch);
        assert_eq!(next(&mut body).await, Some(Err(NoBytes::Spent)));
    }
}

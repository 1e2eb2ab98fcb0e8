//! How much of one request is read, and what is said when the schedule cannot answer.
//!
//! A request's future is dropped when its client hangs up or its time is over; the schedule runs
//! every verb in a task of its own, so no transaction is dropped with it. The verb goes on to its
//! end, and a client that repeats its request learns it.

use super::problem::{Code, Problem};
use crate::schedule::ScheduleError;
use axum::body::{Body, Bytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest body, in bytes.
pub(super) const MAX_BODY: usize = 16 * 1024;

/// Largest body of a batch, in bytes.
pub(super) const MAX_BATCH: usize = 8 * 1024 * 1024;

/// Largest body of a gateway's callback, in bytes.
pub(super) const MAX_CALLBACK: usize = 64 * 1024;

/// Largest form of the dashboard, in bytes: a page of ids that were ticked, many times.
const MAX_FORM: usize = 128 * 1024;

/// Longest path with query, in bytes; the reader of heads gives up far later, and without a body.
pub(super) const MAX_URI: usize = 8 * 1024;

/// Tells whoever cuts a request off whether its body was still arriving, so that nothing can have
/// been done with it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrival(Arc<AtomicBool>);

impl Arrival {
    /// The body has begun to be read and has not ended.
    pub(super) fn is_awaited(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads a body to its end.
///
/// # Errors
/// 413 past [`MAX_BODY`]; 400 for a body that broke off.
pub(super) async fn read(body: Body, arrival: &Arrival) -> Result<Bytes, Problem> {
    read_at_most(MAX_BODY, body, arrival).await
}

/// The same for a gateway's callback.
///
/// # Errors
/// 413 past [`MAX_CALLBACK`]; 400 for a body that broke off.
pub(super) async fn read_callback(body: Body, arrival: &Arrival) -> Result<Bytes, Problem> {
    read_at_most(MAX_CALLBACK, body, arrival).await
}

/// The same for a batch.
///
/// # Errors
/// 413 past [`MAX_BATCH`]; 400 for a body that broke off.
pub(super) async fn read_batch(body: Body, arrival: &Arrival) -> Result<Bytes, Problem> {
    read_at_most(MAX_BATCH, body, arrival).await
}

/// The same for a form of the dashboard.
///
/// # Errors
/// 413 past [`MAX_FORM`]; 400 for a body that broke off.
pub(crate) async fn read_form(body: Body, arrival: &Arrival) -> Result<Bytes, Problem> {
    read_at_most(MAX_FORM, body, arrival).await
}

async fn read_at_most(most: usize, body: Body, arrival: &Arrival) -> Result<Bytes, Problem> {
    arrival.0.store(true, Ordering::Relaxed);
    let collected = Limited::new(body, most).collect().await;
    arrival.0.store(false, Ordering::Relaxed);
    match collected {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::new(Code::BodyTooLarge)),
        Err(_) => Err(Problem::new(Code::MalformedJson).detail("The body broke off.")),
    }
}

/// What a client is told when a verb of the schedule did not do its work: 503 or 500, never the
/// database's words. Logged here and nowhere else.
pub(crate) fn trouble(error: ScheduleError) -> Problem {
    match error {
        ScheduleError::Unavailable(_) => {
            tracing::warn!(%error, "answered 503");
            Problem::new(Code::DatabaseUnavailable).retry_after(2)
        }
        ScheduleError::CommitUnknown(_) => {
            tracing::warn!(%error, "answered 503, it may have happened");
            Problem::new(Code::DatabaseUnavailable)
                .detail("It may have happened. Repeat the request with the same key to learn its outcome.")
                .retry_after(2)
        }
        ScheduleError::Defect(_) => {
            tracing::error!(%error, "answered 500");
            Problem::new(Code::Internal)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_may_have_16_kib_and_not_a_byte_more() {
        let arrival = Arrival::default();
        assert_eq!(read(Body::from(vec![b' '; MAX_BODY]), &arrival).await.unwrap().len(), MAX_BODY);
        let over = read(Body::from(vec![b' '; MAX_BODY + 1]), &arrival).await.unwrap_err();
        assert!(!arrival.is_awaited());
        assert_eq!((over.code, over.code.http()), (Code::BodyTooLarge, 413));
    }

    #[test]
    fn trouble_with_the_database_is_503_with_retry_after_and_never_its_words() {
        let secret = "relation \"payments\" does not exist";
        for (error, code, retry_after_s) in [
            (ScheduleError::Unavailable(secret.into()), Code::DatabaseUnavailable, Some(2)),
            (ScheduleError::CommitUnknown(secret.into()), Code::DatabaseUnavailable, Some(2)),
            (ScheduleError::Defect(secret.into()), Code::Internal, None),
        ] {
            let problem = trouble(error);
            assert_eq!((problem.code, problem.retry_after_s), (code, retry_after_s));
            let written = String::from_utf8(problem.write("/", "r")).unwrap();
            assert!(!written.contains("relation"), "{written}");
        }
    }
}

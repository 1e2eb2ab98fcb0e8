//! From a driver's error to what the caller can do about it.
//!
//! The line that matters runs through COMMIT. Before it was sent, nothing has happened, for certain.
//! Once it was sent and its answer lost, it may have happened, and only the verb's own recovery can
//! tell. A transaction's future is never dropped half-way (sqlx's begin and commit are not
//! cancel-safe): [`whole`] runs it in a task of its own.

use super::port::ScheduleError;
use sqlx::{Error, Postgres, Transaction};
use std::future::Future;
use tracing::Instrument;

/// Does the database refuse this row's data, so that repeating it is no use? (SQLSTATE 22, 23)
pub(super) fn is_bad_data(error: &Error) -> bool {
    code(error).is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
}

/// Is it "no partition for this row"? Postgres reports it as a check violation without a constraint.
pub(super) fn is_missing_partition(error: &Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|db| db.code().as_deref() == Some("23514") && db.constraint().is_none())
}

fn code(error: &Error) -> Option<String> {
    error.as_database_error().and_then(|db| db.code()).map(|code| code.into_owned())
}

/// An error of a statement before COMMIT: nothing has happened.
pub(super) fn before_commit(error: Error) -> ScheduleError {
    // Connection lost, resources short, shutting down, read-only after a failover, lock or statement
    // time over, deadlock, serialisation: all pass by themselves.
    const PASSING: [&str; 10] =
        ["08", "53", "57P01", "57P02", "57P03", "57014", "55P03", "25006", "40", "25P03"];
    match code(&error) {
        Some(code) if PASSING.iter().any(|passing| code.starts_with(passing)) => {
            ScheduleError::Unavailable(Box::new(error))
        }
        Some(_) => ScheduleError::Defect(Box::new(error)),
        None => match error {
            Error::ColumnNotFound(_)
            | Error::ColumnDecode { .. }
            | Error::ColumnIndexOutOfBounds { .. }
            | Error::Decode(_)
            | Error::Encode(_)
            | Error::TypeNotFound { .. }
            | Error::RowNotFound
            | Error::Configuration(_)
            | Error::Migrate(_) => ScheduleError::Defect(Box::new(error)),
            _ => ScheduleError::Unavailable(Box::new(error)),
        },
    }
}

/// Commits. An error answered by the server means that it did not commit; silence means either.
pub(super) async fn commit(transaction: Transaction<'static, Postgres>) -> Result<(), ScheduleError> {
    match transaction.commit().await {
        Ok(()) => Ok(()),
        // 57014 at COMMIT can be the wait for the standby given up *after* the local commit.
        Err(error) if code(&error).is_some_and(|code| code != "57014" && !code.starts_with("57P")) => {
            Err(before_commit(error))
        }
        Err(error) => Err(ScheduleError::CommitUnknown(Box::new(error))),
    }
}

/// Runs a verb to its end even if the caller goes away.
pub(super) async fn whole<T: Send + 'static>(
    verb: impl Future<Output = Result<T, ScheduleError>> + Send + 'static,
) -> Result<T, ScheduleError> {
    match tokio::spawn(verb.in_current_span()).await {
        Ok(answer) => answer,
        // A panic inside, or the runtime going down: whether it committed is not known.
        Err(error) => Err(ScheduleError::CommitUnknown(Box::new(error))),
    }
}

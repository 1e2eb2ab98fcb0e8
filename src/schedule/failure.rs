//! From a driver's error to what the caller can do about it.
//!
//! The line that matters runs through COMMIT. Before it was sent, nothing has happened, for certain.
//! Once it was sent and its answer lost, it may have happened, and only the verb's own recovery can
//! tell. A transaction's future is never dropped half-way (sqlx's begin and commit are not
//! cancel-safe): [`whole`] runs it in a task of its own.

use super::caps::DailyCap;
use super::port::ScheduleError;
use super::row::Unfit;
use futures_util::future::BoxFuture;
use sqlx::{Error, PgConnection, PgPool, Postgres, Transaction};
use std::future::Future;
use tracing::Instrument;

/// The code raised by `refuse_external_id()`.
const EXTERNAL_ID_TAKEN: &str = "PU001";

/// Is it this row's data, so that repeating it is no use? Either the database refuses it (SQLSTATE 22,
/// 23), or it can be read and means nothing to us.
///
/// A missing partition is not the row's fault: it passes once the keeper has made it.
pub(super) fn is_bad_data(error: &Error) -> bool {
    if let Error::ColumnDecode { source, .. } = error {
        return source.is::<Unfit>();
    }
    let refused = code(error).is_some_and(|code| code.starts_with("22") || code.starts_with("23"));
    refused && !is_missing_partition(error)
}

/// Is it "no partition for this row"? Postgres reports it as a check violation without a constraint
/// (`ExecFindPartition` in `execPartition.c`); a failed CHECK always names one.
pub(super) fn is_missing_partition(error: &Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|db| db.code().as_deref() == Some("23514") && db.constraint().is_none())
}

/// Did `create.sql` refuse because another live payment has the external id?
pub(super) fn is_external_id_taken(error: &Error) -> bool {
    code(error).as_deref() == Some(EXTERNAL_ID_TAKEN)
}

/// Did `create.sql` refuse because what the key means was charged before a restore (rule R18)?
pub(super) fn is_charged_before(error: &Error) -> bool {
    code(error).as_deref() == Some("PU004")
}

/// Did `create.sql` refuse because the actor has created enough today?
pub(super) fn daily_cap(error: &Error) -> Option<DailyCap> {
    match code(error)?.as_str() {
        "PU002" => Some(DailyCap::Amount),
        "PU003" => Some(DailyCap::Payments),
        _ => None,
    }
}

fn code(error: &Error) -> Option<String> {
    error.as_database_error().and_then(|db| db.code()).map(|code| code.into_owned())
}

/// An error of a statement before COMMIT: nothing has happened.
pub(super) fn before_commit(error: Error) -> ScheduleError {
    // Connection lost, resources short, shutting down, read-only after a failover, asked for its log while it
    // recovers, lock or statement time over, deadlock, serialisation: all pass by themselves.
    const PASSING: [&str; 11] =
        ["08", "53", "57P01", "57P02", "57P03", "57014", "55000", "55P03", "25006", "40", "25P03"];
    match code(&error) {
        Some(_) if is_missing_partition(&error) => ScheduleError::Unavailable(Box::new(error)),
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

/// An error of COMMIT, or of a statement that is its own transaction. The server's refusal means that
/// nothing was committed; silence, and a session ended from outside, mean either: the wait for the
/// standby comes after the local commit.
pub(super) fn at_commit(error: Error) -> ScheduleError {
    let refused = code(&error).is_some_and(|code| code != "57014" && !code.starts_with("57P"));
    match before_commit(error) {
        // An answer that we cannot read was an answer of something that happened.
        known if refused => known,
        ScheduleError::Unavailable(source)
        | ScheduleError::CommitUnknown(source)
        | ScheduleError::Defect(source) => ScheduleError::CommitUnknown(source),
    }
}

/// Commits.
pub(super) async fn commit(transaction: Transaction<'static, Postgres>) -> Result<(), ScheduleError> {
    transaction.commit().await.map_err(at_commit)
}

/// One transaction, run to its end even if the caller goes away: committed whatever it answers, undone if it fails.
pub(super) async fn transaction<T: Send + 'static>(
    pool: &PgPool,
    work: impl for<'t> FnOnce(&'t mut PgConnection) -> BoxFuture<'t, Result<T, Error>> + Send + 'static,
) -> Result<T, ScheduleError> {
    let pool = pool.clone();
    whole(async move {
        let mut transaction = pool.begin().await.map_err(before_commit)?;
        let answer = work(&mut transaction).await.map_err(before_commit)?;
        commit(transaction).await?;
        Ok(answer)
    })
    .await
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

/// Why a batch was not written: one of its rows, or the database as a whole.
#[derive(Debug)]
pub(super) enum BatchFailure {
    /// At least one row is refused for its data; the others may pass without it.
    BadRow(Error),
    /// Nothing of it can be written now.
    Whole(ScheduleError),
}

impl From<Error> for BatchFailure {
    fn from(error: Error) -> Self {
        if is_bad_data(&error) { Self::BadRow(error) } else { Self::Whole(before_commit(error)) }
    }
}

impl BatchFailure {
    /// Every row of a batch was refused: that is not bad rows but a schema that does not fit, and
    /// parking them all would make it worse.
    pub(super) fn all_refused(error: Error) -> ScheduleError {
        ScheduleError::Defect(Box::new(error))
    }
}

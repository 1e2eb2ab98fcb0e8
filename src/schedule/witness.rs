//! Rule R17 without a new timeline: what this process remembers of the server's log.
//!
//! **Promise.** A server that came back from a copy of its past (a base backup started as it is, a snapshot of its
//! disk) wins no claim of a process that worked with it before: each claim brings the length of the log that the
//! process was last told of, and `sql/claim.sql` asks for no less. **Relies on** the durable log never becoming
//! shorter over any crash on one timeline; a new timeline is another lineage anyway. **Why in memory**: it must be
//! where no restore of the database reaches, and what a process has not seen it need not defend. If this dies here,
//! the next process begins to remember anew, and asks the topic of events first (`roles/lost_commits.rs`).

use super::lineage::{Loss, LossKind};
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, Row};
use std::sync::{Arc, Mutex, PoisonError};

/// How much of its log the server has said to have, and after how many releases: what this process remembers of it.
/// A copy of the server's past, on the same timeline, says less.
#[derive(Debug, Clone, Default)]
pub(super) struct Witness(Arc<Mutex<LogMark>>);

/// Of which release, and the length of the log; compared in this order, since each release begins a new memory. The
/// instant, by the database's clock, is compared last: what a loss is dated by (`enter_quarantine()`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogMark {
    pub(super) releases: i64,
    pub(super) log_at: i64,
    pub(super) at: Option<DateTime<Utc>>,
}

impl LogMark {
    /// Of a row that has the two, and in this column the instant.
    pub(super) fn of(found: &PgRow, at: &str) -> Result<Self, Error> {
        let at = Some(found.try_get(at)?);
        Ok(Self { releases: found.try_get("releases")?, log_at: found.try_get("log_at")?, at })
    }

    /// Is this less than what was known before?
    fn falls_short_of(self, known: Self) -> bool {
        (self.releases, self.log_at) < (known.releases, known.log_at)
    }
}

impl Witness {
    /// What it remembers.
    pub(super) fn mark(&self) -> LogMark {
        // A mark is only ever replaced as a whole.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what the server said after `known` was read; answers what proves that it lost commits.
    pub(super) fn told(&self, known: LogMark, said: LogMark) -> Option<Loss> {
        let mut mark = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *mark = (*mark).max(said);
        said.falls_short_of(known).then(|| Loss {
            kind: LossKind::Log,
            why: format!(
                "the server had {} bytes of log in release {}, and has {} in {}: it came back from a copy of its past",
                known.log_at, known.releases, said.log_at, said.releases
            ),
            payment: None,
            // What it had then it lacks now.
            seen_at: known.at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(releases: i64, log_at: i64) -> LogMark {
        LogMark { releases, log_at, at: DateTime::from_timestamp(releases * 1_000 + log_at, 0) }
    }

    #[test]
    fn the_same_log_at_another_instant_proves_nothing_and_a_shorter_one_is_dated_by_what_was_known() {
        let witness = Witness::default();
        let later = LogMark { at: DateTime::from_timestamp(9_000, 0), ..mark(1, 100) };
        assert!(witness.told(witness.mark(), later).is_none());
        assert!(witness.told(witness.mark(), mark(1, 100)).is_none(), "an answer that was on its way");
        let loss = witness.told(witness.mark(), mark(1, 90)).expect("shorter");
        assert_eq!(loss.seen_at, later.at);
    }

    #[test]
    fn a_log_that_grows_proves_nothing_and_is_remembered() {
        let witness = Witness::default();
        for said in [mark(0, 100), mark(0, 100), mark(0, 250)] {
            assert!(witness.told(witness.mark(), said).is_none());
            assert_eq!(witness.mark(), said);
        }
        // An answer that was asked for before a later one came in: not compared with that one.
        assert!(witness.told(mark(0, 100), mark(0, 200)).is_none());
        assert_eq!(witness.mark(), mark(0, 250), "the longest counts");
    }

    #[test]
    fn a_shorter_log_or_fewer_releases_prove_that_the_server_came_back_from_its_past() {
        let witness = Witness::default();
        witness.told(witness.mark(), mark(2, 1_000));
        let loss = witness.told(witness.mark(), mark(2, 999)).expect("shorter");
        assert_eq!(loss.kind, LossKind::Log);
        assert!(loss.why.contains("1000") && loss.why.contains("999"), "{}", loss.why);
        assert!(witness.told(witness.mark(), mark(1, 5_000)).is_some(), "a release is missing");
        assert!(witness.told(witness.mark(), mark(3, 10)).is_none(), "two people released this one");
        assert_eq!(witness.mark(), mark(3, 10));
    }
}

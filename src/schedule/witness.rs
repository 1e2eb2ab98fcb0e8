//! Rule R17 without a new timeline: what this process remembers of the server's log.
//!
//! **Promise.** A server that came back from a copy of its past (a base backup started as it is, a snapshot of its
//! disk) wins no claim of a process that worked with it before: each claim brings the length of the log that the
//! process was last told of, and `sql/claim.sql` asks for no less. **Relies on** the durable log never becoming
//! shorter over any crash on one timeline; a new timeline is another lineage anyway. **Why in memory**: it must be
//! where no restore of the database reaches, and what a process has not seen it need not defend. If this dies here,
//! the next process begins to remember anew, and asks the topic of events first (`roles/lost_commits.rs`).

use super::lineage::{Loss, LossKind};
use sqlx::postgres::PgRow;
use sqlx::{Error, Row};
use std::sync::{Arc, Mutex, PoisonError};

/// How much of its log the server has said to have, and after how many releases: what this process remembers of it.
/// A copy of the server's past, on the same timeline, says less.
#[derive(Debug, Clone, Default)]
pub(super) struct Witness(Arc<Mutex<LogMark>>);

/// Releases so far, and the length of the log; compared in this order, since each release begins a new memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogMark {
    pub(super) releases: i64,
    pub(super) log_at: i64,
}

impl LogMark {
    pub(super) fn of(found: &PgRow) -> Result<Self, Error> {
        Ok(Self { releases: found.try_get("releases")?, log_at: found.try_get("log_at")? })
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
        (said < known).then(|| Loss {
            kind: LossKind::Log,
            why: format!(
                "the server had {} bytes of log after {} releases, and has {} after {}: it came back from a copy of \
                 its past",
                known.log_at, known.releases, said.log_at, said.releases
            ),
            payment: None,
            seen_at: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(releases: i64, log_at: i64) -> LogMark {
        LogMark { releases, log_at }
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

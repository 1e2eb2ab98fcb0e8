//! Every state of a payment and every legal move: one table, used by the code, the documents, the
//! model and the database's own check alike.
//!
//! Two moves that look odd. PROCESSING becomes [`Status::Cancelled`] when a claim finds a cancel wish and
//! no send was or is open, or when the gateway proves that it voided the key: both are outcomes of the
//! claim, so the cause is "settled". PARKED becomes [`Status::Refunded`] when people find that a parked
//! payment was charged and give all of it back: it must not pass through COMPLETED, which would tell the
//! client that it was paid.
//!
//! Two absences carry money. An expired lease never leads back to [`Status::Pending`]: a worker
//! that died may have called the gateway, and calling its payment pending would let a cancel
//! succeed on a payment that was charged. And no single move leads from [`Status::Unknown`] to
//! [`Status::Cancelled`] or [`Status::Failed`]: a claim asks first, or a person decides with evidence
//! by way of [`Status::Parked`], which a re-drive leaves for PENDING only if no send is open.

use serde::{Deserialize, Serialize};

/// Where a payment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// No request of ours can still move money and none did.
    Pending,
    /// One claim holds the lease; submission to the gateway has started.
    Processing,
    /// A request may have reached the gateway and no trustworthy answer came.
    Unknown,
    /// Exactly one charge exists, amount and currency as asked.
    Completed,
    /// Proven: no money moved, and none of our requests can still move any.
    Failed,
    /// Never charged, never will be.
    Cancelled,
    /// Needs a human. Not final.
    Parked,
    /// Completed, then fully refunded by an authorised operator.
    Refunded,
}

/// Why a payment moved. Stored with every history row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The client created it.
    Created,
    /// A worker claimed it.
    Claimed,
    /// The client cancelled it before submission started.
    Cancelled,
    /// `executeBefore` passed before any charge.
    DeadlinePassed,
    /// The gateway's answer was recorded.
    Settled,
    /// A claim's lease ran out without an outcome.
    LeaseExpired,
    /// The settlement report decided it.
    Reconciled,
    /// An operator released it from parking.
    Redriven,
    /// An operator decided it with evidence.
    Resolved,
    /// Refunded in full.
    Refunded,
    /// Reconciliation repaired a final state with the gateway's own record.
    Repaired,
    /// A row of data that no batch could carry (SQLSTATE 22, 23) was parked by itself.
    Poisoned,
}

use Cause as C;
use Status as S;

/// The legal moves: `(from, cause, to)`; `None` is "did not exist".
pub const MOVES: &[(Option<Status>, Cause, Status)] = &[
    (None, C::Created, S::Pending),
    (Some(S::Pending), C::Claimed, S::Processing),
    (Some(S::Pending), C::Cancelled, S::Cancelled),
    (Some(S::Pending), C::DeadlinePassed, S::Failed),
    (Some(S::Pending), C::Reconciled, S::Parked),
    (Some(S::Pending), C::Poisoned, S::Parked),
    (Some(S::Processing), C::Settled, S::Completed),
    (Some(S::Processing), C::Settled, S::Failed),
    (Some(S::Processing), C::Settled, S::Pending),
    (Some(S::Processing), C::Settled, S::Unknown),
    (Some(S::Processing), C::Settled, S::Parked),
    (Some(S::Processing), C::Settled, S::Cancelled),
    (Some(S::Processing), C::Poisoned, S::Parked),
    (Some(S::Processing), C::LeaseExpired, S::Unknown),
    (Some(S::Unknown), C::Claimed, S::Processing),
    (Some(S::Unknown), C::Reconciled, S::Completed),
    (Some(S::Unknown), C::Reconciled, S::Parked),
    (Some(S::Unknown), C::Poisoned, S::Parked),
    (Some(S::Parked), C::Redriven, S::Pending),
    (Some(S::Parked), C::Redriven, S::Unknown),
    (Some(S::Parked), C::Resolved, S::Completed),
    (Some(S::Parked), C::Reconciled, S::Completed),
    (Some(S::Parked), C::Resolved, S::Failed),
    (Some(S::Parked), C::Resolved, S::Cancelled),
    (Some(S::Completed), C::Refunded, S::Refunded),
    (Some(S::Parked), C::Refunded, S::Refunded),
    (Some(S::Failed), C::Repaired, S::Completed),
    (Some(S::Cancelled), C::Repaired, S::Completed),
];

/// A move that [`MOVES`] does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("illegal move: {from:?} –{cause:?}→ {to:?}")]
pub struct IllegalMove {
    /// The state it would leave; `None` is "did not exist".
    pub from: Option<Status>,
    /// The cause given.
    pub cause: Cause,
    /// The state it would enter.
    pub to: Status,
}

/// Says whether `from –cause→ to` is legal; hands back `to` so that a caller can only write a state
/// that passed through here.
///
/// # Errors
/// [`IllegalMove`] if the table does not list it.
pub fn advance(from: Option<Status>, cause: Cause, to: Status) -> Result<Status, IllegalMove> {
    if MOVES.contains(&(from, cause, to)) { Ok(to) } else { Err(IllegalMove { from, cause, to }) }
}

impl Status {
    /// All of them, in the order of the life of a payment.
    pub const ALL: [Self; 8] = [
        S::Pending,
        S::Processing,
        S::Unknown,
        S::Completed,
        S::Failed,
        S::Cancelled,
        S::Parked,
        S::Refunded,
    ];

    /// No claim, cancel or deadline moves it any more; only a refund or a repair can.
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            S::Completed | S::Failed | S::Cancelled | S::Refunded => true,
            S::Pending | S::Processing | S::Unknown | S::Parked => false,
        }
    }

    /// A worker may take it.
    #[must_use]
    pub fn is_claimable(self) -> bool {
        match self {
            S::Pending | S::Unknown => true,
            S::Processing | S::Completed | S::Failed | S::Cancelled | S::Parked | S::Refunded => false,
        }
    }

    /// The text stored in Postgres and answered by the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            S::Pending => "PENDING",
            S::Processing => "PROCESSING",
            S::Unknown => "UNKNOWN",
            S::Completed => "COMPLETED",
            S::Failed => "FAILED",
            S::Cancelled => "CANCELLED",
            S::Parked => "PARKED",
            S::Refunded => "REFUNDED",
        }
    }

    /// Reads the stored text; `None` for anything else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl Cause {
    /// All of them, in the order of the type.
    pub const ALL: [Self; 12] = [
        C::Created,
        C::Claimed,
        C::Cancelled,
        C::DeadlinePassed,
        C::Settled,
        C::LeaseExpired,
        C::Reconciled,
        C::Redriven,
        C::Resolved,
        C::Refunded,
        C::Repaired,
        C::Poisoned,
    ];

    /// Reads the stored text; `None` for anything else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == text)
    }

    /// The text stored in history.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            C::Created => "created",
            C::Claimed => "claimed",
            C::Cancelled => "cancelled",
            C::DeadlinePassed => "deadline_passed",
            C::Settled => "settled",
            C::LeaseExpired => "lease_expired",
            C::Reconciled => "reconciled",
            C::Redriven => "redriven",
            C::Resolved => "resolved",
            C::Refunded => "refunded",
            C::Repaired => "repaired",
            C::Poisoned => "poisoned",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The design's sentence on legal moves, written down again without looking at [`MOVES`].
    const LEGAL: &str = "
        - created PENDING
        PENDING claimed PROCESSING
        PENDING cancelled CANCELLED
        PENDING deadline_passed FAILED
        PENDING reconciled PARKED
        PROCESSING settled COMPLETED FAILED PENDING UNKNOWN PARKED CANCELLED
        PROCESSING lease_expired UNKNOWN
        UNKNOWN claimed PROCESSING
        UNKNOWN reconciled COMPLETED PARKED
        PARKED redriven PENDING UNKNOWN
        PARKED resolved COMPLETED FAILED CANCELLED
        PARKED reconciled COMPLETED
        COMPLETED refunded REFUNDED
        PARKED refunded REFUNDED
        FAILED repaired COMPLETED
        CANCELLED repaired COMPLETED
        PENDING poisoned PARKED
        PROCESSING poisoned PARKED
        UNKNOWN poisoned PARKED
    ";

    fn is_listed(from: Option<Status>, cause: Cause, to: Status) -> bool {
        let from = from.map_or("-", Status::as_str);
        LEGAL.lines().map(str::split_whitespace).any(|mut words| {
            words.next() == Some(from)
                && words.next() == Some(cause.as_str())
                && words.any(|w| w == to.as_str())
        })
    }

    #[test]
    fn every_triple_of_state_cause_and_state_is_legal_exactly_as_designed() {
        let froms = std::iter::once(None).chain(Status::ALL.into_iter().map(Some));
        let mut seen = (0, 0);
        for from in froms {
            for cause in Cause::ALL {
                for to in Status::ALL {
                    let listed = is_listed(from, cause, to);
                    let expect = if listed { Ok(to) } else { Err(IllegalMove { from, cause, to }) };
                    assert_eq!(advance(from, cause, to), expect);
                    seen = (seen.0 + 1, seen.1 + usize::from(listed));
                }
            }
        }
        assert_eq!(seen, (9 * 12 * 8, MOVES.len()));
    }

    #[test]
    fn an_expired_lease_leads_to_unknown_only() {
        for to in Status::ALL {
            let legal = advance(Some(Status::Processing), Cause::LeaseExpired, to).is_ok();
            assert_eq!(legal, to == Status::Unknown, "{to:?}");
        }
    }

    #[test]
    fn unknown_reaches_a_clean_state_only_through_a_claim() {
        for cause in Cause::ALL {
            for to in [Status::Pending, Status::Failed, Status::Cancelled] {
                assert!(advance(Some(Status::Unknown), cause, to).is_err(), "{cause:?} {to:?}");
            }
        }
    }

    #[test]
    fn final_states_are_left_only_by_refund_and_repair_and_parked_only_by_people_or_the_report() {
        for (from, cause, _) in MOVES {
            match from {
                Some(from) if from.is_final() => {
                    assert!(matches!(cause, Cause::Refunded | Cause::Repaired));
                }
                Some(Status::Parked) => assert!(matches!(
                    cause,
                    Cause::Redriven | Cause::Resolved | Cause::Reconciled | Cause::Refunded
                )),
                Some(_) | None => {}
            }
        }
    }

    #[test]
    fn a_claim_is_possible_exactly_from_claimable_states() {
        for status in Status::ALL {
            let legal = advance(Some(status), Cause::Claimed, Status::Processing).is_ok();
            assert_eq!(legal, status.is_claimable(), "{status:?}");
            assert!(!(status.is_claimable() && status.is_final()));
        }
    }

    #[test]
    fn texts_are_distinct_read_back_and_equal_to_the_serialised_form() {
        for status in Status::ALL {
            assert_eq!(Status::from_text(status.as_str()), Some(status));
            assert_eq!(serde_json::to_value(status).expect("plain"), status.as_str());
        }
        for cause in Cause::ALL {
            assert_eq!(Cause::from_text(cause.as_str()), Some(cause));
            assert_eq!(serde_json::to_value(cause).expect("plain"), cause.as_str());
        }
        assert_eq!((Status::from_text("pending"), Cause::from_text("")), (None, None));
    }
}

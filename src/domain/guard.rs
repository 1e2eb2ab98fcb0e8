//! Who may move a payment: the conditions of every conditional update, as pure functions.
//!
//! **Promise**: each function here is the WHERE clause of one SQL statement, and the in-memory
//! schedule asks the functions themselves. `guard_cases` lists cases for all of them; the same table
//! is run against the functions and against the SQL, so the two cannot drift apart unseen.
//!
//! What a granted move does to the row is in [`super::effect`]. A guard never reads a clock: `now`
//! is the database's.
//!
//! Two guards ask for the released lineage although they call no gateway: cancel and deadline. In a
//! restored database a payment may stand as PENDING that was charged after the backup; a cancel
//! granted there would be answered 200 for money that moved (invariant M7).

use super::facts::VoidSupport;
use super::ids::{ClaimId, Fence, GatewayName};
use super::notice::Notice;
use super::payment::Payment;
use super::state::Status;
use super::switches::Switches;
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// Whether this database is the one that operators released for work (rule R17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lineage {
    /// System identifier, timeline, database and table are the released ones.
    Released,
    /// Restored or promoted, or proven to have lost commits; nothing is claimed.
    Quarantined,
}

/// How long a notice waits that is early for no known length of time (contended, quarantined).
pub const PAUSE: TimeDelta = TimeDelta::seconds(1);

/// The answer of [`claim`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimGuard {
    /// The claim may be made.
    Win,
    /// Not yet, or not now: present the notice again, never drop it.
    Early {
        /// When: the row's own instant, or a [`PAUSE`] from now where none is known.
        until: DateTime<Utc>,
        /// What holds it.
        why: Early,
    },
    /// This notice has nothing left to do.
    Refused(RefusedBecause),
}

/// What holds a notice that is not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Early {
    /// `next_attempt_at` lies ahead by the database clock.
    NotDue,
    /// The row looked claimable and was locked or moved twice in a row.
    Contended,
    /// This database's lineage is not the released one (rule R17).
    Quarantined,
    /// A kill switch names it (rule R14).
    SwitchedOff,
}

/// Why a notice was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusedBecause {
    /// The row is CANCELLED.
    Cancelled,
    /// The row is in another final state.
    Final(Status),
    /// The row waits for a human.
    Parked,
    /// Another claim holds it, and its settle or the reaper will write the next notice.
    HeldByAnother,
    /// The row has moved on: a newer notice exists.
    Stale,
    /// The notice counts more claims than the row: if it is authentic, commits were lost (rule R17).
    AheadOfRow,
    /// No such payment (another ring's record, or lost commits: rule R17).
    NoSuchPayment,
    /// The notice names another gateway than the row.
    OtherGateway,
}

/// May `notice` claim `row` for `gateway` (rule R1)? `None` is a row that does not exist.
///
/// Quarantine comes first: until it is lifted no row can be trusted to explain a refusal. Then a
/// notice from the future, in whatever state the row is: it proves that the row is older than what
/// was published. Then the state, and only for a claimable row its gateway, count and instant. A kill
/// switch comes last: it holds what could be claimed otherwise.
#[must_use]
pub fn claim(
    row: Option<&Payment>,
    notice: &Notice,
    gateway: &GatewayName,
    database_now: DateTime<Utc>,
    lineage: Lineage,
    switches: &Switches,
) -> ClaimGuard {
    match lineage {
        Lineage::Quarantined => {
            return ClaimGuard::Early { until: database_now + PAUSE, why: Early::Quarantined };
        }
        Lineage::Released => {}
    }
    let Some(row) = row else { return ClaimGuard::Refused(RefusedBecause::NoSuchPayment) };
    if notice.attempt > row.attempt {
        return ClaimGuard::Refused(RefusedBecause::AheadOfRow);
    }
    match row.status {
        Status::Cancelled => ClaimGuard::Refused(RefusedBecause::Cancelled),
        Status::Completed | Status::Failed | Status::Refunded => {
            ClaimGuard::Refused(RefusedBecause::Final(row.status))
        }
        Status::Parked => ClaimGuard::Refused(RefusedBecause::Parked),
        Status::Processing => ClaimGuard::Refused(RefusedBecause::HeldByAnother),
        Status::Pending | Status::Unknown => claim_claimable(row, notice, gateway, database_now, switches),
    }
}

fn claim_claimable(
    row: &Payment,
    notice: &Notice,
    gateway: &GatewayName,
    database_now: DateTime<Utc>,
    switches: &Switches,
) -> ClaimGuard {
    if row.gateway != *gateway {
        ClaimGuard::Refused(RefusedBecause::OtherGateway)
    } else if notice.attempt < row.attempt {
        ClaimGuard::Refused(RefusedBecause::Stale)
    } else if row.next_attempt_at > database_now {
        ClaimGuard::Early { until: row.next_attempt_at, why: Early::NotDue }
    } else if is_switched_off(row, switches) {
        ClaimGuard::Early { until: database_now + PAUSE, why: Early::SwitchedOff }
    } else {
        ClaimGuard::Win
    }
}

/// Is it stopped by a kill switch: everything, its gateway, its actor or its currency?
#[must_use]
pub fn is_switched_off(row: &Payment, switches: &Switches) -> bool {
    switches.stops_gateway(&row.gateway) || switches.stops_payer(row.actor, row.amount.currency)
}

/// Does the late scan of `gateway` see `row`: claimable, at least `late_by` overdue, and not switched off?
#[must_use]
pub fn claim_late(
    row: &Payment,
    gateway: &GatewayName,
    late_by: Duration,
    database_now: DateTime<Utc>,
    lineage: Lineage,
    switches: &Switches,
) -> bool {
    // A lateness that chrono cannot hold is never reached.
    let late_by = TimeDelta::from_std(late_by).unwrap_or(TimeDelta::MAX);
    lineage == Lineage::Released
        && row.status.is_claimable()
        && row.gateway == *gateway
        && database_now - row.next_attempt_at >= late_by
        && !is_switched_off(row, switches)
}

/// The answer of [`cancel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelGuard {
    /// The row becomes CANCELLED.
    Win,
    /// It is CANCELLED: the same answer again.
    Already,
    /// The wish to cancel is recorded now: from the next claim on no charge is sent, only voids and look-ups.
    Wish,
    /// The wish was recorded before and the outcome is still open: the same answer again.
    Wished,
    /// Not possible in this state.
    Refused(Status),
    /// The database is in quarantine: answer 503, since this row cannot be trusted.
    Quarantined,
}

/// May the client cancel? At once only a PENDING row without any open send: every other state might be
/// charged already. While the outcome is unknown the wish is recorded, if the row's gateway voids by key:
/// without voids a wish could only forbid the resend that may decide. A wish once recorded stands, also
/// where the gateway was configured anew since: it forbids charges, and that needs no gateway.
///
/// In quarantine a wish is refused as a cancel is: who is answered 202 trusts that no later claim charges,
/// and this database may have forgotten claims.
#[must_use]
pub fn cancel(row: &Payment, voids: VoidSupport, lineage: Lineage) -> CancelGuard {
    if is_asked_about(row) {
        return wish(row, voids, lineage);
    }
    match row.status {
        Status::Pending => match lineage {
            // The constraint PENDING ⇒ unanswered = 0 says it too; money is worth saying it twice.
            Lineage::Released if row.unanswered == 0 => CancelGuard::Win,
            Lineage::Released => CancelGuard::Refused(row.status),
            Lineage::Quarantined => CancelGuard::Quarantined,
        },
        Status::Cancelled => CancelGuard::Already,
        Status::Processing
        | Status::Unknown
        | Status::Completed
        | Status::Failed
        | Status::Parked
        | Status::Refunded => CancelGuard::Refused(row.status),
    }
}

fn wish(row: &Payment, voids: VoidSupport, lineage: Lineage) -> CancelGuard {
    match (row.cancel_wish_at, voids, lineage) {
        (None, VoidSupport::None, Lineage::Released | Lineage::Quarantined) => {
            CancelGuard::Refused(row.status)
        }
        (Some(_), VoidSupport::ByKey | VoidSupport::None, Lineage::Released) => CancelGuard::Wished,
        (None, VoidSupport::ByKey, Lineage::Released) => CancelGuard::Wish,
        (Some(_), VoidSupport::ByKey | VoidSupport::None, Lineage::Quarantined)
        | (None, VoidSupport::ByKey, Lineage::Quarantined) => CancelGuard::Quarantined,
    }
}

/// Is its outcome unknown: in so many words, or while a claim asks about it? A claim keeps the rung that it
/// stands on, and only an unknown outcome has one; and beside a first send no other can be open. So a held
/// row with a rung or a second send was claimed from UNKNOWN.
#[must_use]
pub fn is_asked_about(row: &Payment) -> bool {
    match row.status {
        Status::Unknown => true,
        Status::Processing => row.asks > 0 || row.unanswered > 1,
        Status::Pending
        | Status::Completed
        | Status::Failed
        | Status::Cancelled
        | Status::Parked
        | Status::Refunded => false,
    }
}

/// May the keeper fail `row` for its deadline (rule R10)? Only a clean PENDING one: whatever a
/// request may have charged is asked about instead.
#[must_use]
pub fn fail_by_deadline(row: &Payment, database_now: DateTime<Utc>, lineage: Lineage) -> bool {
    lineage == Lineage::Released
        && row.status == Status::Pending
        && row.unanswered == 0
        && row.execute_before.is_some_and(|deadline| database_now >= deadline)
}

/// Which claim a row is under, besides its fence: columns that [`Payment`] does not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    /// The claim's name.
    pub claim_id: ClaimId,
    /// Until when, by the database clock.
    pub lease_until: DateTime<Utc>,
}

/// The answer of [`settle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleGuard {
    /// The claim is the row's current one: write.
    Current,
    /// It is not. First read the attempt by claim id: the same outcome there means that our own
    /// COMMIT got through. Otherwise the answer is evidence only ([`super::effect::fenced`]).
    Fenced,
}

/// Is the claim `(fence, claim_id)` the one that holds `row` (rule R2)? Asked by a settle, and by a
/// renewal of its lease (rule R14). The lease's end is not asked: as long as the reaper has not come,
/// nobody else can have called the gateway, and a late answer is worth more than a guess.
#[must_use]
pub fn settle(row: &Payment, holding: Option<Holding>, fence: Fence, claim_id: ClaimId) -> SettleGuard {
    let ours = holding.is_some_and(|held| held.claim_id == claim_id);
    if row.status == Status::Processing && row.fence == fence && ours {
        SettleGuard::Current
    } else {
        SettleGuard::Fenced
    }
}

/// May the reaper take `row` from its claim? Only `margin` after the lease's end, so that a worker
/// whose clock drifts has stopped by then (rule R14).
#[must_use]
pub fn reap(row: &Payment, holding: Option<Holding>, margin: Duration, database_now: DateTime<Utc>) -> bool {
    // A margin that chrono cannot hold never passes.
    let margin = TimeDelta::from_std(margin).unwrap_or(TimeDelta::MAX);
    row.status == Status::Processing && holding.is_some_and(|held| database_now - held.lease_until >= margin)
}

/// Does the late scan own the row of a held notice, so that its record is complete (rule R11)? The
/// row must be the one that the notice means (same count), claimable and overdue. Quarantine does
/// not matter: the row is durable, and the late scan waits for the release itself.
#[must_use]
pub fn defer(row: Option<&Payment>, notice: &Notice, database_now: DateTime<Utc>) -> bool {
    row.is_some_and(|row| {
        row.status.is_claimable() && row.attempt == notice.attempt && row.next_attempt_at <= database_now
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::guard_cases::{CLAIM, Expect, Verb, cases, gateway, payment};

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_960_020, 0).expect("in range")
    }

    #[test]
    fn every_case_of_the_table_holds() {
        let cases = cases(now());
        for case in &cases {
            let row = case.row.as_ref();
            let got = match &case.verb {
                Verb::Claim { notice, gateway, lineage, switches } => {
                    Expect::Claim(claim(row, notice, gateway, now(), *lineage, switches))
                }
                Verb::ClaimLate { gateway, late_by, lineage, switches } => {
                    let sees = |row| claim_late(row, gateway, *late_by, now(), *lineage, switches);
                    Expect::Yes(row.is_some_and(sees))
                }
                Verb::Cancel { voids, lineage } => {
                    Expect::Cancel(cancel(row.expect("cases of cancel have a row"), *voids, *lineage))
                }
                Verb::FailByDeadline { lineage } => {
                    Expect::Yes(row.is_some_and(|row| fail_by_deadline(row, now(), *lineage)))
                }
                Verb::Settle { fence, claim_id } => Expect::Settle(settle(
                    row.expect("cases of settle have a row"),
                    case.holding,
                    *fence,
                    *claim_id,
                )),
                Verb::Renew { fence, claim_id } => {
                    let row = row.expect("cases of renewals have a row");
                    let guard = settle(row, case.holding, *fence, *claim_id);
                    Expect::Yes(guard == SettleGuard::Current)
                }
                Verb::Reap { margin } => {
                    Expect::Yes(row.is_some_and(|row| reap(row, case.holding, *margin, now())))
                }
                Verb::Defer { notice } => Expect::Yes(defer(row, notice, now())),
            };
            assert_eq!(got, case.expect, "{}", case.name);
        }
    }

    #[test]
    fn the_table_has_unique_names_sound_rows_and_both_answers_of_each_verb() {
        let cases = cases(now());
        let names: std::collections::BTreeSet<_> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        for case in &cases {
            let Some(row) = &case.row else { continue };
            assert_eq!(crate::domain::invariants::row_faults(row), Vec::new(), "{}", case.name);
            assert_eq!(row.status == Status::Processing, case.holding.is_some(), "{}", case.name);
        }
        let yes = |verb: fn(&Verb) -> bool, yes| {
            cases.iter().any(|case| verb(&case.verb) && case.expect == Expect::Yes(yes))
        };
        for answer in [true, false] {
            assert!(yes(|v| matches!(v, Verb::ClaimLate { .. }), answer));
            assert!(yes(|v| matches!(v, Verb::FailByDeadline { .. }), answer));
            assert!(yes(|v| matches!(v, Verb::Renew { .. }), answer));
            assert!(yes(|v| matches!(v, Verb::Reap { .. }), answer));
            assert!(yes(|v| matches!(v, Verb::Defer { .. }), answer));
        }
    }

    #[test]
    fn the_instants_themselves_belong_to_the_side_that_says_due() {
        let us = TimeDelta::microseconds(1);
        let mut row = payment(now(), 1, Status::Pending);
        row.next_attempt_at = now();
        let notice = crate::domain::guard_cases::notice(&row);
        let none = Switches::default();
        let at = |instant| claim(Some(&row), &notice, &gateway(), instant, Lineage::Released, &none);
        assert_eq!(at(now()), ClaimGuard::Win);
        assert_eq!(at(now() - us), ClaimGuard::Early { until: now(), why: Early::NotDue });

        let deadline = now() + TimeDelta::minutes(1);
        row.execute_before = Some(deadline);
        assert!(!fail_by_deadline(&row, deadline - us, Lineage::Released));
        assert!(fail_by_deadline(&row, deadline, Lineage::Released));

        let late_by = Duration::from_secs(15);
        let edge = now() + TimeDelta::seconds(15);
        assert!(!claim_late(&row, &gateway(), late_by, edge - us, Lineage::Released, &none));
        assert!(claim_late(&row, &gateway(), late_by, edge, Lineage::Released, &none));

        let held = payment(now(), 2, Status::Processing);
        let holding = Some(Holding { claim_id: CLAIM, lease_until: now() });
        let margin = Duration::from_secs(5);
        assert!(!reap(&held, holding, margin, now() + TimeDelta::seconds(5) - us));
        assert!(reap(&held, holding, margin, now() + TimeDelta::seconds(5)));
    }

    #[test]
    fn a_settle_after_its_lease_is_still_current_until_the_reaper_came() {
        let row = payment(now(), 3, Status::Processing);
        let holding = Some(Holding { claim_id: CLAIM, lease_until: now() - TimeDelta::hours(1) });
        assert_eq!(settle(&row, holding, row.fence, CLAIM), SettleGuard::Current);
    }
}

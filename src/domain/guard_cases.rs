//! Guard cases as a table, run against the pure guards and, the same rows, against the SQL.
//!
//! All instants are at least a minute away from `now`, so that a database whose clock goes on
//! between the making of a row and the statement gives the same answer; the exact edges are unit
//! tests of the guards. Not part of the product's interface.

use super::facts::VoidSupport;
use super::guard::{CancelGuard, ClaimGuard, Early, Holding, Lineage, PAUSE, RefusedBecause, SettleGuard};
use super::ids::{ActorId, ClaimId, Fence, GatewayName, PaymentId};
use super::money::{Currency, Minor, Money};
use super::notice::Notice;
use super::payment::Payment;
use super::state::Status;
use super::switches::{Switch, Switches};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use std::time::Duration;
use uuid::Uuid;

/// The claim that holds every PROCESSING row of the table.
pub const CLAIM: ClaimId = ClaimId(Uuid::from_u128(0xC1A1));
/// A claim that holds none.
pub const OTHER_CLAIM: ClaimId = ClaimId(Uuid::from_u128(0xC1A2));

/// One case: a row (or none), a verb, and what its guard must answer.
#[derive(Debug, Clone)]
pub struct Case {
    /// A sentence; unique.
    pub name: &'static str,
    /// The row; a different payment in each case.
    pub row: Option<Payment>,
    /// The claim and lease of a PROCESSING row.
    pub holding: Option<Holding>,
    /// What is tried.
    pub verb: Verb,
    /// What is answered. Of an [`Early`] that is held by [`PAUSE`], SQL need only give the reason.
    pub expect: Expect,
}

/// What is tried.
#[derive(Debug, Clone)]
pub enum Verb {
    /// [`super::guard::claim`]
    Claim {
        /// The notice presented.
        notice: Notice,
        /// The gateway claimed for.
        gateway: GatewayName,
        /// Of the database.
        lineage: Lineage,
        /// Thrown in it.
        switches: Switches,
    },
    /// [`super::guard::claim_late`]
    ClaimLate {
        /// The gateway scanned for.
        gateway: GatewayName,
        /// Least lateness.
        late_by: Duration,
        /// Of the database.
        lineage: Lineage,
        /// Thrown in it.
        switches: Switches,
    },
    /// [`super::guard::cancel`]
    Cancel {
        /// Of the row's gateway.
        voids: VoidSupport,
        /// Of the database.
        lineage: Lineage,
    },
    /// [`super::guard::fail_by_deadline`]
    FailByDeadline {
        /// Of the database.
        lineage: Lineage,
    },
    /// [`super::guard::settle`]
    Settle {
        /// The settling claim's fence.
        fence: Fence,
        /// The settling claim.
        claim_id: ClaimId,
    },
    /// [`super::guard::settle`], asked by a renewal.
    Renew {
        /// The renewed claim's fence.
        fence: Fence,
        /// The renewed claim.
        claim_id: ClaimId,
    },
    /// [`super::guard::reap`]
    Reap {
        /// The reaper's margin.
        margin: Duration,
    },
    /// [`super::guard::defer`]
    Defer {
        /// The held notice.
        notice: Notice,
    },
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// Of `claim`.
    Claim(ClaimGuard),
    /// Of `cancel`.
    Cancel(CancelGuard),
    /// Of `settle`.
    Settle(SettleGuard),
    /// Of the guards that say yes or no.
    Yes(bool),
}

/// The gateway of every row.
#[must_use]
pub fn gateway() -> GatewayName {
    GatewayName("sandbox".into())
}

/// A sound row in the given state, due an hour ago, claimed twice so far, number `n` of the table.
#[must_use]
pub fn payment(now: DateTime<Utc>, n: u64, status: Status) -> Payment {
    let due_at = (now - TimeDelta::hours(1)).trunc_subsecs(3);
    let mut intent = [0x5a; 10];
    intent[2..].copy_from_slice(&n.to_be_bytes());
    let open = i32::from(matches!(status, Status::Processing | Status::Unknown));
    // A due time of this century fits in 48 bits of milliseconds.
    let id = PaymentId::new(due_at, intent).unwrap_or_else(|bad| panic!("{bad}"));
    let (actor, created_at) = (ActorId(Uuid::from_u128(0xAC)), due_at - TimeDelta::days(1));
    Payment {
        status,
        next_attempt_at: due_at + TimeDelta::minutes(30),
        attempt: 2,
        sends: 1,
        asks: i16::from(status == Status::Unknown),
        epoch_first_sent_at: (open > 0).then(|| due_at + TimeDelta::minutes(1)),
        unanswered: open,
        gateway_account: Some("sandbox-1".into()),
        renderer: Some(1),
        fence: Fence(2),
        lane: 7,
        last_moved_at: due_at,
        history_seq: 5,
        ..Payment::created(id, actor, gateway(), price(), due_at, created_at)
    }
}

/// What every row of the table pays.
#[must_use]
pub fn price() -> Money {
    match (Minor::new(12_345), Currency::from_code("EUR")) {
        (Some(minor), Some(currency)) => Money { minor, currency },
        (None, Some(_)) | (_, None) => panic!("12345 is positive and EUR is in the table"),
    }
}

/// The notice that may claim `row`.
#[must_use]
pub fn notice(row: &Payment) -> Notice {
    Notice {
        payment: row.id,
        gateway: row.gateway.clone(),
        lane: row.lane,
        due_at: row.due_at,
        not_before: row.next_attempt_at,
        attempt: row.attempt,
    }
}

/// Every case, with instants relative to `now`.
#[must_use]
pub fn cases(now: DateTime<Utc>) -> Vec<Case> {
    let mut table = Table { now: now.trunc_subsecs(6), cases: Vec::new() };
    table.claims();
    table.early_claims_and_counts();
    table.late_claims();
    table.switched_off();
    table.cancels_and_deadlines();
    table.settles_and_reaps();
    table.renewals();
    table.defers();
    table.cases
}

/// A claim while these switches are thrown.
fn claiming(notice: Notice, gateway: GatewayName, lineage: Lineage, thrown: &[&str]) -> Verb {
    Verb::Claim { notice, gateway, lineage, switches: switches(thrown) }
}

/// A late scan while these switches are thrown.
fn scanning(gateway: GatewayName, late_by: Duration, lineage: Lineage, thrown: &[&str]) -> Verb {
    Verb::ClaimLate { gateway, late_by, lineage, switches: switches(thrown) }
}

fn switches(thrown: &[&str]) -> Switches {
    Switches::of(thrown.iter().filter_map(|text| Switch::from_text(text)))
}

struct Table {
    now: DateTime<Utc>,
    cases: Vec<Case>,
}

impl Table {
    fn row(&self, status: Status) -> Payment {
        // A table has fewer rows than u64 counts.
        payment(self.now, u64::try_from(self.cases.len()).unwrap_or(u64::MAX), status)
    }

    fn add(&mut self, name: &'static str, row: Option<Payment>, verb: Verb, expect: Expect) {
        let held = row.as_ref().is_some_and(|row| row.status == Status::Processing);
        let lease_until = self.now + TimeDelta::minutes(1);
        let holding = held.then_some(Holding { claim_id: CLAIM, lease_until });
        self.cases.push(Case { name, row, holding, verb, expect });
    }

    fn claim(&mut self, name: &'static str, row: Payment, expect: ClaimGuard) {
        let verb = claiming(notice(&row), gateway(), Lineage::Released, &[]);
        self.add(name, Some(row), verb, Expect::Claim(expect));
    }

    fn claims(&mut self) {
        use ClaimGuard::{Refused, Win};
        let of = RefusedBecause::Final;
        for (name, status, expect) in [
            ("a due pending row is won", Status::Pending, Win),
            ("a due unknown row is won", Status::Unknown, Win),
            ("a held row is refused", Status::Processing, Refused(RefusedBecause::HeldByAnother)),
            ("a completed row is refused", Status::Completed, Refused(of(Status::Completed))),
            ("a failed row is refused", Status::Failed, Refused(of(Status::Failed))),
            ("a refunded row is refused", Status::Refunded, Refused(of(Status::Refunded))),
            ("a cancelled row is refused", Status::Cancelled, Refused(RefusedBecause::Cancelled)),
            ("a parked row is refused", Status::Parked, Refused(RefusedBecause::Parked)),
        ] {
            let row = self.row(status);
            self.claim(name, row, expect);
        }
        let mut first = self.row(Status::Pending);
        (first.attempt, first.sends, first.fence) = (0, 0, Fence(0));
        (first.gateway_account, first.renderer) = (None, None);
        self.claim("a first claim is won", first, Win);
        let mut wished = self.row(Status::Unknown);
        wished.cancel_wish_at = Some(self.now - TimeDelta::minutes(5));
        self.claim("a wish to cancel does not stop a claim, which asks", wished, Win);
        let mut expired = self.row(Status::Pending);
        expired.execute_before = Some(self.now - TimeDelta::minutes(5));
        self.claim("a passed deadline does not stop a claim, which gives back", expired, Win);
    }

    fn early_claims_and_counts(&mut self) {
        use ClaimGuard::{Early as Wait, Refused};
        for (name, status) in [
            ("a pending row is early before its instant", Status::Pending),
            ("an unknown row is early before its instant", Status::Unknown),
        ] {
            let mut row = self.row(status);
            row.next_attempt_at = self.now + TimeDelta::minutes(10);
            let until = row.next_attempt_at;
            self.claim(name, row, Wait { until, why: Early::NotDue });
        }
        for (name, status, more, expect) in [
            ("an old notice of a pending row is stale", Status::Pending, -1, RefusedBecause::Stale),
            ("an old notice of an unknown row is stale", Status::Unknown, -2, RefusedBecause::Stale),
            ("a claim's own notice finds it held", Status::Processing, -1, RefusedBecause::HeldByAnother),
            ("a notice ahead of a pending row shows", Status::Pending, 1, RefusedBecause::AheadOfRow),
            ("a notice ahead of a held row shows", Status::Processing, 1, RefusedBecause::AheadOfRow),
            ("a notice ahead of a cancelled row shows", Status::Cancelled, 3, RefusedBecause::AheadOfRow),
        ] {
            let row = self.row(status);
            let notice = Notice { attempt: row.attempt + more, ..notice(&row) };
            let verb = claiming(notice, gateway(), Lineage::Released, &[]);
            self.add(name, Some(row), verb, Expect::Claim(Refused(expect)));
        }
        let row = self.row(Status::Pending);
        let unknown = claiming(notice(&row), gateway(), Lineage::Released, &[]);
        let nothing = Expect::Claim(Refused(RefusedBecause::NoSuchPayment));
        self.add("a notice without a row is refused", None, unknown, nothing);

        let row = self.row(Status::Pending);
        let elsewhere = GatewayName("other".into());
        let verb = claiming(notice(&row), elsewhere, Lineage::Released, &[]);
        let expect = Expect::Claim(Refused(RefusedBecause::OtherGateway));
        self.add("a claim for another gateway is refused", Some(row), verb, expect);

        for (name, status) in [
            ("quarantine holds a pending row", Status::Pending),
            ("quarantine holds an unknown row", Status::Unknown),
            ("quarantine explains nothing by a cancelled row", Status::Cancelled),
        ] {
            let row = self.row(status);
            let verb = claiming(notice(&row), gateway(), Lineage::Quarantined, &[]);
            let expect = Wait { until: self.now + PAUSE, why: Early::Quarantined };
            self.add(name, Some(row), verb, Expect::Claim(expect));
        }
    }

    fn late_claims(&mut self) {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        for (name, status, late_by, lineage, expect) in [
            ("late and pending is seen", Status::Pending, minutes(5), Lineage::Released, true),
            ("late and unknown is seen", Status::Unknown, minutes(5), Lineage::Released, true),
            ("not late enough is not seen", Status::Pending, minutes(45), Lineage::Released, false),
            ("late and held is not seen", Status::Processing, minutes(5), Lineage::Released, false),
            ("late and parked is not seen", Status::Parked, minutes(5), Lineage::Released, false),
            ("late and cancelled is not seen", Status::Cancelled, minutes(5), Lineage::Released, false),
            ("late in quarantine is not seen", Status::Pending, minutes(5), Lineage::Quarantined, false),
        ] {
            let verb = scanning(gateway(), late_by, lineage, &[]);
            self.add(name, Some(self.row(status)), verb, Expect::Yes(expect));
        }
        let verb = scanning(GatewayName("other".into()), minutes(5), Lineage::Released, &[]);
        let row = self.row(Status::Pending);
        self.add("late at another gateway is not seen", Some(row), verb, Expect::Yes(false));
    }

    /// Each kind of switch, at its own payment and at another's; what is refused anyway stays refused.
    fn switched_off(&mut self) {
        use ClaimGuard::{Early as Wait, Refused, Win};
        let until = self.now + PAUSE;
        let held = Wait { until, why: Early::SwitchedOff };
        let ours = format!("actor:{}", ActorId(Uuid::from_u128(0xAC)).0);
        let theirs = format!("actor:{}", Uuid::from_u128(0xAD));
        for (name, scanned, status, thrown, expect) in [
            ("everything is off", "and the scan sees none of it", Status::Pending, "global:all", held),
            ("its gateway is off", "and its scan sees none", Status::Unknown, "gateway:sandbox", held),
            ("its actor is off", "and the scan skips it", Status::Pending, &ours, held),
            ("its currency is off", "and the scan skips that", Status::Unknown, "currency:EUR", held),
            ("another gateway is off", "and ours is scanned", Status::Pending, "gateway:other", Win),
            ("another actor is off", "and ours is seen", Status::Pending, &theirs, Win),
            ("another currency is off", "and this one is seen", Status::Pending, "currency:USD", Win),
        ] {
            let row = self.row(status);
            let verb = claiming(notice(&row), gateway(), Lineage::Released, &[thrown]);
            self.add(name, Some(row), verb, Expect::Claim(expect));
            let verb = scanning(gateway(), Duration::from_secs(300), Lineage::Released, &[thrown]);
            self.add(scanned, Some(self.row(status)), verb, Expect::Yes(expect == Win));
        }
        for (name, status, more, expect) in [
            ("a spent notice is refused though off", Status::Pending, -1, RefusedBecause::Stale),
            ("a held row is refused though off", Status::Processing, 0, RefusedBecause::HeldByAnother),
        ] {
            let row = self.row(status);
            let notice = Notice { attempt: row.attempt + more, ..notice(&row) };
            let verb = claiming(notice, gateway(), Lineage::Released, &["global:all"]);
            self.add(name, Some(row), verb, Expect::Claim(Refused(expect)));
        }
    }

    fn cancels_and_deadlines(&mut self) {
        use CancelGuard::{Already, Quarantined, Refused, Win};
        for (name, status, lineage, expect) in [
            ("a pending row is cancelled", Status::Pending, Lineage::Released, Win),
            ("a cancelled row answers the same again", Status::Cancelled, Lineage::Released, Already),
            ("no cancel while held", Status::Processing, Lineage::Released, Refused(Status::Processing)),
            ("no cancel while unknown", Status::Unknown, Lineage::Released, Refused(Status::Unknown)),
            ("no cancel once completed", Status::Completed, Lineage::Released, Refused(Status::Completed)),
            ("no cancel once failed", Status::Failed, Lineage::Released, Refused(Status::Failed)),
            ("no cancel while parked", Status::Parked, Lineage::Released, Refused(Status::Parked)),
            ("no cancel once refunded", Status::Refunded, Lineage::Released, Refused(Status::Refunded)),
            ("no cancel in quarantine", Status::Pending, Lineage::Quarantined, Quarantined),
        ] {
            let verb = Verb::Cancel { voids: VoidSupport::None, lineage };
            self.add(name, Some(self.row(status)), verb, Expect::Cancel(expect));
        }
        self.wishes();
        let (past, ahead) = (TimeDelta::minutes(-5), TimeDelta::minutes(5));
        for (name, status, deadline, lineage, expect) in [
            ("a pending row past its deadline fails", Status::Pending, past, Lineage::Released, true),
            ("a deadline ahead fails nothing", Status::Pending, ahead, Lineage::Released, false),
            ("a deadline never fails an unknown row", Status::Unknown, past, Lineage::Released, false),
            ("a deadline never fails a held row", Status::Processing, past, Lineage::Released, false),
            ("a deadline never fails a parked row", Status::Parked, past, Lineage::Released, false),
            ("a deadline fails nothing in quarantine", Status::Pending, past, Lineage::Quarantined, false),
        ] {
            let mut row = self.row(status);
            row.execute_before = Some(self.now + deadline);
            self.add(name, Some(row), Verb::FailByDeadline { lineage }, Expect::Yes(expect));
        }
        let row = self.row(Status::Pending);
        let verb = Verb::FailByDeadline { lineage: Lineage::Released };
        self.add("without a deadline nothing fails", Some(row), verb, Expect::Yes(false));
    }

    /// Cancels of what is unknown, at gateways that void and at such that do not (any more).
    fn wishes(&mut self) {
        use CancelGuard::{Already, Quarantined, Refused, Win, Wish, Wished};
        use Lineage::{Quarantined as Held, Released};
        use Status::{Cancelled, Parked, Pending, Processing, Unknown};
        let (by_key, none) = (VoidSupport::ByKey, VoidSupport::None);
        let first = TimeDelta::minutes(-3);
        for (name, status, asks, wish, voids, lineage, expect) in [
            ("an unknown row at a voiding gateway takes a wish", Unknown, 1, None, by_key, Released, Wish),
            ("a wish is repeated while unknown", Unknown, 1, Some(first), by_key, Released, Wished),
            ("a wish outlives the voids of its gateway", Unknown, 1, Some(first), none, Released, Wished),
            ("a claim that asks again takes a wish", Processing, 1, None, by_key, Released, Wish),
            ("a wish is repeated while asked about", Processing, 2, Some(first), by_key, Released, Wished),
            (
                "a claim that asks again takes no wish without voids",
                Processing,
                1,
                None,
                none,
                Released,
                Refused(Processing),
            ),
            ("a first send takes no wish", Processing, 0, None, by_key, Released, Refused(Processing)),
            ("no wish in quarantine", Unknown, 1, None, by_key, Held, Quarantined),
            ("no repeated wish in quarantine", Processing, 1, Some(first), by_key, Held, Quarantined),
            ("no wish without voids in quarantine", Unknown, 1, None, none, Held, Refused(Unknown)),
            ("a clean row with a wish is cancelled", Pending, 0, Some(first), by_key, Released, Win),
            (
                "a cancelled row with a wish answers the same",
                Cancelled,
                0,
                Some(first),
                by_key,
                Released,
                Already,
            ),
            ("a parked row takes no wish", Parked, 0, None, by_key, Released, Refused(Parked)),
        ] {
            let mut row = self.row(status);
            row.asks = asks;
            row.cancel_wish_at = wish.map(|ago| self.now + ago);
            self.add(name, Some(row), Verb::Cancel { voids, lineage }, Expect::Cancel(expect));
        }
    }

    fn settles_and_reaps(&mut self) {
        use SettleGuard::{Current, Fenced};
        for (name, status, fence, claim_id, expect) in [
            ("the holding claim settles", Status::Processing, 2, CLAIM, Current),
            ("an older fence is fenced", Status::Processing, 1, CLAIM, Fenced),
            ("another claim of the same fence is fenced", Status::Processing, 2, OTHER_CLAIM, Fenced),
            ("a settle after the reaper is fenced", Status::Unknown, 2, CLAIM, Fenced),
            ("a settle after a settle is fenced", Status::Completed, 2, CLAIM, Fenced),
            ("a settle of a parked row is fenced", Status::Parked, 2, CLAIM, Fenced),
        ] {
            let verb = Verb::Settle { fence: Fence(fence), claim_id };
            self.add(name, Some(self.row(status)), verb, Expect::Settle(expect));
        }
        for (name, status, lease_ago, expect) in [
            ("an expired lease is reaped", Status::Processing, 10, true),
            ("a lease inside the margin is left", Status::Processing, 3, false),
            ("a running lease is left", Status::Processing, -10, false),
        ] {
            let row = self.row(status);
            let margin = Duration::from_secs(5 * 60);
            self.add(name, Some(row), Verb::Reap { margin }, Expect::Yes(expect));
            if let Some(holding) = self.cases.last_mut().and_then(|case| case.holding.as_mut()) {
                holding.lease_until = self.now - TimeDelta::minutes(lease_ago);
            }
        }
        let row = self.row(Status::Unknown);
        let verb = Verb::Reap { margin: Duration::ZERO };
        self.add("a row without a claim is not reaped", Some(row), verb, Expect::Yes(false));
    }

    fn renewals(&mut self) {
        for (name, status, fence, claim_id, expect) in [
            ("the holding claim's lease is renewed", Status::Processing, 2, CLAIM, true),
            ("a lease is not renewed under an older fence", Status::Processing, 1, CLAIM, false),
            ("another claim of the same fence renews nothing", Status::Processing, 2, OTHER_CLAIM, false),
            ("after the reaper nothing is renewed", Status::Unknown, 2, CLAIM, false),
            ("after a settle nothing is renewed", Status::Completed, 2, CLAIM, false),
            ("a clean row has no lease to renew", Status::Pending, 2, CLAIM, false),
        ] {
            let verb = Verb::Renew { fence: Fence(fence), claim_id };
            self.add(name, Some(self.row(status)), verb, Expect::Yes(expect));
        }
        // Until the reaper comes nobody else can have called the gateway.
        let verb = Verb::Renew { fence: Fence(2), claim_id: CLAIM };
        let row = self.row(Status::Processing);
        self.add("an expired lease that nobody took away is renewed", Some(row), verb, Expect::Yes(true));
        if let Some(holding) = self.cases.last_mut().and_then(|case| case.holding.as_mut()) {
            holding.lease_until = self.now - TimeDelta::minutes(10);
        }
    }

    fn defers(&mut self) {
        for (name, status, more, ahead, expect) in [
            ("an overdue pending row is deferred", Status::Pending, 0, -20, true),
            ("an overdue unknown row is deferred", Status::Unknown, 0, -20, true),
            ("a row not yet due is not deferred", Status::Pending, 0, 20, false),
            ("a stale notice is not deferred but refused", Status::Pending, -1, -20, false),
            ("a notice ahead of its row is not deferred", Status::Pending, 1, -20, false),
            ("a held row is not deferred", Status::Processing, 0, -20, false),
            ("a final row is not deferred", Status::Completed, 0, -20, false),
        ] {
            let mut row = self.row(status);
            row.next_attempt_at = self.now + TimeDelta::minutes(ahead);
            let notice = Notice { attempt: row.attempt + more, ..notice(&row) };
            self.add(name, Some(row), Verb::Defer { notice }, Expect::Yes(expect));
        }
        let notice = notice(&self.row(Status::Pending));
        self.add("a missing row is not deferred", None, Verb::Defer { notice }, Expect::Yes(false));
    }
}

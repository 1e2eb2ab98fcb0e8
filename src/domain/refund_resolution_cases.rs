//! Cases of closing a refund by people's word as a table, run against the pure guard and, the same rows, against
//! the SQL. Not part of the product's interface.

use super::guard::Lineage;
use super::guard_cases::price;
use super::money::{Currency, Minor, Money};
use super::refund::RefundStatus;
use super::refund_resolution::{ChargeSums, OpenRefund, QUIET, RefundUnresolved, RefundWord};
use chrono::{DateTime, TimeDelta, Utc};

/// What every refund of these cases asked for.
pub const ASKED: i64 = 5_000;
/// Claims of every refund of these cases.
pub const CLAIMS: i32 = 3;

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// A sentence; unique.
    pub name: &'static str,
    /// What is closed; its charge is [`price`].
    pub of: OpenRefund,
    /// As what.
    pub word: RefundWord<'static>,
    /// Claims that the people saw.
    pub seen: i32,
    /// Of the database.
    pub lineage: Lineage,
    /// What is answered.
    pub expect: Result<RefundStatus, RefundUnresolved>,
}

/// So many minor units of the charge's currency.
///
/// # Panics
/// On a number that is no amount.
#[must_use]
pub fn money(minor: i64) -> Money {
    match Minor::new(minor) {
        Some(minor) => Money { minor, currency: price().currency },
        None => panic!("{minor} is no amount"),
    }
}

/// Waits for people since long ago, with nothing else promised back of its charge.
#[must_use]
pub fn waiting(now: DateTime<Utc>) -> OpenRefund {
    OpenRefund {
        status: RefundStatus::Unknown,
        next_attempt_at: None,
        amount: money(ASKED),
        sums: ChargeSums { charge_minor: price().minor.get(), reserved_minor: ASKED, refunded_minor: 0 },
        reference: None,
        is_anothers: false,
        says_refunded: false,
        attempt: CLAIMS,
        last_claimed_at: Some(now - QUIET - TimeDelta::minutes(1)),
    }
}

fn given(minor: i64) -> RefundWord<'static> {
    RefundWord::Refunded { reference: "re_case", amount: Some(money(minor)) }
}

fn case(
    name: &'static str,
    of: OpenRefund,
    word: RefundWord<'static>,
    expect: Result<RefundStatus, RefundUnresolved>,
) -> Case {
    Case { name, of, word, seen: CLAIMS, lineage: Lineage::Released, expect }
}

/// Every case, as of `now`.
#[must_use]
pub fn cases(now: DateTime<Utc>) -> Vec<Case> {
    [given_back(now), said_wrongly(now), never_given_back(now), not_waiting(now)].concat()
}

fn given_back(now: DateTime<Utc>) -> Vec<Case> {
    let open = waiting(now);
    let back = Ok(RefundStatus::Refunded);
    let above = Err(RefundUnresolved::AboveCharge);
    let left = price().minor.get() - ASKED;
    let known = OpenRefund { reference: Some("re_case".into()), ..open.clone() };
    let sums = ChargeSums { reserved_minor: ASKED + left, ..open.sums };
    let promised = OpenRefund { sums, ..open.clone() };
    let late = OpenRefund { says_refunded: true, ..open.clone() };
    let recent = OpenRefund { last_claimed_at: Some(now), ..open.clone() };
    vec![
        case("given back as asked", open.clone(), given(ASKED), back),
        case("given back under the name on record", known, given(ASKED), back),
        case("less was given back", open.clone(), given(1), back),
        case("more was given back, and it is left of the charge", open.clone(), given(ASKED + left), back),
        case("one more than the charge", open.clone(), given(ASKED + left + 1), above),
        case("the most that a number holds", open, given(i64::MAX), above),
        case("as asked, and the rest is promised", promised.clone(), given(ASKED), back),
        case("one more, and the rest is promised", promised, given(ASKED + 1), above),
        case("given back, as a late answer says", late, given(ASKED), back),
        case("given back, and it was claimed a moment ago", recent, given(ASKED), back),
    ]
}

fn said_wrongly(now: DateTime<Utc>) -> Vec<Case> {
    use RefundUnresolved as No;
    let open = waiting(now);
    let nameless = RefundWord::Refunded { reference: "", amount: Some(money(ASKED)) };
    let unread = RefundWord::Refunded { reference: "re_case", amount: None };
    let yen = Currency::from_code("JPY").map(|currency| Money { currency, ..money(ASKED) });
    let foreign = RefundWord::Refunded { reference: "re_case", amount: yen };
    let other = OpenRefund { reference: Some("re_other".into()), ..open.clone() };
    let anothers = OpenRefund { is_anothers: true, ..open.clone() };
    vec![
        case(
            "given back, without the gateway's name of it",
            open.clone(),
            nameless,
            Err(No::ReferenceMissing),
        ),
        case("given back, nobody can say how much", open.clone(), unread, Err(No::AmountDiffers)),
        case("given back in another currency", open, foreign, Err(No::AmountDiffers)),
        case(
            "given back under another name than that on record",
            other,
            given(ASKED),
            Err(No::ReferenceDiffers),
        ),
        case("given back under another refund's name", anothers, given(ASKED), Err(No::ReferenceTaken)),
    ]
}

fn never_given_back(now: DateTime<Utc>) -> Vec<Case> {
    use RefundUnresolved as No;
    let open = waiting(now);
    let known = OpenRefund { reference: Some("re_case".into()), ..open.clone() };
    let late = OpenRefund { says_refunded: true, ..open.clone() };
    let recent = OpenRefund { last_claimed_at: Some(now - QUIET + TimeDelta::minutes(1)), ..open.clone() };
    let never = |name, of, expect| case(name, of, RefundWord::NotRefunded, expect);
    vec![
        never("never given back", open, Ok(RefundStatus::Declined)),
        never("never given back, and an answer named it", known, Err(No::RefundOnRecord)),
        never("never given back, and a late answer says that it was", late, Err(No::RefundOnRecord)),
        never("never given back, and it was claimed a moment ago", recent, Err(No::TooRecent)),
    ]
}

fn not_waiting(now: DateTime<Utc>) -> Vec<Case> {
    use RefundUnresolved as No;
    let open = waiting(now);
    let asked_about = OpenRefund { next_attempt_at: Some(now), ..open.clone() };
    let mut cases = vec![
        case("the gateway is still asked", asked_about, given(ASKED), Err(No::NotWaiting)),
        Case { seen: CLAIMS - 1, ..case("claimed since", open.clone(), given(ASKED), Err(No::Changed)) },
        Case {
            lineage: Lineage::Quarantined,
            ..case("in a restored database", open.clone(), given(ASKED), Err(No::Quarantined))
        },
    ];
    let elsewhere = [
        ("nobody allowed it yet", RefundStatus::Asked),
        ("no worker sent it yet", RefundStatus::Approved),
        ("a worker holds it", RefundStatus::Sending),
        ("it was given back before", RefundStatus::Refunded),
        ("it was declined before", RefundStatus::Declined),
        ("nobody allowed it", RefundStatus::Rejected),
    ];
    cases.extend(elsewhere.map(|(name, status)| {
        let of = OpenRefund { status, ..open.clone() };
        case(name, of, RefundWord::NotRefunded, Err(No::NotWaiting))
    }));
    cases
}

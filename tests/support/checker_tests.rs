//! The checker can fail: every kind of forgery is caught by its own number, and an honest record by
//! none.

use super::checker::check;
use super::records::{Acknowledged, AttemptRow, Cancelled, LedgerLine, PaymentRow, Records, Told};
use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::history::{Event, FIRST_PREV, HistoryRow};
use punctual::domain::ids::{Epoch, Fence, PaymentId};
use punctual::domain::state::{Cause, Status};
use std::collections::BTreeSet;
use uuid::Uuid;

fn due() -> DateTime<Utc> {
    DateTime::from_timestamp_micros(1_795_960_020_123_000).expect("in range")
}

fn after(ms: i64) -> DateTime<Utc> {
    due() + TimeDelta::milliseconds(ms)
}

fn id() -> PaymentId {
    PaymentId::new(due(), [7; 10]).expect("in range")
}

fn claim(number: u8) -> Uuid {
    Uuid::from_bytes([number; 16])
}

fn attempt(number: u8, epoch: i32, verdict: &str) -> AttemptRow {
    let at = i64::from(number) * 1_000;
    AttemptRow {
        payment: id(),
        attempt: number.into(),
        epoch,
        claim_id: claim(number),
        fence: number.into(),
        worker: "w/1".into(),
        claimed_at: after(at),
        settled_at: Some(after(at + 50)),
        settled_to: Some(if verdict == "charged" { "COMPLETED" } else { "PENDING" }.into()),
        verdict: Some(verdict.into()),
        how: Some("sent".into()),
        fenced: false,
    }
}

fn line(number: u8, key: &str, verdict: &str) -> LedgerLine {
    LedgerLine {
        seq: number.into(),
        at: after(i64::from(number) * 1_000 + 20),
        key: Some(key.to_owned()),
        payment_id: Some(id()),
        claim_id: Some(claim(number)),
        fence: Some(number.into()),
        due_at: Some(due()),
        amount: Some(1_250),
        currency: Some("EUR".into()),
        payee: Some("sim_ok".into()),
        verdict: verdict.into(),
        charged: verdict == "charged",
    }
}

fn history() -> Vec<Told> {
    use Status::{Completed, Pending, Processing};
    let steps = [
        (None, Cause::Created, Pending, 0, 0),
        (Some(Pending), Cause::Claimed, Processing, 1, 0),
        (Some(Processing), Cause::Settled, Pending, 1, 1),
        (Some(Pending), Cause::Claimed, Processing, 2, 1),
        (Some(Processing), Cause::Settled, Completed, 2, 1),
    ];
    let mut prev = FIRST_PREV;
    let numbered = steps.into_iter().zip(1..);
    let told = numbered.map(|((from, cause, to, attempt, epoch), seq)| {
        let row = HistoryRow {
            payment: id(),
            seq,
            from,
            to,
            event: Event::Moved(cause),
            by: "w/1".into(),
            fence: Fence(attempt.into()),
            attempt,
            epoch: Epoch(epoch),
            at: after(i64::from(seq) * 500),
            detail: "{}".into(),
        };
        prev = row.hash(&prev);
        Told { row, hash: prev.to_vec() }
    });
    told.collect()
}

/// One payment: declined, then charged under the next epoch's key.
fn honest() -> Records {
    let history = history();
    let payment = PaymentRow {
        id: id(),
        status: Status::Completed,
        reason: None,
        due_at: due(),
        next_attempt_at: due(),
        amount: 1_250,
        currency: "EUR".into(),
        payee: "sim_ok".into(),
        fence: 2,
        history_seq: 5,
        history_hash: history[4].hash.clone(),
        parked: None,
    };
    Records {
        ledger: vec![line(1, &id().to_string(), "declined"), line(2, &format!("{}:1", id()), "charged")],
        acknowledged: vec![Acknowledged {
            id: id(),
            payee: "sim_ok".into(),
            amount: 1_250,
            currency: "EUR".into(),
            due_at: due(),
        }],
        payments: vec![payment],
        attempts: vec![attempt(1, 0, "declined"), attempt(2, 1, "charged")],
        history,
        cancelled: vec![Cancelled { id: id(), status: Some(409) }],
        events: (1..=5).map(|seq| (id(), seq)).collect(),
    }
}

fn broken(records: &Records) -> BTreeSet<&'static str> {
    let found = check(records).into_iter().filter(|checked| !checked.broken.is_empty());
    found.map(|checked| checked.invariant.id()).collect()
}

#[test]
fn an_honest_record_breaks_no_promise() {
    assert_eq!(broken(&honest()), BTreeSet::new());
}

#[test]
fn every_forgery_is_caught_by_its_own_number() {
    type Forge = fn(&mut Records);
    let forgeries: &[(&str, Forge)] = &[
        // A second charge that nobody claimed.
        ("M1", |r| r.ledger.push(line(3, &id().to_string(), "charged"))),
        ("M2", |r| r.ledger[1].claim_id = Some(claim(9))),
        ("M2", |r| r.ledger[1].fence = Some(1)),
        ("M2", |r| r.ledger[1].at = after(1_999)),
        ("M3", |r| r.ledger[0].at = after(-1)),
        ("M3", |r| r.acknowledged[0].due_at = after(1_500)),
        ("M4", |r| r.ledger[1].amount = Some(1_251)),
        ("M4", |r| r.ledger[1].currency = Some("USD".into())),
        ("M4", |r| r.ledger[1].payee = Some("sim_slow_1".into())),
        ("M5", |r| r.ledger[1].key = Some(id().to_string())),
        ("M5", |r| r.attempts[0].verdict = Some("unknown".into())),
        ("M6", |r| r.ledger.push(r.ledger[1].clone())),
        ("M7", |r| r.cancelled[0].status = Some(200)),
        ("M7", |r| r.cancelled[0].status = Some(503)),
        ("M7", |r| r.payments[0].status = Status::Cancelled),
        ("M8", |r| r.history[2].row.to = Status::Failed),
        ("M9", |r| r.payments[0].amount = 1),
        ("H1", |r| drop(r.history.remove(2))),
        ("H1", |r| r.history[2].row.to = Status::Cancelled),
        ("H2", |r| r.history[2].row.detail.push(' ')),
        ("H2", |r| drop(r.history.pop())),
        ("H3", |r| r.attempts[1].fence = 1),
        ("H3", |r| r.attempts[1].claim_id = claim(1)),
        ("H4", |r| r.attempts[0].fenced = true),
        ("H6", |r| r.ledger[1].charged = false),
        ("H6", |r| r.payments[0].status = Status::Failed),
        ("H7", |r| r.payments[0].status = Status::Parked),
        ("K4", |r| r.events.truncate(4)),
        ("K4", |r| r.events.swap(0, 1)),
        ("K4", |r| r.events.push((id(), 6))),
        ("L1", |r| r.payments[0].status = Status::Processing),
        ("L2", |r| r.payments.clear()),
        ("L2", |r| r.acknowledged[0].amount = 1),
        ("L7", |r| r.payments[0].status = Status::Parked),
    ];
    for (number, (invariant, forge)) in forgeries.iter().enumerate() {
        let mut records = honest();
        forge(&mut records);
        let found = broken(&records);
        assert!(found.contains(invariant), "forgery {number} of {invariant} was missed: {found:?}");
    }
    let tried: BTreeSet<&str> = forgeries.iter().map(|(invariant, _)| *invariant).collect();
    let checks: BTreeSet<&str> = check(&honest()).iter().map(|checked| checked.invariant.id()).collect();
    assert_eq!(tried, checks, "every check has a forgery");
}

#[test]
fn a_check_says_how_much_it_looked_at() {
    for checked in check(&Records::default()) {
        let at_most = usize::from(checked.invariant.id() == "H3");
        assert!(checked.looked_at <= at_most && checked.broken.is_empty(), "{checked:?}");
    }
    let found = check(&honest());
    assert!(found.iter().all(|checked| checked.looked_at > 0 || checked.invariant.id() == "M8"), "{found:?}");
}

//! The checks can fail: every kind of forgery is caught by its own number, an honest record by none, and
//! what was not given or never happened is unknown.

mod late_request_tests;

use super::{
    Asked, Checked, Coverage, Given, LedgerLine, Op, Operation, Records, Report, Requirement, Rules,
    SITUATIONS, Valid, check,
};
use crate::bucket::dump::{Dump, DumpedEvent, DumpedNotice, Place};
use crate::domain::bucket::Channel;
use crate::domain::history::{Event, FIRST_PREV, HistoryRow};
use crate::domain::ids::{Epoch, Fence, GatewayName, PaymentId};
use crate::domain::state::{Cause, Status};
use crate::platform::exit::Exit;
use crate::schedule::audit::{AttemptRow, KeyRow, PaymentRow, Told};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeSet;
use std::time::Duration;
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

fn other() -> PaymentId {
    PaymentId::new(due(), [8; 10]).expect("in range")
}

fn claim(number: u8) -> Uuid {
    Uuid::from_bytes([number; 16])
}

fn rules() -> Rules {
    Rules {
        retry: vec![Duration::from_millis(900)],
        held_back: vec![Duration::from_millis(900)],
        key_ttl: Duration::from_secs(100),
        key_margin: Duration::from_secs(10),
        gateway_total: Duration::from_secs(2),
        lease_margin: Duration::from_secs(1),
        overdue: Duration::from_secs(30),
    }
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
        was: Status::Pending,
        claimed_at: after(at),
        settled_at: Some(after(at + 50)),
        settled_to: Some(if verdict == "charged" { "COMPLETED" } else { "PENDING" }.into()),
        verdict: Some(verdict.into()),
        how: Some("sent".into()),
        code: Some("insufficient_funds".into()),
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
        request: super::records::Requested::Charge,
        charge: None,
        taken: None,
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
        Told { row, hash: prev, is_published: true }
    });
    told.collect()
}

fn payment(history_hash: [u8; 32]) -> PaymentRow {
    PaymentRow {
        due_day: id().due_day(),
        id: id(),
        gateway: GatewayName("sandbox".into()),
        status: Status::Completed,
        reason: None,
        due_at: due(),
        execute_within: None,
        next_attempt_at: due(),
        amount: 1_250,
        currency: "EUR".into(),
        payee: "sim_ok".into(),
        attempt: 2,
        max_sends: 2,
        fence: 2,
        lease_until: None,
        last_moved_at: after(2_500),
        history_seq: 5,
        history_hash,
        parked: None,
    }
}

fn operation(op: Op, actor: &str, at_ms: i64, status: u16) -> Operation {
    Operation {
        op,
        actor: Some(actor.into()),
        key: None,
        at: after(at_ms),
        answered_at: Some(after(at_ms + 5)),
        status: Some(status),
        payment_id: Some(id()),
        asked: None,
        state: None,
    }
}

fn operations() -> Vec<Operation> {
    let asked = Asked { payee: "sim_ok".into(), amount: 1_250, currency: "EUR".into(), due_at: due() };
    let create = operation(Op::Create, "shop", -9_000, 201);
    let read = |at_ms, state| Operation { state: Some(state), ..operation(Op::Read, "shop", at_ms, 200) };
    vec![
        Operation { key: Some("k".into()), asked: Some(asked), ..create },
        operation(Op::Cancel, "shop", 1_100, 409),
        operation(Op::Read, "stranger", 1_200, 404),
        read(1_300, Status::Pending),
        read(9_000, Status::Completed),
    ]
}

fn topics() -> Dump {
    let notice = |attempt: i32| DumpedNotice {
        payment: id(),
        attempt,
        place: Place { channel: Channel::Now, partition: 0, offset: attempt.into() },
        is_complete: true,
    };
    let event = |sequence| DumpedEvent { payment: id(), sequence, partition: 0 };
    Dump { notices: vec![notice(0), notice(1)], events: (1..=5).map(event).collect(), ..Dump::default() }
}

/// One payment: declined, then charged under the next epoch's key.
fn honest() -> Records {
    let history = history();
    Records {
        given: Given { ledger: true, database: true, topics: true, operations: true },
        ledger: vec![line(1, &id().to_string(), "declined"), line(2, &format!("{}:1", id()), "charged")],
        ledger_read_at: None,
        operations: operations(),
        topics: topics(),
        kept: BTreeSet::new(),
        is_published: true,
        taken_at: after(60_000),
        payments: vec![payment(history[4].hash)],
        attempts: vec![attempt(1, 0, "declined"), attempt(2, 1, "charged")],
        history,
        keys: vec![KeyRow { actor: "shop".into(), key: "k".into(), payment: id() }],
        refunds: Vec::new(),
        differences: Vec::new(),
        compared: Vec::new(),
    }
}

fn found(records: &Records, valid: Valid) -> BTreeSet<&'static str> {
    let all = check(records, &rules());
    all.iter().filter(|checked| checked.valid() == valid).map(|checked| checked.invariant.id()).collect()
}

#[test]
fn an_honest_record_breaks_no_promise() {
    let broken: Vec<Checked> =
        check(&honest(), &rules()).into_iter().filter(|checked| checked.valid() == Valid::False).collect();
    assert_eq!(broken, Vec::new());
}

type Forge = fn(&mut Records);

/// Each with the number of the promise that it breaks.
const MONEY: &[(&str, Forge)] = &[
    // A second charge that nobody claimed.
    ("M1", |r| r.ledger.push(line(3, &id().to_string(), "charged"))),
    ("M1", |r| r.ledger[1].payment_id = None),
    ("M2", |r| r.ledger[1].claim_id = Some(claim(9))),
    ("M2", |r| r.ledger[1].fence = Some(1)),
    ("M2", |r| r.ledger[1].at = after(1_999)),
    ("M3", |r| r.ledger[0].at = after(-1)),
    ("M3", |r| r.operations[0].asked.as_mut().expect("asked").due_at = after(1_500)),
    ("M4", |r| r.ledger[1].amount = Some(1_251)),
    ("M4", |r| r.ledger[1].currency = Some("USD".into())),
    ("M4", |r| r.ledger[1].payee = Some("sim_slow_1".into())),
    ("M5", |r| r.ledger[1].key = Some(id().to_string())),
    ("M5", |r| r.attempts[0].verdict = Some("unknown".into())),
    // The key of the second epoch was opened at 2 s, may be sent for 90 s, and a call lasts 2 s.
    ("M5", |r| r.ledger[1].at = after(94_000)),
    // An unanswered send keeps the key's age for the later claim of the same epoch.
    ("M5", |r| {
        r.attempts[0].verdict = Some("unknown".into());
        r.attempts[1].epoch = 0;
        r.attempts[1].claimed_at = after(92_900);
        r.ledger[1].key = Some(id().to_string());
        r.ledger[1].at = after(93_100);
    }),
    ("M6", |r| r.ledger.push(r.ledger[1].clone())),
    ("M7", |r| r.operations[1].status = Some(200)),
    ("M8", |r| r.history[2].row.to = Status::Failed),
    ("M8", |r| {
        r.history[2].row.to = Status::Parked;
        r.ledger[1].at = after(1_600);
    }),
    ("M9", |r| r.payments[0].amount = 1),
    ("H6", |r| r.ledger[1].charged = false),
    ("H6", |r| r.payments[0].status = Status::Failed),
];

const STATE: &[(&str, Forge)] = &[
    ("H1", |r| drop(r.history.remove(2))),
    ("H1", |r| r.history[2].row.to = Status::Cancelled),
    ("H2", |r| r.history[2].row.detail.push(' ')),
    ("H2", |r| drop(r.history.pop())),
    ("H3", |r| r.attempts[1].fence = 1),
    ("H3", |r| r.attempts[1].claim_id = claim(1)),
    ("H4", |r| r.attempts[0].fenced = true),
    ("H5", |r| r.payments[0].last_moved_at = after(2_501)),
    ("H5", |r| r.history[2].row.to = Status::Failed),
    ("H7", |r| r.payments[0].status = Status::Parked),
    ("H8", |r| r.payments[0].max_sends = 1),
    ("H8", |r| r.attempts[1].claimed_at = after(1_899)),
    ("H8", |r| {
        r.attempts[0].verdict = Some("not_sent".into());
        r.attempts[0].code = Some("rate_limited".into());
        r.attempts[1].claimed_at = after(1_899);
    }),
    ("M11", |r| r.history[2].row.event = Event::CancelWished),
    ("H9", |r| r.attempts[0].code = Some("stolen_card".into())),
    ("H9", |r| r.attempts[0].code = Some("a_code_of_tomorrow".into())),
    ("H10", |r| r.payments.push(r.payments[0].clone())),
    ("H10", |r| r.payments[0].due_day = r.payments[0].due_day.succ_opt().expect("a day")),
    ("L1", |r| r.payments[0].status = Status::Processing),
    ("L1", |r| {
        r.payments[0].status = Status::Processing;
        r.payments[0].lease_until = Some(after(29_000));
    }),
    ("L1", |r| r.payments[0].status = Status::Unknown),
    ("L4", |r| r.payments.clear()),
    ("L5", |r| r.payments[0].status = Status::Pending),
    ("L7", |r| r.payments[0].status = Status::Parked),
];

const PIPELINE_AND_CLIENTS: &[(&str, Forge)] = &[
    ("K1", |r| r.topics.notices[1].attempt = 3),
    ("K1", |r| r.topics.notices[1].payment = other()),
    ("K1", |r| {
        r.payments[0].status = Status::Pending;
        r.payments[0].next_attempt_at = after(90_000);
        r.topics.notices[1].attempt = 2;
    }),
    ("K1", |r| r.topics.unreadable.push((Place { channel: Channel::Now, partition: 0, offset: 9 }, true))),
    ("K2", |r| r.topics.notices[1].place.partition = 1),
    ("K2", |r| r.topics.events[1].partition = 1),
    ("K3", |r| r.topics.notices[1].payment = other()),
    ("K3", |r| r.topics.events[4].payment = other()),
    ("K4", |r| r.topics.events.truncate(4)),
    ("K4", |r| r.topics.events.swap(0, 1)),
    ("K4", |r| r.topics.events.push(DumpedEvent { payment: id(), sequence: 6, partition: 0 })),
    ("L2", |r| r.payments.clear()),
    ("L2", |r| r.operations[0].asked.as_mut().expect("asked").amount = 1),
    ("L3", |r| r.keys.clear()),
    ("L3", |r| r.keys[0].actor = "stranger".into()),
    ("L3", |r| {
        let mut again = r.operations[0].clone();
        again.payment_id = Some(other());
        r.operations.push(again);
    }),
    ("A1", |r| r.operations[1].status = Some(200)),
    ("A1", |r| r.operations[1].status = Some(404)),
    ("A1", |r| r.payments[0].status = Status::Cancelled),
    ("A1", |r| r.payments.clear()),
    ("A2", |r| r.operations[4].state = Some(Status::Parked)),
    ("A2", |r| {
        let mut again = r.operations[3].clone();
        again.at = after(9_100);
        r.operations.push(again);
    }),
    ("A3", |r| r.operations[2].status = Some(200)),
    ("A3", |r| r.operations[1].actor = Some("stranger".into())),
];

#[test]
fn every_forgery_is_caught_by_its_own_number() {
    let forgeries = || MONEY.iter().chain(STATE).chain(PIPELINE_AND_CLIENTS);
    for (number, (invariant, forge)) in forgeries().enumerate() {
        let mut records = honest();
        forge(&mut records);
        let broken = found(&records, Valid::False);
        assert!(broken.contains(invariant), "forgery {number} of {invariant} was missed: {broken:?}");
    }
    let tried: BTreeSet<&str> = forgeries().map(|(invariant, _)| *invariant).collect();
    let all: BTreeSet<&str> = check(&honest(), &rules()).iter().map(|it| it.invariant.id()).collect();
    let untried: Vec<&&str> = all.difference(&tried).collect();
    assert_eq!(untried, [&"K5", &"K6", &"L6", &"M10", &"R1", &"R2"], "every other check has a forgery");
}

#[test]
fn what_happened_while_it_was_read_is_not_held_against_anybody() {
    let mut records = honest();
    records.ledger.pop();
    assert!(found(&records, Valid::False).contains("H6"));
    // It was charged and completed after the ledger was read.
    records.ledger_read_at = Some(after(2_000));
    assert_eq!(found(&records, Valid::False), BTreeSet::new());
    // The publisher had not come to the last row, and a later reader sees it nevertheless.
    records.history[4].is_published = false;
    records.topics.events.truncate(4);
    assert_eq!(found(&records, Valid::False), BTreeSet::new());
    // A record that is still to be completed needs no evidence; one that was kept unread has it.
    records.topics.notices[1].attempt = 3;
    records.topics.notices[1].is_complete = false;
    let place = Place { channel: Channel::Now, partition: 0, offset: 9 };
    records.topics.unreadable.push((place, true));
    records.kept.insert(place);
    assert_eq!(found(&records, Valid::False), BTreeSet::new());
}

#[test]
fn an_unanswered_operation_binds_nobody() {
    let mut records = honest();
    for status in [None, Some(503)] {
        records.operations[1].status = status;
        assert_eq!(found(&records, Valid::False), BTreeSet::new());
    }
    // A cancel that got through although nobody was told.
    records.operations.push(operation(Op::Cancel, "shop", 1_150, 409));
    records.payments[0].status = Status::Cancelled;
    assert!(!found(&records, Valid::False).contains("A1"));
}

#[test]
fn a_key_s_age_starts_anew_only_after_a_proof_that_nothing_was_ever_sent_under_it() {
    let mut records = honest();
    records.attempts[0].verdict = Some("not_sent".into());
    records.attempts[1].epoch = 0;
    records.attempts[1].claimed_at = after(92_900);
    records.ledger[1].key = Some(id().to_string());
    records.ledger[1].at = after(93_100);
    assert!(!found(&records, Valid::False).contains("M5"));
    // A proof that came too late is no proof of the claim that was running meanwhile.
    records.attempts[0].fenced = true;
    assert!(found(&records, Valid::False).contains("M5"));
}

#[test]
fn what_was_not_given_is_unknown_and_says_so() {
    let none = Records { given: Given::default(), ..honest() };
    for checked in check(&none, &rules()) {
        assert_eq!(checked.valid(), Valid::Unknown, "{checked:?}");
        assert!(checked.why_unknown.is_some(), "{checked:?}");
    }
    for (taken, unknown) in [
        (Given { ledger: false, ..honest().given }, "M1"),
        (Given { database: false, ..honest().given }, "H1"),
        (Given { topics: false, ..honest().given }, "K2"),
        (Given { operations: false, ..honest().given }, "A3"),
    ] {
        let less = Records { given: taken, ..honest() };
        assert!(found(&less, Valid::Unknown).contains(unknown), "{unknown}");
        assert!(!found(&honest(), Valid::Unknown).contains(unknown), "{unknown}");
    }
}

#[test]
fn a_check_that_looked_at_nothing_is_unknown() {
    let empty = Records { given: honest().given, ..Records::default() };
    assert_eq!(found(&empty, Valid::Unknown).len(), check(&empty, &rules()).len());
    // The honest record has no refusal for good and nothing that ended; all else was looked at.
    let unknown: Vec<&str> = found(&honest(), Valid::Unknown).into_iter().collect();
    assert_eq!(unknown, ["H9", "K5", "K6", "L6", "M10", "M11", "M7", "M8", "R1", "R2"]);
    let mut unpublished = honest();
    unpublished.is_published = false;
    assert!(found(&unpublished, Valid::Unknown).contains("K4"));
    let mut late = honest();
    late.topics.events_complete_from = Some(after(1_000));
    late.topics.events.clear();
    assert!(found(&late, Valid::Unknown).contains("K4"), "the topic has forgotten the first events");
}

#[test]
fn a_report_ends_by_what_was_found_and_by_what_was_required() {
    let ended = |records: &[Records], required: &[&str]| {
        let required = required.iter().map(|name| Requirement::named(name).expect("a name"));
        let mut report = Report::new(required.collect());
        records.iter().for_each(|window| report.look(window, &rules()));
        report.exit()
    };
    let empty = || Records { given: honest().given, ..Records::default() };
    let mut forged = honest();
    forged.ledger[0].at = after(-1);
    assert_eq!(ended(&[honest()], &[]), Exit::Done);
    assert_eq!(ended(&[empty(), honest()], &["M1", "epoch_bumps"]), Exit::Done);
    assert_eq!(ended(&[honest()], &["M8"]), Exit::Undecided);
    assert_eq!(ended(&[honest()], &["fenced_settles"]), Exit::Undecided);
    assert_eq!(ended(&[empty()], &[]), Exit::Undecided);
    assert_eq!(ended(&[honest(), forged.clone()], &["M8"]), Exit::Differences);
    assert!(Requirement::named("M99").is_err());
    let mut report = Report::new(vec![Requirement::named("fenced_settles").expect("a name")]);
    report.look(&honest(), &rules());
    report.look(&forged, &rules());
    let table = report.as_table();
    assert!(table.contains("M3  BROKEN   1 of 4 broken"), "{table}");
    assert!(table.contains("UNKNOWN  fenced_settles"), "{table}");
    assert!(!table.contains("sim_ok"), "no payee is shown: {table}");
    let m3 = report.as_json()["invariants"][2].clone();
    assert_eq!((&m3["valid"], &m3["lookedAt"], &m3["broken"]), (&false.into(), &4.into(), &1.into()));
    assert_eq!(report.as_json()["exitCode"], 10);
}

#[test]
fn each_situation_is_counted_or_not_to_be_seen() {
    let mut records = honest();
    records.attempts[0].fenced = true;
    records.history[2].row.event = Event::Fenced;
    records.operations.push(Operation {
        op: Op::Create,
        key: Some("k".into()),
        status: None,
        payment_id: None,
        ..operation(Op::Create, "shop", -9_500, 201)
    });
    let coverage = Coverage::of(&records);
    let expected = [
        ("requests", 2),
        ("charges", 1),
        ("fenced_settles", 1),
        ("epoch_bumps", 1),
        ("lease_expiries", 0),
        ("lost_commits", 1),
        ("unanswered", 1),
        ("cancels_refused", 1),
        ("notices", 2),
        ("events_repeated", 0),
        ("claims_later_than_1s", 0),
    ];
    for (name, count) in expected {
        assert_eq!(coverage.met(name), Some(count), "{name}");
    }
    let none = Coverage::of(&Records { given: Given::default(), ..records });
    assert!(SITUATIONS.iter().all(|situation| none.met(situation.name).is_none()));
}

mod memory;
mod reconciled;
mod refunds;
mod voids;

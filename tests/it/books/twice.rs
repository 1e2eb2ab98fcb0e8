//! Money that was moved twice, wherever its two lines stand, and money that only looks so.

use super::desk::{
    charge, charged_at_noon, compare, days_ago, items_of, load, paid, put, reconcile, report, told, with_past,
};
use crate::schedule::world::{World, gateway};
use chrono::{NaiveDate, TimeDelta};
use punctual::domain::guard_cases::payment;
use punctual::domain::ids::PaymentId;
use punctual::domain::matching::{Class, ItemStatus};
use punctual::domain::payment::Payment;
use punctual::domain::settlement::{Kind, Line};
use punctual::domain::state::Status;
use punctual::schedule::{BookSum, NewReport, ReconciliationItem};
use sha2::{Digest, Sha256};
use sqlx::postgres::PgConnection;
use std::collections::BTreeMap;

/// Due and charged at noon of the day, under this name.
async fn charged_as(sql: &mut PgConnection, n: u64, day: NaiveDate, reference: &str) -> Payment {
    let noon = day.and_hms_opt(12, 0, 0).expect("noon").and_utc();
    let like = payment(noon + TimeDelta::hours(1), n, Status::Completed);
    let row = Payment { gateway_ref: Some(reference.to_owned()), ..like };
    put(sql, &row).await;
    charged_at_noon(sql, &row, day).await;
    row
}

/// The payment's only open second charge.
async fn second(world: &World, payment: PaymentId) -> ReconciliationItem {
    let is_second = |item: &ReconciliationItem| {
        item.what.class == Class::DuplicateCharge && item.what.status == ItemStatus::Open
    };
    let mut found = items_of(world, payment).await.into_iter().filter(is_second);
    let second = found.next().expect("a second charge");
    assert!(found.next().is_none(), "one and the same from whichever day");
    second
}

/// Each difference and where it stands, by class.
async fn stands(world: &World, payment: PaymentId) -> BTreeMap<Class, String> {
    told(world, payment).await.into_iter().collect()
}

#[tokio::test]
async fn a_line_of_another_charge_than_ours_is_a_second_one_and_ours_is_still_looked_for() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let (day, next) = (days_ago(&world, 5).await, days_ago(&world, 4).await);
    let row = charged_as(&mut sql, 1, day, "ch_1").await;
    let compared = reconcile(&world, day, &[charge(1, row.id, "ch_2", day)]).await;
    assert_eq!(compared.counts, BTreeMap::from([(Class::DuplicateCharge, 1), (Class::Late, 1)]));
    let second = second(&world, row.id).await;
    assert_eq!((second.what.field.as_str(), second.what.reference.as_deref()), ("charge", Some("ch_2")));
    assert_eq!((second.what.ours.as_deref(), second.what.theirs.as_deref()), (Some("1"), Some("2")));
    // Ours comes the day after: it is explained, the other one is not.
    let compared = reconcile(&world, next, &[charge(1, row.id, "ch_1", next)]).await;
    assert_eq!((compared.counts, compared.explained), (BTreeMap::new(), 1));
    let both =
        BTreeMap::from([(Class::DuplicateCharge, "open".to_owned()), (Class::Late, "explained".to_owned())]);
    assert_eq!(stands(&world, row.id).await, both);
    // Whichever day is compared again, it is the same difference.
    compare(&world, day).await;
    compare(&world, next).await;
    assert_eq!(stands(&world, row.id).await, both);
    assert_eq!(items_of(&world, row.id).await.len(), 2);
}

#[tokio::test]
async fn of_two_names_in_one_report_ours_counts_and_the_other_is_the_second() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let day = days_ago(&world, 5).await;
    let row = charged_as(&mut sql, 1, day, "ch_2").await;
    let lines = [charge(1, row.id, "ch_1", day), charge(2, row.id, "ch_2", day)];
    assert_eq!(reconcile(&world, day, &lines).await.counts, BTreeMap::from([(Class::DuplicateCharge, 1)]));
    assert_eq!(items_of(&world, row.id).await[0].what.reference.as_deref(), Some("ch_1"));
}

#[tokio::test]
async fn a_charge_that_was_missing_here_is_not_explained_by_another_one() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let day = days_ago(&world, 3).await;
    let noon = day.and_hms_opt(12, 0, 0).expect("noon").and_utc();
    let (one, other) = (payment(noon, 1, Status::Unknown), payment(noon, 2, Status::Unknown));
    put(&mut sql, &one).await;
    put(&mut sql, &other).await;
    let lines = [charge(1, one.id, "ch_1", day), charge(2, other.id, "ch_2", day)];
    assert_eq!(reconcile(&world, day, &lines).await.counts, BTreeMap::from([(Class::MissingHere, 2)]));
    assert_eq!(world.worker.tell_open_items(&gateway()).await.expect("told").opened[&Class::MissingHere], 2);
    // A look-up found both charged: one as the report has it, one by another name.
    for (id, name) in [(one.id, "ch_1"), (other.id, "ch_9")] {
        world
            .run(&format!(
                "UPDATE payments SET status = 'COMPLETED', unanswered = 0, gateway_ref = '{name}' WHERE id = '{id}'"
            ))
            .await;
    }
    // Another day's comparison looks at what is open, too.
    reconcile(&world, days_ago(&world, 2).await, &[]).await;
    assert_eq!(told(&world, one.id).await, [(Class::MissingHere, "explained".to_owned())]);
    assert_eq!(told(&world, other.id).await, [(Class::DuplicateCharge, "open".to_owned())]);
    let again = world.worker.tell_open_items(&gateway()).await.expect("told").opened;
    assert_eq!(again, BTreeMap::from([(Class::DuplicateCharge, 1)]), "somebody is called again");
}

#[tokio::test]
async fn a_second_charge_weeks_later_is_found_and_so_is_a_first_one_that_comes_later() {
    let world = World::new().await;
    world.one::<i32>("SELECT ensure_partitions(current_date - 40, current_date - 2)").await;
    let mut sql = world.sql().await;
    let (day, later) = (days_ago(&world, 38).await, days_ago(&world, 3).await);
    let (one, other, once) =
        (paid(&mut sql, 1, day).await, paid(&mut sql, 2, day).await, paid(&mut sql, 3, day).await);
    reconcile(&world, day, &[charge(1, one.id, "ch_1", day), charge(2, once.id, "ch_3", day)]).await;
    let lines = [charge(1, one.id, "ch_11", later), charge(2, other.id, "ch_22", later)];
    assert_eq!(reconcile(&world, later, &lines).await.counts, BTreeMap::from([(Class::DuplicateCharge, 1)]));
    let found = second(&world, one.id).await;
    assert_eq!((found.day, found.what.reference.as_deref()), (later, Some("ch_11")));
    // The first day's report is replaced by a fuller one: what was matched by then is the second charge of it.
    let fuller =
        [charge(1, one.id, "ch_1", day), charge(2, once.id, "ch_3", day), charge(3, other.id, "ch_2", day)];
    let compared = reconcile(&world, day, &fuller).await;
    assert_eq!(compared.counts, BTreeMap::new(), "nothing is wrong with that day's own lines");
    assert_eq!(compared.new, BTreeMap::from([(Class::DuplicateCharge, 1)]));
    let found = second(&world, other.id).await;
    assert_eq!((found.day, found.what.reference.as_deref()), (later, Some("ch_22")));
    compare(&world, later).await;
    assert_eq!(second(&world, other.id).await.number, found.number, "the same difference from either day");
    second(&world, one.id).await;
    assert_eq!(told(&world, once.id).await, []);
}

#[tokio::test]
async fn a_charge_whose_first_line_is_forgotten_is_known_by_our_own_history() {
    let world = World::new().await;
    world.one::<i32>("SELECT ensure_partitions(current_date - 40, current_date - 2)").await;
    let mut sql = world.sql().await;
    let (day, later) = (days_ago(&world, 38).await, days_ago(&world, 3).await);
    let (seen, never) = (paid(&mut sql, 1, day).await, paid(&mut sql, 2, day).await);
    reconcile(&world, day, &[charge(1, seen.id, "B-1", day)]).await;
    reconcile(&world, day + TimeDelta::days(1), &[]).await;
    assert_eq!(told(&world, never.id).await, [(Class::MissingThere, "open".to_owned())]);
    assert!(world.worker.drop_old_settlements(20).await.expect("dropped") > 0);
    let lines = [charge(1, seen.id, "B-2", later), charge(2, never.id, "B-3", later)];
    let compared = reconcile(&world, later, &lines).await;
    assert_eq!(compared.counts, BTreeMap::from([(Class::DuplicateCharge, 1)]));
    assert_eq!(second(&world, seen.id).await.what.reference.as_deref(), Some("B-2"));
    let first = [(Class::MissingThere, "explained".to_owned())];
    assert_eq!(told(&world, never.id).await, first, "no report had it: this line is its first");
}

/// A refund of this charge, done on the day.
pub(super) async fn refund(
    world: &World,
    row: &Payment,
    id: PaymentId,
    name: &str,
    minor: i64,
    day: NaiveDate,
) {
    let noon = format!("timestamptz '{day} 12:00+00'");
    world
        .run(&format!(
            "INSERT INTO refunds (id, payment_id, payment_day, payer, gateway, account, reference, amount_minor, currency,
                 status, actor_id, idempotency_key, request_hash, asked_by, reason, approval_id, asked_at, expires_at,
                 approved_by, approved_at, first_sent_at, finished_at, attempt, gateway_ref)
             VALUES ('{id}', '{}', '{}', gen_random_uuid(), '{}', 'sandbox-1', 'ch_1', {minor}, 'EUR', 'refunded',
                 gen_random_uuid(), 'k', sha256(''), 'key:alice', 'why', gen_random_uuid(), {noon}, {noon}, 'key:bob',
                 {noon}, {noon}, {noon}, 1, '{name}')",
            row.id,
            row.id.due_day(),
            row.gateway.0
        ))
        .await;
}

/// A line of money that went back, under this key.
pub(super) fn back(number: u64, key: PaymentId, name: Option<&str>, minor: i64, day: NaiveDate) -> Line {
    Line {
        gateway_ref: name.map(str::to_owned),
        kind: Kind::Refund,
        gross_minor: -minor,
        fee_minor: 0,
        net_minor: -minor,
        ..charge(number, key, name.unwrap_or("none"), day)
    }
}

#[tokio::test]
async fn a_refund_s_second_line_on_another_day_is_one_more() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let (day, later) = (days_ago(&world, 6).await, days_ago(&world, 2).await);
    let row = charged_as(&mut sql, 1, day, "ch_1").await;
    let id = payment(world.now().await, 7, Status::Refunded).id;
    refund(&world, &row, id, "re_1", 500, day).await;
    let first = [charge(1, row.id, "ch_1", day), back(2, id, Some("re_1"), 500, day)];
    assert_eq!(reconcile(&world, day, &first).await.counts, BTreeMap::new());
    // An overlapping report has the very same row: one.
    let overlap = [first[1].clone()];
    load(&world, &NewReport { source: "export-2".into(), ..report(later, &overlap) }, &overlap).await;
    assert_eq!(compare(&world, later).await.counts, BTreeMap::new());
    // Booked again.
    let again = [back(1, id, Some("re_1"), 500, later)];
    assert_eq!(reconcile(&world, later, &again).await.counts, BTreeMap::from([(Class::RefundMismatch, 1)]));
    let item = items_of(&world, row.id).await.remove(0);
    assert_eq!(
        (item.what.field.as_str(), item.what.theirs.as_deref(), item.day),
        ("times", Some("2"), later)
    );
    compare(&world, day).await;
    assert_eq!(items_of(&world, row.id).await.len(), 1, "the same difference from either day");
}

#[tokio::test]
async fn two_equal_refunds_need_two_lines_whether_they_have_names_or_not() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let (day, later) = (days_ago(&world, 6).await, days_ago(&world, 4).await);
    let ids =
        [7, 8].map(|n| payment(day.and_hms_opt(9, 0, 0).expect("nine").and_utc(), n, Status::Refunded).id);
    let (named, nameless) =
        (charged_as(&mut sql, 1, day, "ch_1").await, charged_as(&mut sql, 2, day, "ch_2").await);
    refund(&world, &named, ids[0], "re_1", 500, day).await;
    refund(&world, &named, ids[1], "re_2", 500, day).await;
    let others =
        [17, 18].map(|n| payment(day.and_hms_opt(9, 0, 0).expect("nine").and_utc(), n, Status::Refunded).id);
    refund(&world, &nameless, others[0], "re_3", 500, day).await;
    refund(&world, &nameless, others[1], "re_4", 500, day).await;
    let lines = [
        charge(1, named.id, "ch_1", day),
        charge(2, nameless.id, "ch_2", day),
        back(3, named.id, Some("re_1"), 500, day),
        back(4, named.id, Some("re_2"), 500, day),
        back(5, nameless.id, None, 500, day),
    ];
    let compared = reconcile(&world, day, &lines).await;
    assert_eq!(compared.counts, BTreeMap::from([(Class::RefundMismatch, 1)]), "the fourth has no line yet");
    assert_eq!(told(&world, nameless.id).await, [(Class::RefundMismatch, "waiting".to_owned())]);
    let compared = reconcile(&world, later, &[back(1, nameless.id, None, 500, later)]).await;
    assert_eq!((compared.counts, compared.explained), (BTreeMap::new(), 1));
    assert_eq!(told(&world, nameless.id).await, [(Class::RefundMismatch, "explained".to_owned())]);
    assert_eq!(told(&world, named.id).await, []);
}

#[tokio::test]
async fn what_a_bank_calls_its_entry_names_no_refund_and_no_charge_of_another_payment() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let day = days_ago(&world, 4).await;
    let (one, other) =
        (charged_as(&mut sql, 1, day, "ch_1").await, charged_as(&mut sql, 2, day, "ch_2").await);
    world.run(&format!("INSERT INTO gateway_refs VALUES ('{}', 'ch_1', '{}')", gateway().0, one.id)).await;
    let ids =
        [7, 8].map(|n| payment(day.and_hms_opt(9, 0, 0).expect("nine").and_utc(), n, Status::Refunded).id);
    refund(&world, &one, ids[0], "re_1", 500, day).await;
    refund(&world, &other, ids[1], "re_2", 500, day).await;
    let lines = [
        charge(1, one.id, "B-1", day),
        charge(2, other.id, "B-2", day),
        // As the gateway calls the other one's.
        back(3, other.id, Some("re_1"), 500, day),
        back(4, one.id, Some("B-4"), 500, day),
    ];
    let statement = async |lines: &[Line]| {
        let new = NewReport { format: "camt.053".into(), ..report(day, lines) };
        load(&world, &new, lines).await;
        compare(&world, day).await.counts
    };
    assert_eq!(statement(&lines).await, BTreeMap::new(), "each is its own payment's");
    assert_eq!((told(&world, one.id).await, told(&world, other.id).await), (Vec::new(), Vec::new()));
    // Under keys of nobody's they are nobody's.
    let nobodys = [
        Line { key: None, ..charge(5, one.id, "ch_1", day) },
        Line { key: None, ..back(6, one.id, Some("re_1"), 500, day) },
    ];
    let all = [&lines[..], &nobodys[..]].concat();
    assert_eq!(statement(&all).await, BTreeMap::from([(Class::Foreign, 2)]));
}

#[tokio::test]
async fn money_in_several_reports_counts_once_in_the_sums() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let day = days_ago(&world, 4).await;
    let row = charged_as(&mut sql, 1, day, "ch_1").await;
    let other = charged_as(&mut sql, 2, day, "ch_2").await;
    let as_format = async |format: &str, source: &str, lines: &[Line]| {
        let new = NewReport { format: format.into(), source: source.into(), ..report(day, lines) };
        load(&world, &new, lines).await;
    };
    let settled = async || {
        let sums = world.api.day_sums(&gateway(), day).await.expect("added up");
        sums[0].settlement
    };
    let of = |count| BookSum { count, minor: count * 12_345 };
    let one = charge(1, row.id, "B-1", day);
    as_format("camt.054", "first", std::slice::from_ref(&one)).await;
    as_format("camt.054", "second", &[one.clone(), charge(2, other.id, "B-2", day)]).await;
    assert_eq!(settled().await, of(2), "two notifications of one entry");
    as_format("camt.053", "statement", &[charge(1, row.id, "B-1", day)]).await;
    assert_eq!(settled().await, of(2), "the statement is a second view of it");
    as_format("camt.053", "another", &[charge(1, row.id, "B-7", day)]).await;
    assert_eq!(settled().await, of(3), "and this one is a second charge");
    assert_eq!(compare(&world, day).await.counts.get(&Class::DuplicateCharge), Some(&1));
}

#[tokio::test]
async fn a_bank_s_entries_are_told_apart_by_its_own_name_or_else_by_the_day_of_the_report() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let (day, next) = (days_ago(&world, 5).await, days_ago(&world, 4).await);
    let mut rows = Vec::new();
    for n in 1..=4 {
        rows.push(paid(&mut sql, n, day).await);
    }
    let [again, delivered, named, apart] = [rows[0].id, rows[1].id, rows[2].id, rows[3].id];
    // All of one payment with the same bytes, as a bank writes two payments alike.
    let entry = |number, payment: PaymentId, name: Option<&str>| {
        let one = charge(1, payment, "bytes", day);
        Line { number, at_line: number, gateway_ref: name.map(str::to_owned), ..one }
    };
    let statement = async |source: &str, of: NaiveDate, lines: &[Line]| {
        let sha256 = Sha256::digest(source).into();
        let new = NewReport { format: "camt.053".into(), source: source.into(), sha256, ..report(of, lines) };
        load(&world, &new, lines).await;
    };
    let first = [
        entry(1, again, None),
        entry(2, delivered, None),
        entry(3, named, Some("B-1")),
        entry(4, apart, Some("B-2")),
    ];
    statement("S-1", day, &first).await;
    statement("S-1 once more", day, &[entry(1, delivered, None)]).await;
    assert_eq!(compare(&world, day).await.counts, BTreeMap::new(), "each stands there once");
    let later = [entry(1, again, None), entry(2, named, Some("B-1")), entry(3, apart, Some("B-3"))];
    statement("S-2", next, &later).await;
    let compared = compare(&world, next).await;
    assert_eq!(compared.counts, BTreeMap::from([(Class::DuplicateCharge, 2)]));
    assert_eq!(second(&world, again).await.what.reference, None, "the day after it is another one");
    assert_eq!(second(&world, apart).await.what.reference.as_deref(), Some("B-3"));
    assert_eq!((told(&world, named).await, told(&world, delivered).await), (Vec::new(), Vec::new()));
    let settled = world.api.day_sums(&gateway(), day).await.expect("added up")[0].settlement;
    assert_eq!(settled, BookSum { count: 6, minor: 6 * 12_345 });
}

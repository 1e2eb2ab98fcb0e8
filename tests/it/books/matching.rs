//! The rules' own table of lines and rows, run against the statements that compare.

use super::desk::{charge, items_of, put, reconcile};
use crate::schedule::world::World;
use punctual::domain::guard_cases::payment;
use punctual::domain::ids::PaymentId;
use punctual::domain::matching::{Class, Name, Place};
use punctual::domain::matching_cases::cases;
use punctual::domain::payment::Payment;
use punctual::domain::settlement::{Kind, Line};
use punctual::domain::state::Status;
use punctual::schedule::NewReport;
use std::collections::BTreeMap;

#[tokio::test]
async fn every_case_of_the_rules_is_classed_alike_by_the_statements() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let now = world.now().await;
    let mut lines = Vec::new();
    let mut expected = BTreeMap::new();
    for (n, case) in (1_u64..).zip(cases()) {
        let like = payment(now, n, case.ours.as_ref().map_or(Status::Pending, |ours| ours.status));
        if let Some(ours) = &case.ours {
            let gateway_ref = (case.theirs.name == Name::Another).then(|| format!("known-{n}"));
            let (gateway, amount) = (ours.gateway.clone(), ours.amount);
            put(&mut sql, &Payment { gateway, amount, gateway_ref, ..like.clone() }).await;
        }
        let day = like.id.due_day();
        if case.theirs.place == Place::Extra {
            lines.push(charge(lines.len() as u64 + 1, like.id, &format!("first-{n}"), day));
        }
        let reference = format!("of-{n}");
        let mut line = charge(lines.len() as u64 + 1, like.id, &reference, day);
        line.gross_minor = case.theirs.gross_minor;
        (line.currency, line.net_currency) = (case.theirs.currency, case.theirs.currency);
        line.fee_minor = 10;
        line.net_minor = line.gross_minor - 10 + i64::from(!case.theirs.adds_up);
        if !case.theirs.is_ours {
            line.key = Some(format!("order-{n}"));
        }
        lines.push(line);
        expected.insert(reference, (case.name, case.expect));
    }
    let day = payment(now, 1, Status::Pending).id.due_day();
    let compared = reconcile(&world, day, &lines).await;
    let found = super::desk::items(&world, Default::default()).await;
    for (reference, (name, expect)) in expected {
        let of: Vec<_> =
            found.iter().filter(|item| item.what.reference.as_deref() == Some(reference.as_str())).collect();
        let told: Option<(Class, &str)> = of.first().map(|item| (item.what.class, item.what.field.as_str()));
        assert_eq!(told, expect, "{name}");
        assert!(of.len() <= 1, "{name}: {of:?}");
    }
    assert!(compared.is_complete);
    assert_eq!(compared.counts.values().sum::<u64>(), found.len() as u64);
    assert!(compared.lost > 0, "an id that nobody made is a lost charge");
}

#[tokio::test]
async fn a_row_in_two_reports_is_one_charge_and_twice_in_one_report_is_two() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let now = world.now().await;
    let (once, twice) = (payment(now, 1, Status::Completed), payment(now, 2, Status::Completed));
    put(&mut sql, &once).await;
    put(&mut sql, &twice).await;
    let day = once.id.due_day();
    let again = |number| {
        let mut line = charge(2, twice.id, "ch_2", day);
        line.number = number;
        line
    };
    let lines = [charge(1, once.id, "ch_1", day), again(2), again(3)];
    super::desk::load(&world, &super::desk::report(day, &lines), &lines).await;
    // Another report of the day, as an export of an overlapping span: the same row, and nothing else.
    let other = [lines[0].clone()];
    let overlapping = NewReport { source: "export-2".into(), ..super::desk::report(day, &other) };
    super::desk::load(&world, &overlapping, &other).await;
    let compared = super::desk::compare(&world, day).await;
    assert_eq!(compared.counts, BTreeMap::from([(Class::DuplicateCharge, 1)]));
    assert_eq!(items_of(&world, once.id).await, []);
    let item = items_of(&world, twice.id).await.remove(0);
    assert_eq!((item.what.ours.as_deref(), item.what.theirs.as_deref()), (Some("1"), Some("2")));
}

#[tokio::test]
async fn a_refund_in_two_reports_is_one_and_twice_in_one_report_is_two() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let now = world.now().await;
    let (row, refund) = (payment(now, 1, Status::Refunded), payment(now, 2, Status::Refunded).id);
    put(&mut sql, &row).await;
    let day = row.id.due_day();
    given_back(&world, &row, refund).await;
    let back = |number| Line {
        number,
        kind: Kind::Refund,
        gross_minor: -12_345,
        fee_minor: 0,
        net_minor: -12_345,
        ..charge(2, refund, "re_1", day)
    };
    let load = async |source: &str, lines: &[Line]| {
        let new = NewReport { source: source.into(), ..super::desk::report(day, lines) };
        super::desk::load(&world, &new, lines).await;
        super::desk::compare(&world, day).await.counts
    };
    assert_eq!(load("", &[charge(1, row.id, "ch_1", day), back(2)]).await, BTreeMap::new());
    assert_eq!(load("export-2", &[back(2)]).await, BTreeMap::new(), "an overlapping span");
    let twice = load("export-3", &[back(2), back(3)]).await;
    assert_eq!(twice, BTreeMap::from([(Class::RefundMismatch, 1)]));
}

/// A refund of the whole charge `ch_1`, done, which the gateway calls `re_1`.
async fn given_back(world: &World, row: &Payment, refund: PaymentId) {
    world
        .run(&format!(
            "INSERT INTO refunds (id, payment_id, payment_day, payer, gateway, account, reference, amount_minor, currency,
                 status, actor_id, idempotency_key, request_hash, asked_by, reason, approval_id, asked_at, expires_at,
                 approved_by, approved_at, first_sent_at, finished_at, attempt, gateway_ref)
             VALUES ('{refund}', '{}', '{}', gen_random_uuid(), '{}', 'sandbox-1', 'ch_1', 12345, 'EUR', 'refunded',
                 gen_random_uuid(), 'k', sha256(''), 'key:alice', 'why', gen_random_uuid(), now(), now(), 'key:bob', now(),
                 now(), now(), 1, 're_1')",
            row.id,
            row.id.due_day(),
            row.gateway.0
        ))
        .await;
}

#[tokio::test]
async fn a_chargeback_that_names_nothing_of_ours_is_foreign_whatever_reference_it_bears() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let now = world.now().await;
    let (row, refund) = (payment(now, 1, Status::Refunded), payment(now, 2, Status::Refunded).id);
    put(&mut sql, &row).await;
    given_back(&world, &row, refund).await;
    let day = row.id.due_day();
    let back = Line {
        kind: Kind::Refund,
        gross_minor: -12_345,
        fee_minor: 0,
        net_minor: -12_345,
        ..charge(2, refund, "re_1", day)
    };
    let dispute = Line {
        number: 3,
        key: Some("dispute-7".into()),
        kind: Kind::Chargeback,
        raw_hash: [7; 32],
        ..back.clone()
    };
    let compared = reconcile(&world, day, &[charge(1, row.id, "ch_1", day), back, dispute]).await;
    assert_eq!(compared.counts, BTreeMap::from([(Class::Foreign, 1)]));
}

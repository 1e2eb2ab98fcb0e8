//! What a line without the gateway's name of a charge had parked: nobody sends it again or calls it not charged while the
//! report counts, and a payment that left that place all the same is told of again.

use super::desk::{charge, compare, items_of, load, put, report, told, withdraw};
use crate::schedule::world::{World, gateway};
use punctual::domain::guard_cases::payment;
use punctual::domain::ids::{Operator, PaymentId};
use punctual::domain::matching::Class;
use punctual::domain::parked::{Act, KeyWanted, WhyNot};
use punctual::domain::payment::Payment;
use punctual::domain::reason::Reason;
use punctual::domain::repair::Power;
use punctual::domain::settlement::Line;
use punctual::domain::state::Status;
use punctual::platform::dice::{Dice, Os};
use punctual::schedule::{
    ActTerms, ApprovalVerdict, BulkStatus, BulkTerms, CarriedOut, Decided, NewBulk, NewReport, ParkedFilter,
    Redrive, Released, RepairsOrder, Resolve, WithdrawAnswer,
};
use std::collections::BTreeMap;

fn alice() -> Operator {
    Operator::of_key("alice")
}

/// What a bank's statement shows of these, whose charges it calls by names of its own.
fn of_bank(rows: &[&Payment]) -> (NewReport, Vec<Line>) {
    let day = rows[0].id.due_day();
    let lines: Vec<_> = (1..).zip(rows).map(|(n, row)| charge(n, row.id, &format!("{n}"), day)).collect();
    (NewReport { format: "camt.053".into(), ..report(day, &lines) }, lines)
}

/// Payments that a restore shows as never sent, as many as are asked for, each parked by the line of its charge.
async fn held<const N: usize>(world: &World) -> ([Payment; N], NewReport) {
    let now = world.now().await;
    let mut sql = world.sql().await;
    let rows: [Payment; N] = std::array::from_fn(|n| payment(now, n as u64 + 1, Status::Pending));
    for row in &rows {
        put(&mut sql, row).await;
    }
    let (new, lines) = of_bank(&rows.each_ref());
    load(world, &new, &lines).await;
    compare(world, new.day).await;
    assert_eq!(repaired(world).await, N as u64);
    (rows, new)
}

/// How many payments a pass of what a program may do parks.
async fn repaired(world: &World) -> u64 {
    let order = RepairsOrder { gateway: gateway(), day: None, power: Power::Safe };
    world.worker.repair_day(&order).await.expect("repaired").parked
}

async fn redrive(world: &World, payment: PaymentId) -> Released {
    let (by, reason) = (alice(), "the gateway is back".to_owned());
    let order = Redrive { payment, key: KeyWanted::Same, by, reason, version: None, approval: None };
    world.api.redrive(&order, &[]).await.expect("an answer")
}

async fn not_charged(world: &World, payment: PaymentId) -> Released {
    let (by, reason) = (alice(), "they have no such charge".to_owned());
    let evidence = serde_json::json!({});
    let order = Resolve { payment, charged: None, by, reason, evidence, version: None };
    world.api.resolve(&order).await.expect("an answer")
}

/// What a bulk re-drive of all that reports had parked comes to.
async fn in_bulk(world: &World) -> BTreeMap<String, i64> {
    let filter = ParkedFilter { reason: Some(Reason::ChargeFound), ..Default::default() };
    let new = NewBulk { id: Os.claim_id().0, by: alice(), reason: "all".into(), filter, rate_per_s: 50 };
    let made = world.api.create_bulk(&new, i64::MAX).await.expect("made");
    world.api.switch_bulk(made.id, BulkStatus::Running, &alice(), "go").await.expect("started");
    let terms = BulkTerms { retryable_codes: Vec::new(), approve_above_minor: i64::MAX };
    loop {
        world.worker.step_bulk(&terms).await.expect("a step");
        let bulk = world.api.bulk(made.id).await.expect("read").expect("exists");
        if bulk.status == BulkStatus::Done {
            return bulk.outcomes;
        }
        world.run("UPDATE bulk_redrives SET next_at = now()").await;
    }
}

/// Two people take it out: money hangs on it.
async fn take_out(world: &World, new: &NewReport) {
    let WithdrawAnswer::Asked(approval) = withdraw(world, new.id).await else { panic!("money hangs on it") };
    let (by, terms) = (Operator::of_key("bob"), ActTerms::default());
    let decided = world.api.decide_approval(approval.id, &by, ApprovalVerdict::Approve, "seen", &terms).await;
    assert!(matches!(decided.expect("decided"), Decided::Approved(_, CarriedOut::Withdrawn(_))));
}

async fn stands(world: &World, row: &Payment) -> String {
    world.one(&format!("SELECT status FROM payments WHERE id = '{}'", row.id)).await
}

#[tokio::test]
async fn what_a_bank_s_line_shows_as_charged_is_neither_sent_again_nor_failed_until_its_report_is_taken_out()
{
    let world = World::new().await;
    let ([one, two, three], new) = held(&world).await;
    let nameless: i64 =
        world.one("SELECT count(*) FROM payments WHERE gateway_ref IS NULL AND unanswered = 0").await;
    assert_eq!(nameless, 3, "their rows say nothing of a charge");
    for row in [&one, &two, &three] {
        assert_eq!(redrive(&world, row.id).await, Err(WhyNot::ChargeOnRecord));
        assert_eq!(not_charged(&world, row.id).await, Err(WhyNot::ChargeOnRecord));
        // What people are shown.
        let view = world.api.parked_one(row.id).await.expect("found").expect("exists");
        let may = |act: Act| act.may(&view.payment, &view.said(&[]), view.lineage, view.now);
        assert_eq!(may(Act::Redrive), Err(WhyNot::ChargeOnRecord));
        assert_eq!(may(Act::ResolveNotCharged), Err(WhyNot::ChargeOnRecord));
        assert_eq!(may(Act::ResolveCharged), Ok(Status::Completed));
    }
    assert_eq!(in_bulk(&world).await, BTreeMap::from([("charge_on_record".to_owned(), 3)]));

    take_out(&world, &new).await;
    assert_eq!(redrive(&world, one.id).await, Ok(Status::Pending));
    assert_eq!(not_charged(&world, two.id).await, Ok(Status::Failed));
    assert_eq!(in_bulk(&world).await, BTreeMap::from([("redriven".to_owned(), 1)]));
    assert_eq!(stands(&world, &three).await, "PENDING");
}

#[tokio::test]
async fn a_line_that_the_next_report_of_the_day_does_not_have_holds_until_that_one_was_compared() {
    let world = World::new().await;
    let ([row], new) = held(&world).await;
    let other = payment(world.now().await, 9, Status::Pending);
    put(&mut world.sql().await, &other).await;
    let (next, lines) = of_bank(&[&other]);
    load(&world, &NewReport { day: new.day, ..next }, &lines).await;
    assert_eq!(redrive(&world, row.id).await, Err(WhyNot::ChargeOnRecord), "it may have the line too");
    compare(&world, new.day).await;
    assert_eq!(redrive(&world, row.id).await, Ok(Status::Pending));
}

#[tokio::test]
async fn what_left_the_place_that_a_repair_gave_it_is_open_again_and_told_of() {
    let world = World::new().await;
    let tell = async || {
        let told = world.worker.tell_open_items(&gateway()).await.expect("told");
        told.opened.values().sum::<u64>()
    };
    let ([row], new) = held(&world).await;
    world.run("UPDATE reconciliation_items SET told_at = now()").await;
    assert_eq!(compare(&world, new.day).await.open, 0);
    assert_eq!(told(&world, row.id).await, [(Class::MissingHere, "repaired".to_owned())], "as it was left");
    assert_eq!(tell().await, 0);

    for (status, parked) in [("PENDING", 1), ("FAILED", 0)] {
        world.run(&format!("UPDATE payments SET status = '{status}' WHERE id = '{}'", row.id)).await;
        world.run("DELETE FROM parked").await;
        assert_eq!(compare(&world, new.day).await.open, 1, "{status}");
        assert_eq!(told(&world, row.id).await, [(Class::MissingHere, "open".to_owned())], "{status}");
        assert_eq!(tell().await, 1, "{status}");
        assert_eq!(repaired(&world).await, parked, "{status}");
    }
    let why = items_of(&world, row.id).await.remove(0).not_repaired;
    assert_eq!(why.as_deref(), Some("needs_person"), "it is two people's to complete");
}

//! Asking and allowing: guards, sums, second persons, two at once.

use super::{CHARGE, Site, alice, bob};
use crate::schedule::world::{World, decision};
use futures_util::future::join_all;
use punctual::domain::decision::{Decision, SendsAnswered};
use punctual::domain::guard::Lineage;
use punctual::domain::reason::Reason;
use punctual::domain::refund::{RefundRefused, RefundStatus};
use punctual::domain::refund_cases::{Case, cases};
use punctual::domain::state::Status;
use punctual::schedule::{ApprovalVerdict, Decided, RefundAsked};

/// Puts the case's rows there, behind the rules' back.
async fn put(world: &World, case: &Case, payment: &str) {
    let status = case.of.status.as_str();
    let reference = if case.of.is_on_record { "'ch_case'" } else { "NULL" };
    let held = match case.of.status {
        Status::Processing => "claim_id = gen_random_uuid(), lease_until = now() + interval '1 minute'",
        _ => "claim_id = NULL, lease_until = NULL",
    };
    world
        .run(&format!(
            "UPDATE payments SET status = '{status}', unanswered = 0, gateway_ref = {reference}, {held}
             WHERE id = '{payment}'"
        ))
        .await;
    world.run(&format!("UPDATE gateways SET offers_refunds = {}", case.of.offers)).await;
    world.run("DELETE FROM refunded_charges").await;
    let whose = if case.of.is_anothers { "gen_random_uuid()".to_owned() } else { format!("'{payment}'") };
    world
        .run(&format!(
            "INSERT INTO refunded_charges VALUES ('sandbox', 'ch_case', {whose}, {}, 'EUR', {})",
            case.of.charge.minor.get(),
            case.of.reserved_minor
        ))
        .await;
    let quarantined = if case.lineage == Lineage::Released { "NULL" } else { "now()" };
    world.run(&format!("UPDATE installation SET quarantined_at = {quarantined}")).await;
}

#[tokio::test]
async fn every_case_of_asking_gets_the_same_answer_from_the_sql() {
    let site = Site::start().await;
    let world = &site.world;
    for (number, case) in cases().iter().enumerate() {
        world.run("UPDATE installation SET quarantined_at = NULL").await;
        let notice = world.due(&format!("case-{number}")).await;
        put(world, case, &notice.payment.to_string()).await;
        let of = (notice.payment, "ch_case".to_owned());
        let answer = match site.ask(&format!("refund-{number}"), &of, case.amount).await {
            RefundAsked::Asked(refund) => Ok(refund.amount.minor.get()),
            RefundAsked::Refused(why) => Err(why),
            other => panic!("{}: {other:?}", case.name),
        };
        assert_eq!(answer, case.expect, "{}", case.name);
    }
    let nowhere = (super::PaymentId::new(site.now().await, [9; 10]).expect("in range"), "ch_case".to_owned());
    world.run("UPDATE installation SET quarantined_at = NULL").await;
    let answer = site.ask("nowhere", &nowhere, None).await;
    assert_eq!(answer, RefundAsked::Refused(RefundRefused::NoSuchPayment));
}

#[tokio::test]
async fn of_many_who_ask_at_once_no_more_is_promised_than_was_charged() {
    let site = Site::start().await;
    let whole = site.completed("k1", "sim_ok").await;
    let keys: Vec<String> = (0..8).map(|number| format!("whole-{number}")).collect();
    let answers = join_all(keys.iter().map(|key| site.ask(key, &whole, None))).await;
    let asked = answers.iter().filter(|answer| matches!(answer, RefundAsked::Asked(_))).count();
    let refused = RefundAsked::Refused(RefundRefused::NothingLeft);
    assert_eq!((asked, answers.iter().filter(|answer| **answer == refused).count()), (1, 7), "{answers:?}");
    assert_eq!(site.sums(&whole.1).await, (CHARGE, 0));

    let parts = site.completed("k2", "sim_ok").await;
    let keys: Vec<String> = (0..8).map(|number| format!("part-{number}")).collect();
    let answers = join_all(keys.iter().map(|key| site.ask(key, &parts, Some(CHARGE / 3)))).await;
    let asked = answers.iter().filter(|answer| matches!(answer, RefundAsked::Asked(_))).count();
    assert_eq!(asked, 3, "{answers:?}");
    assert_eq!(site.sums(&parts.1).await, (CHARGE / 3 * 3, 0));
}

#[tokio::test]
async fn of_a_charge_that_took_something_else_than_asked_all_of_that_and_no_more_is_given_back() {
    let site = Site::start().await;
    // As `outcome::decide` parks it.
    let parks = || Decision {
        reason: Some(Reason::ContractViolation),
        answered: SendsAnswered::None,
        ..decision(Status::Parked)
    };
    let more = site.charged("k1", "sim_wrong_amount", parks()).await;
    let above = site.ask("r1", &more, Some(CHARGE + 2)).await;
    assert_eq!(above, RefundAsked::Refused(RefundRefused::AboveCharge));
    let part = site.allowed("r2", &more, Some(CHARGE)).await;
    site.turns_until(&part, RefundStatus::Refunded).await;
    assert_eq!(site.world.row(more.0).await.status, Status::Parked, "one unit is still with the gateway");
    let rest = site.allowed("r3", &more, None).await;
    assert_eq!(rest.amount.minor.get(), 1);
    site.turns_until(&rest, RefundStatus::Refunded).await;
    assert_eq!(site.world.row(more.0).await.status, Status::Refunded);
    assert_eq!(site.given_back().await, CHARGE + 1);
    let nothing = site.ask("r4", &more, None).await;
    assert_eq!(nothing, RefundAsked::Refused(RefundRefused::NothingLeft));

    let foreign = site.charged("k2", "sim_wrong_currency", parks()).await;
    let refund = site.allowed("r5", &foreign, None).await;
    assert_eq!((refund.amount.minor.get(), refund.amount.currency.as_str()), (CHARGE, "USD"));
    site.turns_until(&refund, RefundStatus::Refunded).await;
    assert_eq!(site.world.row(foreign.0).await.status, Status::Refunded);
}

#[tokio::test]
async fn a_charge_that_took_less_than_asked_is_never_given_back_as_if_it_had_not() {
    let site = Site::start().await;
    let of = site.parked("k1").await;
    // The simulated gateway never takes less.
    site.world.run("UPDATE gateway_refs SET amount_minor = 1000, currency = 'EUR'").await;
    for amount in [Some(CHARGE), Some(1_001)] {
        let answer = site.ask(&format!("{amount:?}"), &of, amount).await;
        assert_eq!(answer, RefundAsked::Refused(RefundRefused::AboveCharge), "{amount:?}");
    }
    let RefundAsked::Asked(refund) = site.ask("all", &of, None).await else { panic!("asked for") };
    assert_eq!((refund.amount.minor.get(), site.sums(&of.1).await), (1_000, (1_000, 0)));
}

#[tokio::test]
async fn the_same_key_is_the_same_refund_and_another_request_under_it_is_refused() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    let answers = join_all((0..6).map(|_| site.ask("r1", &of, Some(100)))).await;
    let asked = answers.iter().filter(|answer| matches!(answer, RefundAsked::Asked(_))).count();
    let replayed = answers.iter().filter(|answer| matches!(answer, RefundAsked::Replayed(_))).count();
    assert_eq!((asked, replayed), (1, 5), "{answers:?}");
    assert_eq!(site.ask("r1", &of, Some(101)).await, RefundAsked::KeyReused);
    assert_eq!(site.sums(&of.1).await, (100, 0));
    let approvals: i64 = site.world.one("SELECT count(*) FROM approvals WHERE kind = 'refund'").await;
    assert_eq!(approvals, 1);
    let acts: i64 = site.world.one("SELECT count(*) FROM operator_acts WHERE act = 'ask_refund'").await;
    assert_eq!(acts, 1);
}

#[tokio::test]
async fn one_person_is_never_enough_and_a_refusal_gives_the_reservation_back() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    let RefundAsked::Asked(refund) = site.ask("r1", &of, None).await else { panic!("asked for") };
    let same = site.decide(&refund, &alice(), ApprovalVerdict::Approve).await;
    assert!(matches!(same, Decided::SamePerson(_)), "{same:?}");
    assert_eq!(
        site.refunder("w1/1").turn().await.expect("a turn"),
        0,
        "nothing is sent before it is allowed"
    );
    let rejected = site.decide(&refund, &bob(), ApprovalVerdict::Reject).await;
    assert!(matches!(rejected, Decided::Rejected(_)), "{rejected:?}");
    assert_eq!(site.stands(&refund).await.status, RefundStatus::Rejected);
    assert_eq!(site.sums(&of.1).await, (0, 0));
    let late = site.decide(&refund, &bob(), ApprovalVerdict::Approve).await;
    assert!(matches!(late, Decided::Already(_)), "{late:?}");

    // Of one who allows and one who refuses at the same time one wins, and the refund follows.
    let RefundAsked::Asked(refund) = site.ask("r2", &of, None).await else { panic!("asked for") };
    let (approver, rejecter) = (bob(), punctual::domain::ids::Operator::of_key("carol"));
    let (yes, no) = tokio::join!(
        site.decide(&refund, &approver, ApprovalVerdict::Approve),
        site.decide(&refund, &rejecter, ApprovalVerdict::Reject)
    );
    let stands = site.stands(&refund).await.status;
    match (yes, no) {
        (Decided::Approved(..), Decided::Already(_)) => assert_eq!(stands, RefundStatus::Approved),
        (Decided::Already(_), Decided::Rejected(_)) => assert_eq!(stands, RefundStatus::Rejected),
        other => panic!("{other:?}"),
    }
}

async fn let_a_day_pass(site: &Site) {
    let mut sql = site.world.sql().await;
    // The triggers that keep a refund as it was asked for stand aside.
    for act in [
        "SET session_replication_role = replica",
        "UPDATE refunds SET expires_at = now() - interval '1 second'",
        "UPDATE approvals SET asked_at = now() - interval '2 days', expires_at = now() - interval '1 day'",
        "SET session_replication_role = origin",
    ] {
        sqlx::query(act).execute(&mut sql).await.expect(act);
    }
}

#[tokio::test]
async fn whoever_asks_anew_does_not_wait_for_a_word_on_what_is_over() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    let RefundAsked::Asked(refund) = site.ask("r1", &of, None).await else { panic!("asked for") };
    let_a_day_pass(&site).await;
    // A decision locks its approval and then what it is about; who asks holds that already.
    let mut deciding = site.world.sql().await;
    sqlx::query("BEGIN").execute(&mut deciding).await.expect("begun");
    let locked = sqlx::query("SELECT 1 FROM approvals WHERE id = $1 FOR UPDATE").bind(refund.approval);
    locked.execute(&mut deciding).await.expect("locked");
    assert!(matches!(site.ask("r2", &of, None).await, RefundAsked::Asked(_)));
    sqlx::query("ROLLBACK").execute(&mut deciding).await.expect("undone");
    let late = site.decide(&refund, &bob(), ApprovalVerdict::Approve).await;
    assert!(matches!(late, Decided::Expired(_)), "{late:?}");
    assert_eq!(site.sums(&of.1).await, (CHARGE, 0));
}

#[tokio::test]
async fn what_nobody_decides_in_a_day_is_dropped_and_can_be_asked_for_again() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    let RefundAsked::Asked(refund) = site.ask("r1", &of, None).await else { panic!("asked for") };
    let_a_day_pass(&site).await;
    assert!(matches!(site.ask("r2", &of, None).await, RefundAsked::Asked(_)), "its time is over");
    assert_eq!(site.stands(&refund).await.status, RefundStatus::Rejected);
    assert_eq!(site.sums(&of.1).await, (CHARGE, 0));
    let late = site.decide(&refund, &bob(), ApprovalVerdict::Approve).await;
    assert!(matches!(late, Decided::Expired(_) | Decided::Already(_)), "{late:?}");
}

#[tokio::test]
async fn the_table_itself_refuses_more_than_the_charge_and_a_refund_without_a_second_person() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    site.ask("r1", &of, Some(100)).await;
    let mut sql = site.world.sql().await;
    for (act, constraint) in [
        ("UPDATE refunded_charges SET reserved_minor = charge_minor + 1", "never_above_the_charge"),
        ("UPDATE refunded_charges SET refunded_minor = reserved_minor + 1", "never_above_the_charge"),
        (
            "UPDATE refunds SET status = 'approved', approved_by = asked_by, approved_at = now()",
            "a_second_person_approves",
        ),
        ("UPDATE refunds SET status = 'approved'", "nothing_without_approval"),
    ] {
        let refused = sqlx::query(act).execute(&mut sql).await.expect_err(constraint);
        let broken = refused.as_database_error().and_then(|db| db.constraint().map(str::to_owned));
        assert_eq!(broken.as_deref(), Some(constraint), "{refused}");
    }
    for act in ["UPDATE refunds SET amount_minor = 200", "DELETE FROM refunds"] {
        let refused = sqlx::query(act).execute(&mut sql).await.expect_err(act);
        let code = refused.as_database_error().and_then(|db| db.code().map(|code| code.into_owned()));
        assert_eq!(code.as_deref(), Some("42501"), "{act}: {refused}");
    }
}

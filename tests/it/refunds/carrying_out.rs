//! Carrying out against the sandbox: parts, lost answers, parked payments, two workers, switches.

use super::{CHARGE, Site};
use crate::schedule::switches::order as switch;
use crate::schedule::violations::{counted, once, seen};
use crate::support::eventually;
use punctual::domain::refund::{RefundDecision, RefundRefused, RefundSends, RefundStatus, RefundVerdict};
use punctual::domain::state::Status;
use punctual::domain::switches::{SwitchKind, Turned};
use punctual::schedule::{AnsweredRefund, ClaimedRefund, How, RefundAnswer, RefundAsked, RefundSettled};
use punctual::worker::Pacer;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

#[tokio::test]
async fn two_parts_and_the_rest_give_back_all_and_the_payment_is_refunded() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    for (key, amount, became) in [
        ("r1", Some(5_000), Status::Completed),
        ("r2", Some(7_000), Status::Completed),
        ("r3", None, Status::Refunded),
    ] {
        let refund = site.allowed(key, &of, amount).await;
        let done = site.turns_until(&refund, RefundStatus::Refunded).await;
        assert_eq!((done.attempt, done.open_sends, done.gateway_ref.is_some()), (1, 0, true), "{done:?}");
        assert_eq!(site.world.row(of.0).await.status, became, "{key}");
    }
    assert_eq!(site.given_back().await, CHARGE);
    assert_eq!(site.sums(&of.1).await, (CHARGE, CHARGE));
    assert_eq!(site.causes(of.0).await, "created claimed settled noted noted refunded");
    let refused = site.ask("r4", &of, Some(1)).await;
    assert!(matches!(refused, RefundAsked::Refused(_)), "{refused:?}");
    let keys: Vec<_> = site.refund_lines().await.iter().map(|line| line["key"].clone()).collect();
    let listed = site.world.api.refunds_of(of.0).await.expect("an answer");
    assert_eq!(keys, listed.iter().map(|refund| serde_json::json!(refund.id)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_refund_whose_answer_is_lost_is_asked_about_and_given_back_once() {
    for payee in ["sim_refund_timeout", "sim_refund_reset"] {
        let site = Site::start().await;
        let of = site.completed("k1", payee).await;
        let refund = site.allowed("r1", &of, None).await;
        assert_eq!(site.refunder("w1/1").turn().await.expect("a turn"), 1);
        let unknown = site.stands(&refund).await;
        assert_eq!((unknown.status, unknown.open_sends), (RefundStatus::Unknown, 1), "{payee}: {unknown:?}");
        assert_eq!(site.world.row(of.0).await.status, Status::Completed, "{payee}: nothing is guessed");
        let done = site.turns_until(&refund, RefundStatus::Refunded).await;
        assert_eq!((done.attempt, done.open_sends), (2, 0), "{payee}: {done:?}");
        assert_eq!((site.refund_lines().await.len(), site.given_back().await), (1, CHARGE), "{payee}");
        assert_eq!(site.world.row(of.0).await.status, Status::Refunded, "{payee}");
    }
}

#[tokio::test]
async fn refunds_that_hang_hold_up_no_other_and_no_charge() {
    let site = Site::patient(Duration::from_secs(10)).await;
    for n in 0..12 {
        let of = site.completed(&format!("k{n}"), "sim_refund_timeout").await;
        site.allowed(&format!("r{n}"), &of, None).await;
    }
    let well = site.completed("well", "sim_ok").await;
    let well = site.allowed("well", &well, None).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    let pacer = Arc::new(Pacer::unlimited());
    let work = tokio::spawn(site.paced("w1/1", Arc::clone(&pacer)).run(stopped));
    eventually("the one that is answered is done", Duration::from_secs(8), || async {
        (site.stands(&well).await.status == RefundStatus::Refunded).then_some(())
    })
    .await;
    let sending = "SELECT count(*) FROM refunds WHERE status = 'sending'";
    assert_eq!(site.world.one::<i64>(sending).await, 12, "the others are still waited for");
    drop(stop);
    work.await.expect("it ends what it began");
    assert_eq!(site.world.one::<i64>(sending).await, 0);
    assert!(!pacer.is_urgent(), "twelve calls that failed say nothing about charges");
}

#[tokio::test]
async fn a_refund_whose_request_is_lost_is_sent_again_under_the_same_key() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_refund_lost").await;
    let refund = site.allowed("r1", &of, Some(100)).await;
    let done = site.turns_until(&refund, RefundStatus::Refunded).await;
    let lines = site.refund_lines().await;
    let said: Vec<_> = lines.iter().map(|line| line["verdict"].as_str().expect("a text")).collect();
    assert_eq!((said, done.attempt), (vec!["not_charged", "refunded"], 2), "{done:?}");
    assert!(lines.iter().all(|line| line["key"] == serde_json::json!(refund.id)), "{lines:?}");
    assert_eq!(site.sums(&of.1).await, (100, 100));
}

#[tokio::test]
async fn a_refund_that_is_declined_gives_its_reservation_back() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_refund_declined").await;
    let refund = site.allowed("r1", &of, None).await;
    let declined = site.turns_until(&refund, RefundStatus::Declined).await;
    assert_eq!((declined.code.as_deref(), declined.open_sends), (Some("refund_not_possible"), 0));
    assert_eq!((site.sums(&of.1).await, site.given_back().await), ((0, 0), 0));
    assert_eq!(site.world.row(of.0).await.status, Status::Completed);
    assert!(matches!(site.ask("r2", &of, None).await, RefundAsked::Asked(_)));
}

#[tokio::test]
async fn a_parked_payment_that_was_charged_is_refunded_without_passing_through_completed() {
    let site = Site::start().await;
    let of = site.parked("k1").await;
    let part = site.allowed("r1", &of, Some(45)).await;
    site.turns_until(&part, RefundStatus::Refunded).await;
    assert_eq!(site.world.row(of.0).await.status, Status::Parked);
    let rest = site.allowed("r2", &of, None).await;
    site.turns_until(&rest, RefundStatus::Refunded).await;
    assert_eq!(site.world.row(of.0).await.status, Status::Refunded);
    assert_eq!(site.causes(of.0).await, "created claimed settled noted refunded");
    assert_eq!(site.world.one::<i64>("SELECT count(*) FROM parked").await, 0);
    assert_eq!(site.given_back().await, CHARGE);
}

#[tokio::test]
async fn of_two_workers_at_once_one_sends() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    for number in 0..4 {
        let refund = site.allowed(&format!("r{number}"), &of, Some(1_000)).await;
        let (one, other) = (site.refunder("w1/1"), site.refunder("w2/1"));
        let (one, other) = tokio::join!(one.turn(), other.turn());
        assert_eq!(one.expect("a turn") + other.expect("a turn"), 1);
        assert_eq!(site.stands(&refund).await.status, RefundStatus::Refunded);
    }
    assert_eq!((site.refund_lines().await.len(), site.given_back().await), (4, 4_000));
}

#[tokio::test]
async fn what_is_switched_off_is_not_given_back_until_it_is_on_again() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    let refund = site.allowed("r1", &of, None).await;
    for (kind, value) in [
        (SwitchKind::Global, "all".to_owned()),
        (SwitchKind::Gateway, "sandbox".to_owned()),
        (SwitchKind::Currency, "EUR".to_owned()),
        (SwitchKind::Actor, crate::schedule::world::ACTOR.0.to_string()),
    ] {
        site.world
            .run(&format!(
                "INSERT INTO actors (id, name) VALUES ('{}', 'shop') ON CONFLICT DO NOTHING",
                crate::schedule::world::ACTOR.0
            ))
            .await;
        site.world.api.turn_switch(&switch(kind, &value, Turned::Off)).await.expect("an answer");
        assert_eq!(site.refunder("w1/1").turn().await.expect("a turn"), 0, "{kind:?}");
        site.world.api.turn_switch(&switch(kind, &value, Turned::On)).await.expect("an answer");
    }
    assert_eq!(site.stands(&refund).await.attempt, 0, "it spends nothing");
    site.turns_until(&refund, RefundStatus::Refunded).await;
}

/// Claims the one refund that is due.
async fn claimed(site: &Site) -> ClaimedRefund {
    let (terms, ids) = (crate::schedule::world::terms(), crate::schedule::world::fresh(1));
    site.world.worker.claim_refunds(&terms, &ids).await.expect("claimed").remove(0)
}

fn said(claimed: ClaimedRefund, verdict: RefundVerdict) -> AnsweredRefund {
    claimed.answered(RefundAnswer::silent(verdict, How::Sent))
}

#[tokio::test]
async fn a_second_charge_that_comes_to_light_after_the_first_was_given_back_is_given_back_too() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    let first = site.allowed("r1", &of, None).await;
    site.turns_until(&first, RefundStatus::Refunded).await;
    assert_eq!(site.world.row(of.0).await.status, Status::Refunded);
    // As a late answer under the fence leaves it.
    site.world.run(&format!("INSERT INTO gateway_refs VALUES ('sandbox', 'ch_late', '{}')", of.0)).await;
    let again = site.ask("r2", &of, None).await;
    assert_eq!(again, RefundAsked::Refused(RefundRefused::NothingLeft), "its own is back");
    let second = (of.0, "ch_late".to_owned());
    let refund = site.allowed("r3", &second, None).await;
    let held = claimed(&site).await;
    let verdict = RefundVerdict::Refunded { reference: "re_late".into(), amount: held.order().amount };
    let decision = RefundDecision { to: RefundStatus::Refunded, next_at: None, answered: RefundSends::All };
    let settled = site.world.worker.settle_refund(&said(held, verdict), &decision).await;
    assert_eq!(
        settled.expect("an answer"),
        RefundSettled::Written { to: RefundStatus::Refunded, is_whole: false }
    );
    assert_eq!(
        (site.stands(&refund).await.status, site.sums("ch_late").await.1),
        (RefundStatus::Refunded, CHARGE)
    );
    assert_eq!(site.world.row(of.0).await.status, Status::Refunded);
    assert_eq!(site.causes(of.0).await, "created claimed settled refunded noted");
}

#[tokio::test]
async fn a_late_charge_of_a_payment_that_failed_or_was_cancelled_is_given_back() {
    for status in [Status::Failed, Status::Cancelled] {
        let site = Site::start().await;
        let of = site.completed("k1", "sim_ok").await;
        let ended = format!("UPDATE payments SET status = '{}' WHERE id = '{}'", status.as_str(), of.0);
        site.world.run(&ended).await;
        let refund = site.allowed("r1", &of, None).await;
        site.turns_until(&refund, RefundStatus::Refunded).await;
        assert_eq!((site.given_back().await, site.world.row(of.0).await.status), (CHARGE, status));
        assert!(site.causes(of.0).await.ends_with(" noted"), "{status:?}");
    }
}

#[tokio::test]
async fn money_that_came_back_although_the_refund_had_ended_without_it_is_seen() {
    let recorder = counted();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    let refund = site.allowed("r1", &of, None).await;
    let zombie = claimed(&site).await;
    site.world.run("UPDATE refunds SET lease_until = now() - interval '1 hour'").await;
    assert_eq!(site.world.worker.reap_refunds(Duration::from_secs(1), 10).await.expect("reaped"), 1);
    // Its gateway replays declines, and replayed none.
    let again = said(claimed(&site).await, RefundVerdict::Declined { code: "x".into() });
    let decision = RefundDecision { to: RefundStatus::Declined, next_at: None, answered: RefundSends::All };
    site.world.worker.settle_refund(&again, &decision).await.expect("an answer");
    assert_eq!((site.stands(&refund).await.status, seen(&recorder)), (RefundStatus::Declined, vec![]));
    let amount = zombie.order().amount;
    let late = said(zombie, RefundVerdict::Refunded { reference: "re_1".into(), amount });
    for _ in 0..2 {
        let settled = site.world.worker.settle_refund(&late, &decision).await.expect("an answer");
        assert_eq!((settled, seen(&recorder)), (RefundSettled::Fenced, once("M10")));
    }
}

#[tokio::test]
async fn a_refund_under_a_claim_that_the_database_lost_is_seen() {
    let recorder = counted();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    site.allowed("r1", &of, None).await;
    let claimed = claimed(&site).await;
    // As after the loss of an acknowledged commit.
    site.world.run("DELETE FROM refund_attempts").await;
    let back = "UPDATE refunds SET status = 'approved', attempt = 0, open_sends = 0, first_sent_at = NULL,
        claim_id = NULL, lease_until = NULL";
    site.world.run(back).await;
    let lost = said(claimed, RefundVerdict::Declined { code: "x".into() });
    let decision = RefundDecision { to: RefundStatus::Declined, next_at: None, answered: RefundSends::All };
    let settled = site.world.worker.settle_refund(&lost, &decision).await.expect("an answer");
    assert_eq!((settled, seen(&recorder)), (RefundSettled::Fenced, once("M10")));
}

#[tokio::test]
async fn a_worker_that_dies_with_a_claim_leaves_a_question_and_its_late_answer_changes_nothing() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    let refund = site.allowed("r1", &of, None).await;
    let claimed = claimed(&site).await;
    site.world.run("UPDATE refunds SET lease_until = now() - interval '1 hour'").await;
    let done = site.turns_until(&refund, RefundStatus::Refunded).await;
    assert_eq!((done.attempt, site.refund_lines().await.len()), (2, 1), "{done:?}");

    let late = said(claimed, RefundVerdict::Declined { code: "too_late".into() });
    let decision = RefundDecision { to: RefundStatus::Declined, next_at: None, answered: RefundSends::All };
    for _ in 0..2 {
        let settled = site.world.worker.settle_refund(&late, &decision).await.expect("an answer");
        assert_eq!(settled, RefundSettled::Fenced);
    }
    assert_eq!(site.stands(&refund).await, done);
    let kept: i64 = site.world.one("SELECT count(*) FROM refund_attempts WHERE fenced").await;
    assert_eq!(kept, 1);
}

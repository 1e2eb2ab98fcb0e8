//! One payment released or resolved, and whoever came second.

use super::{bob, order, parked, parks, retryable, settle};
use crate::schedule::world::{
    ACTOR, World, answer, charged, decision, declined, fresh, money, notice, terms,
};
use chrono::TimeDelta;
use punctual::domain::decision::{Decision, EpochChange, SendsAnswered};
use punctual::domain::ids::{Epoch, PaymentId};
use punctual::domain::parked::{KeyWanted, WhyNot};
use punctual::domain::reason::Reason;
use punctual::domain::state::Status;
use punctual::domain::verdict::{DeclineClass, Verdict};
use punctual::schedule::{ParkedFilter, Resolve, Schedule};
use serde_json::json;
use sqlx::postgres::PgConnection;
use std::time::Duration;

fn resolution(payment: PaymentId, reference: Option<&str>) -> Resolve {
    Resolve {
        payment,
        charged: reference.map(|reference| (reference.to_owned(), Some(money()))),
        by: bob(),
        reason: "seen at the gateway".into(),
        evidence: json!({"source": "dashboard"}),
        version: None,
    }
}

#[tokio::test]
async fn of_two_consoles_one_releases_the_payment_and_the_other_is_told_that_it_is_not_parked() {
    let world = World::new().await;
    for round in 0..8 {
        let id = parked(&world, &format!("k{round}")).await.payment;
        let (one, two) = (order(id, KeyWanted::Same), order(id, KeyWanted::Same));
        let retryable = retryable();
        let (one, two) =
            tokio::join!(world.api.redrive(&one, &retryable), world.api.redrive(&two, &retryable));
        let mut answers = [one.expect("an answer"), two.expect("an answer")];
        answers.sort_by_key(Result::is_err);
        assert_eq!(answers, [Ok(Status::Unknown), Err(WhyNot::NotParked)]);
        for (what, count) in [
            ("payment_history WHERE cause = 'redriven' AND done_by = 'key:alice' AND payment_id", 1),
            ("operator_acts WHERE act = 'redrive' AND subject::uuid", 1),
            ("parked WHERE payment_id", 0),
        ] {
            let found: i64 = world.one(&format!("SELECT count(*) FROM {what} = '{id}'")).await;
            assert_eq!(found, count, "{what}");
        }
    }
}

#[tokio::test]
async fn a_release_and_a_resolution_at_once_are_one_act() {
    let world = World::new().await;
    for round in 0..8 {
        let id = parked(&world, &format!("k{round}")).await.payment;
        let (release, resolve) = (order(id, KeyWanted::Same), resolution(id, Some(&format!("ch_{round}"))));
        let retryable = retryable();
        let (released, resolved) =
            tokio::join!(world.api.redrive(&release, &retryable), world.api.resolve(&resolve));
        let (released, resolved) = (released.expect("an answer"), resolved.expect("an answer"));
        assert!(released.is_ok() != resolved.is_ok(), "{released:?} {resolved:?}");
        let lost = released.err().or(resolved.err());
        assert_eq!(lost, Some(WhyNot::NotParked));
    }
}

#[tokio::test]
async fn a_released_payment_is_claimed_by_its_new_notice_and_asks_under_its_old_key() {
    let world = World::new().await;
    let was = parked(&world, "k1").await;
    assert_eq!(
        world.api.redrive(&order(was.payment, KeyWanted::Same), &retryable()).await.expect("an answer"),
        Ok(Status::Unknown)
    );
    let row = world.row(was.payment).await;
    assert_eq!((row.reason, row.epoch, row.unanswered, row.sends), (Some(Reason::Redriven), Epoch(0), 1, 1));
    let claimed = world.claim_one(&notice(&row)).await;
    assert_eq!(
        (claimed.was(), claimed.payment().unanswered, claimed.payment().sends),
        (Status::Unknown, 2, 1)
    );
    assert_eq!(claimed.payment().reason, Some(Reason::Redriven), "the plan sees who released it");
}

#[tokio::test]
async fn a_spent_budget_gets_one_send_and_not_a_second_one() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let exhausted = |claimed: punctual::schedule::Claimed| {
        let decision = Decision {
            reason: Some(Reason::BudgetExhausted),
            answered: SendsAnswered::All,
            epoch: EpochChange::Next,
            ..decision(Status::Parked)
        };
        (claimed.answered(answer(declined(DeclineClass::Soft))), decision)
    };
    let claimed = world.claim_one(&due).await;
    settle(&world, exhausted(claimed)).await;
    // As after five more of them.
    world.run(&format!("UPDATE payments SET sends = 6, attempt = 6 WHERE id = '{}'", due.payment)).await;
    world.run(&format!("UPDATE attempts SET attempt = 6 WHERE payment_id = '{}'", due.payment)).await;
    for sends in [6, 6] {
        let released = world.api.redrive(&order(due.payment, KeyWanted::Same), &retryable()).await;
        assert_eq!(released.expect("an answer"), Ok(Status::Pending));
        let row = world.row(due.payment).await;
        assert_eq!(row.sends, 5, "lowered by one, not to nothing");
        let claimed = world.claim_one(&notice(&row)).await;
        assert_eq!(claimed.payment().sends, sends, "the one that was granted is spent");
        settle(&world, exhausted(claimed)).await;
    }
}

#[tokio::test]
async fn a_day_that_the_scans_had_passed_is_opened_again() {
    let world = World::new().await;
    let due_at = world.now().await - TimeDelta::days(2);
    let due = world.create(&world.payment("k1", due_at)).await;
    let claimed = world.claim_one(&due).await;
    settle(&world, parks(claimed, Reason::OutcomeUnknown)).await;
    world.run("UPDATE installation SET oldest_open_day = (now() AT TIME ZONE 'UTC')::date").await;
    world
        .api
        .redrive(&order(due.payment, KeyWanted::Same), &retryable())
        .await
        .expect("an answer")
        .expect("released");
    let open: chrono::NaiveDate = world.one("SELECT oldest_open_day FROM installation").await;
    assert_eq!(open, due.payment.due_day());
    let (terms, fresh) = (terms(), fresh(1));
    let late = world.worker.claim_late(&terms, Duration::ZERO, &[], &fresh).await.expect("an answer");
    assert_eq!(late.len(), 1, "the late scan finds it");
}

/// Releases it within a transaction of the test's own.
async fn released(sql: &mut PgConnection, id: PaymentId) -> String {
    let release = "SELECT redrive_parked($1, $2, 1::smallint, false, '{}', 'key:bob', 'why', NULL, NULL)";
    let answer = sqlx::query_scalar(release).bind(id.due_day()).bind(id.as_uuid()).fetch_one(sql).await;
    answer.expect("an answer")
}

#[tokio::test]
async fn many_releases_of_old_days_and_a_single_one_never_wait_for_each_other() {
    let world = World::new().await;
    let mut old = Vec::new();
    for key in ["k1", "k2"] {
        let due = world.create(&world.payment(key, world.now().await - TimeDelta::days(2))).await;
        let claimed = world.claim_one(&due).await;
        settle(&world, parks(claimed, Reason::OutcomeUnknown)).await;
        old.push(due.payment);
    }
    // As a batch does it: both in one transaction. Between the two a person releases the second one.
    let mut batch = world.sql().await;
    sqlx::query("BEGIN").execute(&mut batch).await.expect("begun");
    assert_eq!(released(&mut batch, old[0]).await, "done");
    let (api, order) = (world.api.clone(), order(old[1], KeyWanted::Same));
    let person = tokio::spawn(async move { api.redrive(&order, &retryable()).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while world.one::<i64>(waits).await == 0 {}
    assert_eq!(released(&mut batch, old[1]).await, "done", "nobody holds it who waits for us");
    sqlx::query("COMMIT").execute(&mut batch).await.expect("committed");
    let answer = person.await.expect("no panic").expect("an answer");
    assert_eq!(answer, Err(WhyNot::NotParked));
}

#[tokio::test]
async fn what_was_charged_late_is_not_released_and_is_resolved_by_its_reference() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let zombie = world.claim_one(&due).await;
    world.reap(due.payment).await;
    let claimed = world.claim_one(&notice(&world.row(due.payment).await)).await;
    settle(&world, parks(claimed, Reason::OutcomeUnknown)).await;
    // The first worker wakes up: too late for the status, in time for the people.
    let late = (zombie.answered(answer(charged("ch_late"))), decision(Status::Completed));
    world.worker.settle(vec![late]).await.map_err(|failed| failed.error).expect("fenced");
    let view = world.api.parked_one(due.payment).await.expect("read").expect("exists");
    assert!(view.said(&retryable()).charged);
    let released = world.api.redrive(&order(due.payment, KeyWanted::Same), &retryable()).await;
    assert_eq!(released.expect("an answer"), Err(WhyNot::ChargeOnRecord));
    let not_charged = world.api.resolve(&resolution(due.payment, None)).await.expect("an answer");
    assert_eq!(not_charged, Err(WhyNot::ChargeOnRecord));
    let resolved = world.api.resolve(&resolution(due.payment, Some("ch_late"))).await.expect("an answer");
    assert_eq!(resolved, Ok(Status::Completed));
    let row = world.row(due.payment).await;
    assert_eq!((row.gateway_ref.as_deref(), row.unanswered, row.reason), (Some("ch_late"), 0, None));
    let history = world.api.history(ACTOR, due.payment).await.expect("read").expect("exists");
    let told: serde_json::Value =
        serde_json::from_str(&history.last().expect("rows").row.detail).expect("JSON");
    assert_eq!(told, json!({"reason": "seen at the gateway", "evidence": {"source": "dashboard"}}));
}

#[tokio::test]
async fn one_charge_pays_for_one_payment_also_if_two_people_say_so_at_once() {
    let world = World::new().await;
    for round in 0..8 {
        let one = parked(&world, &format!("a{round}")).await.payment;
        let two = parked(&world, &format!("b{round}")).await.payment;
        let reference = format!("ch_{round}");
        let (first, second) = (resolution(one, Some(&reference)), resolution(two, Some(&reference)));
        let (first, second) = tokio::join!(world.api.resolve(&first), world.api.resolve(&second));
        let mut answers = [first.expect("an answer"), second.expect("an answer")];
        answers.sort_by_key(Result::is_err);
        assert_eq!(answers, [Ok(Status::Completed), Err(WhyNot::ReferenceTaken)]);
    }
}

#[tokio::test]
async fn what_was_not_charged_gives_its_external_id_back() {
    let world = World::new().await;
    let mut new = world.payment("k1", world.now().await - TimeDelta::seconds(1));
    new.external_id = Some("invoice-7".into());
    let due = world.create(&new).await;
    let claimed = world.claim_one(&due).await;
    let refused = Decision { reason: Some(Reason::GatewayRejected), ..decision(Status::Parked) };
    settle(&world, (claimed.answered(answer(declined(DeclineClass::Soft))), refused)).await;
    let resolved = world.api.resolve(&resolution(due.payment, None)).await.expect("an answer");
    assert_eq!(resolved, Ok(Status::Failed));
    assert_eq!(world.row(due.payment).await.reason, Some(Reason::ResolvedNotCharged));
    assert_eq!(world.one::<i64>("SELECT count(*) FROM external_ids").await, 0);
}

#[tokio::test]
async fn a_database_in_quarantine_and_a_version_that_has_passed_release_nothing() {
    let world = World::new().await;
    let id = parked(&world, "k1").await.payment;
    let version = Some(world.row(id).await.history_seq - 1);
    let stale = punctual::schedule::Redrive { version, ..order(id, KeyWanted::Same) };
    assert_eq!(world.api.redrive(&stale, &retryable()).await.expect("an answer"), Err(WhyNot::Changed));
    world.run("UPDATE installation SET quarantined_at = now(), quarantine_reason = 'a test'").await;
    let released = world.api.redrive(&order(id, KeyWanted::Same), &retryable()).await;
    assert_eq!(released.expect("an answer"), Err(WhyNot::Quarantined));
    let resolved = world.api.resolve(&resolution(id, Some("ch_1"))).await;
    assert_eq!(resolved.expect("an answer"), Err(WhyNot::Quarantined));
    assert_eq!(world.row(id).await.status, Status::Parked);
}

#[tokio::test]
async fn a_new_key_is_refused_without_an_approval_whoever_calls_the_database() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let claimed = world.claim_one(&due).await;
    let unproven = Decision { reason: Some(Reason::UnprovenDecline), ..decision(Status::Parked) };
    settle(&world, (claimed.answered(answer(declined(DeclineClass::Soft))), unproven)).await;
    let released = world.api.redrive(&order(due.payment, KeyWanted::New), &retryable()).await;
    assert_eq!(released.expect("an answer"), Err(WhyNot::NeedsApproval));
    // An answer that may not be retried closes both ways.
    let for_good = world.api.redrive(&order(due.payment, KeyWanted::Same), &[]).await;
    assert_eq!(for_good.expect("an answer"), Err(WhyNot::DeclinedForGood));
}

#[tokio::test]
async fn the_list_walks_every_parked_payment_once_and_filters_answer_short_pages() {
    let world = World::new().await;
    let mut ids = Vec::new();
    for n in 0..7 {
        let due = world.due(&format!("k{n}")).await;
        let claimed = world.claim_one(&due).await;
        let reason = if n % 2 == 0 { Reason::OutcomeUnknown } else { Reason::ContractViolation };
        settle(&world, parks(claimed, reason)).await;
        ids.push(due.payment);
    }
    ids.sort_unstable();
    let walk = async |filter: &ParkedFilter, limit: usize| {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = world.api.parked(filter, after, limit).await.expect("a page");
            found.extend(page.entries.iter().map(|entry| entry.payment));
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    };
    assert_eq!(walk(&ParkedFilter::default(), 2).await, ids);
    assert_eq!(walk(&ParkedFilter::default(), 7).await, ids);
    let unknown = ParkedFilter { reason: Some(Reason::OutcomeUnknown), ..Default::default() };
    assert_eq!(walk(&unknown, 1).await.len(), 4);
    let strangers =
        ParkedFilter { actor: Some(punctual::domain::ids::ActorId(uuid::Uuid::nil())), ..unknown };
    assert_eq!(walk(&strangers, 3).await, []);
    let later = ParkedFilter { due_from: Some(world.now().await + TimeDelta::days(1)), ..Default::default() };
    assert_eq!(walk(&later, 3).await, []);
    let page = world.api.parked(&ParkedFilter::default(), None, 1).await.expect("a page");
    let entry = &page.entries[0];
    assert_eq!((entry.actor, entry.amount), (Some(ACTOR), Some(money())));
}

#[tokio::test]
async fn the_list_reads_its_own_table_by_its_key_and_no_partition() {
    use sqlx::{AssertSqlSafe, Executor};
    let world = World::new().await;
    let mut sql = world.sql().await;
    for act in [
        "INSERT INTO parked SELECT gen_random_uuid(), 'outcome_unknown', now(), '{}' FROM generate_series(1, 20000)",
        "ANALYZE parked",
        "SET plan_cache_mode = force_custom_plan",
    ] {
        sql.execute(act).await.expect(act);
    }
    let text = punctual::schedule::statements::Statement::named("list_parked").expect("listed").text;
    sql.execute(AssertSqlSafe(format!("PREPARE listed AS {text}"))).await.expect("prepared");
    let explain = "EXPLAIN EXECUTE listed ('00000000-0000-0000-0000-000000000000',
        'ffffffff-ffff-ffff-ffff-ffffffffffff', 251)";
    let plan: Vec<String> = sqlx::query_scalar(explain).fetch_all(&mut sql).await.expect("a plan");
    let plan = plan.join("\n");
    assert!(plan.contains("Index Scan using parked_pkey") && !plan.contains("payments"), "{plan}");
}

#[tokio::test]
async fn the_verdict_of_a_look_up_that_finds_nothing_parks_it_again_and_it_can_be_looked_at() {
    let world = World::new().await;
    let was = parked(&world, "k1").await;
    world
        .api
        .redrive(&order(was.payment, KeyWanted::Same), &retryable())
        .await
        .expect("an answer")
        .expect("released");
    let claimed = world.claim_one(&notice(&world.row(was.payment).await)).await;
    let verdict = Verdict::NotSent { why: punctual::domain::verdict::NotSent::OnlyAsked, retry_after: None };
    let again = Decision { reason: Some(Reason::KeyExpiredUndecided), ..decision(Status::Parked) };
    settle(&world, (claimed.answered(answer(verdict)), again)).await;
    let view = world.api.parked_one(was.payment).await.expect("read").expect("exists");
    assert_eq!((view.attempts.len(), view.payment.unanswered), (2, 1));
    assert!(
        view.parked_at.is_some() && view.evidence.as_deref().is_some_and(|text| text.contains("only_asked"))
    );
}

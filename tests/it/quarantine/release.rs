//! Who releases a quarantine, and after what.

use crate::schedule::world::{World, fresh, terms};
use chrono::{NaiveDate, TimeDelta};
use punctual::domain::ids::Operator;
use punctual::schedule::{
    ClaimAnswer, EnterAnswer, Insists, Loss, LossKind, QuarantineView, ReleaseAnswer, Schedule,
};

fn person(name: &str) -> Operator {
    Operator(format!("key:{name}"))
}

async fn release(world: &World, name: &str, insists: Insists) -> ReleaseAnswer {
    world.api.release_quarantine(&person(name), "compared with the bank", insists).await.expect("an answer")
}

async fn seen(world: &World) -> QuarantineView {
    world.api.quarantines(5).await.expect("seen")
}

/// A database with one gateway that was quarantined two days ago, an hour after the last sign of the server before.
async fn quarantined() -> (World, NaiveDate) {
    let world = World::new().await;
    world
        .run("INSERT INTO gateways (name, account) VALUES ('sandbox', 'sandbox-1') ON CONFLICT DO NOTHING")
        .await;
    let day = (world.now().await - TimeDelta::days(2)).date_naive();
    let since = format!("'{day} 12:00:00Z'::timestamptz");
    world
        .run(&format!("UPDATE installation SET quarantined_at = {since}, quarantine_reason = 'a test'"))
        .await;
    world
        .run(&format!(
            "UPDATE database_runs SET lineage = 'before', last_seen_at = {since} - interval '1 hour'"
        ))
        .await;
    world.worker.observe_lineage().await.expect("seen");
    (world, day)
}

/// A report of this day that was compared, seen so many days after it ended.
async fn compared(world: &World, day: NaiveDate, whole: bool, seen: &str) {
    let run = format!(
        "INSERT INTO reconciliation_runs (id, gateway, day, format, source, sha256, asked_by, status, lines,
             is_complete, seen_at, finished_at)
         VALUES (gen_random_uuid(), 'sandbox', '{day}', 'sandbox', gen_random_uuid()::text, sha256('x'), 'keeper',
             'compared', 1, {whole}, {seen}, now())"
    );
    world.run(&run).await;
}

async fn item(world: &World, day: NaiveDate, class: &str, payment: &str) {
    let item = format!(
        "INSERT INTO reconciliation_items (fingerprint, run_id, gateway, day, class, status, payment_id, field)
         VALUES (gen_random_uuid(), gen_random_uuid(), 'sandbox', '{day}', '{class}', 'open', {payment}, 'status')"
    );
    world.run(&item).await;
}

#[tokio::test]
async fn a_release_needs_every_day_compared_by_a_whole_report_that_was_seen_after_claims_stopped() {
    let (world, day) = quarantined().await;
    assert_eq!(release(&world, "ann", Insists::OnNothing).await, ReleaseAnswer::Lacking);
    let lacks = seen(&world).await.lacks;
    assert_eq!(lacks.len(), 1, "{lacks:?}");
    assert_eq!((lacks[0].lack.as_str(), lacks[0].day), ("day_not_compared", day));
    compared(&world, day, false, "now()").await;
    assert_eq!(seen(&world).await.lacks.len(), 1, "a report that has not ended shows nothing");
    compared(&world, day - TimeDelta::days(1), true, "now()").await;
    assert_eq!(seen(&world).await.lacks.len(), 1, "of another day");
    compared(&world, day, true, "now()").await;
    assert_eq!(seen(&world).await.lacks, []);
    item(&world, day, "missing_here", "gen_random_uuid()").await;
    item(&world, day, "late", "gen_random_uuid()").await;
    let lacks = seen(&world).await.lacks;
    assert_eq!((lacks.len(), lacks[0].lack.as_str(), lacks[0].items), (1, "open_repairs", Some(1)));
    world.run("UPDATE reconciliation_items SET status = 'explained'").await;
    assert_eq!(release(&world, "ann", Insists::OnNothing).await, ReleaseAnswer::Asked);
    assert_eq!(release(&world, "ann", Insists::OnNothing).await, ReleaseAnswer::SamePerson);
    let due = world.due("k1").await;
    let held = world.worker.claim(&terms(), std::slice::from_ref(&due), &fresh(1)).await.expect("answers");
    assert!(matches!(held[0], ClaimAnswer::Early { .. }), "one person is not enough: {held:?}");
    assert_eq!(release(&world, "bob", Insists::OnNothing).await, ReleaseAnswer::Released);
    assert_eq!(release(&world, "bob", Insists::OnNothing).await, ReleaseAnswer::NotQuarantined);
    world.claim_one(&due).await;
    let view = seen(&world).await;
    let ended = view.quarantines[0].released.as_ref().expect("released");
    assert_eq!((ended.by.0.as_str(), ended.overridden.is_null()), ("key:bob", true));
    let acts: Vec<String> =
        world.api.acts(&Default::default(), 5).await.expect("seen").into_iter().map(|it| it.act).collect();
    assert_eq!(acts, ["release_quarantine", "ask_release"]);
}

#[tokio::test]
async fn charges_without_a_row_do_not_stand_in_the_way_of_a_release() {
    let (world, day) = quarantined().await;
    compared(&world, day, true, "now()").await;
    let lost = world.payment("lost", world.now().await - TimeDelta::days(2)).id;
    world
        .run(&format!(
            "INSERT INTO lost_charges (gateway, payment_id, reference, intent, amount_minor, currency, day, run_id)
             VALUES ('sandbox', '{lost}', 'r', payment_intent('{lost}'), 1, 'EUR', '{day}', gen_random_uuid())"
        ))
        .await;
    item(&world, day, "missing_here", &format!("'{lost}'")).await;
    assert_eq!(seen(&world).await.lacks, []);
}

#[tokio::test]
async fn two_people_can_always_release_it_and_what_was_missing_is_kept() {
    let (world, day) = quarantined().await;
    assert_eq!(release(&world, "ann", Insists::Anyway).await, ReleaseAnswer::Asked);
    assert_eq!(release(&world, "bob", Insists::OnNothing).await, ReleaseAnswer::Lacking, "not that way");
    assert_eq!(release(&world, "bob", Insists::Anyway).await, ReleaseAnswer::Released);
    let view = seen(&world).await;
    let overridden = &view.quarantines[0].released.as_ref().expect("released").overridden;
    assert_eq!(overridden[0]["lack"], "day_not_compared");
    assert_eq!(overridden[0]["day"], day.to_string());
    let acts = world.api.acts(&Default::default(), 1).await.expect("seen");
    assert_eq!(acts[0].act, "override_quarantine");
    let mut sql = world.sql().await;
    for act in [
        "UPDATE quarantines SET overridden = NULL",
        "DELETE FROM quarantines",
        "DELETE FROM quarantine_evidence",
    ] {
        sqlx::query(sqlx::AssertSqlSafe(act)).execute(&mut sql).await.expect_err(act);
    }
}

#[tokio::test]
async fn a_word_stands_for_a_day_and_falls_with_a_newer_proof() {
    let (world, day) = quarantined().await;
    compared(&world, day, true, "now()").await;
    assert_eq!(release(&world, "ann", Insists::OnNothing).await, ReleaseAnswer::Asked);
    world.run("UPDATE quarantines SET asked_at = now() - interval '25 hours'").await;
    assert_eq!(seen(&world).await.open().expect("open").asked, None);
    assert_eq!(release(&world, "bob", Insists::OnNothing).await, ReleaseAnswer::Asked, "the first again");
    let loss = Loss { kind: LossKind::Event, why: "more".to_owned(), payment: None, seen_at: None };
    world.worker.commits_lost(&loss).await.expect("entered");
    assert_eq!(release(&world, "ann", Insists::OnNothing).await, ReleaseAnswer::Asked, "bob knew less");
    assert_eq!(release(&world, "bob", Insists::OnNothing).await, ReleaseAnswer::Released);
}

#[tokio::test]
async fn a_person_can_hold_all_claims_and_is_told_if_they_are_held() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let since = world.now().await - TimeDelta::hours(5);
    let enter = |from| {
        let (api, ann) = (world.api.clone(), person("ann"));
        async move { api.enter_quarantine(&ann, "restored by hand", from).await.expect("an answer") }
    };
    assert_eq!(enter(Some(since + TimeDelta::days(1))).await, EnterAnswer::NotYet);
    assert_eq!(enter(Some(since)).await, EnterAnswer::Quarantined);
    assert_eq!(enter(None).await, EnterAnswer::AlreadyQuarantined);
    let held = world.worker.claim(&terms(), std::slice::from_ref(&due), &fresh(1)).await.expect("answers");
    assert!(matches!(held[0], ClaimAnswer::Early { .. }), "{held:?}");
    let view = seen(&world).await;
    let open = view.open().expect("open");
    assert_eq!(open.kind, LossKind::Person);
    assert!(open.lost_from <= since, "{} after {since}", open.lost_from);
    // No gateway is known here, so nothing is to be compared.
    assert_eq!(view.lacks, []);
}

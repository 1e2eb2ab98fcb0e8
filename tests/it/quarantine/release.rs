//! Who releases a quarantine, and after what.

use super::{LATER, asked_of};
use crate::schedule::world::{World, fresh, terms};
use chrono::{Days, NaiveDate, TimeDelta};
use punctual::domain::ids::Operator;
use punctual::schedule::{
    ClaimAnswer, EnterAnswer, Insists, LackKind, Loss, LossKind, QuarantineView, ReleaseAnswer, Schedule,
};

fn person(name: &str) -> Operator {
    Operator(format!("key:{name}"))
}

async fn release(world: &World, name: &str, insists: Insists) -> ReleaseAnswer {
    let terms = asked_of(&[]);
    world
        .api
        .release_quarantine(&person(name), "compared with the bank", insists, &terms)
        .await
        .expect("an answer")
}

async fn seen(world: &World) -> QuarantineView {
    world.api.quarantines(5, &asked_of(&[])).await.expect("seen")
}

/// A database with one gateway that was quarantined four days ago, an hour after the last sign of the server before: all
/// days that are asked for are over.
async fn quarantined() -> (World, NaiveDate) {
    quarantined_for(4).await
}

async fn quarantined_for(days: i64) -> (World, NaiveDate) {
    let world = World::new().await;
    world
        .run("INSERT INTO gateways (name, account) VALUES ('sandbox', 'sandbox-1') ON CONFLICT DO NOTHING")
        .await;
    let day = (world.now().await - TimeDelta::days(days)).date_naive();
    // At the first moment of today no hour of it has passed.
    let at = if days == 0 { "00:00:00Z" } else { "12:00:00Z" };
    let since = format!("'{day} {at}'::timestamptz");
    let before = if days == 0 { "0" } else { "1 hour" };
    world
        .run(&format!("UPDATE installation SET quarantined_at = {since}, quarantine_reason = 'a test'"))
        .await;
    world
        .run(&format!(
            "UPDATE database_runs SET lineage = 'before', last_seen_at = {since} - interval '{before}'"
        ))
        .await;
    world.worker.observe_lineage().await.expect("seen");
    (world, day)
}

fn later(day: NaiveDate, days: u32) -> NaiveDate {
    day + Days::new(days.into())
}

/// All that is asked for, compared now.
async fn all_compared(world: &World, day: NaiveDate) {
    compared(world, before(day), true, "now()").await;
    for days in 0..=LATER {
        compared(world, later(day, days), true, "now()").await;
    }
}

fn before(day: NaiveDate) -> NaiveDate {
    day - Days::new(1)
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
    let kinds = |view: QuarantineView| view.lacks.iter().map(|it| (it.kind, it.day)).collect::<Vec<_>>();
    let (lost, behind) = (LackKind::DayNotCompared, LackKind::LaterDayNotCompared);
    let all = [(lost, before(day)), (lost, day), (behind, later(day, 1)), (behind, later(day, 2))];
    assert_eq!(kinds(seen(&world).await), all, "a gateway's day may begin before ours");
    compared(&world, before(day), true, "now()").await;
    let all = &all[1..];
    assert_eq!(kinds(seen(&world).await), all);
    compared(&world, day, false, "now()").await;
    let lacks = seen(&world).await.lacks;
    assert_eq!(lacks.len(), 3, "a report that has not ended shows nothing");
    assert!(lacks[0].partly_seen_at.is_some() && lacks[1].partly_seen_at.is_none(), "{lacks:?}");
    compared(&world, day - TimeDelta::days(2), true, "now()").await;
    assert_eq!(seen(&world).await.lacks.len(), 3, "of another day");
    compared(&world, day, true, &format!("'{} 00:00:01Z'::timestamptz", later(day, 1))).await;
    assert_eq!(kinds(seen(&world).await), all[1..], "seen after the day and after claims stopped");
    compared(&world, later(day, 2), true, "now()").await;
    assert_eq!(kinds(seen(&world).await), all[1..2], "a gateway may book on the days behind it");
    compared(&world, later(day, 1), true, "now()").await;
    assert_eq!(seen(&world).await.lacks, []);
    let loaded = |status: &str| {
        format!("UPDATE reconciliation_runs SET status = '{status}' WHERE day = '{day}' AND NOT is_complete")
    };
    world.run(&loaded("loaded")).await;
    assert_eq!(kinds(seen(&world).await), all[..1], "another report of the day is not compared yet");
    world.run(&loaded("compared")).await;
    item(&world, day, "missing_here", "gen_random_uuid()").await;
    item(&world, day, "late", "gen_random_uuid()").await;
    let lacks = seen(&world).await.lacks;
    assert_eq!((lacks.len(), lacks[0].kind, lacks[0].items), (1, LackKind::OpenRepairs, Some(1)));
    world.run(&format!("UPDATE reconciliation_items SET day = '{}'", later(day, LATER))).await;
    assert_eq!(seen(&world).await.lacks.len(), 1, "booked later");
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
    all_compared(&world, day).await;
    let lost = world.payment("lost", world.now().await - TimeDelta::days(4)).id;
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
    assert_eq!(overridden[0]["day"], before(day).to_string());
    assert_eq!(overridden[1]["day"], day.to_string());
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
    all_compared(&world, day).await;
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
async fn a_day_that_goes_on_is_not_asked_for_before_its_end_and_the_end_is_named() {
    let (world, today) = quarantined_for(0).await;
    let view = seen(&world).await;
    let since = view.open().expect("open").since;
    let lost = view.lacks.iter().filter(|it| it.kind == LackKind::DayNotOver && it.day == today);
    let lost: Vec<_> = lost.collect();
    assert_eq!(lost.len(), 1, "{:?}", view.lacks);
    let end = later(today, 1).and_time(chrono::NaiveTime::MIN).and_utc();
    assert_eq!(lost[0].askable_from, Some(end));
    let last = view.lacks.last().expect("some");
    assert_eq!((last.kind, last.day), (LackKind::LaterDayNotOver, later(today, LATER)));
    assert_eq!(last.askable_from, Some(end + TimeDelta::days(LATER.into())));
    // Yesterday is over, and what was seen of it before claims stopped is not enough.
    let yesterday = view.lacks.iter().find(|it| it.day < today).expect("the minute before midnight");
    assert_eq!((yesterday.kind, yesterday.askable_from), (LackKind::DayNotCompared, Some(since)));
}

#[tokio::test]
async fn gateways_are_asked_of_by_every_trace_that_a_restored_database_has_of_them() {
    let world = World::new().await;
    world.worker.commits_lost(&loss(None)).await.expect("entered");
    let names = |view: QuarantineView| {
        let mut names: Vec<_> = view.lacks.into_iter().map(|it| (it.kind, it.gateway.0)).collect();
        names.sort_by(|one, other| one.1.cmp(&other.1));
        names.dedup_by(|one, other| one.1 == other.1);
        names.into_iter().map(|(kind, name)| (kind == LackKind::NoGatewayKnown, name)).collect::<Vec<_>>()
    };
    assert_eq!(
        names(seen(&world).await),
        [(true, String::new())],
        "nobody to compare with is not nothing to compare"
    );
    let configured = world.api.quarantines(1, &asked_of(&["bank"])).await.expect("seen");
    assert_eq!(names(configured), [(false, "bank".to_owned())]);
    world.due("k1").await;
    assert_eq!(names(seen(&world).await), [(false, "sandbox".to_owned())], "it has an open payment");
    world.run("INSERT INTO gateway_refs VALUES ('old', 'r1', gen_random_uuid()), ('old', 'r2', gen_random_uuid()), ('older', 'r', gen_random_uuid())").await;
    let all = [(false, "old".to_owned()), (false, "older".to_owned()), (false, "sandbox".to_owned())];
    assert_eq!(names(seen(&world).await), all, "they have charges");
}

fn loss(seen_at: Option<chrono::DateTime<chrono::Utc>>) -> Loss {
    Loss { kind: LossKind::Event, why: "a test".to_owned(), payment: None, seen_at }
}

#[tokio::test]
async fn a_person_says_since_when_commits_are_missing_but_not_later_than_is_proven() {
    let world = World::new().await;
    let now = world.now().await;
    let enter = |from| {
        let (api, ann) = (world.api.clone(), person("ann"));
        async move { api.enter_quarantine(&ann, "the backup is of then", from).await.expect("an answer") }
    };
    world.worker.commits_lost(&loss(Some(now - TimeDelta::hours(3)))).await.expect("entered");
    let asked =
        world.api.release_quarantine(&person("bob"), "I trust it", Insists::Anyway, &asked_of(&[])).await;
    assert_eq!(asked.expect("an answer"), ReleaseAnswer::Asked);
    assert_eq!(enter(Some(now - TimeDelta::hours(2))).await, EnterAnswer::ProvenBefore);
    for hours in [90, 5] {
        let from = now - TimeDelta::hours(hours);
        assert_eq!(enter(Some(from)).await, EnterAnswer::Altered);
        let view = seen(&world).await;
        let open = view.open().expect("open");
        assert_eq!((open.lost_from, &open.lost_from_by), (from, &Some(person("ann"))), "earlier and later");
        assert_eq!(open.asked, None, "bob knew less");
    }
    let act = world.api.acts(&Default::default(), 1).await.expect("seen").remove(0);
    assert_eq!(act.act, "alter_quarantine");
    let older = now - TimeDelta::hours(7);
    world.worker.commits_lost(&loss(Some(older))).await.expect("entered");
    let open = seen(&world).await.open().expect("open").clone();
    assert_eq!((open.lost_from, open.proven_from), (older - TimeDelta::minutes(1), Some(older)));
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
    assert_eq!(
        (open.lost_from, &open.lost_from_by),
        (since, &Some(person("ann"))),
        "whoever knows is believed"
    );
}

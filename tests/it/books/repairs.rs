//! What a line repairs: the rules' table against the function, and whole ways of a repair through people.

use super::desk::{charge, compare, items_of, load, put, reconcile, report};
use crate::schedule::world::{World, gateway};
use punctual::domain::guard_cases::payment;
use punctual::domain::ids::Operator;
use punctual::domain::matching::Class;
use punctual::domain::payment::Payment;
use punctual::domain::repair::{Behind, NotRepaired, Power, Repair};
use punctual::domain::repair_cases::{Known, RepairCase, cases};
use punctual::domain::settlement::has_own_names;
use punctual::domain::state::Status;
use punctual::platform::dice::{Dice, Os};
use punctual::schedule::{
    ActTerms, ApprovalVerdict, CarriedOut, Decided, NewReport, RECONCILIATION, RepairAnswer, RepairDone,
    RepairOrder, RepairsOrder, WithdrawAnswer,
};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};
use uuid::Uuid;

/// The row, and why it is held.
async fn set_up_row(sql: &mut PgConnection, case: &RepairCase) {
    put(sql, &case.row).await;
    sqlx::query("UPDATE payments SET intent_ref = $3 WHERE due_day = $1 AND id = $2")
        .bind(case.row.id.due_day())
        .bind(case.row.id.as_uuid())
        .bind(&case.row.intent_ref)
        .execute(&mut *sql)
        .await
        .expect("an intent");
    if case.row.status == Status::Parked {
        sqlx::query("INSERT INTO parked VALUES ($1, 'outcome_unknown', now(), '{}')")
            .bind(case.row.id.as_uuid())
            .execute(&mut *sql)
            .await
            .expect("parked");
    }
    if let Some(reason) = case.row.reason {
        sqlx::query("UPDATE payments SET status_reason = $3 WHERE due_day = $1 AND id = $2")
            .bind(case.row.id.due_day())
            .bind(case.row.id.as_uuid())
            .bind(reason.as_str())
            .execute(sql)
            .await
            .expect("held");
    }
}

/// The line that the difference names.
async fn set_up_line(sql: &mut PgConnection, case: &RepairCase, item: i64) {
    sqlx::query(
        "INSERT INTO settlement_lines (run_id, report_day, booked_on, epoch, number, at_line, gross_minor, fee_minor,
            net_minor, payment_id, kind, currency, net_currency, reference, own_name, raw_hash)
         SELECT i.run_id, i.day, i.day, $2, 7, 7, i.amount_minor, 0, i.amount_minor, i.payment_id, 'charge', i.currency,
            i.currency, i.reference, $3, sha256('') FROM reconciliation_items i WHERE i.number = $1",
    )
    .bind(item)
    .bind(case.epoch.0)
    .bind(has_own_names(case.format))
    .execute(sql)
    .await
    .expect("its line");
}

/// All of it: what is known of the reference, the difference with its line, and the approval, if two stand behind it.
async fn set_up(sql: &mut PgConnection, case: &RepairCase) -> (i64, Option<Uuid>) {
    set_up_row(sql, case).await;
    let whose = match case.known {
        Known::Nothing => None,
        Known::OfIt | Known::OfItOtherwise => Some(case.row.id.as_uuid()),
        Known::OfAnother => Some(Uuid::from_u128(7)),
    };
    if let Some(whose) = whose {
        let otherwise = case.known == Known::OfItOtherwise;
        sqlx::query("INSERT INTO gateway_refs VALUES ($1, $2, $3, CASE WHEN $4 THEN 1 END, CASE WHEN $4 THEN 'EUR' END)")
            .bind(&case.row.gateway.0)
            .bind(case.reference)
            .bind(whose)
            .bind(otherwise)
            .execute(&mut *sql)
            .await
            .expect("a reference");
    }
    let item: i64 = sqlx::query_scalar(
        "WITH run AS (
             INSERT INTO reconciliation_runs (id, gateway, day, format, source, sha256, asked_by, status, lines,
                 is_complete, seen_at)
             VALUES (gen_random_uuid(), $1, current_date, $7, '', sha256(''), 'key:alice', 'loaded', 7, false, now())
             RETURNING id)
         INSERT INTO reconciliation_items (fingerprint, run_id, gateway, day, class, status, payment_id, reference, field,
            amount_minor, currency, evidence)
         SELECT gen_random_uuid(), r.id, $1, current_date, $2, 'open', $3, $4, 'status', $5, $6,
            jsonb_build_object('line', 7, 'day', current_date, 'run', r.id) FROM run r RETURNING number",
    )
    .bind(if case.same_gateway { case.row.gateway.0.as_str() } else { "elsewhere" })
    .bind(if case.is_only { "missing_here" } else { "duplicate_charge" })
    .bind(case.row.id.as_uuid())
    .bind(case.reference)
    .bind(case.amount.map(|amount| amount.minor.get()))
    .bind(case.amount.map(|amount| amount.currency.as_str()))
    .bind(case.format)
    .fetch_one(&mut *sql)
    .await
    .expect("a difference");
    set_up_line(sql, case, item).await;
    let approval = match case.behind {
        Behind::TwoPeople => Some(Os.claim_id().0),
        Behind::Program(_) | Behind::OnePerson => None,
    };
    if let Some(approval) = approval {
        sqlx::query(
            "INSERT INTO approvals (id, kind, payment_id, asked_by, reason, request, status, decided_by, decided_reason,
                asked_at, decided_at, expires_at)
             VALUES ($1, 'repair', $2, 'key:alice', 'why', jsonb_build_object('item', $3::text), 'approved', 'key:bob',
                'seen', now(), now(), now() + interval '1 day')",
        )
        .bind(approval)
        .bind(case.row.id.as_uuid())
        .bind(item.to_string())
        .execute(sql)
        .await
        .expect("an approval");
    }
    (item, approval)
}

#[tokio::test]
async fn every_case_of_the_rules_is_answered_and_done_alike_by_the_function() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    sqlx::query("SELECT ensure_settlement_day(current_date)")
        .execute(&mut sql)
        .await
        .expect("a day for lines");
    for case in cases(world.now().await) {
        let mut one = sql.begin().await.expect("begun");
        let (item, approval) = set_up(&mut one, &case).await;
        let power = match case.behind {
            Behind::Program(power) => power,
            Behind::OnePerson | Behind::TwoPeople => Power::Person,
        };
        let answer: String = sqlx::query_scalar("SELECT repair_item($1, $2, 'key:alice', 'why', $3, $4)")
            .bind(item)
            .bind(power.as_str())
            .bind(case.version)
            .bind(approval)
            .fetch_one(&mut *one)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let expected = match case.expect {
            Ok(Repair::Move(_, Status::Completed)) => "completed",
            Ok(Repair::Move(..)) => "parked",
            Ok(Repair::Record) => "recorded",
            Err(why) => why.as_str(),
        };
        assert_eq!(answer, expected, "{}", case.name);
        check(&mut one, &case, item).await;
        one.rollback().await.expect("undone");
    }
}

/// The row, its history and the difference after it.
async fn check(sql: &mut PgConnection, case: &RepairCase, item: i64) {
    let name = case.name;
    let stands = sqlx::query(
        "SELECT p.status, p.gateway_ref, p.unanswered, p.history_seq, p.history_hash = h.hash AS chained, h.cause, h.was, h.became,
                h.detail, i.status AS item, EXISTS (SELECT FROM parked k WHERE k.payment_id = p.id) AS is_listed,
                EXISTS (SELECT FROM gateway_refs g WHERE g.payment_id = p.id AND g.reference = i.reference) AS is_kept
         FROM reconciliation_items i JOIN payments p ON p.due_day = $2 AND p.id = i.payment_id
         LEFT JOIN payment_history h ON h.payment_id = p.id AND h.seq = p.history_seq
         WHERE i.number = $1",
    )
    .bind(item)
    .bind(case.row.id.due_day())
    .fetch_one(sql)
    .await
    .expect("a row");
    let text = |column: &str| stands.get::<Option<String>, _>(column);
    let (to, cause) = match case.expect {
        Ok(Repair::Move(cause, to)) => (to, Some(cause.as_str())),
        Ok(Repair::Record) => (case.row.status, Some("noted")),
        Err(_) => (case.row.status, None),
    };
    assert_eq!(text("status").as_deref(), Some(to.as_str()), "{name}");
    assert_eq!(text("cause").as_deref(), cause, "{name}");
    let written = i32::from(case.expect.is_ok());
    assert_eq!(stands.get::<i32, _>("history_seq"), case.row.history_seq + written, "{name}");
    let moved = matches!(case.expect, Ok(Repair::Move(..)));
    assert_eq!(text("item").as_deref(), Some(if moved { "repaired" } else { "open" }), "{name}");
    assert_eq!(stands.get::<bool, _>("is_listed"), to == Status::Parked, "{name}");
    if case.expect.is_ok() {
        assert_eq!(stands.get::<Option<bool>, _>("chained"), Some(true), "{name}");
        let is_gateways = has_own_names(case.format) || case.known == Known::OfItOtherwise;
        let is_named = case.known != Known::OfAnother && !case.reference.is_empty();
        assert_eq!(
            stands.get::<bool, _>("is_kept"),
            is_gateways && is_named,
            "{name}: a charge is kept by the gateway's name"
        );
        if !has_own_names(case.format) {
            assert_eq!(text("gateway_ref"), case.row.gateway_ref, "{name}: a bank's name is no charge's");
        }
        let detail = text("detail").expect("a detail");
        assert!(detail.contains("\"line\": 7"), "{name}: the line is the evidence: {detail}");
    }
    if to == Status::Completed && moved {
        assert_eq!(stands.get::<i32, _>("unanswered"), 0, "{name}");
    }
}

fn safe() -> RepairsOrder {
    RepairsOrder { gateway: gateway(), day: None, power: Power::Safe }
}

#[tokio::test]
async fn what_a_program_may_it_does_once_and_the_rest_says_why_not() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let now = world.now().await;
    let rows = [Status::Unknown, Status::Pending, Status::Failed, Status::Processing];
    let rows: Vec<Payment> = (1..).zip(rows).map(|(n, status)| payment(now, n, status)).collect();
    for row in &rows {
        put(&mut sql, row).await;
    }
    let day = rows[0].id.due_day();
    let lines: Vec<_> = (1..).zip(&rows).map(|(n, row)| charge(n, row.id, &format!("ch_{n}"), day)).collect();
    reconcile(&world, day, &lines).await;
    let repairs = world.worker.repair_day(&safe()).await.expect("repaired");
    assert_eq!((repairs.completed, repairs.parked, repairs.recorded, repairs.others), (1, 1, 0, 0));
    assert_eq!(repairs.refused.get(&NotRepaired::NeedsPerson), Some(&1));
    assert_eq!(repairs.refused.get(&NotRepaired::InFlight), Some(&1));
    let states: Vec<_> = ["COMPLETED", "PARKED", "FAILED", "PROCESSING"].into();
    for (row, state) in rows.iter().zip(states) {
        let status: String = world.one(&format!("SELECT status FROM payments WHERE id = '{}'", row.id)).await;
        assert_eq!(status, state);
    }
    let by: String =
        world.one(&format!("SELECT done_by FROM payment_history WHERE payment_id = '{}'", rows[0].id)).await;
    assert_eq!(by, RECONCILIATION);
    let again = world.worker.repair_day(&safe()).await.expect("repaired");
    assert_eq!((again.completed, again.parked), (0, 0), "once");
    let why = items_of(&world, rows[2].id).await.remove(0).not_repaired;
    assert_eq!(why.as_deref(), Some("needs_person"));
    assert!(world.worker.repair_day(&RepairsOrder { power: Power::Person, ..safe() }).await.is_err());
}

#[tokio::test]
async fn what_the_report_of_a_day_that_goes_on_shows_is_repaired_at_once_and_the_rest_of_it_waits() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let now = world.now().await;
    let rows = [Status::Pending, Status::Unknown, Status::Failed];
    let rows: Vec<Payment> = (1..).zip(rows).map(|(n, status)| payment(now, n, status)).collect();
    for row in &rows {
        put(&mut sql, row).await;
    }
    let day = rows[0].id.due_day();
    let lines: Vec<_> = (1..).zip(&rows).map(|(n, row)| charge(n, row.id, &format!("ch_{n}"), day)).collect();
    let unfinished = NewReport { is_complete: false, seen_at: now, ..report(day, &lines) };
    load(&world, &unfinished, &lines).await;
    let compared = compare(&world, day).await;
    assert_eq!((compared.open, compared.waiting, compared.is_complete), (0, 3, false));
    // Otherwise a quarantine that is released before the day is over would charge the first one again.
    let repairs = world.worker.repair_day(&safe()).await.expect("repaired");
    assert_eq!((repairs.completed, repairs.parked), (1, 1));
    assert_eq!(repairs.refused.get(&NotRepaired::NeedsPerson), Some(&1));
    for (row, state) in rows.iter().zip(["PARKED", "COMPLETED", "FAILED"]) {
        let status: String = world.one(&format!("SELECT status FROM payments WHERE id = '{}'", row.id)).await;
        assert_eq!(status, state);
    }
    // What a line had held when it was found, it completes where programs may, or by a person's word; once.
    assert_eq!(world.worker.repair_day(&safe()).await.expect("looked at").completed, 0);
    let automatic = RepairsOrder { power: Power::Automatic, ..safe() };
    assert_eq!(world.worker.repair_day(&automatic).await.expect("repaired").completed, 1);
    let status: String = world.one(&format!("SELECT status FROM payments WHERE id = '{}'", rows[0].id)).await;
    assert_eq!(status, "COMPLETED");
    assert_eq!(world.worker.repair_day(&automatic).await.expect("looked at").completed, 0);
    let order = RepairOrder {
        item: items_of(&world, rows[0].id).await.remove(0).number,
        by: Operator("key:alice".into()),
        reason: "once more".into(),
        version: None,
        approval: Os.claim_id().0,
    };
    let again = world.api.repair_item(&order).await.expect("an answer");
    assert!(matches!(again, RepairAnswer::Refused(NotRepaired::NotOpen)), "{again:?}");
}

#[tokio::test]
async fn a_line_of_a_report_that_does_not_count_any_more_repairs_nothing() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let row = payment(world.now().await, 1, Status::Unknown);
    put(&mut sql, &row).await;
    let day = row.id.due_day();
    let lines = [charge(1, row.id, "ch_1", day)];
    let wrong = load(&world, &report(day, &lines), &lines).await;
    compare(&world, day).await;
    let item = items_of(&world, row.id).await.remove(0);
    assert!(matches!(super::desk::withdraw(&world, wrong.id).await, WithdrawAnswer::Done(_)));
    let repairs = world.worker.repair_day(&safe()).await.expect("looked at");
    assert_eq!((repairs.completed, repairs.parked, repairs.refused.len()), (0, 0, 0), "nothing is open");
    // Nor by an item that somebody still has before them.
    world
        .run(&format!("UPDATE reconciliation_items SET status = 'open' WHERE number = {}", item.number))
        .await;
    let repairs = world.worker.repair_day(&safe()).await.expect("looked at");
    assert_eq!((repairs.completed, repairs.refused[&NotRepaired::NotOpen]), (0, 1));
    let status = format!("SELECT status FROM payments WHERE id = '{}'", row.id);
    assert_eq!(world.one::<String>(&status).await, "UNKNOWN");
    // The right one has the line as well: it is found by that one now.
    let right = NewReport { sha256: [7; 32], ..report(day, &lines) };
    load(&world, &right, &lines).await;
    compare(&world, day).await;
    assert_eq!(world.worker.repair_day(&safe()).await.expect("repaired").completed, 1);
    assert_eq!(world.one::<String>(&status).await, "COMPLETED");
}

#[tokio::test]
async fn a_failed_payment_is_completed_by_two_and_takes_its_external_id_back_from_a_newer_one() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let now = world.now().await;
    let (failed, newer) = (payment(now, 1, Status::Failed), payment(now, 2, Status::Pending));
    for row in [&failed, &newer] {
        put(&mut sql, row).await;
        world.run(&format!("UPDATE payment_details SET external_id = 'rent' WHERE id = '{}'", row.id)).await;
    }
    let actor = failed.actor.0;
    world.run(&format!("INSERT INTO external_ids VALUES ('{actor}', 'rent', '{}')", newer.id)).await;
    let day = failed.id.due_day();
    reconcile(&world, day, &[charge(1, failed.id, "ch_1", day)]).await;
    let item = items_of(&world, failed.id).await.remove(0).number;
    let order = RepairOrder {
        item,
        by: Operator("key:alice".into()),
        reason: "the bank has it".into(),
        version: None,
        approval: Os.claim_id().0,
    };
    let asked = world.api.repair_item(&order).await.expect("asked");
    let RepairAnswer::Asked(approval) = asked else { panic!("{asked:?}") };
    let again = RepairOrder { approval: Os.claim_id().0, ..order.clone() };
    assert!(
        matches!(world.api.repair_item(&again).await.expect("asked"), RepairAnswer::Waiting(it) if it.id == approval.id)
    );
    let decide = async |by: &str| {
        let by = Operator(by.into());
        let terms = ActTerms::default();
        world
            .api
            .decide_approval(approval.id, &by, ApprovalVerdict::Approve, "seen", &terms)
            .await
            .expect("decided")
    };
    assert!(matches!(decide("key:alice").await, Decided::SamePerson(_)));
    let done =
        RepairDone { status: Status::Completed, has_moved: true, ended_refund: false, parked_another: true };
    let decided = decide("key:bob").await;
    assert!(matches!(&decided, Decided::Approved(_, CarriedOut::Repaired(it)) if *it == done), "{decided:?}");
    let holder: Uuid = world.one("SELECT payment_id FROM external_ids WHERE external_id = 'rent'").await;
    assert_eq!(holder, failed.id.as_uuid());
    let reason: String =
        world.one(&format!("SELECT status_reason FROM payments WHERE id = '{}'", newer.id)).await;
    assert_eq!(reason, "external_id_taken_back");
    let moves: i64 = world
        .one(
            "SELECT count(*) FROM payment_history WHERE (was, cause, became) IN
              (('FAILED', 'repaired', 'COMPLETED'), ('PENDING', 'reconciled', 'PARKED'))",
        )
        .await;
    assert_eq!(moves, 2);
    assert_eq!(compare(&world, day).await.open, 0, "nothing differs any more");
}

#[tokio::test]
async fn a_dismissed_difference_keeps_its_reason_however_often_it_is_found() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let row = payment(world.now().await, 1, Status::Failed);
    put(&mut sql, &row).await;
    let day = row.id.due_day();
    reconcile(&world, day, &[charge(1, row.id, "ch_1", day)]).await;
    let number = items_of(&world, row.id).await.remove(0).number;
    let by = Operator("key:alice".into());
    assert_eq!(world.api.dismiss_item(number, &by, "given back by hand").await.expect("asked"), Ok(()));
    assert_eq!(world.api.dismiss_item(number, &by, "again").await.expect("asked"), Err(NotRepaired::NotOpen));
    assert_eq!(compare(&world, day).await.open, 0);
    let item = items_of(&world, row.id).await.remove(0);
    assert_eq!(
        (item.what.status.as_str(), item.decided_reason.as_deref()),
        ("dismissed", Some("given back by hand"))
    );
    let acts: i64 = world.one("SELECT count(*) FROM operator_acts WHERE act = 'dismiss_item'").await;
    assert_eq!(acts, 1);
}

#[tokio::test]
async fn a_bank_s_line_completes_and_the_gateway_s_later_line_of_that_charge_is_no_second_one() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let now = world.now().await;
    let (row, other) = (payment(now, 1, Status::Unknown), payment(now, 2, Status::Unknown));
    put(&mut sql, &row).await;
    put(&mut sql, &other).await;
    let day = row.id.due_day();
    // Two entries that a bank calls alike: its numbers begin anew in each file.
    let lines = [charge(1, row.id, "1", day), charge(2, other.id, "1", day)];
    let of_bank = NewReport { format: "camt.053".into(), ..report(day, &lines) };
    load(&world, &of_bank, &lines).await;
    compare(&world, day).await;
    assert_eq!(world.worker.repair_day(&safe()).await.expect("repaired").completed, 2);
    let named: i64 = world.one("SELECT count(*) FROM payments WHERE gateway_ref IS NOT NULL").await;
    let kept: i64 = world.one("SELECT count(*) FROM gateway_refs").await;
    assert_eq!((named, kept), (0, 0), "the gateway has named no charge");
    let told: String =
        world.one(&format!("SELECT detail FROM payment_history WHERE payment_id = '{}'", row.id)).await;
    assert!(told.contains("\"bankReference\": \"1\"") && !told.contains("\"reference\""), "{told}");
    // The gateway names it for the first time: it is that one.
    let lines = [charge(1, row.id, "ch_1", day), charge(2, other.id, "ch_2", day)];
    let compared = reconcile(&world, day, &lines).await;
    assert_eq!((compared.counts.len(), compared.open), (0, 0), "{compared:?}");
    // One more of the gateway's is a second charge all the same.
    let lines =
        [charge(1, row.id, "ch_1", day), charge(2, row.id, "ch_3", day), charge(3, other.id, "ch_2", day)];
    assert_eq!(reconcile(&world, day, &lines).await.counts.get(&Class::DuplicateCharge), Some(&1));
}

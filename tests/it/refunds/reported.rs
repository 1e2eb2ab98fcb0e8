//! What a report shows as given back, and a restored database as allowed, is not given back again.

use super::{CHARGE, Site, alice};
use crate::books::desk::{charge, compare, days_ago, items_of, load, reconcile, report};
use crate::schedule::world::{fresh, gateway, terms};
use chrono::NaiveDate;
use punctual::domain::guard_cases::payment;
use punctual::domain::ids::{Operator, PaymentId};
use punctual::domain::matching::Class;
use punctual::domain::refund::{RefundRefused, RefundStatus};
use punctual::domain::refund_repair::NamedBy;
use punctual::domain::refund_repair_cases::{RefundRepairCase, VERSION, cases};
use punctual::domain::repair::{Behind, NotRepaired, Power};
use punctual::domain::settlement::{Kind, Line, has_own_names};
use punctual::domain::state::Status;
use punctual::platform::dice::{Dice, Os};
use punctual::schedule::{
    ActTerms, ApprovalVerdict, CarriedOut, Decided, Insists, Loss, LossKind, Refund, RefundAsked,
    ReleaseAnswer, ReleaseTerms, RepairAnswer, RepairOrder, Repairs, RepairsOrder, Schedule,
};
use sqlx::{AssertSqlSafe, Executor, PgConnection, Row};
use uuid::Uuid;

/// Runs these one after another while the triggers that guard the past stand aside.
async fn behind_the_guards(sql: &mut PgConnection, acts: &[String]) {
    for act in [&["SET session_replication_role = replica".to_owned()], acts].concat() {
        let done = sql.execute(AssertSqlSafe(act.clone())).await;
        done.unwrap_or_else(|error| panic!("{error}: {act}"));
    }
    sql.execute("SET session_replication_role = origin").await.expect("on guard");
}

/// A refund that was given back whole, and a database that does not know it any more: a backup of before. And the
/// gateway's name of it.
async fn given_back_and_forgotten(site: &Site) -> (Refund, (PaymentId, String), String) {
    let of = site.completed("k1", "sim_ok").await;
    let refund = site.allowed("r1", &of, None).await;
    let done = site.turns_until(&refund, RefundStatus::Refunded).await;
    let (id, payment) = (refund.id, of.0);
    let acts = [
        format!(
            "UPDATE refunds SET status = 'approved', attempt = 0, fence = 0, open_sends = 0, first_sent_at = NULL,
                 account = NULL, gateway_ref = NULL, finished_at = NULL, next_attempt_at = now() WHERE id = '{id}'"
        ),
        "DELETE FROM refund_attempts".to_owned(),
        "UPDATE refunded_charges SET refunded_minor = 0".to_owned(),
        format!(
            "DELETE FROM payment_history h USING payments p
             WHERE p.id = '{payment}' AND h.payment_id = p.id AND h.seq = p.history_seq"
        ),
        format!(
            "UPDATE payments p SET status = 'COMPLETED', history_seq = h.seq, history_hash = h.hash
             FROM payment_history h WHERE p.id = '{payment}' AND h.payment_id = p.id AND h.seq = p.history_seq - 1"
        ),
    ];
    behind_the_guards(&mut site.world.sql().await, &acts).await;
    assert_eq!(site.stands(&refund).await.status, RefundStatus::Approved);
    (refund, of, done.gateway_ref.expect("a name"))
}

pub(super) fn line(of: &(PaymentId, String), name: &str, key: Option<&Refund>, day: NaiveDate) -> Line {
    Line {
        key: key.map(|refund| refund.id.to_string()),
        charge_ref: Some(of.1.clone()),
        kind: Kind::Refund,
        gross_minor: -CHARGE,
        fee_minor: 0,
        net_minor: -CHARGE,
        ..charge(1, of.0, name, day)
    }
}

async fn repaired(site: &Site) -> Repairs {
    let order = RepairsOrder { gateway: gateway(), day: None, power: Power::Safe };
    site.world.worker.repair_day(&order).await.expect("repaired")
}

async fn claims(site: &Site) -> usize {
    site.world.worker.claim_refunds(&terms(), &fresh(4)).await.expect("an answer").len()
}

async fn is_over(site: &Site, refund: &Refund, of: &(PaymentId, String), name: &str) {
    let ended = site.stands(refund).await;
    assert_eq!(
        (ended.status, ended.gateway_ref.as_deref()),
        (RefundStatus::Refunded, Some(name)),
        "{ended:?}"
    );
    assert_eq!(site.sums(&of.1).await, (CHARGE, CHARGE));
    assert_eq!(site.world.row(of.0).await.status, Status::Refunded);
    assert_eq!(site.causes(of.0).await, "created claimed settled refunded");
    let history = site.world.api.history(crate::schedule::world::ACTOR, of.0).await.expect("read");
    let detail = &history.expect("exists").pop().expect("some").row.detail;
    assert!(detail.contains("\"evidence\"") && detail.contains(name), "{detail}");
    let states: Vec<_> = items_of(&site.world, of.0)
        .await
        .into_iter()
        .filter(|it| it.what.class == Class::RefundMismatch)
        .collect();
    assert!(states.iter().all(|it| it.what.status.as_str() == "repaired") && states.len() == 1, "{states:?}");
    assert_eq!(site.refunder("w2/1").turn().await.expect("a turn"), 0);
    assert_eq!((site.refund_lines().await.len(), site.given_back().await), (1, CHARGE), "once");
}

#[tokio::test]
async fn a_refund_that_a_restore_forgot_is_held_by_the_line_that_shows_it_and_ends_by_it() {
    let site = Site::start().await;
    let (refund, of, name) = given_back_and_forgotten(&site).await;
    let day = days_ago(&site.world, 0).await;
    let found = reconcile(&site.world, day, &[line(&of, &name, Some(&refund), day)]).await;
    assert_eq!(found.counts.get(&Class::RefundMismatch), Some(&1), "{found:?}");
    assert_eq!(claims(&site).await, 0, "what a report shows is not sent again");
    assert_eq!(repaired(&site).await, Repairs { refunds: 1, refunded: 1, ..Repairs::default() });
    is_over(&site, &refund, &of, &name).await;
    assert_eq!(repaired(&site).await, Repairs::default(), "once is enough");
}

#[tokio::test]
async fn a_dismissed_line_of_a_refund_s_own_key_still_holds_it_until_it_is_repaired() {
    let site = Site::start().await;
    let (refund, of, name) = given_back_and_forgotten(&site).await;
    let day = days_ago(&site.world, 0).await;
    reconcile(&site.world, day, &[line(&of, &name, Some(&refund), day)]).await;
    let item =
        items_of(&site.world, of.0).await.into_iter().find(|it| it.what.class == Class::RefundMismatch);
    let number = item.expect("found").number;
    let dismissed = site.world.api.dismiss_item(number, &alice(), "it is late").await;
    assert_eq!(dismissed.expect("an answer"), Ok(()));
    assert_eq!(claims(&site).await, 0, "money that went back is not argued away");
    let done = site.world.api.repair_item(&order(number)).await.expect("an answer");
    assert!(matches!(done, RepairAnswer::Done(done) if done.ended_refund && done.has_moved), "{done:?}");
    is_over(&site, &refund, &of, &name).await;
}

#[tokio::test]
async fn a_line_holds_its_refund_until_the_report_that_took_its_place_is_compared() {
    let site = Site::start().await;
    let (refund, of, name) = given_back_and_forgotten(&site).await;
    let day = days_ago(&site.world, 0).await;
    reconcile(&site.world, day, &[line(&of, &name, Some(&refund), day)]).await;
    assert_eq!(claims(&site).await, 0);
    let other = [charge(1, payment(site.world.now().await, 9, Status::Failed).id, "ch_other", day)];
    load(&site.world, &report(day, &other), &other).await;
    assert_eq!(claims(&site).await, 0, "nobody knows yet whether the new one has it");
    compare(&site.world, day).await;
    assert_eq!(claims(&site).await, 1, "it has not");
}

#[tokio::test]
async fn a_report_that_was_withdrawn_holds_no_refund() {
    let site = Site::start().await;
    let (refund, of, name) = given_back_and_forgotten(&site).await;
    let day = days_ago(&site.world, 0).await;
    reconcile(&site.world, day, &[line(&of, &name, Some(&refund), day)]).await;
    assert_eq!(claims(&site).await, 0);
    site.world
        .run(
            "UPDATE reconciliation_runs SET status = 'superseded', finished_at = now(), withdrawn_at = now()",
        )
        .await;
    assert_eq!(claims(&site).await, 1);
}

#[tokio::test]
async fn a_refund_that_was_allowed_in_the_lost_time_only_is_not_given_back_under_another_key() {
    let site = Site::start().await;
    let (refund, of, name) = given_back_and_forgotten(&site).await;
    // The backup is of before its approval, which nobody gave again in time.
    let acts = [
        format!(
            "UPDATE refunds SET status = 'rejected', finished_at = now(), next_attempt_at = NULL, approved_by = NULL,
                 approved_at = NULL WHERE id = '{}'",
            refund.id
        ),
        "UPDATE refunded_charges SET reserved_minor = 0".to_owned(),
    ];
    behind_the_guards(&mut site.world.sql().await, &acts).await;
    site.allowed("r2", &of, None).await;
    let day = days_ago(&site.world, 0).await;
    reconcile(&site.world, day, &[line(&of, &name, Some(&refund), day)]).await;
    assert_eq!(claims(&site).await, 0, "the first one went back");
    assert_eq!(repaired(&site).await.refused.get(&NotRepaired::NothingToRepair), Some(&1));
    assert_eq!(claims(&site).await, 0, "until a person has looked");
    let item =
        items_of(&site.world, of.0).await.into_iter().find(|it| it.what.class == Class::RefundMismatch);
    let dismissed = site.world.api.dismiss_item(item.expect("found").number, &alice(), "it is another").await;
    assert_eq!(dismissed.expect("an answer"), Ok(()));
    assert_eq!(claims(&site).await, 1);
}

pub(super) fn order(item: i64) -> RepairOrder {
    RepairOrder {
        item,
        by: Operator("key:alice".into()),
        reason: "it is the only one".into(),
        version: None,
        approval: Os.claim_id().0,
    }
}

#[tokio::test]
async fn a_line_without_our_key_holds_every_refund_of_its_payment_until_a_person_says_which_it_is() {
    let site = Site::start().await;
    let (refund, of, name) = given_back_and_forgotten(&site).await;
    let day = days_ago(&site.world, 0).await;
    reconcile(&site.world, day, &[line(&of, &name, None, day)]).await;
    assert_eq!(claims(&site).await, 0, "it may be this one");
    let left = repaired(&site).await;
    assert_eq!(left.refused.get(&NotRepaired::NeedsPerson), Some(&1), "{left:?}");
    let item =
        items_of(&site.world, of.0).await.into_iter().find(|it| it.what.class == Class::RefundMismatch);
    let done = site.world.api.repair_item(&order(item.expect("found").number)).await.expect("an answer");
    assert!(matches!(done, RepairAnswer::Done(done) if done.ended_refund), "{done:?}");
    is_over(&site, &refund, &of, &name).await;
}

#[tokio::test]
async fn after_a_release_in_spite_of_what_is_missing_refunds_wait_until_every_day_is_compared() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    let refund = site.allowed("r1", &of, None).await;
    let (api, worker) = (&site.world.api, &site.world.worker);
    let loss = Loss { kind: LossKind::Log, why: "a test".into(), payment: None, seen_at: None };
    worker.commits_lost(&loss).await.expect("entered");
    let asks = ReleaseTerms { grace_days: 1, gateways: vec![gateway()] };
    let mut said = Vec::new();
    for name in ["key:ann", "key:bob"] {
        let by = Operator(name.into());
        said.push(api.release_quarantine(&by, "no time", Insists::Anyway, &asks).await.expect("an answer"));
    }
    assert_eq!(said, [ReleaseAnswer::Asked, ReleaseAnswer::Released]);
    site.world.due("k2").await;
    let late = worker.claim_late(&terms(), std::time::Duration::ZERO, &[], &fresh(4)).await;
    assert_eq!(late.expect("an answer").len(), 1, "payments go on");
    assert_eq!(claims(&site).await, 0, "what was allowed may have been given back in the lost time");
    assert!(api.quarantines(1, &asks).await.expect("seen").refunds_held.contains(&gateway()));
    let compared = "INSERT INTO reconciliation_runs (id, gateway, day, format, source, sha256, asked_by, status, lines,
             is_complete, seen_at, finished_at)
         SELECT gen_random_uuid(), 'sandbox', d.day, 'sandbox', '', sha256('x'), 'keeper', 'compared', 1, true,
             d.askable_from, now()
         FROM quarantines q CROSS JOIN days_to_compare(q) AS d WHERE d.is_lost";
    site.world.run(compared).await;
    assert_eq!(claims(&site).await, 0, "a day behind it may still show one");
    site.world.run(&compared.replace("d.is_lost", "NOT d.is_lost")).await;
    let held = api.quarantines(1, &asks).await.expect("seen").refunds_held;
    assert_eq!(held.len(), 0, "{held:?}");
    site.turns_until(&refund, RefundStatus::Refunded).await;
    assert_eq!(site.given_back().await, CHARGE);
}

/// The case's refund, or another one, as a row under this key and with this name of the gateway's.
fn row(case: &RefundRepairCase, of: &(PaymentId, String), id: Uuid, key: &str, name: Option<&str>) -> String {
    let status = case.refund.status;
    let is_allowed = !matches!(status, RefundStatus::Asked | RefundStatus::Rejected);
    let is_over = matches!(status, RefundStatus::Refunded | RefundStatus::Declined | RefundStatus::Rejected);
    let is_held = status == RefundStatus::Sending;
    let is_open = i32::from(is_held || status == RefundStatus::Unknown);
    let when = |there: bool, value: &str| if there { value.to_owned() } else { "NULL".to_owned() };
    format!(
        "INSERT INTO refunds (id, payment_id, payment_day, payer, gateway, reference, amount_minor, currency, status,
             actor_id, idempotency_key, request_hash, asked_by, reason, approval_id, approved_by, asked_at, expires_at,
             approved_at, finished_at, next_attempt_at, open_sends, first_sent_at, claim_id, lease_until, gateway_ref)
         VALUES ('{id}', '{}', '{}', gen_random_uuid(), 'sandbox', '{}', {CHARGE}, 'EUR', '{}', gen_random_uuid(),
             '{key}', '', 'key:alice', 'x', gen_random_uuid(), {}, now(), now() + interval '1 day', {}, {}, NULL,
             {is_open}, now(), {}, {}, {})",
        of.0,
        of.0.due_day(),
        of.1,
        status.as_str(),
        when(is_allowed, "'key:bob'"),
        when(is_allowed, "now()"),
        when(is_over, "now()"),
        when(is_held, "gen_random_uuid()"),
        when(is_held, "now() + interval '1 minute'"),
        name.map_or("NULL".to_owned(), |name| format!("'{name}'")),
    )
}

/// The case's payment, its refund and the difference; answers the last.
async fn put(sql: &mut PgConnection, site: &Site, case: &RefundRepairCase, number: usize) -> (i64, Uuid) {
    let payment = site.world.due(&format!("case-{number}")).await.payment;
    let other = site.world.due(&format!("other-{number}")).await.payment;
    let (of, id) = ((payment, format!("ch_{number}")), Os.claim_id().0);
    let is_done = case.refund.status == RefundStatus::Refunded;
    let known = case.refund.reference.as_deref().or(is_done.then_some("re_before"));
    let mut acts = vec![
        "DELETE FROM refunds".to_owned(),
        format!(
            "UPDATE payments SET status = 'COMPLETED', gateway_ref = 'ch_{number}', history_seq = {VERSION}
             WHERE id = '{payment}'"
        ),
        format!(
            "INSERT INTO refunded_charges VALUES ('sandbox', 'ch_{number}', '{payment}', {CHARGE}, 'EUR', {CHARGE}, 0)"
        ),
        row(case, &of, id, "one", known),
    ];
    if case.is_anothers {
        // Of another payment: it must not be what the line means.
        let of = (other, format!("ch_other_{number}"));
        acts.push(row(case, &of, Os.claim_id().0, "another", Some(case.reference)));
    }
    behind_the_guards(sql, &acts).await;
    let by_key = case.named_by == NamedBy::Key;
    let row = sqlx::query(
        "WITH run AS (
             INSERT INTO reconciliation_runs (id, gateway, day, format, source, sha256, asked_by, status, lines,
                 is_complete, seen_at)
             VALUES (gen_random_uuid(), 'sandbox', current_date, $8, $1, sha256(''), 'key:alice', 'loaded', 7,
                 false, now())
             RETURNING id)
         INSERT INTO reconciliation_items (fingerprint, run_id, gateway, day, class, status, payment_id, refund_id,
             reference, field, amount_minor, currency, evidence)
         SELECT gen_random_uuid(), r.id, 'sandbox', current_date, 'refund_mismatch', 'open', $2, $3, $4, $5, $6, $7,
             jsonb_build_object('line', 7, 'run', r.id) FROM run r RETURNING number",
    )
    .bind(number.to_string())
    .bind(payment.as_uuid())
    .bind(by_key.then_some(id))
    .bind(case.reference)
    .bind(if by_key { "status" } else { "refund" })
    .bind(case.amount.map(|amount| -amount.minor.get()))
    .bind(case.amount.map(|amount| amount.currency.as_str()))
    .bind(case.format)
    .fetch_one(sql)
    .await
    .unwrap_or_else(|error| panic!("{}: {error}", case.name));
    (row.get("number"), id)
}

#[tokio::test]
async fn every_case_of_the_rules_is_answered_and_done_alike_by_the_function() {
    let site = Site::start().await;
    let mut sql = site.world.sql().await;
    for (number, case) in cases().iter().enumerate() {
        let (item, refund) = put(&mut sql, &site, case, number).await;
        let power = match case.behind {
            Behind::Program(power) => power,
            Behind::OnePerson | Behind::TwoPeople => Power::Person,
        };
        let answer: String = sqlx::query_scalar("SELECT repair_refund($1, $2, 'key:alice', 'why', $3, NULL)")
            .bind(item)
            .bind(power.as_str())
            .bind(case.version)
            .fetch_one(&mut sql)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let expected = match case.expect {
            // It is all of the charge.
            Ok(()) => "refunded_whole",
            Err(why) => why.as_str(),
        };
        assert_eq!(answer, expected, "{}", case.name);
        let stands = sqlx::query(
            "SELECT r.status, r.open_sends, r.gateway_ref, c.refunded_minor, i.status AS item, p.status AS payment
             FROM refunds r JOIN refunded_charges c ON c.reference = r.reference JOIN payments p ON p.id = r.payment_id
             JOIN reconciliation_items i ON i.number = $2 WHERE r.id = $1",
        )
        .bind(refund)
        .bind(item)
        .fetch_one(&mut sql)
        .await
        .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let text = |column: &str| stands.get::<String, _>(column);
        let found = (text("status"), text("item"), text("payment"), stands.get::<i64, _>("refunded_minor"));
        let wanted = match case.expect {
            Ok(()) => ("refunded", "repaired", "REFUNDED", CHARGE),
            Err(_) => (case.refund.status.as_str(), "open", "COMPLETED", 0),
        };
        assert_eq!(found, (wanted.0.into(), wanted.1.into(), wanted.2.into(), wanted.3), "{}", case.name);
        if case.expect.is_ok() {
            let name = if has_own_names(case.format) {
                Some(case.reference.to_owned())
            } else {
                case.refund.reference.clone()
            };
            assert_eq!(stands.get::<Option<String>, _>("gateway_ref"), name, "{}", case.name);
        }
        assert!(case.expect.is_err() || stands.get::<i32, _>("open_sends") == 0, "{}", case.name);
    }
}

/// The refund's row, its approval and its claims are gone too, as in a backup of before it was asked for.
async fn lost_whole(site: &Site, refund: &Refund) {
    let id = refund.id;
    let acts = [
        format!("DELETE FROM refunds WHERE id = '{id}'"),
        "DELETE FROM approvals".to_owned(),
        "DELETE FROM refunded_charges".to_owned(),
    ];
    behind_the_guards(&mut site.world.sql().await, &acts).await;
    assert_eq!(site.world.api.refund(id).await.expect("an answer"), None);
}

/// The only difference about money that went back.
pub(super) async fn shown(site: &Site, of: &(PaymentId, String)) -> i64 {
    let found = items_of(&site.world, of.0).await;
    let mut found = found.into_iter().filter(|it| it.what.class == Class::RefundMismatch);
    let item = found.next().expect("found");
    assert!(found.next().is_none());
    item.number
}

pub(super) async fn asked_of_two(site: &Site, item: i64) -> Decided {
    let asked = site.world.api.repair_item(&order(item)).await.expect("an answer");
    let RepairAnswer::Asked(approval) = asked else { panic!("{asked:?}") };
    let terms = ActTerms::default();
    let by = Operator("key:bob".into());
    let decided =
        site.world.api.decide_approval(approval.id, &by, ApprovalVerdict::Approve, "seen", &terms).await;
    decided.expect("an answer")
}

#[tokio::test]
async fn a_refund_that_a_restore_lost_whole_is_put_on_record_by_two_and_is_not_given_back_again() {
    let site = Site::start().await;
    let (refund, of, name) = given_back_and_forgotten(&site).await;
    lost_whole(&site, &refund).await;
    let day = days_ago(&site.world, 0).await;
    reconcile(&site.world, day, &[line(&of, &name, Some(&refund), day)]).await;
    let left = repaired(&site).await;
    assert_eq!(left.refused.get(&NotRepaired::NeedsPerson), Some(&1), "{left:?}");
    let decided = asked_of_two(&site, shown(&site, &of).await).await;
    assert!(
        matches!(&decided, Decided::Approved(_, CarriedOut::Repaired(it)) if it.ended_refund),
        "{decided:?}"
    );
    is_over(&site, &refund, &of, &name).await;
    // Asked for again under the same key it is that one; under another key nothing is left.
    let again = site.ask("r1", &of, None).await;
    assert!(matches!(&again, RefundAsked::Replayed(it) if it.id == refund.id), "{again:?}");
    assert_eq!(site.ask("r1", &of, Some(CHARGE - 1)).await, RefundAsked::KeyReused);
    assert_eq!(site.ask("r2", &of, None).await, RefundAsked::Refused(RefundRefused::NothingLeft));
    assert_eq!(compare(&site.world, day).await.open, 0, "both books say the same");
}

#[tokio::test]
async fn what_somebody_gave_back_in_the_gateway_s_dashboard_counts_once_it_is_on_record() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    let day = days_ago(&site.world, 0).await;
    let part = |number, name: &str, minor: i64| Line {
        number,
        at_line: number,
        gross_minor: -minor,
        net_minor: -minor,
        ..line(&of, name, None, day)
    };
    // Three parts are more than the charge: the last one cannot be true.
    let parts = [part(1, "re_1", 5_000), part(2, "re_2", 5_000), part(3, "re_3", 5_000)];
    reconcile(&site.world, day, &parts).await;
    let mut found = items_of(&site.world, of.0).await;
    found.retain(|it| it.what.class == Class::RefundMismatch);
    found.sort_by_key(|it| it.what.reference.clone());
    // What is allowed already may be one of them: nobody can tell, and nothing is sent.
    let open = site.allowed("r1", &of, Some(5_000)).await;
    assert_eq!(claims(&site).await, 0);
    let answer = site.world.api.repair_item(&order(found[0].number)).await.expect("an answer");
    assert!(matches!(answer, RepairAnswer::Done(done) if done.ended_refund), "the only open one: {answer:?}");
    assert_eq!(site.stands(&open).await.status, RefundStatus::Refunded);
    let decided = asked_of_two(&site, found[1].number).await;
    assert!(
        matches!(&decided, Decided::Approved(_, CarriedOut::Repaired(it)) if !it.has_moved),
        "{decided:?}"
    );
    assert_eq!(site.sums(&of.1).await, (10_000, 10_000));
    let answer = site.world.api.repair_item(&order(found[2].number)).await.expect("an answer");
    assert!(matches!(answer, RepairAnswer::Refused(NotRepaired::AboveCharge)), "{answer:?}");
    let above = site.ask("r2", &of, Some(CHARGE - 10_000 + 1)).await;
    assert_eq!(above, RefundAsked::Refused(RefundRefused::AboveCharge));
    assert_eq!(site.sums(&of.1).await, (10_000, 10_000));
}

#[tokio::test]
async fn what_only_a_bank_showed_to_be_charged_is_given_back_by_the_name_that_the_gateway_reports() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    site.world.run("UPDATE payments SET gateway_ref = NULL").await;
    site.world.run("DELETE FROM gateway_refs").await;
    assert_eq!(site.ask("r1", &of, None).await, RefundAsked::Refused(RefundRefused::ReferenceUnknown));
    let day = days_ago(&site.world, 0).await;
    let lines = [charge(1, of.0, &of.1, day)];
    reconcile(&site.world, day, &lines).await;
    let other = (of.0, "ch_other".to_owned());
    assert_eq!(site.ask("r2", &other, None).await, RefundAsked::Refused(RefundRefused::ReferenceUnknown));
    let refund = site.allowed("r3", &of, None).await;
    site.turns_until(&refund, RefundStatus::Refunded).await;
    assert_eq!((site.given_back().await, site.world.row(of.0).await.status), (CHARGE, Status::Refunded));
}

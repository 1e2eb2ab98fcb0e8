//! Closing by people's word: the same answers from the SQL, two people, two consoles, late answers.

use super::{CHARGE, Site, alice, bob};
use crate::schedule::world::{fresh, terms};
use punctual::domain::guard::Lineage;
use punctual::domain::ids::{Operator, PaymentId};
use punctual::domain::money::{Currency, Minor, Money};
use punctual::domain::parked::WhyNot;
use punctual::domain::refund::{RefundDecision, RefundId, RefundSends, RefundStatus, RefundVerdict};
use punctual::domain::refund_resolution::{RefundUnresolved, RefundWord};
use punctual::domain::refund_resolution_cases::{CLAIMS, Case, cases};
use punctual::domain::state::Status;
use punctual::platform::dice::{Dice, Os};
use punctual::schedule::{
    ActTerms, Approval, ApprovalKind, ApprovalVerdict, AskedFor, CarriedOut, ClaimedRefund, Decided, How,
    NewApproval, NewRefundWord, Obstacle, Refund, RefundAnswer, RefundAsked, RefundSettled, RefundWordAsked,
};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Executor, PgConnection};
use uuid::Uuid;

fn euros(minor: i64) -> Money {
    let currency = Currency::from_code("EUR").expect("in the table");
    Money { minor: Minor::new(minor).expect("positive"), currency }
}

pub(super) fn word(refund: RefundId, by: Operator, refunded: Option<(&str, i64)>) -> NewRefundWord {
    NewRefundWord {
        refund,
        refunded: refunded.map(|(reference, minor)| (reference.to_owned(), Some(euros(minor)))),
        by,
        reason: "looked it up".into(),
        evidence: json!({"source": "dashboard"}),
        approval: Os.claim_id().0,
    }
}

async fn ask(site: &Site, new: &NewRefundWord) -> RefundWordAsked {
    site.world.api.ask_refund_resolution(new).await.expect("an answer")
}

pub(super) async fn asked(site: &Site, new: &NewRefundWord) -> Approval {
    match ask(site, new).await {
        RefundWordAsked::Asked(approval) => approval,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn decide(site: &Site, approval: Uuid, by: &Operator, verdict: ApprovalVerdict) -> Decided {
    let terms = ActTerms::default();
    site.world.api.decide_approval(approval, by, verdict, "seen it too", &terms).await.expect("an answer")
}

pub(super) async fn claim(site: &Site) -> ClaimedRefund {
    let claimed = site.world.worker.claim_refunds(&terms(), &fresh(1)).await.expect("an answer");
    claimed.into_iter().next().expect("one is due")
}

/// The gateway contradicts itself: nobody sends or asks any more.
pub(super) async fn contradicts(site: &Site, claimed: ClaimedRefund) {
    let verdict = RefundVerdict::ContractViolation { what: "gave 0.01 EUR back".into() };
    let answered = claimed.answered(RefundAnswer::silent(verdict, How::Sent));
    let decision = RefundDecision { to: RefundStatus::Unknown, next_at: None, answered: RefundSends::None };
    let settled = site.world.worker.settle_refund(&answered, &decision).await.expect("an answer");
    assert_eq!(settled, RefundSettled::Written { to: RefundStatus::Unknown, is_whole: false });
}

/// A refund that waits for people, and its charge.
async fn waiting(site: &Site, key: &str, amount: Option<i64>) -> (Refund, (PaymentId, String)) {
    let of = site.completed(&format!("{key}-paid"), "sim_ok").await;
    let refund = site.allowed(key, &of, amount).await;
    contradicts(site, claim(site).await).await;
    (site.stands(&refund).await, of)
}

/// As if its claims had been made long ago.
async fn long_ago(site: &Site, refund: &Refund) {
    let earlier = format!(
        "UPDATE refund_attempts SET claimed_at = claimed_at - interval '2 hours' WHERE refund_id = '{}'",
        refund.id
    );
    site.world.run(&earlier).await;
}

/// The case's refund as a row, under this key and with this name of the gateway's.
fn row(case: &Case, id: Uuid, payment: PaymentId, key: &str, name: &str) -> String {
    let of = &case.of;
    let is_allowed = !matches!(of.status, RefundStatus::Asked | RefundStatus::Rejected);
    let is_over =
        matches!(of.status, RefundStatus::Refunded | RefundStatus::Declined | RefundStatus::Rejected);
    let is_open = matches!(of.status, RefundStatus::Unknown | RefundStatus::Sending);
    let held = of.status == RefundStatus::Sending;
    let when = |there: bool, value: &str| if there { value.to_owned() } else { "NULL".to_owned() };
    format!(
        "INSERT INTO refunds (id, payment_id, payment_day, payer, gateway, reference, amount_minor, currency, status,
             actor_id, idempotency_key, request_hash, asked_by, reason, approval_id, approved_by, asked_at, expires_at,
             approved_at, finished_at, next_attempt_at, attempt, open_sends, first_sent_at, claim_id, lease_until,
             gateway_ref)
         VALUES ('{id}', '{payment}', '{}', gen_random_uuid(), 'sandbox', 'ch_case', {}, 'EUR', '{}',
             gen_random_uuid(), '{key}', '', 'key:alice', 'x', gen_random_uuid(), {}, now(), now() + interval '1 day',
             {}, {}, {}, {}, {}, now(), {}, {}, {name})",
        payment.due_day(),
        of.amount.minor.get(),
        of.status.as_str(),
        when(is_allowed, "'key:bob'"),
        when(is_allowed, "now()"),
        when(is_over, "now()"),
        when(of.next_attempt_at.is_some(), "now()"),
        of.attempt,
        i32::from(is_open),
        when(held, "gen_random_uuid()"),
        when(held, "now() + interval '1 minute'"),
    )
}

/// Puts the case's rows there, behind the rules' back.
async fn put(sql: &mut PgConnection, case: &Case, refund: RefundId, payment: PaymentId) {
    let (of, sums, id) = (&case.of, case.of.sums, refund.0);
    let name = of.reference.as_deref().or((of.status == RefundStatus::Refunded).then_some("re_before"));
    let name = name.map_or("NULL".to_owned(), |name| format!("'{name}'"));
    let verdict = if of.says_refunded { "refunded" } else { "unknown" };
    let claimed_at = of.last_claimed_at.expect("every case has a claim").to_rfc3339();
    let quarantined = if case.lineage == Lineage::Released { "NULL" } else { "now()" };
    let mut acts = vec![
        // What guards the tables stands aside.
        "SET session_replication_role = replica".to_owned(),
        "DELETE FROM refund_attempts".to_owned(),
        "DELETE FROM refunds".to_owned(),
        "DELETE FROM refunded_charges".to_owned(),
        "UPDATE approvals SET status = 'expired', decided_at = now() WHERE status = 'pending'".to_owned(),
        format!("UPDATE payments SET status = 'COMPLETED', gateway_ref = 'ch_case' WHERE id = '{payment}'"),
        format!(
            "INSERT INTO refunded_charges VALUES ('sandbox', 'ch_case', '{payment}', {}, 'EUR', {}, {})",
            sums.charge_minor, sums.reserved_minor, sums.refunded_minor
        ),
        row(case, id, payment, "one", &name),
        format!(
            "INSERT INTO refund_attempts (refund_id, attempt, claim_id, fence, worker, was, claimed_at, verdict)
             VALUES ('{id}', {CLAIMS}, gen_random_uuid(), 1, 'w', 'approved', '{claimed_at}', '{verdict}')"
        ),
    ];
    if of.is_anothers {
        acts.push(row(case, Os.claim_id().0, payment, "another", "'re_case'"));
    }
    acts.push("SET session_replication_role = origin".to_owned());
    acts.push(format!("UPDATE installation SET quarantined_at = {quarantined}"));
    for act in acts {
        let done = sql.execute(AssertSqlSafe(act.clone())).await;
        done.unwrap_or_else(|error| panic!("{}: {error}: {act}", case.name));
    }
}

fn request(case: &Case, refund: RefundId) -> Value {
    let (said, reference, amount) = match case.word {
        RefundWord::Refunded { reference, amount } => ("refunded", Some(reference), amount),
        RefundWord::NotRefunded => ("not_refunded", None, None),
    };
    json!({
        "refund": refund, "as": said, "gatewayReference": reference,
        "amount": amount.map(|amount| amount.minor.get()), "currency": amount.map(|amount| amount.currency.as_str()),
        "evidence": {"source": "a table"}, "attempt": case.seen,
    })
}

/// What carrying out its approval says, whatever the interface had said before.
async fn carried_out(
    site: &Site,
    case: &Case,
    refund: RefundId,
    payment: PaymentId,
) -> Result<RefundStatus, RefundUnresolved> {
    let new = NewApproval {
        id: Os.claim_id().0,
        kind: ApprovalKind::ResolveRefund,
        payment: Some(payment),
        asked_by: alice(),
        reason: "a case".into(),
        request: request(case, refund),
    };
    let AskedFor::Asked(approval) = site.world.api.ask_approval(&new).await.expect("asked") else {
        panic!("{}: another waits", case.name)
    };
    match decide(site, approval.id, &bob(), ApprovalVerdict::Approve).await {
        Decided::Approved(_, CarriedOut::RefundClosed(closed)) => Ok(closed.to),
        Decided::Impossible(_, Obstacle::Refund(why)) => Err(why),
        Decided::Impossible(_, Obstacle::Parked(WhyNot::Quarantined)) => Err(RefundUnresolved::Quarantined),
        other => panic!("{}: {other:?}", case.name),
    }
}

#[tokio::test]
async fn every_case_of_closing_gets_the_same_answer_from_the_sql_and_the_same_sums() {
    let site = Site::start().await;
    let mut sql = site.world.sql().await;
    let now = site.now().await;
    for (number, case) in cases(now).iter().enumerate() {
        site.world.run("UPDATE installation SET quarantined_at = NULL").await;
        let payment = site.world.due(&format!("case-{number}")).await.payment;
        let refund = RefundId(Os.claim_id().0);
        put(&mut sql, case, refund, payment).await;
        if case.seen == CLAIMS {
            let refunded = match case.word {
                RefundWord::Refunded { reference, amount } => Some((reference.to_owned(), amount)),
                RefundWord::NotRefunded => None,
            };
            let new = NewRefundWord { refunded, ..word(refund, alice(), None) };
            match (ask(&site, &new).await, case.expect) {
                (RefundWordAsked::Refused(why, of), Err(expected)) => {
                    assert_eq!((why, of), (expected, Some(payment)), "{}", case.name);
                }
                (RefundWordAsked::Asked(approval), Ok(_)) => {
                    let rejected = decide(&site, approval.id, &bob(), ApprovalVerdict::Reject).await;
                    assert!(matches!(rejected, Decided::Rejected(_)), "{}: {rejected:?}", case.name);
                }
                other => panic!("{}: {other:?}", case.name),
            }
        }
        let answer = carried_out(&site, case, refund, payment).await;
        assert_eq!(answer, case.expect, "{}", case.name);
        let sums =
            if answer.is_ok() { case.of.sums.after(case.of.amount.minor, case.word) } else { case.of.sums };
        let found = site.sums("ch_case").await;
        assert_eq!(found, (sums.reserved_minor, sums.refunded_minor), "{}", case.name);
    }
    site.world.run("UPDATE installation SET quarantined_at = NULL").await;
    let nowhere = ask(&site, &word(RefundId(Uuid::nil()), alice(), None)).await;
    assert_eq!(nowhere, RefundWordAsked::Refused(RefundUnresolved::NoSuchRefund, None));
}

#[tokio::test]
async fn two_people_call_it_given_back_and_the_payment_its_history_and_the_audit_say_so() {
    let site = Site::start().await;
    let (refund, of) = waiting(&site, "r1", None).await;
    let listed = site.world.api.refunds_for_people().await.expect("a list");
    assert_eq!(listed.iter().map(|it| it.id).collect::<Vec<_>>(), [refund.id]);
    let said = word(refund.id, alice(), Some(("re_9", CHARGE)));
    let waits = asked(&site, &said).await;
    let again = ask(&site, &NewRefundWord { approval: Os.claim_id().0, ..said }).await;
    assert_eq!(again, RefundWordAsked::Replayed(waits.clone()));
    let same = decide(&site, waits.id, &alice(), ApprovalVerdict::Approve).await;
    assert!(matches!(same, Decided::SamePerson(_)), "{same:?}");
    assert_eq!(site.stands(&refund).await, refund, "one person changes nothing");

    let done = decide(&site, waits.id, &bob(), ApprovalVerdict::Approve).await;
    let Decided::Approved(_, CarriedOut::RefundClosed(closed)) = done else { panic!("{done:?}") };
    assert!(closed.is_whole && closed.to == RefundStatus::Refunded, "{closed:?}");
    let stands = site.stands(&refund).await;
    assert_eq!(
        (stands.status, stands.open_sends, stands.gateway_ref.as_deref()),
        (RefundStatus::Refunded, 0, Some("re_9"))
    );
    assert_eq!((stands.resolved_by, stands.resolved_approval), (Some(alice()), Some(waits.id)));
    assert_eq!((stands.given_back, stands.evidence), (None, Some(json!({"source": "dashboard"}))));
    assert_eq!(site.world.row(of.0).await.status, Status::Refunded);
    assert_eq!(
        (site.causes(of.0).await.as_str(), site.sums(&of.1).await),
        ("created claimed settled refunded", (CHARGE, CHARGE))
    );
    let told: String = site
        .world
        .one(&format!(
            "SELECT detail FROM payment_history WHERE payment_id = '{}' AND cause = 'refunded'",
            of.0
        ))
        .await;
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(
        (&told["resolved"], &told["approvedBy"], &told["evidence"]["source"]),
        (&json!("refunded"), &json!("key:bob"), &json!("dashboard"))
    );
    let acts = site.world.api.acts(&Default::default(), 3).await.expect("a list");
    let acts: Vec<String> = acts.iter().rev().map(|act| format!("{} {}", act.operator, act.act)).collect();
    assert_eq!(acts, ["key:alice ask_approval", "key:bob approve", "key:alice resolve_refund"]);
    let over = ask(&site, &word(refund.id, alice(), None)).await;
    assert_eq!(over, RefundWordAsked::Refused(RefundUnresolved::NotWaiting, Some(of.0)));
    assert_eq!(site.refunder("w1/1").turn().await.expect("a turn"), 0, "nobody sends it any more");
}

#[tokio::test]
async fn what_was_not_given_back_is_free_an_hour_later_and_what_was_in_part_stays_so() {
    let site = Site::start().await;
    let (refund, of) = waiting(&site, "r1", Some(5_000)).await;
    let never = word(refund.id, alice(), None);
    let too_early = ask(&site, &never).await;
    assert_eq!(too_early, RefundWordAsked::Refused(RefundUnresolved::TooRecent, Some(of.0)));
    long_ago(&site, &refund).await;
    let waits = asked(&site, &never).await;
    let done = decide(&site, waits.id, &bob(), ApprovalVerdict::Approve).await;
    assert!(matches!(done, Decided::Approved(..)), "{done:?}");
    let stands = site.stands(&refund).await;
    assert_eq!(
        (stands.status, stands.code.as_deref()),
        (RefundStatus::Declined, Some("resolved_not_refunded"))
    );
    assert_eq!((site.world.row(of.0).await.status, site.sums(&of.1).await), (Status::Completed, (0, 0)));
    assert_eq!(site.causes(of.0).await, "created claimed settled noted");

    // Asked for anew it is another refund, under another key; of this one the gateway gave back less.
    let RefundAsked::Asked(another) = site.ask("r2", &of, Some(5_000)).await else { panic!("asked for") };
    site.decide(&another, &bob(), ApprovalVerdict::Approve).await;
    contradicts(&site, claim(&site).await).await;
    let waits = asked(&site, &word(another.id, alice(), Some(("re_2", 4_000)))).await;
    decide(&site, waits.id, &bob(), ApprovalVerdict::Approve).await;
    let stands = site.stands(&another).await;
    assert_eq!((stands.status, stands.given_back.map(Minor::get)), (RefundStatus::Refunded, Some(4_000)));
    assert_eq!(site.sums(&of.1).await, (4_000, 4_000));
    let RefundAsked::Asked(rest) = site.ask("r3", &of, None).await else { panic!("asked for") };
    assert_eq!(rest.amount.minor.get(), CHARGE - 4_000);
}

#[tokio::test]
async fn of_two_consoles_at_once_one_asks_and_one_decides() {
    let site = Site::start().await;
    let carol = Operator::of_key("carol");
    for round in 0..6 {
        let (refund, of) = waiting(&site, &format!("r{round}"), Some(1_000)).await;
        long_ago(&site, &refund).await;
        let name = format!("re_{round}");
        let (back, never) =
            (word(refund.id, alice(), Some((&name, 1_000))), word(refund.id, carol.clone(), None));
        let (one, other) = tokio::join!(ask(&site, &back), ask(&site, &never));
        let waits = match (one, other) {
            (RefundWordAsked::Asked(asked), RefundWordAsked::Waiting(waits))
            | (RefundWordAsked::Waiting(waits), RefundWordAsked::Asked(asked)) => {
                assert_eq!(asked.id, waits.id);
                asked
            }
            both => panic!("{both:?}"),
        };
        let (dave, erin) = (Operator::of_key("dave"), Operator::of_key("erin"));
        let (one, other) = tokio::join!(
            decide(&site, waits.id, &dave, ApprovalVerdict::Approve),
            decide(&site, waits.id, &erin, ApprovalVerdict::Approve)
        );
        let already = [&one, &other].into_iter().filter(|it| matches!(it, Decided::Already(_))).count();
        let done = [&one, &other].into_iter().filter(|it| matches!(it, Decided::Approved(..))).count();
        assert_eq!((already, done), (1, 1), "{one:?} {other:?}");
        let is_back = waits.asked_by == alice();
        let wanted = if is_back { (1_000, 1_000) } else { (0, 0) };
        assert_eq!(site.sums(&of.1).await, wanted);
        assert_eq!(site.causes(of.0).await, "created claimed settled noted", "written once");
    }
}

#[tokio::test]
async fn of_one_name_said_of_two_refunds_at_once_one_gets_it() {
    let site = Site::start().await;
    for round in 0..4 {
        let (first, _) = waiting(&site, &format!("a{round}"), Some(1_000)).await;
        let (second, _) = waiting(&site, &format!("b{round}"), Some(1_000)).await;
        let name = format!("re_{round}");
        let one = asked(&site, &word(first.id, alice(), Some((&name, 1_000)))).await;
        let other = asked(&site, &word(second.id, alice(), Some((&name, 1_000)))).await;
        let by = bob();
        let (one, other) = tokio::join!(
            decide(&site, one.id, &by, ApprovalVerdict::Approve),
            decide(&site, other.id, &by, ApprovalVerdict::Approve)
        );
        let taken = [&one, &other]
            .into_iter()
            .filter(|it| {
                matches!(it, Decided::Impossible(_, Obstacle::Refund(RefundUnresolved::ReferenceTaken)))
            })
            .count();
        let done = [&one, &other].into_iter().filter(|it| matches!(it, Decided::Approved(..))).count();
        assert_eq!((taken, done), (1, 1), "{one:?} {other:?}");
    }
}

#[tokio::test]
async fn a_late_answer_and_a_word_at_once_leave_one_truth_and_both_on_record() {
    let site = Site::start().await;
    for round in 0..6 {
        let of = site.completed(&format!("k{round}"), "sim_ok").await;
        let refund = site.allowed(&format!("r{round}"), &of, Some(1_000)).await;
        let zombie = claim(&site).await;
        site.world
            .run("UPDATE refunds SET lease_until = now() - interval '1 hour' WHERE status = 'sending'")
            .await;
        site.world.worker.reap_refunds(std::time::Duration::from_secs(1), 10).await.expect("reaped");
        contradicts(&site, claim(&site).await).await;
        long_ago(&site, &refund).await;
        let waits = asked(&site, &word(refund.id, alice(), None)).await;

        let verdict = RefundVerdict::Refunded { reference: format!("re_{round}"), amount: euros(1_000) };
        let late = zombie.answered(RefundAnswer::silent(verdict, How::Sent));
        let decision =
            RefundDecision { to: RefundStatus::Refunded, next_at: None, answered: RefundSends::All };
        let by = bob();
        let (settled, decided) = tokio::join!(
            site.world.worker.settle_refund(&late, &decision),
            decide(&site, waits.id, &by, ApprovalVerdict::Approve)
        );
        assert_eq!(settled.expect("an answer"), RefundSettled::Fenced);
        let stands = site.stands(&refund).await;
        match decided {
            Decided::Approved(..) => assert_eq!(stands.status, RefundStatus::Declined),
            // It is asked about at once, and nobody's word is wanted any more.
            Decided::Impossible(_, Obstacle::Refund(RefundUnresolved::NotWaiting)) => {
                assert!(
                    stands.status == RefundStatus::Unknown && stands.next_attempt_at.is_some(),
                    "{stands:?}"
                );
                let done = site.turns_until(&refund, RefundStatus::Refunded).await;
                assert_eq!(done.resolved_by, None);
            }
            other => panic!("{other:?}"),
        }
        let kept: i64 = site
            .world
            .one(&format!("SELECT count(*) FROM refund_attempts WHERE fenced AND verdict = 'refunded' AND refund_id = '{}'", refund.id))
            .await;
        assert_eq!(kept, 1);
    }
}

#[tokio::test]
async fn no_role_closes_a_refund_past_the_function_and_no_row_is_closed_by_half() {
    let site = Site::start().await;
    waiting(&site, "r1", None).await;
    let mut sql = site.world.sql().await;
    for (role, act) in [
        ("punctual_api", "UPDATE refunds SET status = 'declined'"),
        ("punctual_api", "UPDATE refunded_charges SET reserved_minor = 0"),
        ("punctual_worker", "UPDATE refunds SET resolved_by = 'x'"),
        ("punctual_worker", "UPDATE refunds SET given_back_minor = 1"),
        ("punctual_worker", "SELECT resolve_refund(gen_random_uuid(), gen_random_uuid())"),
        ("punctual_owner", "SELECT resolve_refund(gen_random_uuid(), gen_random_uuid())"),
    ] {
        sql.execute(AssertSqlSafe(format!("SET ROLE {role}"))).await.expect("a member");
        let refused = sql.execute(act).await.expect_err(act);
        let code = refused.as_database_error().and_then(|db| db.code().map(|code| code.into_owned()));
        assert_eq!(code.as_deref(), Some("42501"), "{role}: {act}: {refused}");
        sql.execute("RESET ROLE").await.expect("reset");
    }
    for (act, constraint) in [
        (
            "UPDATE refunds SET resolved_by = 'x', status = 'declined', finished_at = now(), open_sends = 0",
            "a_word_is_whole",
        ),
        (
            "UPDATE refunds SET resolved_by = 'x', resolved_approval = gen_random_uuid(), evidence = '{}'",
            "a_word_ends_it",
        ),
        ("UPDATE refunds SET given_back_minor = 1", "only_a_word_changes_the_amount"),
    ] {
        let refused = sql.execute(act).await.expect_err(constraint);
        let broken = refused.as_database_error().and_then(|db| db.constraint().map(str::to_owned));
        assert_eq!(broken.as_deref(), Some(constraint), "{refused}");
    }
    let approved = "SELECT resolve_refund(r.id, r.approval_id) FROM refunds r";
    let answer: String = site.world.one(approved).await;
    assert_eq!(answer, "needs_approval", "the approval of the refund itself is none of its end");
}

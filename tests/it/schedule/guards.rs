//! The rules' own table of guards, run against the SQL: the same rows, the same answers.

use super::world::{World, completed, fresh, notice, terms};
use punctual::domain::guard::{CancelGuard, ClaimGuard, Lineage, SettleGuard};
use punctual::domain::guard_cases::{CLAIM, Case, Expect, Verb, cases, gateway};
use punctual::domain::ids::{ClaimId, Fence};
use punctual::domain::notice::Notice;
use punctual::domain::payment::Payment;
use punctual::domain::state::Status;
use punctual::domain::switches::{SwitchKind, Switches};
use punctual::schedule::{CancelAnswer, ClaimAnswer, ClaimTerms, OpenClaim, Renewed, Schedule, SettledAs};
use sqlx::postgres::PgConnection;
use std::time::Duration;

/// Puts a case's row into the database as it is, behind the rules' back.
async fn put(sql: &mut PgConnection, row: &Payment, case: &Case) {
    let holding = case.holding;
    sqlx::query(
        "INSERT INTO payments (due_day, id, actor_id, status, due_at, execute_before, next_attempt_at, gateway,
            amount_minor, currency, attempt, sends, asks, epoch, epoch_first_sent_at, unanswered,
            gateway_account, renderer, fence, claim_id, lease_until, cancel_wish_at, max_sends,
            on_soft_decline, on_exhausted, lane, created_at, last_moved_at, history_seq, history_hash, last_xid)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
            $22, 6, 'retry', 'park', $23, $24, $25, $26, decode(repeat('00', 32), 'hex'), '1')",
    )
    .bind(row.id.due_day())
    .bind(row.id.as_uuid())
    .bind(row.actor.0)
    .bind(row.status.as_str())
    .bind(row.due_at)
    .bind(row.execute_before)
    .bind(row.next_attempt_at)
    .bind(&row.gateway.0)
    .bind(row.amount.minor.get())
    .bind(row.amount.currency.as_str())
    .bind(row.attempt)
    .bind(row.sends)
    .bind(row.asks)
    .bind(row.epoch.0)
    .bind(row.epoch_first_sent_at)
    .bind(row.unanswered)
    .bind(&row.gateway_account)
    .bind(row.renderer)
    .bind(row.fence.0)
    .bind(holding.map(|held| held.claim_id.0))
    .bind(holding.map(|held| held.lease_until))
    .bind(row.cancel_wish_at)
    .bind(row.lane)
    .bind(row.created_at)
    .bind(row.last_moved_at)
    .bind(row.history_seq)
    .execute(&mut *sql)
    .await
    .unwrap_or_else(|error| panic!("{}: {error}", case.name));
    sqlx::query(
        "INSERT INTO payment_details (due_day, id, payee_sealed, field_digests) VALUES ($1, $2, 'payee', '{}')",
    )
    .bind(row.id.due_day())
    .bind(row.id.as_uuid())
    .execute(sql)
    .await
    .expect("details");
}

async fn claim(world: &World, presented: &Notice, gateway: &str) -> ClaimGuard {
    let gateway = punctual::domain::ids::GatewayName(gateway.into());
    let terms = ClaimTerms { gateway, ..terms() };
    let answers = world.worker.claim(&terms, std::slice::from_ref(presented), &fresh(1)).await;
    match answers.expect("an answer").remove(0) {
        ClaimAnswer::Claimed(_) => ClaimGuard::Win,
        ClaimAnswer::Early { until, why } => ClaimGuard::Early { until, why },
        ClaimAnswer::Refused(proof) => ClaimGuard::Refused(proof.why()),
    }
}

/// Claims for real, puts the row into the case's state around that claim, and settles.
async fn settle(world: &World, row: &Payment, fence: Fence, claim_id: ClaimId) -> SettleGuard {
    let mut clean = row.clone();
    clean.status = Status::Pending;
    world
        .run(&format!(
            "UPDATE payments SET status = 'PENDING', unanswered = 0, claim_id = NULL, lease_until = NULL
             WHERE id = '{}'",
            row.id
        ))
        .await;
    let claimed = world.claim_one(&notice(&clean)).await;
    let ours = claimed.payment().fence.0 - fence.0;
    let (held, until) = match (row.status, claim_id == CLAIM) {
        (Status::Processing, true) => (format!("'{}'", claimed.claim_id().0), "now() + interval '1 min'"),
        (Status::Processing, false) => ("gen_random_uuid()".to_owned(), "now() + interval '1 min'"),
        _ => ("NULL".to_owned(), "NULL"),
    };
    world
        .run(&format!(
            "UPDATE payments SET status = '{}', fence = {} + {ours}, claim_id = {held}, lease_until = {until}
             WHERE id = '{}'",
            row.status.as_str(),
            row.fence.0,
            row.id
        ))
        .await;
    let settled = world.worker.settle(vec![completed(claimed, &row.id.to_string())]).await;
    match settled.map_err(|failed| failed.error).expect("settled")[0].result() {
        SettledAs::Written(_) => SettleGuard::Current,
        SettledAs::Fenced => SettleGuard::Fenced,
    }
}

async fn cancel(world: &World, row: &Payment) -> Option<CancelGuard> {
    match world.api.cancel(row.actor, row.id).await {
        Ok(CancelAnswer::Cancelled(_)) if row.status == Status::Cancelled => Some(CancelGuard::Already),
        Ok(CancelAnswer::Cancelled(_)) => Some(CancelGuard::Win),
        Ok(CancelAnswer::Wished(_)) if row.cancel_wish_at.is_some() => Some(CancelGuard::Wished),
        Ok(CancelAnswer::Wished(_)) => Some(CancelGuard::Wish),
        Ok(CancelAnswer::Refused(view)) => Some(CancelGuard::Refused(view.payment.status)),
        Ok(CancelAnswer::NotFound) => None,
        Err(_) => Some(CancelGuard::Quarantined),
    }
}

async fn tried(world: &World, case: &Case) -> Expect {
    let row = case.row.as_ref();
    match &case.verb {
        Verb::Claim { notice, gateway, .. } => Expect::Claim(claim(world, notice, &gateway.0).await),
        Verb::ClaimLate { gateway, late_by, .. } => {
            let terms = ClaimTerms { gateway: gateway.clone(), ..terms() };
            let late = world.worker.claim_late(&terms, *late_by, &[], &fresh(100)).await.expect("an answer");
            Expect::Yes(late.iter().any(|it| Some(it.payment().id) == row.map(|row| row.id)))
        }
        Verb::Cancel { voids, .. } => {
            world.worker.register_gateway(&gateway(), "sandbox-1", *voids).await.expect("registered");
            Expect::Cancel(cancel(world, row.expect("a row")).await.expect("found"))
        }
        Verb::FailByDeadline { .. } => {
            let reaped = world.worker.reap(Duration::from_secs(86_400), 100).await.expect("an answer");
            Expect::Yes(reaped.deadline_failed == 1)
        }
        Verb::Settle { fence, claim_id } => {
            Expect::Settle(settle(world, row.expect("a row"), *fence, *claim_id).await)
        }
        Verb::Renew { fence, claim_id } => {
            let claim = OpenClaim { payment: row.expect("a row").id, fence: *fence, claim_id: *claim_id };
            let renewed = world.worker.renew(&[claim], Duration::from_secs(60)).await.expect("an answer");
            Expect::Yes(renewed == [Renewed::Held])
        }
        Verb::Reap { margin } => {
            Expect::Yes(world.worker.reap(*margin, 100).await.expect("an answer").expired == 1)
        }
        Verb::Defer { notice } => {
            let answers = world.worker.defer(std::slice::from_ref(notice)).await.expect("an answer");
            Expect::Yes(answers[0].is_some())
        }
    }
}

fn lineage(case: &Case) -> Lineage {
    match case.verb {
        Verb::Claim { lineage, .. }
        | Verb::ClaimLate { lineage, .. }
        | Verb::Cancel { lineage, .. }
        | Verb::FailByDeadline { lineage } => lineage,
        Verb::Settle { .. } | Verb::Renew { .. } | Verb::Reap { .. } | Verb::Defer { .. } => {
            Lineage::Released
        }
    }
}

/// Throws a case's switches, and no others.
async fn throw(world: &World, case: &Case) {
    let none = Switches::default();
    let switches = match &case.verb {
        Verb::Claim { switches, .. } | Verb::ClaimLate { switches, .. } => switches,
        Verb::Cancel { .. }
        | Verb::FailByDeadline { .. }
        | Verb::Settle { .. }
        | Verb::Renew { .. }
        | Verb::Reap { .. }
        | Verb::Defer { .. } => &none,
    };
    world.run("DELETE FROM kill_switches").await;
    for kind in SwitchKind::ALL {
        for value in switches.values(kind) {
            let row = format!("'{}', '{value}', 'key:test', 'a case', now()", kind.as_str());
            world.run(&format!("INSERT INTO kill_switches VALUES ({row})")).await;
        }
    }
}

/// Of an `Early` held for no known length of time, only the reason is compared.
fn comparable(expect: &Expect) -> Expect {
    use punctual::domain::guard::Early;
    match expect {
        Expect::Claim(ClaimGuard::Early { why, .. }) if *why != Early::NotDue => {
            Expect::Claim(ClaimGuard::Early { until: chrono::DateTime::UNIX_EPOCH, why: *why })
        }
        other => other.clone(),
    }
}

#[tokio::test]
async fn every_guard_case_of_the_rules_gets_the_same_answer_from_the_sql() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let cases = cases(world.now().await);
    assert!(cases.len() > 50);
    for case in &cases {
        if let Some(row) = &case.row {
            put(&mut sql, row, case).await;
        }
        let released = "UPDATE installation SET quarantined_at = ";
        let held = if lineage(case) == Lineage::Released { "NULL" } else { "now()" };
        world.run(&format!("{released}{held}")).await;
        throw(&world, case).await;
        let got = tried(&world, case).await;
        assert_eq!(comparable(&got), comparable(&case.expect), "{}", case.name);
        // Scans must see one row alone.
        world.run("DELETE FROM payments").await;
        world.run("DELETE FROM parked").await;
    }
}

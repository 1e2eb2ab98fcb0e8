//! Everybody at once on the same rows: no deadlock, no second winner, every chain whole.

use super::world::{World, completed, decision, fresh, notice};
use chrono::TimeDelta;
use punctual::domain::decision::{Decision, SendsAnswered};
use punctual::domain::notice::Notice;
use punctual::domain::state::Status;
use punctual::domain::verdict::{Doubt, Verdict};
use punctual::schedule::{Answered, ClaimAnswer, ClaimTerms, Claimed, Postgres, Schedule};
use std::time::Duration;

const WORKERS: usize = 4;
const ROUNDS: usize = 12;

/// With a lease that has run out when the next statement looks.
fn terms() -> ClaimTerms {
    let mut terms = super::world::terms();
    terms.lease.length = Duration::ZERO;
    terms
}

/// Every third claim stays unknown and is due again at once; the others complete.
fn outcome(claimed: Claimed) -> (Answered, Decision) {
    if claimed.payment().attempt % 3 == 0 {
        let reference = claimed.payment().id.to_string();
        return completed(claimed, &reference);
    }
    let next_attempt_at = Some(claimed.claimed_at());
    let ask = Decision { next_attempt_at, answered: SendsAnswered::None, ..decision(Status::Unknown) };
    let verdict = Verdict::Unknown(Doubt::TimedOut);
    (claimed.answered(super::world::answer(verdict)), ask)
}

async fn work(worker: Postgres, mut notices: Vec<Notice>, number: usize) {
    let mut wins = 0;
    for round in 0..ROUNDS {
        let length = notices.len();
        // Each worker presents the rows in another order.
        notices.rotate_left((number * 7 + round) % length);
        if number.is_multiple_of(2) {
            notices.reverse();
        }
        let mut claimed: Vec<Claimed> = Vec::new();
        if round % 3 == 2 {
            claimed =
                worker.claim_late(&terms(), Duration::ZERO, &[], &fresh(20)).await.expect("no deadlock");
        } else {
            let answers = worker.claim(&terms(), &notices, &fresh(length)).await.expect("no deadlock");
            assert_eq!(answers.len(), length);
            claimed.extend(answers.into_iter().filter_map(|answer| match answer {
                ClaimAnswer::Claimed(claimed) => Some(*claimed),
                ClaimAnswer::Early { .. } | ClaimAnswer::Refused(_) => None,
            }));
        }
        for it in &claimed {
            if let Some(known) = notices.iter_mut().find(|known| known.payment == it.payment().id) {
                *known = notice(it.payment());
            }
        }
        wins += usize::from(!claimed.is_empty());
        // Every other time the reaper comes first, and the settle is fenced.
        // It passes over rows that another's claim holds at that instant, so it comes more than once.
        for _ in 0..if wins % 2 == 1 { 50 } else { 0 } {
            if worker.reap(Duration::ZERO, 50).await.expect("no deadlock").expired > 0 {
                break;
            }
        }
        let mut outcomes: Vec<_> = claimed.into_iter().map(outcome).collect();
        outcomes.reverse();
        worker.settle(outcomes).await.map_err(|failed| failed.error).expect("no deadlock");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_late_scans_settles_and_reaps_of_the_same_rows_never_block_each_other_for_good() {
    let world = World::new().await;
    let now = world.now().await;
    let mut notices = Vec::new();
    for n in 0..40 {
        let days = TimeDelta::days(n % 2);
        notices
            .push(world.create(&world.payment(&format!("k{n}"), now - TimeDelta::seconds(5) - days)).await);
    }
    let workers =
        (0..WORKERS).map(|number| tokio::spawn(work(world.worker.clone(), notices.clone(), number)));
    for ended in futures_util::future::join_all(workers).await {
        ended.expect("no panic");
    }
    let claims = world.one::<i64>("SELECT count(*) FROM attempts").await;
    assert!(claims > 60, "the rows went round: {claims}");
    for cause in ["fenced", "lease_expired", "settled"] {
        let seen =
            world.one::<i64>(&format!("SELECT count(*) FROM payment_history WHERE cause = '{cause}'")).await;
        assert!(seen > 5, "{cause} happened {seen} times");
    }
    // Fences count the claims, histories have no gap, and each row stands where its history ended.
    for (promise, query) in [
        ("H3", "SELECT count(*) FROM payments WHERE fence <> attempt"),
        ("H1", "SELECT count(*) FROM payments p WHERE history_seq <> (SELECT count(*) FROM payment_history h WHERE h.payment_id = p.id)"),
        (
            "H7",
            "SELECT count(*) FROM payments p JOIN payment_history h ON h.payment_id = p.id AND h.seq = p.history_seq
             WHERE h.became <> p.status OR h.hash <> p.history_hash",
        ),
        (
            "publishing order",
            "SELECT count(*) FROM payment_history one JOIN payment_history two USING (payment_id)
             WHERE one.seq < two.seq AND one.xid > two.xid",
        ),
        ("H3", "SELECT count(*) - count(DISTINCT claim_id) FROM attempts"),
        (
            "no attempt is lost",
            "SELECT count(*) FROM payments p WHERE attempt <> (SELECT count(*) FROM attempts t WHERE t.payment_id = p.id)",
        ),
    ] {
        assert_eq!(world.one::<i64>(query).await, 0, "{promise}");
    }
}

//! Workers killed between the gateway's answer and its record: the rows of the payments are held, so the answers
//! are there and their transactions wait, and then all workers are killed at once.

use super::asked::{self, Group, Way};
use super::ledger::{Given, statuses};
use super::{CHARGE, People};
use crate::money::told::Told;
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::people::Said;
use crate::support::records::look;
use sqlx::Connection;
use std::time::Duration;
use uuid::Uuid;

/// Workers that are killed each time, each with four refunds in hand.
const WORKERS: usize = 8;
const IN_HAND: usize = WORKERS * 4;
/// How often.
const TIMES: usize = 4;
/// Of as many payments.
pub(super) const REFUNDS: usize = IN_HAND * TIMES;

/// Asks, allows a worker's worth each at a time, and kills; what was asked for.
pub(super) async fn with_the_answer_in_hand(
    told: &mut Told,
    site: &mut Installation,
    people: &People,
    groups: &[Group],
) -> Vec<Said> {
    let group = groups.iter().find(|group| group.way == Way::Killed).expect("a group");
    let asked = asked::by_alice(people, group).await;
    let mut still_open = 0;
    for (turn, ours) in asked.chunks(IN_HAND).enumerate() {
        let payments = group.payments.iter().skip(turn * IN_HAND).take(ours.len());
        let ids: Vec<Uuid> = payments.map(|(id, _)| id.parse().expect("an id")).collect();
        still_open += one_turn(site, people, turn, ours, &ids).await;
    }
    told.all("given back, and killed before it was written", still_open, asked.len());
    asked
}

async fn one_turn(
    site: &mut Installation,
    people: &People,
    turn: usize,
    asked: &[Said],
    payments: &[Uuid],
) -> usize {
    let mut session = look(&site.database.url).await;
    let mut held = session.begin().await.expect("a transaction");
    sqlx::query("SELECT 1 FROM payments WHERE id = ANY ($1) ORDER BY id FOR UPDATE")
        .bind(payments)
        .execute(&mut *held)
        .await
        .expect("their rows");
    // While nobody works, so that each worker finds as many as it takes.
    let allowed = asked::allow(&people.bob, asked).await;
    assert!(allowed.iter().all(|said| said.status == 200), "{allowed:?}");
    let names: Vec<String> = (0..WORKERS).map(|number| format!("doomed-{turn}-{number}")).collect();
    names.iter().for_each(|name| site.spawn("worker", name, &[]));
    let refunds: Vec<String> = asked.iter().map(|said| said.text("refundId")).collect();
    eventually("every answer is there, and its record waits", Duration::from_secs(60), || async {
        let given = Given::read(site).await;
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        .fetch_one(&mut look(&site.database.url).await)
        .await
        .expect("a count");
        let all = refunds.iter().all(|id| given.times(id) == 1);
        (all && usize::try_from(waiting).is_ok_and(|waiting| waiting >= refunds.len())).then_some(())
    })
    .await;
    names.iter().for_each(|name| site.role(name).kill());
    held.rollback().await.expect("the rows are free");
    let stand = statuses(site).await;
    refunds.iter().filter(|id| stand.get(*id).is_some_and(|status| status == "sending")).count()
}

/// What others made of it once the leases were over.
pub(super) async fn given_back_once(told: &mut Told, site: &Installation, given: &Given, asked: &[Said]) {
    let stand = statuses(site).await;
    let met = asked.iter().filter(|said| {
        let id = said.text("refundId");
        stand.get(&id).is_some_and(|status| status == "refunded") && given.is_exactly(&id, CHARGE / 5 * 3)
    });
    told.all(&format!("{}: given back once, exactly", Way::Killed.name()), met.count(), asked.len());
}

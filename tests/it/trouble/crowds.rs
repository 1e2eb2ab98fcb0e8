//! A crowd at a gateway that takes less than is due: whose payments wait.

use super::{in_ms, running, seconds};
use crate::support::crowds::{create, first_requests, lateness, spread, time_to_create, until};
use crate::support::eventually;
use chrono::TimeDelta;

/// Two calls at once, of 25 ms each: eighty a second at most.
const NARROW: [(&str, &str); 2] = [("gateway.max_in_flight", "2"), ("sandbox.latency", "25ms")];
/// Fifteen seconds of it.
const CROWD: i32 = 1_200;

#[tokio::test]
async fn one_actor_s_crowd_does_not_keep_another_s_ten_waiting() {
    let site = running(&NARROW).await;
    let (many, few) = (site.client(), site.client().with_key(&site.new_api_key("another")));
    let due = in_ms(0) + time_to_create(&many, CROWD).await;
    let few = create(&few, "few", vec![due + TimeDelta::seconds(3); 10]).await;
    let crowd = create(&many, "crowd", spread(due, CROWD, TimeDelta::zero())).await;
    let (late, asked) = eventually("the ten are asked for", until(due, seconds(60)), || async {
        let first = first_requests(&site.ledger().await);
        Some((lateness(&first, &few)?, crowd.iter().filter(|one| first.contains_key(&one.id)).count()))
    })
    .await;
    assert!(asked < crowd.len() * 3 / 4, "the crowd was no crowd any more: {asked} of {CROWD} were gone");
    assert!(late[0] >= 0 && late[9] <= 2_000, "of the ten, in ms: {late:?}");
}

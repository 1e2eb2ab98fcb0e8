//! Payments created 1 to 30 s before they are due, in a minute that is busy already: too late for their
//! minute's bucket, so they come through `payments.due.now`.

use crate::figures::{Figures, Holds};
use crate::support::crowds::{One, create, create_one, first_requests, lateness, percentile, spread};
use crate::support::eventually;
use crate::support::installation::Installation;
use chrono::{TimeDelta, Utc};
use futures_util::StreamExt;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::time::Duration;

/// Payments of the busy minute, forty a second.
const BUSY: i32 = 2_400;
/// Payments created late, four a second.
const LATE: usize = 160;
/// The latest that 99 of 100 of them may be, in ms.
const BOUND_MS: i64 = 2_000;

/// Creates both and looks at the ledger.
pub async fn what_is_created_late_is_paid_on_time(figures: &mut Figures) {
    figures.part("Created 1 to 30 s before due, in a minute with forty payments a second");
    let mut site = Installation::new(&[]).await;
    for (role, name) in
        [("keeper", "keeper-1"), ("api", "api-1"), ("relay", "relay-1"), ("worker", "worker-1")]
    {
        site.start(role, name, &[]).await;
    }
    let client = site.client();
    let start = Utc::now() + TimeDelta::seconds(15);
    let busy = create(&client, "busy", spread(start, BUSY, TimeDelta::milliseconds(25))).await;
    let mut dice = StdRng::seed_from_u64(11);
    let plans: Vec<_> = (0..LATE).map(|number| (number, dice.random_range(1_000..30_000))).collect();
    let late: Vec<One> = futures_util::stream::iter(plans)
        .then(|(number, ahead_ms)| async move {
            tokio::time::sleep(Duration::from_millis(250)).await;
            (number, ahead_ms)
        })
        .map(|(number, ahead_ms)| {
            let (client, due_at) = (client.clone(), Utc::now() + TimeDelta::milliseconds(ahead_ms));
            async move { create_one(&client, &format!("late-{number}"), due_at).await }
        })
        .buffered(4)
        .collect()
        .await;
    let all: Vec<One> = busy.iter().chain(&late).cloned().collect();
    let first = eventually("all are asked for", Duration::from_secs(120), || async {
        let first = first_requests(&site.ledger().await);
        lateness(&first, &all).map(|_| first)
    })
    .await;
    for (name, of) in [("created late", &late), ("of the busy minute", &busy)] {
        let late = lateness(&first, of).unwrap_or_default();
        let (p50, p99) = (percentile(&late, 50), percentile(&late, 99));
        let shown = format!("p50 {p50}, p99 {p99}, most {} ms of {}", late[late.len() - 1], late.len());
        let holds = Holds(late[0] >= 0 && p99 < BOUND_MS);
        figures.holds(&format!("lateness of those {name}"), shown, "none early, p99 < 2,000 ms", holds);
    }
}

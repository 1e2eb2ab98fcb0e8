//! Everything at once: processes die and freeze at random while the gateway misbehaves.

use super::{in_ms, seconds, site};
use crate::support::eventually;
use punctual::platform::dice::{Dice, Os};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// All of them end as one charge; only a decline of which too little is known (its worker died, and the
/// one that asked about it too) waits for a human, as rule R8 wants it.
const PAYEES: [&str; 8] = [
    "sim_ok",
    "sim_slow_700",
    "sim_500_charged",
    "sim_reset_after_write",
    "sim_timeout_charged",
    "sim_timeout_not_charged|sim_ok",
    "sim_decline_insufficient_funds|sim_ok",
    "sim_429_1|sim_ok",
];

fn chance(of: u128) -> usize {
    usize::try_from(Os.bits() % of).expect("small")
}

#[tokio::test]
async fn in_a_storm_of_deaths_and_freezes_every_payment_is_charged_once_and_never_early() {
    let mut site = site(&[("ladder.retry", "500ms,500ms,500ms,500ms,500ms")]).await;
    let names = [("relay", "relay-1"), ("relay", "relay-2"), ("worker", "worker-1"), ("worker", "worker-2")];
    for (role, name) in names {
        site.start(role, name, &[]).await;
    }
    let mut ids = Vec::new();
    for n in 0..160 {
        let payee = PAYEES[usize::try_from(n).expect("small") % PAYEES.len()];
        ids.push(site.create(&format!("storm-{n}"), payee, in_ms(1_000 + 60 * n)).await);
    }
    let mut told = Vec::new();
    for _ in 0..8 {
        let (_, name) = names[chance(4)];
        let freezes = chance(3) == 0;
        told.push(format!("{name} {}", if freezes { "frozen" } else { "killed" }));
        // Not waits for a condition: the storm's own pace.
        if freezes {
            site.role(name).freeze();
            tokio::time::sleep(Duration::from_millis(4_000)).await;
            site.role(name).thaw();
        } else {
            site.role(name).kill();
            tokio::time::sleep(Duration::from_millis(600)).await;
        }
        for (role, name) in names {
            // A worker that was frozen for too long ends by itself.
            if site.role(name).exit_code().is_some() {
                site.spawn(role, name, &[]);
            }
        }
    }
    let mut parked = BTreeSet::new();
    for id in &ids {
        let end = site.settled(id, &["COMPLETED", "PARKED", "FAILED"], seconds(60)).await;
        if end["status"] != "COMPLETED" {
            let known = end["payee"].as_str().is_some_and(|payee| payee.starts_with("sim_decline"));
            assert!(known && end["statusReason"] == "unproven_decline", "{end} after {told:?}");
            parked.insert(id.clone());
        }
    }
    assert!(parked.len() < ids.len() / PAYEES.len(), "{parked:?} after {told:?}");
    // A request sent by a killed worker may still be on its way in.
    let ledger = eventually("the ledger is as long as before", seconds(10), || async {
        let before = site.ledger().await.len();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let after = site.ledger().await;
        (after.len() == before).then_some(after)
    })
    .await;
    let mut charges: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &ledger {
        assert!(line["at"].as_str() >= line["dueAt"].as_str(), "early: {line}");
        if line["charged"] == true {
            *charges.entry(line["paymentId"].as_str().expect("an id")).or_default() += 1;
        }
    }
    for id in &ids {
        let wanted = usize::from(!parked.contains(id));
        assert_eq!(charges.get(id.as_str()).copied().unwrap_or(0), wanted, "{id} after {told:?}");
    }
}

//! The end of a key's life, with a day scaled to seconds: nothing is sent that the gateway may have
//! forgotten the key of, and what then cannot be decided waits for a human.

use crate::figures::{Figures, Holds};
use crate::support::audit::audit;
use crate::support::cells::{KeyLife, Outcome, Personality, create, rest, site};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::records::look;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// What is still being asked when its key grows old, or is decided just before; with how many payments at each
/// gateway. Most are answered: where half of all calls fail the breaker opens, and hardly anything is sent at all.
const BEHAVIOURS: [(&str, usize); 4] = [
    // Charged at once, and answered 500 for ever: under a forgotten key it is charged again.
    ("sim_500_sticky", 5),
    ("sim_in_use_99", 80),
    ("sim_timeout_not_charged|sim_in_use_99", 5),
    ("sim_timeout_not_charged|sim_500_sticky", 5),
];

/// Of ten seconds of life the last four are for look-ups alone.
const SENDABLE: TimeDelta = TimeDelta::seconds(6);
/// What was let through at the last instant arrives within the longest call.
const ON_ITS_WAY: TimeDelta = TimeDelta::seconds(1);

/// Asks again every second or so, so that questions meet the cut-off at every phase.
const SETTINGS: [(&str, &str); 6] = [
    ("gateway.total_timeout", "1s"),
    ("worker.lease", "4s"),
    ("worker.margin", "1s"),
    ("ladder.reask", "700ms"),
    ("ladder.jitter_percent", "40"),
    ("keeper.reap_every", "300ms"),
];

#[derive(Debug, Default)]
struct Sends {
    all: usize,
    /// In the last two seconds in which they may be sent.
    shortly_before: usize,
    after: Vec<String>,
    /// The latest one, from the cut-off.
    latest_ms: i64,
}

/// Three kinds of gateway; a worker of each is frozen across the cut-off.
pub async fn nothing_is_sent_past_the_cut_off(figures: &mut Figures) {
    figures.part("Keys that live ten seconds, of which they may be sent for six");
    let kinds = [Personality::ForgetsAndTells, Personality::ReplaysSilently, Personality::ForgetsSilently];
    let all = futures_util::future::join_all(kinds.map(one)).await;
    let mut parked: BTreeMap<String, usize> = BTreeMap::new();
    for (of, (site, ends, sends)) in kinds.into_iter().zip(&all) {
        println!("  {}", of.name());
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        ends.iter().for_each(|end| *counts.entry(end.end.as_str()).or_default() += 1);
        println!("  ends: {counts:?}");
        for end in ends.iter().filter(|end| end.end.starts_with("parked")) {
            *parked.entry(end.end.clone()).or_default() += 1;
        }
        let latest = format!("{} broken of {}, latest {} ms", sends.after.len(), sends.all, sends.latest_ms);
        let bound = "0 later than a call after it";
        figures.holds(
            "sends after the cut-off",
            latest,
            bound,
            Holds(sends.all > 0 && sends.after.is_empty()),
        );
        sends.after.iter().take(5).for_each(|line| println!("      {line}"));
        figures.met("sends in the two seconds before it", sends.shortly_before);
        let open = ends.iter().filter(|end| !end.is_at_rest()).count();
        figures.holds("neither final nor parked", open, "0", Holds(open == 0));
        let doubles = ends.iter().filter(|end| end.charges > 1).count();
        figures.violations("charged more than once", ends.len(), doubles, &[]);
        let audited = audit(site, None);
        let shown = format!("{} promises, {} looked at", audited.promises, audited.looked_at);
        figures.holds("audit check", shown, "none broken", Holds(audited.holds()));
        audited.broken.iter().for_each(|broken| println!("      {broken}"));
    }
    let undecided: usize = parked.values().sum();
    figures.met("undecided at the end of their key, and parked", undecided);
    let right = parked.keys().all(|reason| reason == "parked key_expired_undecided");
    figures.holds("reasons of what is parked", format!("{parked:?}"), "key_expired_undecided", Holds(right));
}

async fn one(of: Personality) -> (Installation, Vec<Outcome>, Sends) {
    let mut site = site(of, KeyLife::Seconds, &SETTINGS).await;
    site.start("worker", "worker-2", &[]).await;
    let due_at = Utc::now() + TimeDelta::seconds(8);
    let mut ids = Vec::new();
    for (place, (behaviour, count)) in BEHAVIOURS.into_iter().enumerate() {
        for number in 0..count {
            // Over two seconds, so that not all keys end at once.
            let due_at =
                due_at + TimeDelta::milliseconds(i64::try_from(number * 2_000 / count).expect("few"));
            ids.push(create(&site, &format!("expiry-{place}-{number}"), behaviour, due_at).await);
        }
    }
    reached(due_at + TimeDelta::seconds(3)).await;
    site.role("worker-1").freeze();
    reached(due_at + TimeDelta::seconds(13)).await;
    site.role("worker-1").thaw();
    let ends = rest(&site, &ids, |_, end| end.is_at_rest(), Duration::from_secs(60)).await;
    let sends = sends(&site).await;
    (site, ends, sends)
}

async fn reached(at: DateTime<Utc>) {
    let bound = (at - Utc::now()).to_std().unwrap_or_default() + Duration::from_secs(5);
    eventually("an instant of the plan", bound, || async { (Utc::now() >= at).then_some(()) }).await;
}

/// Each request of the ledger against the cut-off of its key, which counts from the first claim that named
/// it: by the database's rows, not by what the product says of a key's age. A claim under which nothing was started,
/// and of which the ledger knows nothing either, used no key.
async fn sends(site: &Installation) -> Sends {
    let mut database = look(&site.database.url).await;
    let ledger = site.ledger().await;
    let sent: Vec<Uuid> = ledger.iter().filter_map(|line| line["claimId"].as_str()?.parse().ok()).collect();
    let opened: Vec<(Uuid, i32, DateTime<Utc>)> = sqlx::query_as(
        "SELECT payment_id, epoch, min(claimed_at) FROM attempts
         WHERE claim_id = ANY ($1) OR how IS DISTINCT FROM 'not_started' GROUP BY payment_id, epoch",
    )
    .bind(sent)
    .fetch_all(&mut database)
    .await
    .expect("the database answers");
    let key = |id: Uuid, epoch| if epoch == 0 { id.to_string() } else { format!("{id}:{epoch}") };
    let opened: BTreeMap<String, DateTime<Utc>> =
        opened.into_iter().map(|(id, epoch, at)| (key(id, epoch), at)).collect();
    let mut sends = Sends { latest_ms: i64::MIN, ..Sends::default() };
    for line in ledger {
        let at: DateTime<Utc> = line["at"].as_str().and_then(|at| at.parse().ok()).expect("an instant");
        let opened = line["key"].as_str().and_then(|key| opened.get(key)).expect("a key that was claimed");
        let past = at - (*opened + SENDABLE);
        sends.all += 1;
        sends.latest_ms = sends.latest_ms.max(past.num_milliseconds());
        sends.shortly_before += usize::from(past < TimeDelta::zero() && past > TimeDelta::seconds(-2));
        if past > ON_ITS_WAY {
            sends.after.push(line.to_string());
        }
    }
    sends
}

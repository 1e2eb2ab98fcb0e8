//! Keys that the gateway has forgotten: under the same one nothing is sent any more, whoever asks, and another one
//! is opened only where every send is answered and a second person agrees.
//!
//! Two kinds are parked. Of the first the only send is never answered: nobody may pay it, ever. Of the second a
//! worker freezes with all claims in hand, another is declined under the same key, and the first one wakes when
//! the key is over and says that it sent nothing: only then is every send answered.

use super::{count, each, one_won, race, turn};
use crate::money::told::Told;
use crate::support::cells::{Outcome, rest};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::people::{Console, DECIDES, Due, New, Said, make, shown};
use crate::support::records::look;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// Payments of each row.
const OF_EACH: usize = 100;

const SETTINGS: [(&str, &str); 18] = [
    ("gateway.key_ttl", "20s"),
    ("gateway.key_margin", "6s"),
    ("sandbox.key_ttl", "20s"),
    ("gateway.not_found_horizon", "1s"),
    ("gateway.total_timeout", "2s"),
    ("gateway.connect_timeout", "1s"),
    ("gateway.max_in_flight", "600"),
    ("worker.max_in_flight", "600"),
    ("worker.claim_batch", "400"),
    ("worker.lease", "4s"),
    ("worker.margin", "500ms"),
    ("worker.late_by", "1s"),
    ("keeper.reap_every", "200ms"),
    ("ladder.retry", "1s"),
    // The first question comes when nothing may be sent any more.
    ("ladder.reask", "14s,3s"),
    ("ladder.jitter_percent", "0"),
    ("relay.poll", "200ms"),
    ("kafka.session_timeout", "6s"),
];
/// Of twenty seconds of life the last six are for look-ups alone.
const SENDABLE: TimeDelta = TimeDelta::seconds(14);
const LIFE: TimeDelta = TimeDelta::seconds(20);
/// What was let through at the last instant arrives within the longest call.
const ON_ITS_WAY: TimeDelta = TimeDelta::seconds(2);

/// Never answered, and would be charged by whoever sends again.
const OPEN: &str = "sim_timeout_not_charged|sim_ok";
/// Declined once, and would be charged by whoever sends again.
const DECLINED: &str = "sim_decline_insufficient_funds|sim_ok";

struct People {
    alice: Console,
    /// Another key of hers, at the other API.
    alice_too: Console,
    bob: Console,
    carol: Console,
}

pub(super) async fn past_its_key_only_two_people_open_another() -> Told {
    let mut told = Told::under("Re-drives after the gateway has forgotten the key");
    let mut site = Installation::new(&SETTINGS).await;
    for (role, name) in [("keeper", "keeper-1"), ("api", "api-1"), ("api", "api-2")] {
        site.start(role, name, &[]).await;
    }
    let people = People {
        alice: Console::of(&site, "alice", &DECIDES, "api-1"),
        alice_too: Console::of(&site, "alice", &DECIDES, "api-2"),
        bob: Console::of(&site, "bob", &DECIDES, "api-1"),
        carol: Console::of(&site, "carol", &DECIDES, "api-2"),
    };
    let open = unanswered(&mut site).await;
    let declined = declined_beside_a_frozen_worker(&mut told, &mut site, &people).await;
    let ends = rest(&site, &open, |_, end| end.is_at_rest(), Duration::from_secs(60)).await;
    told.ended("never answered: parked", &ends, "parked key_expired_undecided", 0);
    the_frozen_one_wakes(&mut told, &mut site, declined.len()).await;

    nobody_pays_what_is_open(&mut told, &site, &people, &open).await;
    let (by_two, by_one) = (turn(&declined, 0, 2), turn(&declined, 1, 2));
    two_people_open_another(&mut told, &site, &people, &by_two).await;
    let races = race(&[people.alice.clone(), people.carol.clone()], &by_one).await;
    let won = races.iter().filter(|said| one_won(said)).count();
    told.all_with(
        "declined, the same key: one console won",
        &shown(races.iter().flatten()),
        won,
        races.len(),
    );

    let ends = rest(&site, &declined, |_, end| end.is_at_rest(), Duration::from_secs(60)).await;
    let of = |first: usize| -> Vec<Outcome> { ends.iter().skip(first).step_by(2).cloned().collect() };
    told.paid_once("declined, a new key by two people: paid once", &of(0));
    told.paid_once("declined, looked up, the next key by rule R4: paid once", &of(1));
    keys(&mut told, &site, &open, &declined).await;
    told.audited(&site);
    told
}

/// Sent once and never answered, by a worker that ends before anybody asks.
async fn unanswered(site: &mut Installation) -> Vec<String> {
    site.start("worker", "worker-0", &[]).await;
    // As many are paid at once, so that the time-outs do not open the breaker.
    let all = (0..OF_EACH * 5 / 2).map(|number| New::of(if number % 5 < 2 { OPEN } else { "sim_ok" }));
    let made = make(&site.client(), "open", all.collect()).await;
    let open: Vec<String> =
        made.iter().enumerate().filter(|(number, _)| number % 5 < 2).map(|(_, id)| id.clone()).collect();
    eventually("every first send has timed out", Duration::from_secs(30), || async {
        (by_status(site, &open, "UNKNOWN").await == open.len()).then_some(())
    })
    .await;
    site.role("worker-0").drain(Duration::from_secs(30)).await;
    open
}

/// Claimed by a worker that freezes there, declined by another under the same key, and parked.
async fn declined_beside_a_frozen_worker(
    told: &mut Told,
    site: &mut Installation,
    people: &People,
) -> Vec<String> {
    let soon = Due::In(TimeDelta::seconds(1));
    let all = (0..OF_EACH * 2).map(|_| New { due: soon, ..New::of(DECLINED) }).collect();
    let declined = make(&site.client(), "declined", all).await;
    // All of them overdue, and no notices yet: one look claims them.
    eventually("all are due", Duration::from_secs(20), || async {
        let overdue: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM payments WHERE status = 'PENDING' AND due_at < clock_timestamp() - interval '1 second'",
        )
        .fetch_one(&mut look(&site.database.url).await)
        .await
        .expect("a count");
        (usize::try_from(overdue).expect("a count") == declined.len()).then_some(())
    })
    .await;
    site.spawn_armed("worker", "worker-1", "after_claim");
    eventually("it freezes with its claims", Duration::from_secs(40), || async {
        site.is_frozen("worker-1").then_some(())
    })
    .await;
    let held = by_status(site, &declined, "PROCESSING").await;
    told.all("claimed by a worker that freezes then", held, declined.len());
    site.start("relay", "relay-1", &[]).await;
    site.start("worker", "worker-2", &[]).await;
    let ends = rest(site, &declined, |_, end| end.is_at_rest(), Duration::from_secs(60)).await;
    told.ended("declined by another meanwhile: parked", &ends, "parked unproven_decline", 0);
    let said = each(&declined, |id| people.alice.new_epoch(id)).await;
    let refused = count(&said, 409, "open_send");
    told.all_with("a new key while it is frozen: 409", &shown(&said), refused, said.len());
    declined
}

/// Once every key of the declined ones is over.
async fn the_frozen_one_wakes(told: &mut Told, site: &mut Installation, declined: usize) {
    let claimed: DateTime<Utc> =
        sqlx::query_scalar("SELECT max(claimed_at) FROM attempts WHERE worker LIKE 'worker-1/%'")
            .fetch_one(&mut look(&site.database.url).await)
            .await
            .expect("its claims");
    let bound = (claimed + LIFE - Utc::now()).to_std().unwrap_or_default() + Duration::from_secs(5);
    eventually("their keys are over", bound, || async { (Utc::now() > claimed + LIFE).then_some(()) }).await;
    site.role("worker-1").thaw();
    let code = site.role("worker-1").ended(Duration::from_secs(60)).await;
    let (fenced, open): (i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM attempts WHERE fenced AND verdict = 'not_sent' AND worker LIKE 'worker-1/%'),
                (SELECT count(*) FROM payments p WHERE p.status_reason = 'unproven_decline' AND p.unanswered > 0)",
    )
    .fetch_one(&mut look(&site.database.url).await)
    .await
    .expect("counts");
    let fenced = usize::try_from(fenced).expect("a count");
    told.all_with("it wakes: sent nothing, kept as evidence", &format!("exit {code}"), fenced, declined);
    told.none("of these with an open send", usize::try_from(open).expect("a count"), declined);
}

/// Two consoles, a new key, a person's word: nothing of it sends anything.
async fn nobody_pays_what_is_open(told: &mut Told, site: &Installation, people: &People, open: &[String]) {
    let races = race(&[people.alice.clone(), people.carol.clone()], open).await;
    let won = races.iter().filter(|said| one_won(said)).count();
    told.all_with("never answered: one console won", &shown(races.iter().flatten()), won, races.len());
    let ends = rest(site, open, |_, end| end.is_at_rest(), Duration::from_secs(60)).await;
    told.ended("never answered: looked up, and parked again", &ends, "parked key_expired_undecided", 0);
    told.none("  and sent again", ends.iter().filter(|end| end.requests > 1).count(), ends.len());
    let said = each(open, |id| people.alice.new_epoch(id)).await;
    told.all("never answered: a new key: 409", count(&said, 409, "open_send"), said.len());
    let said = each(open, |id| people.bob.resolve_not_charged(id)).await;
    told.all("never answered: the word of a person: 409", count(&said, 409, "open_send"), said.len());
}

/// Asked for by one, refused to the same one, allowed by two others at once.
async fn two_people_open_another(told: &mut Told, site: &Installation, people: &People, payments: &[String]) {
    let asked = payments.iter().map(|id| async move {
        futures_util::join!(people.alice.new_epoch(id), people.alice_too.new_epoch(id))
    });
    let asked: Vec<(Said, Said)> =
        futures_util::stream::iter(asked).buffered(super::SIDE_BY_SIDE).collect().await;
    let once = asked.iter().filter(|(one, other)| {
        (one.status, other.status) == (202, 202) && one.body["approvalId"] == other.body["approvalId"]
    });
    told.all("asked twice at once: one approval, 202", once.count(), asked.len());
    let approvals: Vec<String> = asked.iter().map(|(one, _)| one.text("approvalId")).collect();
    let mut said = each(&approvals, |id| people.alice.approve(id)).await;
    said.extend(each(&approvals, |id| people.alice_too.approve(id)).await);
    told.all("allowed by the asker, with either key: 403", count(&said, 403, "same_person"), said.len());
    let first: Vec<String> = payments.iter().map(|id| format!("{id}:1")).collect();
    let ledger = site.ledger().await;
    let early = ledger.iter().filter(|line| first.iter().any(|key| line["key"] == key.as_str())).count();
    told.none("sent under a new key before that", early, payments.len());
    let decided = approvals
        .iter()
        .map(|id| async move { futures_util::join!(people.bob.approve(id), people.carol.approve(id)) });
    let decided: Vec<(Said, Said)> =
        futures_util::stream::iter(decided).buffered(super::SIDE_BY_SIDE).collect().await;
    let once = decided.iter().filter(|(one, other)| {
        let won = [one, other].iter().filter(|said| said.status == 200).count();
        won == 1 && [one, other].iter().all(|said| said.status == 200 || said.is(409, "approval_decided"))
    });
    let all = shown(decided.iter().flat_map(|(one, other)| [one, other]));
    told.all_with("allowed by two others at once: one did", &all, once.count(), decided.len());
}

/// By the ledger's own keys: nothing under the first one past its end, and what was paid under the next.
async fn keys(told: &mut Told, site: &Installation, open: &[String], declined: &[String]) {
    let ours: Vec<Uuid> = open.iter().chain(declined).map(|id| id.parse().expect("an id")).collect();
    let opened: Vec<(Uuid, DateTime<Utc>)> = sqlx::query_as(
        "SELECT payment_id, min(claimed_at) FROM attempts WHERE epoch = 0 AND payment_id = ANY ($1)
         GROUP BY payment_id",
    )
    .bind(ours)
    .fetch_all(&mut look(&site.database.url).await)
    .await
    .expect("the first claims");
    let opened: BTreeMap<String, DateTime<Utc>> =
        opened.into_iter().map(|(id, at)| (id.to_string(), at)).collect();
    let (mut all, mut late) = (0, 0);
    let mut paid: BTreeMap<String, usize> = BTreeMap::new();
    for line in site.ledger().await {
        let key = line["key"].as_str().unwrap_or_default();
        if let Some(opened) = opened.get(key) {
            let at: DateTime<Utc> = line["at"].as_str().and_then(|at| at.parse().ok()).expect("an instant");
            all += 1;
            late += usize::from(at > *opened + SENDABLE + ON_ITS_WAY);
        }
        if line["charged"] == true {
            *paid.entry(key.to_owned()).or_default() += 1;
        }
    }
    told.none("sends under a first key past its end", late, all);
    let under_the_next = declined.iter().filter(|id| paid.get(&format!("{id}:1")) == Some(&1)).count();
    told.all("declined: paid under the next key", under_the_next, declined.len());
}

async fn by_status(site: &Installation, payments: &[String], status: &str) -> usize {
    let ids: Vec<Uuid> = payments.iter().map(|id| id.parse().expect("an id")).collect();
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM payments WHERE id = ANY ($1) AND status = $2")
        .bind(ids)
        .bind(status)
        .fetch_one(&mut look(&site.database.url).await)
        .await
        .expect("a count");
    usize::try_from(count).expect("a count")
}

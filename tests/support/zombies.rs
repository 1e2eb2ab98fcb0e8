//! Zombies: a worker freezes itself at an exact place between claim and offset, another finishes the
//! payment meanwhile, and the first wakes leases later and goes on where it stood.
//!
//! The sandbox's ledger names the claim of every request, so a zombie whose request comes late is *seen*.
//! What the fence kept off the row is read from the attempts and the history.

use super::audit::{Audited, audit};
use super::eventually;
use super::installation::Installation;
use super::records::look;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgConnection;
use std::time::Duration;
use uuid::Uuid;

/// The places to freeze at, in the order in which a claim comes by; see `platform::failpoints`.
pub const PLACES: [&str; 10] = [
    "after_claim",
    "before_prepare",
    "before_gate",
    "gate_passed",
    "after_send",
    "after_answer",
    "before_settle",
    "mid_settle",
    "after_settle",
    "before_offset",
];

/// How long a claim holds.
const LEASE: TimeDelta = TimeDelta::seconds(4);

/// Short times; the transaction of a frozen session ends before its lease does.
const SETTINGS: [(&str, &str); 14] = [
    ("worker.lease", "4s"),
    ("worker.margin", "500ms"),
    ("worker.drain", "5s"),
    ("worker.late_by", "2s"),
    ("gateway.total_timeout", "2s"),
    ("gateway.connect_timeout", "1s"),
    ("database.statement_timeout", "3s"),
    ("database.acquire_timeout", "3s"),
    ("keeper.reap_every", "200ms"),
    ("kafka.session_timeout", "6s"),
    ("ladder.retry", "1s"),
    ("ladder.reask", "1s"),
    ("ladder.held_back", "1s"),
    ("ladder.jitter_percent", "0"),
];

/// Whether the gateway answers a decline under the same key again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declines {
    /// It stores and replays them.
    Replayed,
    /// It executes again.
    Forgotten,
}

/// One worker's death and return.
#[derive(Debug, Clone, Copy)]
pub struct Haunting {
    /// Where it freezes.
    pub place: &'static str,
    /// What kind of gateway it is.
    pub declines: Declines,
    /// What the gateway does.
    pub payee: &'static str,
    /// So many leases lie between freezing and waking.
    pub leases: i32,
}

/// What came of it.
#[derive(Debug)]
pub struct Haunted {
    /// State and reason of the payment at the end, as in the matrix.
    pub end: String,
    /// Requests in the ledger, and of these the ones that moved money.
    pub requests: usize,
    /// See above.
    pub charges: usize,
    /// Requests that name the zombie's claim and came after it woke.
    pub zombie_requests: usize,
    /// The zombie's answer was kept off the row by the fence, as its attempt and the history say.
    pub fenced: bool,
    /// The zombie's claim ended the payment itself: its outcome was written before it froze.
    pub written: bool,
    /// Claims made by the worker that did not freeze.
    pub claims_of_the_other: usize,
    /// How the zombie ended once it had noticed.
    pub exit_code: i32,
    /// What the checker says of it all.
    pub audited: Audited,
}

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Lets it happen, in an installation of its own.
pub async fn haunt(haunting: Haunting) -> Haunted {
    let Haunting { place, declines, payee, leases } = haunting;
    let replays = if declines == Declines::Replayed { "true" } else { "false" };
    let kind = [("gateway.replays_declines", replays), ("sandbox.replays_declines", replays)];
    let settings: Vec<_> = SETTINGS.into_iter().chain(kind).collect();
    let mut site = Installation::new(&settings).await;
    for (role, name) in [("keeper", "keeper-1"), ("api", "api-1"), ("relay", "relay-1")] {
        site.start(role, name, &[]).await;
    }
    site.start_armed("worker", "worker-1", place).await;
    eventually("the worker that is to freeze has its partitions", seconds(60), || async {
        site.roles["worker-1"].log_text().contains("partitions assigned").then_some(())
    })
    .await;
    let id = site.create("haunted", payee, Utc::now() + TimeDelta::milliseconds(1_500)).await;
    eventually(&format!("it freezes at {place}"), seconds(40), || async {
        site.is_frozen("worker-1").then_some(())
    })
    .await;
    let frozen_at = Utc::now();
    let mut database = look(&site.database.url).await;
    let zombie = newest_claim(&mut database, &id).await;
    site.start("worker", "worker-2", &[]).await;
    let ends = ["COMPLETED", "FAILED", "PARKED"];
    site.settled(&id, &ends, seconds(90)).await;
    reached(frozen_at + LEASE * leases).await;
    let woken_at = Utc::now();
    site.role("worker-1").thaw();
    let exit_code = site.role("worker-1").ended(seconds(60)).await;
    let told = told(&mut database, &id, zombie).await;
    let ledger = site.ledger().await;
    let lines: Vec<_> = ledger.iter().filter(|line| line["paymentId"] == id.as_str()).collect();
    let late = lines.iter().filter(|line| {
        let at: DateTime<Utc> = line["at"].as_str().and_then(|at| at.parse().ok()).expect("an instant");
        line["claimId"] == zombie.to_string() && at >= woken_at
    });
    Haunted {
        end: told.end,
        requests: lines.len(),
        charges: lines.iter().filter(|line| line["charged"] == true).count(),
        zombie_requests: late.count(),
        fenced: told.fenced,
        written: told.written,
        claims_of_the_other: told.claims_of_the_other,
        exit_code,
        audited: audit(&site, None),
    }
}

async fn reached(at: DateTime<Utc>) {
    let bound = (at - Utc::now()).to_std().unwrap_or_default() + seconds(5);
    eventually("its leases are over", bound, || async { (Utc::now() >= at).then_some(()) }).await;
}

/// The claim under which the frozen worker stands.
async fn newest_claim(database: &mut PgConnection, id: &str) -> Uuid {
    sqlx::query_scalar("SELECT claim_id FROM attempts WHERE payment_id = $1 ORDER BY attempt DESC LIMIT 1")
        .bind(id.parse::<Uuid>().expect("a payment's id"))
        .fetch_one(database)
        .await
        .expect("it claimed before it froze")
}

struct Told {
    end: String,
    fenced: bool,
    written: bool,
    claims_of_the_other: usize,
}

async fn told(database: &mut PgConnection, id: &str, zombie: Uuid) -> Told {
    let (end, fenced, written, others): (String, bool, bool, i64) = sqlx::query_as(
        "SELECT trim(lower(p.status) || ' ' || coalesce(p.status_reason, '')),
                coalesce(t.fenced, false) AND EXISTS (SELECT 1 FROM payment_history h
                    WHERE h.payment_id = p.id AND h.cause = 'fenced'),
                t.settled_to IS NOT NULL AND NOT coalesce(t.fenced, false),
                (SELECT count(*) FROM attempts o WHERE o.payment_id = p.id AND o.worker LIKE 'worker-2/%')
         FROM payments p JOIN attempts t ON t.payment_id = p.id AND t.claim_id = $2
         WHERE p.id = $1",
    )
    .bind(id.parse::<Uuid>().expect("a payment's id"))
    .bind(zombie)
    .fetch_one(database)
    .await
    .expect("the payment and the zombie's attempt");
    Told { end, fenced, written, claims_of_the_other: usize::try_from(others).expect("a count") }
}

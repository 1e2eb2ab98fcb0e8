//! A day of the sandbox's chaos, reconciled: everything that the sandbox imitates, workers and a relay killed, and at
//! its end a gateway that charges and says nothing while the last workers die. What only the settlement report knows
//! is found there, repaired by its lines or closed by a person, and nothing stays unexplained.
//!
//! The day is today, so its report is not complete before midnight. The gateway is given a clock that is past it, and
//! its report is said to have been seen then; Postgres and everybody who charged keep the true one.

use crate::audited::audited;
use crate::figures::{Figures, Holds};
use crate::once::folder;
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::mixed::{Crew, EVERY_KIND, Plan, Ran, Trouble, run};
use crate::support::people::{Console, DECIDES};
use crate::support::records::{look, topics};
use crate::support::stub::{Ran as Told, client};
use chrono::{DateTime, Days, NaiveDate, TimeDelta, Utc};
use punctual::domain::ids::{GatewayName, Operator};
use punctual::gateway::{HttpGateway, Settlements};
use punctual::platform::clock::Host;
use punctual::platform::config;
use punctual::reconcile::{Order, Reconciled, Terms, reconcile};
use punctual::schedule::{Access, Postgres, Purpose, Shorter, Withdrawn};
use serde_json::{Value, json};
use sqlx::PgConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Payments whose charge nobody here ever hears of.
const UNHEARD: usize = 40;
/// How long one of the steps may take.
const SOON: Duration = Duration::from_secs(60);
/// Why a person closes what no line can repair.
const REASON: &str = "charged otherwise than asked; to be given back";

/// Runs the day and explains it.
pub async fn a_day_of_chaos_is_explained_to_the_last_payment(figures: &mut Figures) {
    let plan = Plan {
        seed: 8,
        kinds: EVERY_KIND,
        times: 4,
        cancels: 40,
        over: Duration::from_secs(60),
        crew: Crew { apis: 2, relays: 2, workers: 2, publishers: 1 },
        troubles: vec![
            (Duration::from_secs(8), Trouble::WorkerKilled),
            (Duration::from_secs(25), Trouble::RelayKilled),
            (Duration::from_secs(40), Trouble::WorkerKilled),
        ],
    };
    figures.part(
        "A day of chaos: 400 payments of every kind, 40 cancels, three kills, 40 charges never heard of",
    );
    let began = Utc::now();
    let settings = [("gateway.settlement_url", "settlement"), ("reconcile.repair", "automatic")];
    let mut ran = run(&plan, &settings, None).await;
    let mut database = look(&ran.site.database.url).await;
    unheard(&mut ran.site, &mut database).await;
    met(figures, &ran, &mut database).await;

    let seen_at = past_midnight(&mut ran.site).await;
    let days = days_between(began, Utc::now());
    let bench = Bench::of(&ran.site, seen_at).await;
    for day in &days {
        let first = bench.reconciled(*day).await;
        println!("  {day}: {:?}, found {:?}", first.repairs, first.compared.counts);
        let complete = first.compared.is_complete;
        figures.holds("the day's report is complete, and compared", complete, "true", Holds(complete));
    }
    by_people(figures, &ran.site, &mut database).await;
    for day in &days {
        let last = bench.reconciled(*day).await;
        let left = (last.compared.open, last.compared.waiting, last.repairs.completed + last.repairs.parked);
        figures.holds(
            "once more: open, waiting, repaired",
            format!("{left:?}"),
            "(0, 0, 0)",
            Holds(left == (0, 0, 0)),
        );
    }
    let left =
        items(&mut database).await.into_iter().filter(|it| it.status == "open" || it.status == "waiting");
    let left: Vec<String> = left.map(|it| format!("{it:?}")).collect();
    let charged = charges(&ran.site).await;
    figures.violations("charges of the gateway: unexplained", charged.len(), left.len(), &left);
    agree(figures, &mut database, &charged).await;
    published(&ran.site, &mut database).await;
    let kept = folder("chaosday");
    audited(figures, &ran, &kept, &["lease_expiries", "re_asks", "look_ups", "cancels_granted", "events"]);
}

/// Payments that the gateway charges without a word, under workers that die meanwhile and do not come back.
async fn unheard(site: &mut Installation, database: &mut PgConnection) {
    let sandbox = site.url("sandbox-1").to_owned();
    let before = charges(site).await.len();
    let switch = |body: Value| {
        site.http.put(format!("{sandbox}/outage")).bearer_auth("sandbox-secret").body(body.to_string())
    };
    let answer = switch(json!({"kind": "silent_charged"})).send().await.expect("the sandbox answers");
    assert_eq!(answer.status().as_u16(), 200);
    let due_at = Utc::now() + TimeDelta::seconds(4);
    for number in 0..UNHEARD {
        site.create(&format!("unheard-{number}"), "sim_ok", due_at).await;
    }
    eventually("the gateway has charged them all", SOON, || async {
        (charges(site).await.len() >= before + UNHEARD).then_some(())
    })
    .await;
    for worker in ["worker-1", "worker-2"] {
        site.role(worker).kill();
    }
    let gone = site.http.delete(format!("{sandbox}/outage")).bearer_auth("sandbox-secret").send().await;
    assert_eq!(gone.expect("the sandbox answers").status().as_u16(), 200);
    let database = tokio::sync::Mutex::new(database);
    eventually("nobody holds a claim any more", SOON, || async {
        let held: i64 = sqlx::query_scalar("SELECT count(*) FROM payments WHERE status = 'PROCESSING'")
            .fetch_one(&mut **database.lock().await)
            .await
            .expect("a count");
        (held == 0).then_some(())
    })
    .await;
}

/// What there is to explain: a run in which nothing was unclear shows nothing.
async fn met(figures: &mut Figures, ran: &Ran, database: &mut PgConnection) {
    let counts: Vec<(String, i64)> =
        sqlx::query_as("SELECT status, count(*) FROM payments GROUP BY 1 ORDER BY 1")
            .fetch_all(database)
            .await
            .expect("counts");
    println!("  {counts:?}, {} killed", ran.troubles.len());
    for status in ["UNKNOWN", "PARKED", "COMPLETED", "CANCELLED", "FAILED"] {
        let count = counts.iter().find(|(of, _)| of == status).map_or(0, |(_, count)| *count);
        figures.met(&format!("{status} before the report"), usize::try_from(count).expect("few"));
    }
}

/// Gives the gateway a clock that is past the day's end; when that is.
async fn past_midnight(site: &mut Installation) -> DateTime<Utc> {
    let midnight = Utc::now().date_naive().checked_add_days(Days::new(1)).expect("a day");
    let midnight = midnight.and_hms_opt(0, 0, 0).expect("midnight").and_utc();
    let shift_s = (midnight - Utc::now()).num_seconds() + 600;
    site.role("sandbox-1").kill();
    site.start_shifted("sandbox", "sandbox-1", shift_s).await;
    midnight + TimeDelta::minutes(10)
}

fn days_between(from: DateTime<Utc>, to: DateTime<Utc>) -> Vec<NaiveDate> {
    from.date_naive().iter_days().take_while(|day| *day <= to.date_naive()).collect()
}

/// Whoever reconciles: the product's own code, told that it is later than it is.
struct Bench {
    schedule: Postgres,
    gateway: HttpGateway,
    seen_at: DateTime<Utc>,
}

impl Bench {
    async fn of(site: &Installation, seen_at: DateTime<Utc>) -> Self {
        let database =
            config::Database { url: site.database.url.as_str().into(), ..config::Database::default() };
        let schedule =
            punctual::schedule::connect(&database, Access::Worker).await.expect("a worker connects");
        let settings = config::Gateway {
            url: site.url("sandbox-1").to_owned(),
            settlement_url: "settlement".to_owned(),
            ..config::Gateway::default()
        };
        let gateway = punctual::gateway::connect(&settings, Arc::new(Host)).expect("legal settings");
        Self { schedule, gateway, seen_at }
    }

    async fn reconciled(&self, day: NaiveDate) -> Reconciled {
        let report = self.gateway.settlement(day).await.expect("a report");
        let order = Order {
            id: uuid::Uuid::new_v8(rand::random()),
            gateway: GatewayName("sandbox".to_owned()),
            day,
            format: self.gateway.settlement_format().expect("a format").parse().expect("a known one"),
            file: report.into_reader().into_inner(),
            source: None,
            asked_by: Operator("key:night-shift".to_owned()),
            seen_at: self.seen_at,
            if_shorter: Shorter::Refuse,
            if_withdrawn: Withdrawn::Refuse,
            purpose: Purpose::Count,
        };
        let terms = Terms::read(2, "automatic").expect("a word of the setting");
        reconcile(&self.schedule, &order, terms).await.expect("reconciled")
    }
}

/// One difference, as it stands.
#[expect(dead_code, reason = "printed where something is wrong")]
#[derive(Debug, Clone, sqlx::FromRow)]
struct Item {
    number: i64,
    class: String,
    field: String,
    status: String,
    payment_id: Option<uuid::Uuid>,
    not_repaired: Option<String>,
}

async fn items(database: &mut PgConnection) -> Vec<Item> {
    sqlx::query_as(
        "SELECT number, class, field, status, payment_id, not_repaired FROM reconciliation_items ORDER BY number",
    )
    .fetch_all(database)
    .await
    .expect("items")
}

/// What no line repairs by itself: a person tries, and closes with a reason what cannot be repaired at all. That
/// must be charges of something else than was asked for, and nothing else.
async fn by_people(figures: &mut Figures, site: &Installation, database: &mut PgConnection) {
    let found = items(database).await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    found.iter().for_each(|it| *counts.entry(format!("{} {}", it.class, it.status)).or_default() += 1);
    println!("  {counts:?}");
    let repaired = found.iter().filter(|it| it.class == "missing_here" && it.status == "repaired").count();
    figures.holds(
        "charges that only the report told of: repaired by its lines",
        repaired,
        &format!("at least {UNHEARD}"),
        Holds(repaired >= UNHEARD),
    );
    let open: Vec<&Item> = found.iter().filter(|it| it.status == "open" || it.status == "waiting").collect();
    let otherwise: BTreeSet<uuid::Uuid> =
        sqlx::query_scalar("SELECT g.payment_id FROM gateway_refs g WHERE g.amount_minor IS NOT NULL")
            .fetch_all(&mut *database)
            .await
            .expect("ids")
            .into_iter()
            .collect();
    let others: Vec<String> = open
        .iter()
        .filter(|it| it.payment_id.is_none_or(|id| !otherwise.contains(&id)))
        .map(|it| format!("{it:?}"))
        .collect();
    figures.violations(
        "left for people: charged otherwise than asked, or not",
        open.len(),
        others.len(),
        &others,
    );
    let ann = Console::of(site, "ann", &DECIDES, "api-1");
    for item in open {
        let number = item.number.to_string();
        let mended =
            by_person(site, &ann, &["reconcile", "repair", &number, "--reason", REASON, "--yes"]).await;
        let is_open: String = sqlx::query_scalar("SELECT status FROM reconciliation_items WHERE number = $1")
            .bind(item.number)
            .fetch_one(&mut *database)
            .await
            .expect("a status");
        if is_open == "repaired" {
            continue;
        }
        let closed =
            by_person(site, &ann, &["reconcile", "dismiss", &number, "--reason", REASON, "--yes"]).await;
        if closed.code != Some(0) {
            println!(
                "      {item:?}: {:?} {}, then {:?} {}",
                mended.code,
                mended.err.trim(),
                closed.code,
                closed.err.trim()
            );
        }
    }
}

async fn by_person(site: &Installation, person: &Console, arguments: &[&str]) -> Told {
    let mut command = client(site.url("api-1"));
    command.env("PUNCTUAL_API_KEY", person.key()).args(arguments);
    command.output().await.expect("the binary runs").into()
}

/// The payments that the gateway charged, each as often as it did.
async fn charges(site: &Installation) -> Vec<uuid::Uuid> {
    let ledger = site.ledger().await;
    let charged = ledger.iter().filter(|line| line["charged"] == true);
    charged.map(|line| line["paymentId"].as_str().expect("an id").parse().expect("a UUID")).collect()
}

/// The gateway's ledger and ours, payment by payment: whoever is charged is COMPLETED, but for those that a person
/// closed, and nobody else is.
async fn agree(figures: &mut Figures, database: &mut PgConnection, charged: &[uuid::Uuid]) {
    let once: BTreeSet<uuid::Uuid> = charged.iter().copied().collect();
    figures.violations("payments charged more than once", once.len(), charged.len() - once.len(), &[]);
    let ours: Vec<(uuid::Uuid, String, bool)> = sqlx::query_as(
        "SELECT p.id, p.status, EXISTS (SELECT FROM reconciliation_items i
                                        WHERE i.payment_id = p.id AND i.status = 'dismissed') FROM payments p",
    )
    .fetch_all(database)
    .await
    .expect("payments");
    let broken: Vec<String> = ours
        .iter()
        .filter(|(id, status, is_closed)| !is_closed && once.contains(id) != (status == "COMPLETED"))
        .map(|it| format!("{it:?}"))
        .collect();
    figures.violations(
        "COMPLETED exactly if charged, or closed by a person",
        ours.len(),
        broken.len(),
        &broken,
    );
}

/// Waits until what the repairs wrote has been published too.
async fn published(site: &Installation, database: &mut PgConnection) {
    let ids: Vec<uuid::Uuid> =
        sqlx::query_scalar("SELECT id FROM payments").fetch_all(&mut *database).await.expect("ids");
    let ours = ids.iter().filter_map(|id| punctual::domain::ids::PaymentId::from_uuid(*id).ok()).collect();
    let rows: i64 = sqlx::query_scalar("SELECT sum(history_seq)::bigint FROM payments")
        .fetch_one(database)
        .await
        .expect("a sum");
    topics(site, ours, usize::try_from(rows).expect("a count")).await;
}

//! The midnight of the 1st, as far as the relay sees it: 20,000 payments due within one minute, behind light
//! traffic, lie in their bucket well before the usual lead would have begun to bring them.

use crate::figures::{Figures, Holds};
use crate::support::eventually;
use crate::support::installation::Installation;
use chrono::{DateTime, TimeDelta, Utc};
use punctual::bucket::survey::{self, Part, Peeked};
use punctual::domain::bucket::{Channel, Slot, minute_start};
use punctual::domain::ids::{ActorId, GatewayName, PaymentId};
use punctual::domain::intent::intent;
use punctual::domain::money::{Currency, Minor, Money};
use punctual::domain::payment::RetryPolicy;
use punctual::platform::config;
use punctual::schedule::{Access, CreateAnswer, NewPayment, Postgres, connect};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const CROWD: usize = 20_000;
/// In each of the two minutes before: too few to be published early, enough to stand in the way of a look
/// that reads in due order.
const BEFORE: usize = 300;
const LEAD_S: i64 = 90;
const BATCH: usize = 1_000;
const PARTITIONS: usize = 2;
/// What lies before its instant, by so long, was not brought by the usual lead.
const AHEAD_S: i64 = LEAD_S + 15;
const ACTOR: ActorId = ActorId(uuid::Uuid::from_u128(0xA1));

/// All of it.
pub async fn a_crowded_minute_is_staged_before_its_instant(figures: &mut Figures) {
    figures.part(&format!(
        "A spike: {CROWD} payments due in one minute, {BEFORE} in each of the two before; usual lead {LEAD_S} s"
    ));
    let prefix = format!("spike-{}.payments.", std::process::id());
    let lead = format!("{LEAD_S}s");
    let own = [("kafka.topic_prefix", prefix.as_str()), ("relay.lead", &lead), ("relay.guard", "15s")];
    let mut site = Installation::new(&own).await;
    let schedule = api(&site).await;
    // Three to four minutes from now.
    let minute = minute_start(Utc::now()) + TimeDelta::minutes(4);
    let began = Instant::now();
    let crowd = (0..CROWD).map(|n| (n, minute + TimeDelta::milliseconds(i64::try_from(n * 3).unwrap_or(0))));
    let before = (0..2 * BEFORE).map(|n| {
        let back = TimeDelta::minutes(1 + i64::try_from(n % 2).unwrap_or(0));
        (CROWD + n, minute - back + TimeDelta::milliseconds(i64::try_from(n * 50).unwrap_or(0)))
    });
    create(&schedule, crowd.chain(before).collect()).await;
    let created_s = began.elapsed().as_secs_f64();
    figures.holds("created", format!("{CROWD} in {created_s:.1} s"), "all", Holds(true));

    let relay_began = Instant::now();
    site.start("relay", "relay-1", &[]).await;
    let kafka = kafka(&site);
    let bucket = Channel::Ring(Slot::of(minute));
    // What does not fill a batch is left for the usual lead, in each partition.
    let early = i64::try_from(CROWD - PARTITIONS * BATCH).unwrap_or(0);
    let staged = eventually("the crowd is staged", Duration::from_secs(60), || async {
        let staged = staged_in(&kafka, bucket).await;
        (staged >= early).then_some(staged)
    })
    .await;
    let (took, left) = (relay_began.elapsed(), minute - Utc::now());
    let shown = format!("{staged} of {CROWD}, {} s before its instant", left.num_seconds());
    figures.holds(
        "staged by a look ahead",
        shown,
        &format!(">= {early}, >= {AHEAD_S} s before"),
        Holds(left >= TimeDelta::seconds(AHEAD_S)),
    );
    let rate = staged * 1_000 / i64::try_from(took.as_millis()).unwrap_or(i64::MAX).max(1);
    figures.holds(
        "rate, from the relay's start",
        format!("{rate} notices/s"),
        ">= 1000/s",
        Holds(rate >= 1_000),
    );
    let (name, quarter) = ("what a quarter of an hour takes at that rate", rate * 900);
    let bound = i64::try_from(45 * CROWD).unwrap_or(i64::MAX);
    figures.holds(name, format!("{quarter} notices"), ">= 45 times the crowd", Holds(quarter >= bound));
    peeked(figures, &site, minute);
    all_of_it(figures, &kafka, bucket, minute).await;
    site.roles.clear();
    erase(&kafka).await;
}

async fn api(site: &Installation) -> Postgres {
    let url = site.setting("database.url").into();
    let settings = config::Database { url, pool: 8, partition_days_ahead: 10, ..Default::default() };
    connect(&settings, Access::Api).await.expect("the API connects")
}

fn kafka(site: &Installation) -> config::Kafka {
    config::Kafka {
        bootstrap_servers: site.kafka().to_owned(),
        topic_prefix: site.setting("kafka.topic_prefix").to_owned(),
        group: site.setting("kafka.group").to_owned(),
        partitions: 2,
        replication: 1,
        min_insync_replicas: 1,
        ..config::Kafka::default()
    }
}

/// Creates them all as the API does, eight at a time.
async fn create(schedule: &Postgres, payments: Vec<(usize, DateTime<Utc>)>) {
    let mut tasks = tokio::task::JoinSet::new();
    for part in payments.chunks(payments.len().div_ceil(8)) {
        let (schedule, part) = (schedule.clone(), part.to_vec());
        tasks.spawn(async move {
            for (number, due_at) in part {
                let new = new_payment(schedule.installation_secret(), number, due_at);
                let made = schedule.create(&new).await.expect("created");
                assert!(matches!(made, CreateAnswer::Created(_)), "{made:?}");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
}

fn new_payment(secret: &[u8; 32], number: usize, due_at: DateTime<Utc>) -> NewPayment {
    let key = format!("salary-{number}");
    NewPayment {
        id: PaymentId::new(due_at, intent(secret, ACTOR, &key)).expect("in range"),
        actor: ACTOR,
        idempotency_key: key,
        request_hash: [7; 32],
        field_digests: BTreeMap::new(),
        payee: "sim_ok".to_owned().into(),
        amount: Money {
            minor: Minor::new(1_250).expect("positive"),
            currency: Currency::from_code("EUR").expect("in the table"),
        },
        due_at,
        execute_before: None,
        execute_within: None,
        gateway: GatewayName("sandbox".into()),
        external_id: None,
        description: None,
        metadata: BTreeMap::new(),
        retry: RetryPolicy::default(),
        lane: 7,
        traceparent: None,
    }
}

async fn staged_in(kafka: &config::Kafka, bucket: Channel) -> i64 {
    let (kafka, now) = (kafka.clone(), Utc::now());
    let surveyed = tokio::task::spawn_blocking(move || survey::survey(&kafka, now)).await;
    let surveyed = surveyed.expect("no panic").expect("Kafka answers");
    let of_bucket = surveyed.into_iter().filter(|(channel, _)| *channel == bucket);
    of_bucket.flat_map(|(_, parts)| parts).map(|part: Part| part.staged()).sum()
}

/// What an operator sees of it, by the command.
fn peeked(figures: &mut Figures, site: &Installation, minute: DateTime<Utc>) {
    let arguments = ["bucket", "peek", &minute.format("%M").to_string(), "--limit", "200", "-o", "json"];
    let began = Instant::now();
    let records: Vec<Value> = serde_json::from_str(&site.run(&arguments)).expect("JSON");
    let sound = |record: &&Value| {
        record["seal"] == "authentic"
            && record["payment"]["status"] == "PENDING"
            && record["isComplete"] == false
    };
    let sound = records.iter().filter(sound).count();
    let shown = format!("{sound} of {} in {:.1} s", records.len(), began.elapsed().as_secs_f64());
    let name = "bucket peek: authentic, PENDING by the database, open";
    figures.holds(name, shown, "200 of 200", Holds(sound == 200 && records.len() == 200));
    let forecast: Value = serde_json::from_str(&site.run(&["forecast", "-o", "json"])).expect("JSON");
    let due: i64 = forecast["gateways"][0]["minutes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|it| it["from"].as_str().and_then(|text| text.parse::<DateTime<Utc>>().ok()) == Some(minute))
        .filter_map(|it| it["due"].as_i64())
        .sum();
    let wanted = i64::try_from(CROWD).unwrap_or(0);
    figures.holds("forecast: due in that minute", due, &wanted.to_string(), Holds(due == wanted));
}

/// Once the usual lead has taken what was left: everything, once, in order, and nothing beside the bucket.
async fn all_of_it(figures: &mut Figures, kafka: &config::Kafka, bucket: Channel, minute: DateTime<Utc>) {
    let all = i64::try_from(CROWD).unwrap_or(0);
    let until_due = (minute - Utc::now()).to_std().unwrap_or_default();
    let name = "the rest of the crowd is staged before its instant";
    eventually(name, until_due, || async { (staged_in(kafka, bucket).await >= all).then_some(()) }).await;
    let left = (minute - Utc::now()).num_seconds();
    figures.holds("all staged", format!("{left} s before its instant"), ">= 0 s", Holds(left >= 0));
    let read = kafka.clone();
    let records = tokio::task::spawn_blocking(move || survey::peek(&read, bucket, 2 * CROWD)).await;
    let records: Vec<Peeked> = records.expect("no panic").expect("Kafka answers");
    let mut seen = BTreeSet::new();
    let mut last: BTreeMap<i32, (i64, DateTime<Utc>)> = BTreeMap::new();
    let (mut twice, mut out_of_order) = (0, 0);
    let mut in_place: Vec<&Peeked> = records.iter().collect();
    in_place.sort_by_key(|record| (record.partition, record.offset));
    for record in in_place {
        let notice = &record.read.as_ref().expect("a notice").notice;
        twice += usize::from(!seen.insert(notice.payment));
        let before = last.insert(record.partition, (record.offset, notice.not_before));
        out_of_order += usize::from(before.is_some_and(|(_, at)| at > notice.not_before));
    }
    figures.holds("payments in the bucket", seen.len(), &CROWD.to_string(), Holds(seen.len() == CROWD));
    figures.violations("published twice", records.len(), twice, &[]);
    figures.violations("out of due order in their partition", records.len(), out_of_order, &[]);
}

async fn erase(kafka: &config::Kafka) {
    use rdkafka::admin::{AdminClient, AdminOptions};
    use rdkafka::client::DefaultClientContext;
    let admin: AdminClient<DefaultClientContext> = rdkafka::config::ClientConfig::new()
        .set("bootstrap.servers", &kafka.bootstrap_servers)
        .create()
        .expect("settings");
    let topics = punctual::bucket::topics::declared(kafka).expect("declared");
    let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
    let _deleted = admin.delete_topics(&names, &AdminOptions::new()).await;
}

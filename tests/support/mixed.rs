//! The mixed run: payments of every kind of luck, due close together, some of them cancelled at their
//! due instant, on a whole installation whose processes are frozen and killed in the middle.
//!
//! What is asked for is decided by the seed alone; what the faults hit is not, and is therefore
//! looked up afterwards: a fault that hit nothing proved nothing. Waits are for conditions, with a
//! bound that fails.

use super::eventually;
use super::installation::{Client, Installation};
use super::records::{config, look, read, topics};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use futures_util::StreamExt;
use punctual::audit::{Asked, Op, Operation, Records, Rules};
use punctual::dev::kafka::Broker;
use punctual::domain::ids::PaymentId;
use punctual::domain::state::Status;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use sqlx::PgConnection;
use std::time::Duration;
use uuid::Uuid;

/// Destination references and how many of every sixty payments have them.
pub const FEW_KINDS: &[(&str, usize)] = &[
    ("sim_ok", 34),
    ("sim_slow_1200", 6),
    ("sim_decline_insufficient_funds|sim_ok", 3),
    ("sim_decline_insufficient_funds", 2),
    ("sim_decline_stolen_card", 3),
    ("sim_429_2", 3),
    ("sim_500_charged", 3),
    ("sim_timeout_charged", 2),
    ("sim_timeout_not_charged", 2),
    ("sim_reset_after_write", 2),
];

/// Everything that the sandbox can imitate, and how many of every hundred payments have it.
pub const EVERY_KIND: &[(&str, usize)] = &[
    ("sim_ok", 52),
    ("sim_slow_1200", 8),
    ("sim_decline_insufficient_funds|sim_ok", 3),
    ("sim_decline_insufficient_funds", 2),
    ("sim_decline_stolen_card", 3),
    ("sim_decline_do_not_honor", 2),
    ("sim_429_2|sim_ok", 3),
    ("sim_in_use_2", 2),
    ("sim_500_charged", 3),
    ("sim_500_sticky", 1),
    ("sim_timeout_charged", 3),
    ("sim_timeout_not_charged|sim_ok", 3),
    ("sim_reset_after_write", 3),
    ("sim_pending_2_ok", 3),
    ("sim_pending_2_fail", 2),
    ("sim_lookup_lag_2", 2),
    ("sim_lookup_404_charged", 2),
    ("sim_wrong_amount", 1),
    ("sim_wrong_currency", 1),
    ("sim_garbage", 1),
];

/// Short times: what takes hours in production is over within the run.
pub const SETTINGS: &[(&str, &str)] = &[
    ("gateway.total_timeout", "2s"),
    ("gateway.connect_timeout", "1s"),
    ("gateway.not_found_horizon", "3s"),
    ("worker.lease", "8s"),
    ("worker.margin", "2s"),
    ("kafka.session_timeout", "6s"),
    ("relay.shard_lease", "4s"),
    ("ladder.retry", "1s,2s,2s,3s,3s"),
    ("ladder.reask", "1s,2s,4s,8s"),
    ("ladder.held_back", "1s,2s,4s"),
];

/// How long a killed process stays away.
const AWAY: Duration = Duration::from_secs(3);
/// And a killed broker.
const BROKER_AWAY: Duration = Duration::from_secs(10);

/// How many processes of each role.
#[derive(Debug, Clone, Copy)]
pub struct Crew {
    /// `api-1`, …; requests go to each in turn.
    pub apis: usize,
    /// `relay-1`, …
    pub relays: usize,
    /// `worker-1`, …
    pub workers: usize,
    /// `publisher-1`, …
    pub publishers: usize,
}

/// What is done to a process while payments are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Stopped in a call until the reaper has taken its claim away, then thawed; ends by itself and is
    /// started anew.
    WorkerFrozen,
    /// SIGKILL in a call; stays away.
    WorkerLost,
    /// SIGKILL in a call; started anew after 3 s.
    WorkerKilled,
    /// SIGKILL of the first relay; started anew after 3 s.
    RelayKilled,
    /// SIGKILL of the broker; started anew after 10 s. Needs a broker of the run's own.
    BrokerKilled,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Decides kinds, amounts, currencies and due instants.
    pub seed: u64,
    /// Kinds and how many of each.
    pub kinds: &'static [(&'static str, usize)],
    /// Times the counts of `kinds`.
    pub times: usize,
    /// So many more that are cancelled within 300 ms around their due instant.
    pub cancels: usize,
    /// All are due within this.
    pub over: Duration,
    /// Who takes part, beside one keeper.
    pub crew: Crew,
    /// What is done how long after the first due instant; one at a time.
    pub troubles: Vec<(Duration, Trouble)>,
}

/// One trouble as it came about.
#[derive(Debug, Clone)]
pub struct Happened {
    /// What was done.
    pub trouble: Trouble,
    /// Slot and incarnation of a worker, else the process's name.
    pub whom: String,
    /// From.
    pub from: DateTime<Utc>,
    /// Until it was thawed or started anew.
    pub until: DateTime<Utc>,
}

/// What happened, beside what was recorded.
#[derive(Debug)]
pub struct Ran {
    /// Still running.
    pub site: Installation,
    /// What was recorded, at the end.
    pub records: Records,
    /// What the installation ran with.
    pub rules: Rules,
    /// In the order of the plan.
    pub troubles: Vec<Happened>,
    /// Neither final nor parked at the end; each waits for an instant of its ladder.
    pub waiting: usize,
}

impl Ran {
    /// Claims that killed workers left without an outcome.
    pub fn open_at_kill(&self) -> usize {
        let killed = |name: &String| {
            self.troubles.iter().any(|it| {
                matches!(it.trouble, Trouble::WorkerLost | Trouble::WorkerKilled) && it.whom == *name
            })
        };
        let open = |a: &&punctual::schedule::audit::AttemptRow| killed(&a.worker) && a.settled_at.is_none();
        self.records.attempts.iter().filter(open).count()
    }

    /// Payments first claimed more than two seconds late that were due after something was killed:
    /// what it held had to be taken over.
    pub fn taken_over(&self) -> usize {
        let kill = self.troubles.iter().find(|it| it.trouble != Trouble::WorkerFrozen);
        let late = |(due, late): &(DateTime<Utc>, TimeDelta)| {
            kill.is_some_and(|kill| *due > kill.from) && *late > TimeDelta::seconds(2)
        };
        lateness(&self.records).filter(late).count()
    }
}

/// A payment that is asked for.
#[derive(Debug, Clone)]
struct Wanted {
    number: usize,
    asked: Asked,
}

/// Payments as the seed says; due instants count from `first`. Those to be cancelled come last.
fn drawn(plan: &Plan, first: DateTime<Utc>) -> Vec<Wanted> {
    let mut dice = StdRng::seed_from_u64(plan.seed);
    let mut kinds: Vec<&str> =
        plan.kinds.iter().flat_map(|(kind, count)| vec![*kind; count * plan.times]).collect();
    kinds.shuffle(&mut dice);
    kinds.extend(vec!["sim_ok"; plan.cancels]);
    let over = u64::try_from(plan.over.as_micros()).expect("a short run");
    let one = |(number, kind): (usize, &str)| {
        let amount = dice.random_range(1..=99_999);
        let currency = ["EUR", "USD", "JPY", "KWD"][dice.random_range(0..4)].to_owned();
        let due_us = i64::try_from(dice.random_range(0..over)).expect("short");
        let due_at = first + TimeDelta::microseconds(due_us);
        Wanted { number, asked: Asked { payee: kind.to_owned(), amount, currency, due_at } }
    };
    kinds.into_iter().enumerate().map(one).collect()
}

/// Both clients by their actors' names.
const OWNER: &str = "tester";
const STRANGER: &str = "stranger";

/// Does one thing and writes it down as the log of operations wants it.
async fn logged(
    op: Op,
    actor: &str,
    id: Option<PaymentId>,
    call: impl Future<Output = reqwest::Result<(u16, Value)>>,
) -> Operation {
    let at = Utc::now();
    let answer = call.await.ok();
    let body = answer.as_ref().map(|(_, body)| body);
    let named = body.and_then(|body| body["paymentId"].as_str()?.parse().ok());
    let state = body.and_then(|body| Status::from_text(body["status"].as_str()?));
    Operation {
        op,
        actor: Some(actor.to_owned()),
        key: None,
        at,
        answered_at: answer.as_ref().map(|_| Utc::now()),
        status: answer.as_ref().map(|(status, _)| *status),
        payment_id: id.or(named),
        asked: None,
        state: state.filter(|_| op == Op::Read),
    }
}

/// Creates them all; every twentieth twice under its key.
async fn create(client: &Client, drawn: &[Wanted]) -> Vec<Operation> {
    let again = drawn.iter().step_by(20);
    let posts = drawn.iter().chain(again).map(|Wanted { number, asked }| async move {
        let due_at = asked.due_at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
        let body = json!({"payee": asked.payee, "amount": asked.amount, "currency": asked.currency,
                          "dueAt": due_at});
        let key = format!("mixed-{number}");
        let mut create = logged(Op::Create, OWNER, None, client.post(*number, &key, &body)).await;
        assert!(create.status == Some(201) && create.payment_id.is_some(), "{create:?}");
        (create.key, create.asked) = (Some(key), Some(asked.clone()));
        create
    });
    futures_util::stream::iter(posts).buffered(8).collect().await
}

/// Cancels each of these at an instant within 300 ms around its due instant, at one API after the other.
async fn cancel(client: &Client, doomed: &[Operation]) -> Vec<Operation> {
    let count = i64::try_from(doomed.len().max(1)).expect("few");
    let cancels = (0..).zip(doomed).map(|(number, create)| async move {
        let id = create.payment_id.expect("an id");
        let due_at = create.asked.as_ref().expect("asked").due_at;
        let at = due_at + TimeDelta::milliseconds(number * 600 / count - 300);
        // Not a wait for a condition: the instant is the test.
        tokio::time::sleep((at - Utc::now()).to_std().unwrap_or_default()).await;
        let turn = usize::try_from(number).expect("few");
        let id_text = id.to_string();
        let cancel = logged(Op::Cancel, OWNER, Some(id), client.cancel(turn, &id_text)).await;
        assert!(matches!(cancel.status, None | Some(200 | 409)), "{cancel:?}");
        cancel
    });
    futures_util::future::join_all(cancels).await
}

/// Reads every tenth payment twice as its owner, and once as somebody else.
async fn read_some(owner: &Client, stranger: &Client, created: &[Operation]) -> Vec<Operation> {
    let reads = created.iter().step_by(10).map(|create| async move {
        let id = create.payment_id.expect("an id");
        let text = id.to_string();
        let first = logged(Op::Read, OWNER, Some(id), owner.get(0, &text)).await;
        let second = logged(Op::Read, OWNER, Some(id), owner.get(1, &text)).await;
        [first, second, logged(Op::Read, STRANGER, Some(id), stranger.get(0, &text)).await]
    });
    let reads: Vec<_> = futures_util::stream::iter(reads).buffered(4).collect().await;
    reads.into_iter().flatten().collect()
}

/// Runs it all and reads everything that was recorded. `broker` is the run's own, where the plan kills it.
///
/// # Panics
/// Where a step of the run itself cannot be made; broken promises are for the checker.
pub async fn run(plan: &Plan, settings: &[(&str, &str)], broker: Option<&mut Broker>) -> Ran {
    let settings: Vec<_> = SETTINGS.iter().chain(settings).copied().collect();
    let mut site = Installation::new(&settings).await;
    site.start("keeper", "keeper-1", &[]).await;
    let crew = plan.crew;
    for (role, count) in
        [("api", crew.apis), ("relay", crew.relays), ("worker", crew.workers), ("publisher", crew.publishers)]
    {
        for number in 1..=count {
            site.start(role, &format!("{role}-{number}"), &[]).await;
        }
    }
    let client = site.client();
    let count = plan.times * plan.kinds.iter().map(|(_, count)| count).sum::<usize>() + plan.cancels;
    // Creation goes at 40 a second where the machine is slow.
    let ahead = TimeDelta::seconds(i64::try_from(10 + count / 40).expect("small"));
    let first = Utc::now().trunc_subsecs(0) + ahead;
    let stranger = client.with_key(&site.new_api_key(STRANGER));
    let mut operations = create(&client, &drawn(plan, first)).await;
    assert!(Utc::now() < first, "creating took longer than planned");
    let created = operations[..count].to_vec();
    operations.extend(read_some(&client, &stranger, &created).await);
    let doomed = &created[count - plan.cancels..];
    let mut database = look(&site.database.url).await;
    let troubled = trouble_all(&mut site, &mut database, plan, first, &created, broker);
    let (troubles, cancelled) = futures_util::future::join(troubled, cancel(&client, doomed)).await;
    operations.extend(cancelled);
    let last = first + TimeDelta::from_std(plan.over).expect("short");
    reached(last, Duration::ZERO).await;
    let waiting = rest(&mut database, Duration::from_secs(90)).await;
    operations.extend(read_some(&client, &stranger, &created).await);
    let rules = Rules::of(&config(settings), Duration::from_secs(60));
    let ledger = site.ledger().await;
    let ours = created.iter().filter_map(|create| create.payment_id).collect();
    let dump = if crew.publishers > 0 {
        let rows: i64 = sqlx::query_scalar("SELECT sum(history_seq)::bigint FROM payments")
            .fetch_one(&mut database)
            .await
            .expect("a sum");
        Some(topics(&site, ours, usize::try_from(rows).expect("a count")).await)
    } else {
        None
    };
    let records = read(&site.database, &ledger, operations, dump).await;
    Ran { site, records, rules, troubles, waiting }
}

/// Everything that the plan wants, one after the other.
async fn trouble_all(
    site: &mut Installation,
    database: &mut PgConnection,
    plan: &Plan,
    first: DateTime<Utc>,
    created: &[Operation],
    mut broker: Option<&mut Broker>,
) -> Vec<Happened> {
    let takes_long = |create: &&Operation| {
        let payee = create.asked.as_ref().map_or("", |asked| &asked.payee);
        payee.starts_with("sim_slow") || payee.starts_with("sim_timeout")
    };
    let long: Vec<Uuid> = created
        .iter()
        .filter(takes_long)
        .filter_map(|create| create.payment_id.map(PaymentId::as_uuid))
        .collect();
    let mut happened = Vec::new();
    for (after, trouble) in &plan.troubles {
        reached(first, *after).await;
        happened.push(match trouble {
            Trouble::WorkerFrozen => freeze(site, database, &long).await,
            Trouble::WorkerLost => {
                let (_, whom) = in_a_call(database, &long).await;
                kill(site, "worker", *trouble, slot(&whom), &whom, None).await
            }
            Trouble::WorkerKilled => {
                let (_, whom) = in_a_call(database, &long).await;
                kill(site, "worker", *trouble, slot(&whom), &whom, Some(AWAY)).await
            }
            Trouble::RelayKilled => kill(site, "relay", *trouble, "relay-1", "relay-1", Some(AWAY)).await,
            Trouble::BrokerKilled => {
                let broker = broker.as_deref_mut().expect("this plan needs a broker of its own");
                let from = Utc::now();
                broker.kill();
                reached(from, BROKER_AWAY).await;
                broker.restart().await.expect("the broker comes back");
                Happened { trouble: *trouble, whom: "the broker".to_owned(), from, until: Utc::now() }
            }
        });
    }
    happened
}

/// SIGKILL; a new process of the same name comes `back` after so long.
async fn kill(
    site: &mut Installation,
    role: &str,
    trouble: Trouble,
    name: &str,
    whom: &str,
    back: Option<Duration>,
) -> Happened {
    let from = Utc::now();
    site.role(name).kill();
    if let Some(after) = back {
        reached(from, after).await;
        site.start(role, name, &[]).await;
    }
    Happened { trouble, whom: whom.to_owned(), from, until: Utc::now() }
}

/// Due instant and lateness of each payment's first claim.
pub fn lateness(records: &Records) -> impl Iterator<Item = (DateTime<Utc>, TimeDelta)> {
    let first = records.attempts.iter().filter(|attempt| attempt.attempt == 1);
    first.filter_map(|attempt| {
        let at = records.payments.binary_search_by_key(&attempt.payment, |payment| payment.id).ok()?;
        let due = records.payments[at].due_at;
        Some((due, attempt.claimed_at - due))
    })
}

async fn reached(first: DateTime<Utc>, after: Duration) {
    let at = first + TimeDelta::from_std(after).expect("a short run");
    let bound = (at - Utc::now()).to_std().unwrap_or_default() + Duration::from_secs(5);
    eventually("an instant of the plan", bound, || async { (Utc::now() >= at).then_some(()) }).await;
}

/// Waits until some worker is in the middle of a call that takes its time; gives its claim and its name.
async fn in_a_call(database: &mut PgConnection, long: &[Uuid]) -> (Uuid, String) {
    let database = tokio::sync::Mutex::new(database);
    eventually("a worker is in a call", Duration::from_secs(40), || async {
        sqlx::query_as(
            "SELECT p.claim_id, a.worker FROM payments p
             JOIN attempts a ON a.due_day = p.due_day AND a.payment_id = p.id AND a.claim_id = p.claim_id
             WHERE p.status = 'PROCESSING' AND p.id = ANY ($1)
               AND a.claimed_at > clock_timestamp() - interval '500 milliseconds'",
        )
        .bind(long)
        .fetch_optional(&mut **database.lock().await)
        .await
        .expect("the database answers")
    })
    .await
}

/// The slot of a worker's incarnation: `worker-1` of `worker-1/5f0c2a11`.
fn slot(worker: &str) -> &str {
    worker.split('/').next().unwrap_or(worker)
}

/// Freezes a worker in a call until the reaper has taken its claim away, thaws it, and starts it anew
/// once it has noticed and ended.
async fn freeze(site: &mut Installation, database: &mut PgConnection, long: &[Uuid]) -> Happened {
    let (claim, worker) = in_a_call(database, long).await;
    let name = slot(&worker);
    site.role(name).freeze();
    let from = Utc::now();
    {
        let database = tokio::sync::Mutex::new(&mut *database);
        eventually("the frozen worker's lease has expired", Duration::from_secs(30), || async {
            let held: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM payments WHERE claim_id = $1)")
                .bind(claim)
                .fetch_one(&mut **database.lock().await)
                .await
                .expect("the database answers");
            (!held).then_some(())
        })
        .await;
    }
    site.role(name).thaw();
    let until = Utc::now();
    let frozen = std::cell::RefCell::new(site.role(name));
    let ended = || async { frozen.borrow_mut().exit_code() };
    let code = eventually("a worker that was frozen ends", Duration::from_secs(40), ended).await;
    assert_ne!(code, 0, "it ends as a failure, so that it is started anew");
    site.start("worker", name, &[]).await;
    Happened { trouble: Trouble::WorkerFrozen, whom: worker.clone(), from, until }
}

/// Waits until every payment is final or parked, or `within` is over and the rest wait for their
/// ladder; gives how many those are.
async fn rest(database: &mut PgConnection, within: Duration) -> usize {
    let until = Utc::now() + TimeDelta::from_std(within).expect("short");
    let settled = [Status::Completed, Status::Failed, Status::Cancelled, Status::Parked, Status::Refunded];
    let settled = settled.map(Status::as_str);
    let database = tokio::sync::Mutex::new(database);
    let what = "every payment is final, parked or waiting for its ladder";
    eventually(what, within + Duration::from_secs(15), || async {
        let (open, waiting): (i64, i64) = sqlx::query_as(
            "SELECT count(*), count(*) FILTER (WHERE status IN ('PENDING', 'UNKNOWN')
                AND next_attempt_at > clock_timestamp()) FROM payments WHERE status <> ALL ($1)",
        )
        .bind(settled)
        .fetch_one(&mut **database.lock().await)
        .await
        .expect("the database answers");
        let over = Utc::now() >= until && open == waiting;
        (open == 0 || over).then(|| usize::try_from(open).expect("a count"))
    })
    .await
}

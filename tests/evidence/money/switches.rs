//! Kill switches under a load that goes on: a second after one is thrown nothing of what it names is sent, what was
//! under way ends, everybody else is paid meanwhile, and all of it is paid once when it is taken back.

use super::told::Told;
use crate::figures::Figures;
use crate::ring::group::Group;
use crate::support::cells::{Outcome, rest};
use crate::support::eventually;
use crate::support::installation::{Client, Installation};
use crate::support::people::{Console, Due, New, SWITCHES, make};
use crate::support::records::look;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::StreamExt;
use futures_util::future::{FutureExt, LocalBoxFuture};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// Payments that fall due evenly, of what is switched off and of everybody else.
const OF_EACH: usize = 160;
/// Payments that are under way when the switch is thrown.
const UNDER_WAY: usize = 60;
/// The first is due so long after it all begins: time to make them.
const AHEAD: TimeDelta = TimeDelta::seconds(8);
/// Within this all of them fall due.
const SPAN: TimeDelta = TimeDelta::seconds(12);
/// From the first due instant to the switch, and to its release.
const OFF_AFTER: TimeDelta = TimeDelta::seconds(4);
const ON_AFTER: TimeDelta = TimeDelta::seconds(13);
/// A worker's copy of the switches is as old as its last beat.
const COPY: TimeDelta = TimeDelta::seconds(1);
/// How late others may be, at the 99th of a hundred.
const PUNCTUAL: TimeDelta = TimeDelta::seconds(2);
/// After its release everything is paid within this.
const CAUGHT_UP: TimeDelta = TimeDelta::seconds(20);
/// Installations side by side.
const SIDE_BY_SIDE: usize = if cfg!(debug_assertions) { 2 } else { 4 };

const SETTINGS: [(&str, &str); 9] = [
    ("gateway.total_timeout", "4s"),
    ("gateway.connect_timeout", "1s"),
    ("worker.late_by", "2s"),
    // Its answer about the oldest due payment is a second old at most.
    ("keeper.backlog_every", "1s"),
    ("ladder.reask", "1s"),
    ("ladder.held_back", "1s"),
    ("ladder.jitter_percent", "0"),
    ("relay.poll", "200ms"),
    ("kafka.session_timeout", "6s"),
];

/// Who else pays while it is thrown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// Nobody: it names everything.
    Nobody,
    /// Another client.
    Actor,
    /// The same client, in another currency.
    Currency,
    /// At another gateway.
    Gateway,
}

/// The four kinds.
pub async fn what_is_switched_off_is_not_sent(figures: &mut Figures) {
    let all: [LocalBoxFuture<'_, Told>; 4] = [
        one("gateway/sandbox", "Kill switch of a gateway, while another one is paid", Others::Gateway)
            .boxed_local(),
        one("actor/tester", "Kill switch of an actor, while another one is paid", Others::Actor)
            .boxed_local(),
        one("currency/EUR", "Kill switch of a currency, while another one is paid", Others::Currency)
            .boxed_local(),
        one("global/all", "Kill switch of everything", Others::Nobody).boxed_local(),
    ];
    let mut all = futures_util::stream::iter(all).buffered(SIDE_BY_SIDE);
    while let Some(told) = all.next().await {
        told.print(figures);
    }
}

/// One installation, with what is asked of it.
struct Run {
    site: Installation,
    named: Vec<String>,
    others: Vec<String>,
    /// When each is due.
    due: BTreeMap<String, DateTime<Utc>>,
}

async fn one(path: &str, heading: &'static str, others: Others) -> Told {
    let mut told = Told::under(heading);
    let site = begun(others).await;
    let boss = Console::of(&site, "boss", &SWITCHES, "api-1");
    let first = Utc::now() + AHEAD;
    let run = made(site, others, first).await;
    told.holds("all made before the first is due", run.due.len(), "all", Utc::now() < first);
    reached(first + OFF_AFTER).await;
    let thrown = boss.throw(path, true).await;
    let off_at = Utc::now();
    told.all_with("it is thrown", &thrown.shown(), usize::from(thrown.status == 200), 1);
    reached(first + ON_AFTER).await;
    meanwhile(&mut told, &run, &boss, off_at).await;
    let asked_at = Utc::now();
    let released = boss.throw(path, false).await;
    let on_at = Utc::now();
    told.all_with("it is taken back", &released.shown(), usize::from(released.status == 200), 1);
    let all = [run.named.clone(), run.others.clone()].concat();
    let ends = rest(&run.site, &all, |_, end| end.is_at_rest(), Duration::from_secs(60)).await;
    let requests = Requests::read(&run.site).await;
    while_it_was_thrown(&mut told, &run, &requests, off_at, asked_at);
    afterwards(&mut told, &run, &requests, &ends, (off_at, on_at));
    told.audited(&run.site);
    told
}

async fn begun(others: Others) -> Installation {
    let mut site = Installation::new(&SETTINGS).await;
    for (role, name) in [
        ("keeper", "keeper-1"),
        ("api", "api-1"),
        ("relay", "relay-1"),
        ("worker", "worker-1"),
        ("worker", "worker-2"),
    ] {
        site.start(role, name, &[]).await;
    }
    if others == Others::Gateway {
        let group = format!("{}-other", site.setting("kafka.group"));
        site.start("api", "api-2", &[("gateway.name", "other")]).await;
        let settings = [("gateway.name", "other"), ("gateway.account", "other-1"), ("kafka.group", &group)];
        site.start("worker", "worker-3", &settings).await;
        Group::of(&site).beside(&group).is_shared_by(1).await;
    }
    // What follows is of workers at work, not of how they begin.
    Group::of(&site).is_shared_by(2).await;
    site
}

/// Those that fall due evenly, in turns; and of what is switched off some that are under way then.
async fn made(site: Installation, others: Others, first: DateTime<Utc>) -> Run {
    let step = SPAN / i32::try_from(OF_EACH).expect("few");
    let at = |number: usize| first + step * i32::try_from(number).expect("few");
    let evenly = (0..OF_EACH).map(|number| {
        let payee = if number % 10 == 9 { "sim_reset_after_write" } else { "sim_ok" };
        New { due: Due::At(at(number)), ..New::of(payee) }
    });
    let slow_at = first + OFF_AFTER - TimeDelta::milliseconds(700);
    let slow = (0..UNDER_WAY).map(|_| New { due: Due::At(slow_at), ..New::of("sim_slow_2000") });
    let named: Vec<New> = evenly.clone().chain(slow).collect();
    let currency = if others == Others::Currency { "USD" } else { "EUR" };
    let besides: Vec<New> = evenly.map(|new| New { payee: "sim_ok", currency, ..new }).collect();
    let by: Option<Client> = match others {
        Others::Nobody => None,
        Others::Actor => Some(site.client_of("api-1").with_key(&site.new_api_key("another"))),
        Others::Currency => Some(site.client_of("api-1")),
        Others::Gateway => Some(site.client_of("api-2")),
    };
    let dues = |all: &[New]| -> Vec<DateTime<Utc>> {
        all.iter().map(|new| if let Due::At(at) = new.due { at } else { first }).collect()
    };
    let (named_due, besides_due) = (dues(&named), dues(&besides));
    let client = site.client_of("api-1");
    let besides = async {
        match by {
            Some(client) => make(&client, "besides", besides).await,
            None => Vec::new(),
        }
    };
    let (named, others) = futures_util::join!(make(&client, "named", named), besides);
    let all = named.iter().zip(named_due).chain(others.iter().zip(besides_due));
    let due = all.map(|(id, at)| (id.clone(), at)).collect();
    Run { site, named, others, due }
}

async fn reached(at: DateTime<Utc>) {
    let bound = (at - Utc::now()).to_std().unwrap_or_default() + Duration::from_secs(5);
    eventually("an instant of the plan", bound, || async { (Utc::now() >= at).then_some(()) }).await;
}

/// Requests that could move money: their instants, by payment.
struct Requests(BTreeMap<String, Vec<DateTime<Utc>>>);

impl Requests {
    async fn read(site: &Installation) -> Self {
        let mut all: BTreeMap<String, Vec<DateTime<Utc>>> = BTreeMap::new();
        for line in site.ledger().await {
            let Some(id) = line["paymentId"].as_str() else { continue };
            let at = line["at"].as_str().and_then(|at| at.parse().ok()).expect("an instant");
            all.entry(id.to_owned()).or_default().push(at);
        }
        Self(all)
    }

    fn of(&self, id: &str) -> &[DateTime<Utc>] {
        self.0.get(id).map_or(&[], Vec::as_slice)
    }

    /// Of these payments, between these instants.
    fn between(&self, ids: &[String], from: DateTime<Utc>, until: DateTime<Utc>) -> usize {
        let all = ids.iter().flat_map(|id| self.of(id));
        all.filter(|at| (from..until).contains(*at)).count()
    }
}

/// What can be seen right before it is taken back: by people, and in the rows.
async fn meanwhile(told: &mut Told, run: &Run, boss: &Console, off_at: DateTime<Utc>) {
    let shown = boss.get("/v1/ops/kill-switches").await;
    let listed = shown.body["data"].as_array().map_or(0, Vec::len);
    told.holds("shown as thrown, with who and why", listed, "1", listed == 1);
    let text = run.site.text("keeper-1", "/metrics").await.unwrap_or_default();
    let oldest = text.lines().filter(|line| line.starts_with("punctual_payments_due_oldest_age_seconds{"));
    let oldest = oldest.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).fold(0.0, f64::max);
    told.holds(
        "age of the oldest due payment, as told, s",
        format!("{oldest:.1}"),
        "at least 5",
        oldest >= 5.0,
    );
    let ids: Vec<Uuid> = run.named.iter().map(|id| id.parse().expect("an id")).collect();
    let (unsent, spent, held): (i64, i64, i64) = sqlx::query_as(
        "SELECT count(*) FILTER (WHERE status = 'PENDING'),
                count(*) FILTER (WHERE status = 'PENDING' AND sends > 0),
                count(*) FILTER (WHERE status = 'PROCESSING')
         FROM payments WHERE id = ANY ($1) AND due_at BETWEEN $2 AND now()",
    )
    .bind(ids)
    .bind(off_at - OFF_AFTER)
    .fetch_one(&mut look(&run.site.database.url).await)
    .await
    .expect("counts");
    let count = |count: i64| usize::try_from(count).expect("a count");
    told.none("due and not sent, that spent a send", count(spent), count(unsent));
    told.none("still in a worker's hands", count(held), run.named.len());
}

/// By the sandbox's ledger.
fn while_it_was_thrown(
    told: &mut Told,
    run: &Run,
    requests: &Requests,
    off_at: DateTime<Utc>,
    asked_at: DateTime<Utc>,
) {
    let due = |ids: &[String]| {
        ids.iter().filter(|id| (off_at..asked_at).contains(&run.due[*id])).cloned().collect::<Vec<_>>()
    };
    let waiting = due(&run.named);
    let sent = requests.between(&run.named, off_at + COPY, asked_at);
    told.none("requests for it, from a second on, of those due", sent, waiting.len());
    told.note(format!(
        "requests within that second: {}",
        requests.between(&run.named, off_at, off_at + COPY)
    ));
    if run.others.is_empty() {
        return;
    }
    let others = due(&run.others);
    let mut late: Vec<TimeDelta> =
        others.iter().filter_map(|id| Some(*requests.of(id).first()? - run.due[id])).collect();
    late.sort();
    let in_time = others.iter().filter(|id| requests.of(id).first().is_some_and(|at| *at < asked_at)).count();
    told.all("everybody else's: sent meanwhile", in_time, others.len());
    let p99 = late.get((late.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or(TimeDelta::MAX);
    told.holds("  and how late, p99 ms", p99.num_milliseconds(), "at most 2000", p99 <= PUNCTUAL);
}

/// What was under way, and what waited.
fn afterwards(
    told: &mut Told,
    run: &Run,
    requests: &Requests,
    ends: &[Outcome],
    (off_at, on_at): (DateTime<Utc>, DateTime<Utc>),
) {
    let (named, others) = ends.split_at(run.named.len());
    let under_way: Vec<Outcome> = run.named[OF_EACH..]
        .iter()
        .zip(&named[OF_EACH..])
        .filter(|(id, _)| requests.of(id).first().is_some_and(|at| *at < off_at))
        .map(|(_, end)| end.clone())
        .collect();
    told.paid_once("under way when it was thrown: ended, paid once", &under_way);
    let once = under_way.iter().filter(|end| end.requests == 1).count();
    told.all("  and never sent again", once, under_way.len());
    told.paid_once("all that it named: paid once", named);
    if !others.is_empty() {
        told.paid_once("all of everybody else's: paid once", others);
    }
    let firsts = run.named.iter().filter_map(|id| Some((requests.of(id).first()?, run.due[id])));
    let mut late: Vec<(TimeDelta, DateTime<Utc>)> =
        firsts.filter(|(at, _)| **at >= on_at).map(|(at, due)| (*at - due, *at)).collect();
    late.sort();
    let early = run.due.iter().filter(|(id, due)| requests.of(id).first().is_some_and(|at| at < due)).count();
    told.none("sent before it was due", early, run.due.len());
    let (Some(least), Some(most)) = (late.first(), late.last()) else {
        told.met("paid only after it was taken back", 0);
        return;
    };
    let last = late.iter().map(|(_, at)| *at).max().unwrap_or(on_at) - on_at;
    told.met("paid only after it was taken back", late.len());
    let ms = |length: TimeDelta| length.num_milliseconds();
    told.note(format!("these were {} to {} ms late", ms(least.0), ms(most.0)));
    told.holds("from its release to the last of them, ms", ms(last), "at most 20000", last <= CAUGHT_UP);
}

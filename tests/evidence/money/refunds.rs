//! Money given back, on real services: who asks at once is granted no more than was charged, what a second person
//! allowed is given back once and exactly, whatever becomes of the answer and of the worker, and a payment is
//! REFUNDED when all of its charge is back and not before.

mod asked;
mod killed;
mod ledger;

use super::told::Told;
use crate::figures::Figures;
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::people::{Console, DECIDES, New, SWITCHES, make, shown};
use crate::support::records::look;
use asked::{Group, Way};
use chrono::{TimeDelta, Utc};
use ledger::{Given, statuses};
use std::collections::BTreeMap;
use std::time::Duration;

/// What each payment charges, in minor units.
const CHARGE: i64 = 1_250;
/// Workers that carry refunds out: each has four under way at once.
const WORKERS: usize = 10;

const SETTINGS: [(&str, &str); 11] = [
    ("gateway.refunds", "true"),
    ("gateway.total_timeout", "1s"),
    ("gateway.connect_timeout", "1s"),
    ("worker.margin", "500ms"),
    ("worker.late_by", "2s"),
    // Many workers on one server.
    ("database.pool", "6"),
    ("ladder.reask", "1s"),
    ("ladder.jitter_percent", "0"),
    ("operations.bulk_every", "10s"),
    ("relay.poll", "200ms"),
    ("kafka.session_timeout", "6s"),
];

/// Two who ask, two who allow, and one who switches off.
struct People {
    alice: Console,
    /// Her key, at the other API.
    alice_there: Console,
    carol: Console,
    bob: Console,
    dave: Console,
    boss: Console,
}

/// All of it.
pub async fn money_goes_back_once_and_never_more_than_was_charged(figures: &mut Figures) {
    let mut told =
        Told::under("Refunds: asked for at once, answers lost, workers killed, everything switched off");
    let mut site = Installation::new(&SETTINGS).await;
    for (role, name) in [
        ("keeper", "keeper-1"),
        ("api", "api-1"),
        ("api", "api-2"),
        ("relay", "relay-1"),
        ("worker", "payer-1"),
        ("worker", "payer-2"),
    ] {
        site.start(role, name, &[]).await;
    }
    let person = |name: &str, api: &str| Console::of(&site, name, &DECIDES, api);
    let alice = person("alice", "api-1");
    let people = People {
        alice_there: alice.at(&site, "api-2"),
        alice,
        carol: person("carol", "api-2"),
        bob: person("bob", "api-1"),
        dave: person("dave", "api-2"),
        boss: Console::of(&site, "boss", &SWITCHES, "api-1"),
    };
    let groups = paid(&mut told, &site).await;
    for payer in ["payer-1", "payer-2"] {
        site.role(payer).drain(Duration::from_secs(30)).await;
    }
    let killed = killed::with_the_answer_in_hand(&mut told, &mut site, &people, &groups).await;
    let refunds = asked::all_at_once(&mut told, &people, &groups).await;
    asked::allowed_by_one_of_two(&mut told, &people, &refunds).await;
    for number in 0..WORKERS {
        site.spawn("worker", &format!("worker-{number}"), &[]);
    }
    all_have_ended(&site).await;
    let given = Given::read(&site).await;
    carried_out(&mut told, &site, &given, &groups, &refunds).await;
    killed::given_back_once(&mut told, &site, &given, &killed).await;
    asked::what_was_declined_is_free_again(&mut told, &people, &groups).await;
    the_rest_while_switched_off(&mut told, &site, &people, &groups).await;
    whole(&mut told, &site, &groups).await;
    told.audited(&site);
    told.print(figures);
}

/// Every payment is charged first.
async fn paid(told: &mut Told, site: &Installation) -> Vec<Group> {
    let ways = Way::in_turns();
    let all = ways.iter().map(|way| New { amount: CHARGE, ..New::of(way.payee()) }).collect();
    let made = make(&site.client(), "charged", all).await;
    let within = Duration::from_secs(60);
    let charged: Vec<(uuid::Uuid, String)> = eventually("all are paid", within, || async {
        let rows: Vec<(uuid::Uuid, String)> =
            sqlx::query_as("SELECT id, gateway_ref FROM payments WHERE status = 'COMPLETED'")
                .fetch_all(&mut look(&site.database.url).await)
                .await
                .expect("the database answers");
        (rows.len() == made.len()).then_some(rows)
    })
    .await;
    told.all("payments charged", charged.len(), made.len());
    let charged: BTreeMap<String, String> =
        charged.into_iter().map(|(id, reference)| (id.to_string(), reference)).collect();
    let of = |way: Way| {
        let ours = made.iter().zip(&ways).filter(|(_, of_it)| **of_it == way);
        Group { way, payments: ours.map(|(id, _)| (id.clone(), charged[id].clone())).collect() }
    };
    Way::ALL.into_iter().map(of).collect()
}

/// Until nothing is under way, or for a minute and a half: what is left then is told.
async fn all_have_ended(site: &Installation) {
    let until = Utc::now() + TimeDelta::seconds(90);
    eventually("all refunds have ended, or their time is over", Duration::from_secs(120), || async {
        let open: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM refunds WHERE status IN ('approved', 'sending', 'unknown')",
        )
        .fetch_one(&mut look(&site.database.url).await)
        .await
        .expect("a count");
        (open == 0 || Utc::now() > until).then_some(())
    })
    .await;
}

/// Row by row: as asked for, once; or refused, and nothing.
async fn carried_out(
    told: &mut Told,
    site: &Installation,
    given: &Given,
    groups: &[Group],
    refunds: &BTreeMap<String, asked::Asked>,
) {
    let statuses = statuses(site).await;
    for group in groups {
        let ours: Vec<_> = refunds.iter().filter(|(_, asked)| asked.way == group.way).collect();
        if ours.is_empty() {
            continue;
        }
        let declined = group.way == Way::Declined;
        let as_it_should = |(id, asked): &&(&String, &asked::Asked)| {
            let status = statuses.get(*id).map_or("", String::as_str);
            match declined {
                true => status == "declined" && given.times(id) == 0,
                false => status == "refunded" && given.is_exactly(id, asked.amount),
            }
        };
        let met = ours.iter().filter(as_it_should).count();
        let what = if declined { "declined, and nothing given back" } else { "given back once, exactly" };
        told.all(&format!("{}: {what}", group.way.name()), met, ours.len());
    }
    let above = given.by_charge.values().filter(|sum| **sum > CHARGE).count();
    told.none("charges of which more went back than they took", above, given.by_charge.len());
    let requests = format!("{} requests, {} gave money back", given.requests, given.keys.len());
    told.note(requests);
}

/// The last fifth, allowed while everything is switched off.
async fn the_rest_while_switched_off(
    told: &mut Told,
    site: &Installation,
    people: &People,
    groups: &[Group],
) {
    let group = groups.iter().find(|group| group.way == Way::FourKeys).expect("a group");
    let states = asked::states(site, group).await;
    told.all("four fifths are back: still COMPLETED", states.of("COMPLETED"), group.payments.len());
    let thrown = people.boss.throw("global/all", true).await;
    told.all_with("everything is switched off", &thrown.shown(), usize::from(thrown.status == 200), 1);
    let asked = asked::the_rest(people, group).await;
    let said = asked::allow(&people.bob, &asked).await;
    told.all_with(
        "the rest is asked for, and allowed",
        &shown(&said),
        said.iter().filter(|it| it.status == 200).count(),
        group.payments.len(),
    );
    let before = Given::read(site).await.requests;
    // Two turns of every worker.
    let after = crate::support::people::later(Duration::from_secs(3), Given::read(site)).await.requests;
    told.none("requests to give back while switched off", after - before, group.payments.len());
    let released = people.boss.throw("global/all", false).await;
    told.all_with("it is switched on", &released.shown(), usize::from(released.status == 200), 1);
    all_have_ended(site).await;
    let given = Given::read(site).await;
    let exact = asked.iter().filter(|said| given.is_exactly(&said.text("refundId"), CHARGE / 5)).count();
    told.all("the rest: given back once, exactly", exact, asked.len());
}

/// REFUNDED exactly where all of the charge is back, by the gateway's own ledger.
async fn whole(told: &mut Told, site: &Installation, groups: &[Group]) {
    let given = Given::read(site).await;
    let mut refunded = 0;
    let (mut wrong, mut all) = (0, 0);
    for group in groups {
        let states = asked::states(site, group).await;
        for (id, reference) in &group.payments {
            let back = given.by_charge.get(reference).copied().unwrap_or(0);
            let is_refunded = states.is(id, "REFUNDED");
            all += 1;
            refunded += usize::from(is_refunded);
            wrong += usize::from(is_refunded != (back == CHARGE));
        }
    }
    told.met("payments REFUNDED", refunded);
    told.met("payments of which a part is back, or nothing", all - refunded);
    told.none("REFUNDED without all of it back, or the reverse", wrong, all);
}

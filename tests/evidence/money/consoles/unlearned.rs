//! Charges whose answer never came, parked past their deadline by a worker that cannot look up. Whatever people do
//! then and in whatever order, the charge is found, and is the only one.

use super::{count, each, one_won, race, turn};
use crate::money::told::Told;
use crate::support::cells::{Outcome, rest};
use crate::support::installation::Installation;
use crate::support::people::{Console, DECIDES, New, Said, later, make, shown};
use chrono::TimeDelta;
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::time::Duration;

/// Payments of each row.
const OF_EACH: usize = 100;

const SETTINGS: [(&str, &str); 7] = [
    ("gateway.total_timeout", "2s"),
    ("gateway.connect_timeout", "1s"),
    ("worker.late_by", "2s"),
    // Not asked again before the deadline.
    ("ladder.reask", "12s"),
    ("ladder.jitter_percent", "0"),
    ("relay.poll", "200ms"),
    ("kafka.session_timeout", "6s"),
];

/// Nothing is sent any more so long after the due instant; a busy machine has sent everything by then.
const DEADLINE: TimeDelta = TimeDelta::seconds(10);
/// One person may not release this alone.
const LARGE: i64 = 100_001;
const SMALL: i64 = 1_250;

/// Of each turn: three rows of charges that nobody learned of, one of charges not as asked, and what is paid at
/// once, so that the time-outs do not open the breaker.
const OF_A_TURN: usize = 7;

fn new(place: usize) -> New {
    let unlearned = New { deadline: Some(DEADLINE), ..New::of("sim_timeout_charged") };
    match place {
        0 | 1 => unlearned,
        2 => New { amount: LARGE, ..unlearned },
        3 => New::of("sim_wrong_amount"),
        _ => New::of("sim_ok"),
    }
}

/// Three people, two APIs.
struct People {
    alice: Console,
    bob: Console,
    carol: Console,
}

pub(super) async fn a_charge_that_nobody_learned_of_is_found() -> Told {
    let mut told = Told::under("Charges that nobody learned of, and what people do about them");
    let mut site = Installation::new(&SETTINGS).await;
    for (role, name) in [("keeper", "keeper-1"), ("api", "api-1"), ("api", "api-2"), ("relay", "relay-1")] {
        site.start(role, name, &[]).await;
    }
    site.start("worker", "worker-1", &[("gateway.lookup", "false")]).await;
    let people = People {
        alice: Console::of(&site, "alice", &DECIDES, "api-1"),
        bob: Console::of(&site, "bob", &DECIDES, "api-2"),
        carol: Console::of(&site, "carol", &DECIDES, "api-2"),
    };
    let all = (0..OF_EACH * OF_A_TURN).map(|number| new(number % OF_A_TURN)).collect();
    let made = make(&site.client(), "unlearned", all).await;
    let ends = rest(&site, &made, |_, end| end.is_at_rest(), Duration::from_secs(60)).await;
    let of = |ends: &[Outcome], places: &[usize]| -> Vec<Outcome> {
        let ours = ends.iter().enumerate().filter(|(number, _)| places.contains(&(number % OF_A_TURN)));
        ours.map(|(_, end)| end.clone()).collect()
    };
    told.ended("charged, not answered: parked", &of(&ends, &[0, 1, 2]), "parked outcome_unknown", 1);
    let parked = of(&ends, &[0, 1, 2, 3]);
    told.ended("charged, not as asked: parked", &of(&ends, &[3]), "parked contract_violation", 1);

    let [first, second, large, wrong] = [0, 1, 2, 3].map(|place| turn(&made, place, OF_A_TURN));
    let unlearned = [first.clone(), second.clone(), large.clone()].concat();
    refused(&mut told, &people, &unlearned, &wrong).await;

    site.role("worker-1").drain(Duration::from_secs(30)).await;
    site.start("worker", "worker-2", &[]).await;
    let races = race(&[people.alice.clone(), people.bob.clone()], &first).await;
    let won = races.iter().filter(|said| one_won(said)).count();
    told.all_with("re-drive against re-drive: one won", &shown(races.iter().flatten()), won, races.len());
    let said = race(&[people.carol.clone(), people.bob.clone()], &wrong).await.concat();
    let refused = count(&said, 409, "charge_on_record");
    told.all_with("not as asked, re-driven: 409", &shown(&said), refused, said.len());
    let references = references(&site).await;
    against_a_resolution(&mut told, &people, &second, &references).await;
    against_an_approval(&mut told, &people, &large, &references).await;

    let ends = rest(&site, &made, |_, end| end.is_at_rest(), Duration::from_secs(60)).await;
    told.paid_once("charged, not answered: found, and no second charge", &of(&ends, &[0, 1, 2]));
    let again =
        of(&ends, &[0, 1, 2, 3]).iter().zip(&parked).filter(|(end, was)| end.requests > was.requests).count();
    told.none("of both, sent again by any of it", again, parked.len());
    told.ended("not as asked: held as it was", &of(&ends, &[3]), "parked contract_violation", 1);
    let said = each(&unlearned, |id| people.alice.new_epoch(id)).await;
    told.all("a new key once it is found: 409", count(&said, 409, "not_parked"), said.len());
    told.audited(&site);
    told
}

/// What nobody may do while the charge is there, known of or not.
async fn refused(told: &mut Told, people: &People, unlearned: &[String], wrong: &[String]) {
    let said = each(unlearned, |id| people.alice.new_epoch(id)).await;
    told.all_with("a new key for it: 409", &shown(&said), count(&said, 409, "open_send"), said.len());
    let said = each(unlearned, |id| people.bob.resolve_not_charged(id)).await;
    told.all_with(
        "the word that it was not charged: 409",
        &shown(&said),
        count(&said, 409, "open_send"),
        said.len(),
    );
    let mut said = each(wrong, |id| people.alice.new_epoch(id)).await;
    said.extend(each(wrong, |id| people.bob.resolve_not_charged(id)).await);
    let refused = count(&said, 409, "charge_on_record");
    told.all_with("not as asked, a new key or that word: 409", &shown(&said), refused, said.len());
}

/// One releases while another says that it was charged, and has seen the charge.
async fn against_a_resolution(
    told: &mut Told,
    people: &People,
    payments: &[String],
    references: &BTreeMap<String, String>,
) {
    let races = payments.iter().enumerate().map(|(number, id)| {
        let resolve = people.carol.resolve_charged(id, name_of(references, id), SMALL);
        async move { futures_util::join!(people.alice.redrive(id), later(head_start(number), resolve)) }
    });
    let races: Vec<(Said, Said)> =
        futures_util::stream::iter(races).buffered(super::SIDE_BY_SIDE).collect().await;
    let won = races.iter().filter(|(one, other)| one_won(&[one.clone(), other.clone()])).count();
    let redriven = races.iter().filter(|(redrive, _)| redrive.status == 200).count();
    let all = shown(races.iter().flat_map(|(one, other)| [one, other]));
    told.all_with("re-drive against resolution: one won", &all, won, races.len());
    told.met("  and it was the re-drive", redriven);
    told.met("  and it was the resolution", races.len() - redriven);
}

/// One asked for the release; another allows it while a third says that it was charged, and the first asks again.
async fn against_an_approval(
    told: &mut Told,
    people: &People,
    payments: &[String],
    references: &BTreeMap<String, String>,
) {
    let asked = each(payments, |id| people.alice.redrive(id)).await;
    let waiting = asked.iter().filter(|said| said.status == 202 && said.body["kind"] == "redrive").count();
    told.all("a large one waits for a second person: 202", waiting, asked.len());
    let approvals: Vec<String> = asked.iter().map(|said| said.text("approvalId")).collect();
    let races = payments.iter().zip(&approvals).enumerate().map(|(number, (id, approval))| {
        let resolve = people.carol.resolve_charged(id, name_of(references, id), LARGE);
        async move {
            futures_util::join!(
                people.bob.approve(approval),
                later(head_start(number), resolve),
                people.alice.redrive(id)
            )
        }
    });
    let races: Vec<(Said, Said, Said)> =
        futures_util::stream::iter(races).buffered(super::SIDE_BY_SIDE).collect().await;
    let won = races.iter().filter(|(one, other, _)| one_won(&[one.clone(), other.clone()])).count();
    let approved = races.iter().filter(|(approve, ..)| approve.status == 200).count();
    let all = shown(races.iter().flat_map(|(one, other, _)| [one, other]));
    told.all_with("approval against resolution: one won", &all, won, races.len());
    told.met("  and it was the approval", approved);
    told.met("  and it was the resolution", races.len() - approved);
    let alone = races.iter().filter(|(.., third)| is_told(third)).count();
    let all = shown(races.iter().map(|(.., third)| third));
    told.all_with("the asker again, meanwhile: 202 or 409", &all, alone, races.len());
}

/// To wait, that it is not parked any more, or that it was decided about a moment ago.
fn is_told(said: &Said) -> bool {
    said.status == 202 || said.is(409, "not_parked") || said.is(409, "payment_changed")
}

/// From none to 14 ms, so that each side comes first now and then.
fn head_start(number: usize) -> Duration {
    Duration::from_millis(2) * u32::try_from(number % 8).unwrap_or(0)
}

/// The name of a charge that is not there is nobody's.
fn name_of<'a>(references: &'a BTreeMap<String, String>, payment: &str) -> &'a str {
    references.get(payment).map_or("ch_0", String::as_str)
}

/// The gateway's own name of each payment's charge.
async fn references(site: &Installation) -> BTreeMap<String, String> {
    let ledger = site.ledger().await;
    let charged = ledger.iter().filter(|line| line["charged"] == true);
    charged
        .filter_map(|line| Some((line["paymentId"].as_str()?.to_owned(), format!("ch_{}", line["seq"]))))
        .collect()
}

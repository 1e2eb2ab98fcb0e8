//! Two consoles, and four, at the same moment over each of many parked payments: one releases it.
//!
//! The workers cannot look up, so nothing but the claims and the keys keeps the payment from a second charge.

use super::{one_won, race, turn};
use crate::money::told::Told;
use crate::support::cells::rest;
use crate::support::installation::Installation;
use crate::support::people::{Console, DECIDES, New, make, shown};
use crate::support::records::look;
use std::time::Duration;

/// Payments of each row.
const OF_EACH: usize = 100;

const SETTINGS: [(&str, &str); 9] = [
    ("gateway.lookup", "false"),
    // Long enough for a decline to be heard on a busy machine.
    ("gateway.total_timeout", "3s"),
    ("gateway.connect_timeout", "1s"),
    ("worker.late_by", "2s"),
    ("ladder.retry", "1s"),
    ("ladder.reask", "1s"),
    ("ladder.jitter_percent", "0"),
    ("relay.poll", "200ms"),
    ("kafka.session_timeout", "6s"),
];

/// Declined for its only send: parked under a key that nobody used.
const CLEAN: &str = "sim_decline_insufficient_funds|sim_ok";
/// Its first send is never answered and its second declined: parked with a send that may still charge.
const OPEN: &str = "sim_timeout_not_charged|sim_decline_insufficient_funds|sim_ok";

/// The rows: what is raced over, how many consoles, and how it is parked.
const ROWS: [(&str, usize, &str, &str); 4] = [
    (CLEAN, 2, "two consoles, nothing sent under the key", "parked budget_exhausted"),
    (CLEAN, 4, "four consoles, nothing sent under the key", "parked budget_exhausted"),
    (OPEN, 2, "two consoles, a send is open", "parked unproven_decline"),
    (OPEN, 4, "four consoles, a send is open", "parked unproven_decline"),
];
/// Payments of each turn; what is more than the rows is paid at once, so that the time-outs do not open the
/// breaker.
const OF_A_TURN: usize = 6;

pub(super) async fn one_console_wins() -> Told {
    let mut told = Told::under("Re-drives from two and four consoles at the same moment, without look-ups");
    let mut site = Installation::new(&SETTINGS).await;
    for (role, name) in [
        ("keeper", "keeper-1"),
        ("api", "api-1"),
        ("api", "api-2"),
        ("relay", "relay-1"),
        ("worker", "worker-1"),
        ("worker", "worker-2"),
    ] {
        site.start(role, name, &[]).await;
    }
    let persons = ["alice", "bob", "carol", "dave"].into_iter().enumerate();
    let consoles: Vec<Console> = persons
        .map(|(place, person)| Console::of(&site, person, &DECIDES, ["api-1", "api-2"][place % 2]))
        .collect();
    let new = |place: usize| match ROWS.get(place) {
        Some((CLEAN, ..)) => New { max_sends: 1, ..New::of(CLEAN) },
        Some((payee, ..)) => New::of(payee),
        None => New::of("sim_ok"),
    };
    let all = (0..OF_EACH * OF_A_TURN).map(|number| new(number % OF_A_TURN)).collect();
    let made = make(&site.client(), "raced", all).await;
    let ends = rest(&site, &made, |_, end| end.is_at_rest(), Duration::from_secs(60)).await;
    for (place, (_, _, name, parked)) in ROWS.into_iter().enumerate() {
        let ends: Vec<_> = ends.iter().skip(place).step_by(OF_A_TURN).cloned().collect();
        told.ended(&format!("{name}: parked"), &ends, parked, 0);
    }
    for (place, (_, consoles_of_it, name, _)) in ROWS.into_iter().enumerate() {
        let races = race(&consoles[..consoles_of_it], &turn(&made, place, OF_A_TURN)).await;
        let won = races.iter().filter(|said| one_won(said)).count();
        told.all_with(&format!("{name}: one won"), &shown(races.iter().flatten()), won, races.len());
    }
    let ends = rest(&site, &made, |_, end| end.is_at_rest(), Duration::from_secs(60)).await;
    for (place, (_, _, name, _)) in ROWS.into_iter().enumerate() {
        let ends: Vec<_> = ends.iter().skip(place).step_by(OF_A_TURN).cloned().collect();
        told.paid_once(&format!("{name}: paid once"), &ends);
    }
    told.none("charged more than once", ends.iter().filter(|end| end.charges > 1).count(), ends.len());
    let (released, acts) = on_record(&site).await;
    let of = ROWS.len() * OF_EACH;
    told.all("released once, by their history", released, of);
    told.all("acts of people that say so", acts, of);
    told.audited(&site);
    told
}

/// Payments that were released exactly once, and acts on record.
async fn on_record(site: &Installation) -> (usize, usize) {
    let (released, acts): (i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM (SELECT payment_id FROM payment_history WHERE cause = 'redriven'
                                       GROUP BY payment_id HAVING count(*) = 1) AS once),
                (SELECT count(*) FROM operator_acts WHERE act = 'redrive')",
    )
    .fetch_one(&mut look(&site.database.url).await)
    .await
    .expect("the database answers");
    let count = |count: i64| usize::try_from(count).expect("a count");
    (count(released), count(acts))
}

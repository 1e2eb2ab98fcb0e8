//! What people may do with a parked payment, from several consoles at once: whatever they do, and whoever of them
//! comes first, it is never charged twice.

mod bulk;
mod expired;
mod raced;
mod unlearned;

use super::told::Told;
use crate::figures::Figures;
use crate::support::people::{Console, Said};
use futures_util::StreamExt;
use futures_util::future::{FutureExt, LocalBoxFuture, join_all};

/// Payments that people decide about at once.
const SIDE_BY_SIDE: usize = 8;
/// Installations side by side.
const INSTALLATIONS: usize = if cfg!(debug_assertions) { 2 } else { 4 };

/// Each by its name.
pub const PARTS: [&str; 4] = ["raced", "unlearned", "expired", "bulk"];

/// Consoles at the same moment; charges that nobody learned of; keys that are over; many at once: an installation
/// each. All of them, or the one of that name.
pub async fn whoever_comes_first_it_is_charged_once(figures: &mut Figures, part: Option<&str>) {
    let wanted = PARTS.into_iter().filter(|name| part.is_none_or(|part| part == *name));
    let runs = wanted.map(|name| -> LocalBoxFuture<'_, Told> {
        match name {
            "raced" => raced::one_console_wins().boxed_local(),
            "unlearned" => unlearned::a_charge_that_nobody_learned_of_is_found().boxed_local(),
            "expired" => expired::past_its_key_only_two_people_open_another().boxed_local(),
            _ => bulk::many_are_released_once_by_two_bulks().boxed_local(),
        }
    });
    let mut all = futures_util::stream::iter(runs).buffered(INSTALLATIONS);
    while let Some(told) = all.next().await {
        told.print(figures);
    }
}

/// All of these consoles ask for the release of each payment at the same moment.
async fn race(consoles: &[Console], payments: &[String]) -> Vec<Vec<Said>> {
    let races = payments.iter().map(|id| join_all(consoles.iter().map(move |console| console.redrive(id))));
    futures_util::stream::iter(races).buffered(SIDE_BY_SIDE).collect().await
}

/// One was answered 200, and every other one that it is not parked any more.
fn one_won(said: &[Said]) -> bool {
    let won = said.iter().filter(|said| said.status == 200).count();
    won == 1 && said.iter().all(|said| said.status == 200 || said.is(409, "not_parked"))
}

/// The same question about each payment, to one console; what each was told.
async fn each<'a, F>(payments: &'a [String], ask: impl Fn(&'a str) -> F) -> Vec<Said>
where
    F: Future<Output = Said>,
{
    let asked = payments.iter().map(|id| ask(id));
    futures_util::stream::iter(asked).buffered(SIDE_BY_SIDE).collect().await
}

/// How many were told exactly this.
fn count(said: &[Said], status: u16, code: &str) -> usize {
    said.iter().filter(|said| said.is(status, code)).count()
}

/// Every so-manieth of what was made in turns, from the place `first`.
fn turn(made: &[String], first: usize, of: usize) -> Vec<String> {
    made.iter().skip(first).step_by(of).cloned().collect()
}

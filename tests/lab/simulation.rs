//! Worlds of the simulation, a bounded number of them on every run: each twice with equal traces, no
//! promise broken, and every situation of the table met by somebody.
//!
//! `SIMULATE_SEED=N cargo test --test lab simulation` runs one seed alone and prints what it met.

use punctual::simulation::{Dials, Met, Mode, Texts, run};

const PAYMENTS: usize = 60;

#[test]
fn no_world_breaks_a_promise_and_every_situation_is_met() {
    let mut met = vec![0_u64; Met::ALL.len()];
    let one = std::env::var("SIMULATE_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = one.map_or(0..40, |seed| seed..seed + 1);
    let began = std::time::SystemTime::now();
    let mut total = (0, 0);
    for seed in seeds.clone() {
        let outcome = run(Dials::of(seed, PAYMENTS), Mode::of(seed), Texts::Left);
        total = (total.0 + outcome.payments, total.1 + outcome.events);
        for (sum, count) in met.iter_mut().zip(&outcome.met) {
            *sum += count;
        }
        if !outcome.broken.is_empty() {
            let again = run(Dials::of(seed, PAYMENTS), Mode::of(seed), Texts::Kept);
            println!("seed {seed} lasted {:?} {:?}", outcome.lasted, outcome.ended);
            for broken in &outcome.broken {
                println!("{broken:?}");
            }
            let id = outcome.broken[0].payment;
            for told in again.told.iter().filter(|told| told.payment == id) {
                println!("{}", told.text);
            }
            panic!("seed {seed}");
        }
    }
    println!("{total:?} {:?}", began.elapsed());
    for (what, count) in Met::ALL.iter().zip(&met) {
        println!("{count:>8} {what:?}");
    }
}

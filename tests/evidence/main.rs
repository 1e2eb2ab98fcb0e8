//! What must be shown, run again: `make evidence-main`, `-proof`, `-money`, `-ring`, `-api`, `-outcomes` and `-operate`, or
//! `cargo test --features faults --test evidence -- main`.
//!
//! Prints one figure a line beside its bound and exits 1 where one falls short or was never put to
//! the test. `PUNCTUAL_EVIDENCE_SEED` changes what is asked for; the seed is printed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a run that cannot go on should stop")]
#![allow(clippy::disallowed_methods, reason = "real services run on real time")]
#![allow(unreachable_pub, reason = "tests/support is written as the small library that it is")]

mod api;
mod audited;
mod dev;
mod doctests;
mod figures;
mod kafka;
mod money;
mod once;
mod operate;
mod outcomes;
mod parts;
mod proof;
mod ring;
#[path = "../support/mod.rs"]
mod support;
// Tests whose tables and readers are shown here too.
#[allow(dead_code, unused_imports, reason = "the tests themselves use the rest")]
#[path = "../it/access.rs"]
mod access;
#[allow(dead_code, unused_imports, reason = "the tests themselves use the rest")]
#[path = "../it/contract.rs"]
mod contract;
#[allow(dead_code, unused_imports, reason = "the tests themselves use the rest")]
#[path = "../it/readme.rs"]
mod readme;
#[allow(dead_code, reason = "the tests of the schedule use the rest")]
#[path = "../it/schedule/world.rs"]
mod world;
/// Where those tests look for it.
mod schedule {
    pub(crate) use crate::world;
}

use figures::Figures;
use std::process::ExitCode;

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let mut figures = Figures::default();
    match asked.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["main"] => {
            on_services(&mut figures, async |figures| {
                let ran = once::few(figures).await;
                kafka::notices_are_readable(figures, &ran);
                drop(ran);
                once::many(figures).await;
            });
            doctests::documents_are_executed(&mut figures);
            doctests::order_is_held_by_types(&mut figures);
        }
        ["proof"] => proof::show(&mut figures),
        ["money", ref part @ ..] if part.len() <= 1 => {
            let part = part.first().copied();
            on_services(&mut figures, async |figures| money::show(figures, part).await);
        }
        ["ring", ref part @ ..] if part.len() <= 1 => {
            let part = part.first().copied();
            on_services(&mut figures, async |figures| ring::show(figures, part).await);
        }
        ["api", ref parts @ ..] => {
            on_services(&mut figures, async |figures| api::show(figures, parts).await);
        }
        ["outcomes", ref parts @ ..] => {
            on_services(&mut figures, async |figures| outcomes::show(figures, parts).await);
        }
        ["operate", ref parts @ ..] => {
            on_services(&mut figures, async |figures| operate::show(figures, parts).await);
        }
        _ => {
            eprintln!("which evidence? Known: main, proof, money, ring, api, outcomes, operate");
            return ExitCode::from(2);
        }
    }
    if figures.close().0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Shows it once the services are known to be real ones.
fn on_services(figures: &mut Figures, show: impl AsyncFnOnce(&mut Figures)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        kafka::services_are_real(figures).await;
        show(figures).await;
    });
}

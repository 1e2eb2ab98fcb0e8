//! What must be shown, run again: `make evidence-main`, `-proof`, `-money`, `-ring`, `-api` and `-outcomes`, or
//! `cargo test --features faults --test evidence -- main`.
//!
//! Prints one figure a line beside its bound and exits 1 where one falls short or was never put to
//! the test. `PUNCTUAL_EVIDENCE_SEED` changes what is asked for; the seed is printed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a run that cannot go on should stop")]
#![allow(clippy::disallowed_methods, reason = "real services run on real time")]
#![allow(unreachable_pub, reason = "tests/support is written as the small library that it is")]

mod api;
mod audited;
mod doctests;
mod figures;
mod kafka;
mod money;
mod once;
mod outcomes;
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
            let runtime =
                tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                kafka::services_are_real(&mut figures).await;
                let ran = once::few(&mut figures).await;
                kafka::notices_are_readable(&mut figures, &ran);
                drop(ran);
                once::many(&mut figures).await;
            });
            doctests::documents_are_executed(&mut figures);
            doctests::order_is_held_by_types(&mut figures);
        }
        ["proof"] => proof::show(&mut figures),
        ["money", ref part @ ..] if part.len() <= 1 => {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                kafka::services_are_real(&mut figures).await;
                money::show(&mut figures, part.first().copied()).await;
            });
        }
        ["ring", ref part @ ..] if part.len() <= 1 => {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                kafka::services_are_real(&mut figures).await;
                ring::show(&mut figures, part.first().copied()).await;
            });
        }
        ["api", ref part @ ..] if part.len() <= 1 => {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                kafka::services_are_real(&mut figures).await;
                api::show(&mut figures, part.first().copied()).await;
            });
        }
        ["outcomes", ref parts @ ..] => {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                kafka::services_are_real(&mut figures).await;
                outcomes::show(&mut figures, parts).await;
            });
        }
        _ => {
            eprintln!("which evidence? Known: main, proof, money, ring, api, outcomes");
            return ExitCode::from(2);
        }
    }
    if figures.close().0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

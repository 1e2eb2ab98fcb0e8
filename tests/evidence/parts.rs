//! Evidence that consists of named parts: all of them in their order, or those that were asked for by name.
//!
//! One part that breaks off does not hide what the others show, and a name that nobody knows is a failure: a run
//! that showed nothing must not look like a good one.

use crate::figures::{Figures, Holds, Verdict};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

/// What can be asked for.
#[derive(Debug)]
pub struct Parts {
    /// By their names, in the order of the run.
    pub names: &'static [&'static str],
    /// Longest of all of them together.
    pub longest: Duration,
}

impl Parts {
    /// All of them, or those in `asked`; `show` shows the one of a name.
    pub async fn run(&self, figures: &mut Figures, asked: &[&str], show: impl AsyncFn(&mut Figures, &str)) {
        let began = Instant::now();
        if let Some(part) = asked.iter().find(|part| !self.names.contains(part)) {
            return figures.line(part, "no such part", &self.names.join(", "), Verdict::Unknown);
        }
        for name in self.names.iter().copied().filter(|name| asked.is_empty() || asked.contains(name)) {
            let started = Instant::now();
            let ran = AssertUnwindSafe(show(figures, name)).catch_unwind().await;
            println!("  the part {name} took {} s", started.elapsed().as_secs());
            if ran.is_err() {
                let what = format!("the part {name}");
                figures.line(&what, "it broke off, as said above", "it ends", Verdict::FallsShort);
            }
        }
        if asked.is_empty() {
            figures.part("All of it");
            let took = began.elapsed();
            let bound = format!("≤ {} s", self.longest.as_secs());
            figures.holds("time", format!("{} s", took.as_secs()), &bound, Holds(took <= self.longest));
        }
    }
}

//! `punctual simulate`: how late a crowd gets, and whether any world breaks a promise.
//!
//! Both on virtual time, in this process, without a database or a broker; see [`crate::simulation`].
//! The answer goes to standard output, one figure a line; a bar shows progress on standard error.

use super::{Ended, Output, print};
use crate::platform::exit::Exit;
use crate::simulation::{Arrivals, Excess, Lateness, Met, Question, Seeds, Sweep, capacity, story, sweep};
use clap::{Args as ClapArgs, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::time::Duration;

/// A question about capacity; with --check, worlds full of faults instead.
#[derive(Debug, Clone, ClapArgs)]
pub(super) struct Args {
    /// How many payments.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    payments: u64,
    /// Due so many a second; without it all at one instant.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: Option<u64>,
    /// Requests that the gateway takes a second; without it as many as come.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    gateway_rate: Option<u64>,
    /// What the gateway does with requests beyond its rate.
    #[arg(long, value_enum, default_value_t)]
    excess: Beyond,
    /// From request to answer: one length, or four for 0, 50, 99 and 100 per cent of the answers.
    #[arg(long, value_name = "LENGTH", value_delimiter = ',', default_value = "80ms", value_parser = humantime::parse_duration)]
    latency: Vec<Duration>,
    /// Worker processes.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    workers: u64,
    /// Gateway calls in flight from one worker.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    max_in_flight: u64,
    /// How long a claim holds.
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration)]
    lease: Duration,
    /// Longest way to database and bus.
    #[arg(long, default_value = "2ms", value_parser = humantime::parse_duration)]
    network: Duration,
    /// Of all chance; of --check, the only world to run.
    #[arg(long)]
    seed: Option<u64>,
    /// Run worlds full of faults until so many payments were made, and check every promise.
    #[arg(long)]
    check: bool,
    /// Payments of one world of --check.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    each: u64,
    /// Threads of --check.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: u64,
    /// How to print the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Beyond {
    /// They wait for their turn.
    #[default]
    Waits,
    /// They are refused with 429.
    Refused,
}

/// Runs it.
///
/// # Errors
/// A promise was broken, a situation never met, or the options do not go together.
pub(super) fn simulate(args: &Args) -> Result<(), Ended> {
    if args.check { check(args) } else { ask(args) }
}

fn bar(of: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(of);
    // A constant template, tried by every test of this command.
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {elapsed}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what);
    bar
}

fn ask(args: &Args) -> Result<(), Ended> {
    let latency = match args.latency[..] {
        [one] => [one; 4],
        [least, half, most, worst] if least <= half && half <= most && most <= worst => {
            [least, half, most, worst]
        }
        _ => return Err(Ended::with(Exit::Usage, "--latency takes one length, or four that grow")),
    };
    if args.lease < Duration::from_secs(1) || latency[3] > args.lease / 2 {
        return Err(Ended::with(
            Exit::Usage,
            "--lease must be a second at least, and twice the longest answer",
        ));
    }
    let question = Question {
        pace: 0,
        payments: args.payments,
        arrivals: args.rate.map_or(Arrivals::Burst, Arrivals::PerSecond),
        gateway_rate: args.gateway_rate,
        excess: match args.excess {
            Beyond::Waits => Excess::Waits,
            Beyond::Refused => Excess::Refused,
        },
        latency,
        workers: usize::try_from(args.workers).unwrap_or(usize::MAX),
        max_in_flight: usize::try_from(args.max_in_flight).unwrap_or(usize::MAX),
        lease: args.lease,
        network: args.network,
        seed: args.seed.unwrap_or(0),
    };
    let bar = bar(question.payments, "charged");
    let answer = capacity(&question, |charged| bar.set_position(charged));
    bar.finish_and_clear();
    print(&args.output.shown(|| table(&answer), || json_of(&answer)))
}

fn shown(length: Duration) -> String {
    let whole = Duration::from_millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
    humantime::format_duration(whole).to_string()
}

fn table(answer: &Lateness) -> String {
    let mut lines = vec![
        format!("charged          {}", answer.charged),
        format!("left             {}", answer.left),
        format!("lateness p50     {}", shown(answer.p50)),
        format!("lateness p99     {}", shown(answer.p99)),
        format!("lateness max     {}", shown(answer.max)),
        format!("drained after    {}", shown(answer.drained_after)),
        format!("refused (429)    {}", answer.refused),
        format!("most waiting     {}", answer.most_waiting),
    ];
    lines.push("after the first due instant, waiting:".to_owned());
    lines.extend(answer.backlog.iter().map(|step| format!("  {:<14} {}", shown(step.after), step.payments)));
    lines.join("\n") + "\n"
}

fn json_of(answer: &Lateness) -> Value {
    let ms = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let backlog: Vec<_> = answer
        .backlog
        .iter()
        .map(|step| json!({ "afterMs": ms(step.after), "waiting": step.payments }))
        .collect();
    json!({
        "charged": answer.charged,
        "left": answer.left,
        "latenessMs": { "p50": ms(answer.p50), "p99": ms(answer.p99), "max": ms(answer.max) },
        "drainedAfterMs": ms(answer.drained_after),
        "refused": answer.refused,
        "mostWaiting": answer.most_waiting,
        "backlog": backlog,
    })
}

fn check(args: &Args) -> Result<(), Ended> {
    let each = usize::try_from(args.each).unwrap_or(usize::MAX);
    if let Some(seed) = args.seed {
        let one = Seeds { first: seed, payments: 1, each, twice: true, threads: 1 };
        return match sweep(&one, |_| {}).failures.pop() {
            Some(failure) => Err(Ended::with(Exit::Failed, failure.story)),
            None => print(&story(seed, each)),
        };
    }
    let seeds = Seeds {
        first: 0,
        payments: args.payments,
        each,
        twice: false,
        threads: usize::try_from(args.threads).unwrap_or(1),
    };
    let bar = bar(args.payments, "payments");
    let sum = sweep(&seeds, |sum: &Sweep| bar.set_position(sum.payments));
    let took = bar.elapsed();
    bar.finish_and_clear();
    print(&figures(&sum, took))?;
    let stories: Vec<_> = sum.failures.iter().map(|failure| failure.story.as_str()).collect();
    let never: Vec<_> = sum.never_met().into_iter().map(Met::text).collect();
    if !stories.is_empty() {
        Err(Ended::with(Exit::Failed, stories.join("\n")))
    } else if !never.is_empty() {
        let never = format!("UNKNOWN, for these were never met: {}", never.join(", "));
        Err(Ended::with(Exit::Failed, never))
    } else {
        Ok(())
    }
}

fn figures(sum: &Sweep, took: Duration) -> String {
    let per_minute = |count: u64| u128::from(count) * 60_000 / took.as_millis().max(1);
    let mut lines = vec![
        format!("{:>12}  seeds", sum.seeds),
        format!("{:>12}  seeds a minute", per_minute(sum.seeds)),
        format!("{:>12}  payments", sum.payments),
        format!("{:>12}  payments a minute", per_minute(sum.payments)),
        format!("{:>12}  events", sum.events),
        format!("{:>12}  hours of virtual time", sum.lasted.as_secs() / 3_600),
        format!("{:>12}  violations", sum.violations),
    ];
    let ended = crate::domain::state::Status::ALL.iter().zip(&sum.ended);
    lines.extend(ended.map(|(status, count)| format!("{count:>12}  ended {}", status.as_str())));
    let met = Met::ALL.iter().zip(&sum.met);
    lines.extend(met.map(|(met, count)| format!("{count:>12}  {}", met.text())));
    lines.join("\n") + "\n"
}

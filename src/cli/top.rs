//! `punctual top`: how the installation does, for an operator at a terminal.
//!
//! **Promises.** It asks what any client with `ops:read` may ask and changes nothing. What is wrong comes first, with
//! what mends it; then the figures of the dashboard's first page in the same words and order. It asks again when the
//! last answer has come and its time is over, never twice at once. An API that is away is said on the screen with
//! since when, and the last figures stay, marked as old. The terminal is given back however it ends: by a key, a
//! signal, an error or a panic.
//!
//! **How**: `seen` asks and reads, `state` keeps what was seen and chosen, `screen` draws it (both pure), `live`
//! waits for keys, answers and signals. Off a terminal one snapshot is printed like any list, `sheet`; `-o json` has
//! the documents of the API as they came.

mod live;
mod screen;
mod seen;
mod sheet;
mod state;

use super::Ended;
use super::output::{Face, Output, print};
use super::remote::Remote;
use crate::platform::config::Config;
use clap::Args;
use std::time::Duration;

pub(super) const HELP: &str = "\
Keys: q, Esc or Ctrl-C ends it; r asks at once; 1 to 4 or Tab chooses what is shown: everything, gateways, workers, \
problems; ? explains. In a pipe, or with --once, it prints one snapshot and ends. The API key needs the scope \
ops:read.

Examples:
  punctual top
  punctual top --once | grep ^problem
  punctual top -o json | jq .overview.waiting";

/// The shortest time between two questions: what is asked is kept for almost so long.
const SHORTEST: Duration = Duration::from_millis(500);
/// And the longest; whoever looks so seldom is better served by `--once`.
const LONGEST: Duration = Duration::from_secs(3_600);

/// How to look.
#[derive(Debug, Clone, Args)]
pub(super) struct Top {
    /// Ask again so often, from 500ms to 1h.
    #[arg(long, value_name = "LENGTH", default_value = "2s", value_parser = every)]
    every: Duration,
    /// Print one snapshot and end, also on a terminal.
    #[arg(long)]
    once: bool,
    /// How to print a snapshot; json and jsonl print one and end.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

fn every(text: &str) -> Result<Duration, String> {
    let length = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (SHORTEST..=LONGEST).contains(&length) { Ok(length) } else { Err("from 500ms to 1h".to_owned()) }
}

/// Runs it.
///
/// # Errors
/// The API's refusal: always for a snapshot; on the screen only what a first question is refused for, since no
/// waiting mends that.
pub(super) async fn run(asked: Top, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    let face = Face::of_stdout();
    match face {
        Face::Terminal { colour } if !asked.once && asked.output == Output::Table && is_capable() => {
            let address = crate::platform::config::without_user(&config.client.url);
            Box::pin(live::run(&remote, state::State::new(address, asked.every, colour))).await
        }
        Face::Terminal { .. } | Face::Pipe => {
            let look = seen::look(&remote.client).await?;
            match asked.output {
                Output::Table => sheet::print_all(&look, face),
                Output::Json | Output::Jsonl => {
                    print(&asked.output.shown(String::new, || look.documents.clone()))
                }
            }
        }
    }
}

/// Whether the terminal can be drawn upon.
fn is_capable() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_neither_without_pause_nor_so_seldom_that_nobody_would_wait() {
        assert_eq!(every("2s"), Ok(Duration::from_secs(2)));
        assert_eq!((every("500ms").is_ok(), every("1h").is_ok()), (true, true));
        for bad in ["0s", "499ms", "61m", "2", "often"] {
            assert!(every(bad).is_err(), "{bad}");
        }
    }
}

//! A one-shot command that is looked at while it runs: how long it takes, and how much memory it holds at most.

use super::imports::held_kib;
use super::installation::Installation;
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A command that ended.
#[derive(Debug)]
pub struct Watched {
    /// Its exit code.
    pub code: Option<i32>,
    /// Its answer.
    pub out: String,
    /// What it said about it.
    pub err: String,
    /// From its start to its end.
    pub took: Duration,
    /// Its peak of memory in KiB.
    pub peak_kib: u64,
}

impl Watched {
    /// Its answer as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_default()
    }

    /// The last words of what it said, for a line of figures.
    pub fn last_words(&self) -> String {
        let last = self.err.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        last.chars().take(120).collect()
    }
}

/// Runs it to its end with these settings over the installation's.
pub async fn watched(site: &Installation, arguments: &[&str], settings: &[(&str, &str)]) -> Watched {
    let mut command = site.command(arguments);
    for (setting, value) in settings {
        command.env(super::installation::variable(setting), value);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let began = Instant::now();
    let child = tokio::process::Command::from(command).kill_on_drop(true).spawn().expect("the binary runs");
    let status = format!("/proc/{}/status", child.id().expect("a process"));
    let peak = tokio::spawn(async move {
        let mut peak = 0;
        // Until the process is gone.
        while let Some(held) = held_kib(&status) {
            peak = peak.max(held);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        peak
    });
    let output = child.wait_with_output().await.expect("it ends");
    let took = began.elapsed();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Watched {
        code: output.status.code(),
        out: text(&output.stdout),
        err: text(&output.stderr),
        took,
        peak_kib: peak.await.expect("the watch does not panic"),
    }
}

//! `punctual dev` as somebody new starts it, and what it printed for a second shell.

use crate::support::installation::PUNCTUAL;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Longest until it is ready, and until it has ended.
pub(crate) const LONGEST: Duration = Duration::from_secs(90);

/// It ends with the value.
#[derive(Debug)]
pub(crate) struct Dev {
    child: Child,
    /// `NAME=value`, one a line.
    pub(crate) names: String,
}

impl Dev {
    /// As `make run` starts it, but beside whatever else uses the usual ports.
    pub(crate) async fn start(more: &[&str]) -> Self {
        let mut command = Command::new(PUNCTUAL);
        command.args(["dev", "--random-ports", "--until-stdin-closes"]).args(more);
        command.current_dir(std::env::temp_dir());
        for (name, _) in std::env::vars() {
            if name.starts_with("PUNCTUAL_")
                || ["DATABASE_URL", "KAFKA_BOOTSTRAP_SERVERS", "SANDBOX_URL"].contains(&&*name)
            {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut names = String::new();
        let read = async {
            while let Some(line) = lines.next_line().await.expect("text") {
                if line.starts_with("Ctrl-C") {
                    break;
                }
                let is_name = |name: &str| name.bytes().all(|it| it.is_ascii_uppercase() || it == b'_');
                if line.split_once('=').is_some_and(|(name, _)| is_name(name)) {
                    names.push_str(&line);
                    names.push('\n');
                }
            }
        };
        tokio::time::timeout(LONGEST, read).await.expect("it is ready in time");
        Self { child, names }
    }

    /// One of the names' values.
    pub(crate) fn value(&self, name: &str) -> &str {
        let found = self.names.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("no {name} in {}", self.names))
    }

    /// Its standard input ends, and so does it.
    pub(crate) async fn end(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        let ended = tokio::time::timeout(LONGEST, self.child.wait()).await.expect("it ends");
        ended.expect("a child can be waited for").code()
    }
}

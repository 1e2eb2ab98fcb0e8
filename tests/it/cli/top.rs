//! The terminal view against a real API, in a real pseudo terminal, as `script` makes one.

use super::operators::{People, look, say};
use crate::support::eventually;
use crate::support::installation::{Installation, PUNCTUAL};
use crate::support::stub::client;
use std::num::NonZeroU16;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};

const SOON: Duration = Duration::from_secs(20);
/// What takes the alternate screen, and what leaves it.
const TAKEN: &str = "\u{1b}[?1049h";
const LEFT: &str = "\u{1b}[?1049l";

const ROWS: NonZeroU16 = NonZeroU16::MIN.saturating_add(29);
const COLUMNS: NonZeroU16 = NonZeroU16::MIN.saturating_add(99);

/// A `top` in a terminal, with everything that it has written so far.
struct OnScreen {
    child: Child,
    keys: ChildStdin,
    written: Arc<Mutex<Vec<u8>>>,
    pid: tempfile::NamedTempFile,
}

impl OnScreen {
    fn begin(site: &Installation, key: &str, environment: &[(&str, &str)]) -> Self {
        let pid = tempfile::NamedTempFile::new().expect("a file");
        let line = format!(
            "stty cols {COLUMNS} rows {ROWS}; echo $$ > '{}'; exec '{PUNCTUAL}' top",
            pid.path().display()
        );
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).kill_on_drop(true);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("TERM", "xterm");
        command.env("SHELL", "/bin/sh").env("PUNCTUAL_URL", site.url("api-1")).env("PUNCTUAL_API_KEY", key);
        command.envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("script(1) is part of every Linux");
        let keys = child.stdin.take().expect("a pipe");
        let mut out = child.stdout.take().expect("a pipe");
        let written: Arc<Mutex<Vec<u8>>> = Arc::default();
        let all = Arc::clone(&written);
        tokio::spawn(async move {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = out.read(&mut piece).await {
                all.lock().expect("nobody panicked").extend_from_slice(&piece[..length]);
            }
        });
        Self { child, keys, written, pid }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("nobody panicked")).into_owned()
    }

    /// What somebody in front of it sees.
    fn seen(&self) -> String {
        let mut terminal = vt100::Parser::new(ROWS, COLUMNS, 0);
        terminal.process(&self.written.lock().expect("nobody panicked"));
        let screen = terminal.screen();
        if screen.alternate_screen() { screen.contents() } else { String::new() }
    }

    async fn shows(&self, words: &[&str]) {
        eventually(&format!("{words:?} on the screen"), SOON, || async {
            let seen = self.seen();
            words.iter().all(|word| seen.contains(word)).then_some(())
        })
        .await;
    }

    async fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).await.expect("pressed");
        self.keys.flush().await.expect("pressed");
    }

    /// How it ended, and whether the terminal was given back before.
    async fn ended(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().await.expect("it ends");
        eventually("the terminal is left", SOON, || async { self.text().contains(LEFT).then_some(()) }).await;
        (status.code(), self.text())
    }
}

async fn begun() -> (Installation, People) {
    let mut site = Installation::new(&[]).await;
    site.start("api", "api-1", &[]).await;
    let people = People::of(&site);
    (site, people)
}

#[tokio::test]
async fn a_terminal_shows_the_figures_until_q_is_pressed_and_is_given_back() {
    let (site, people) = begun().await;
    let mut top = OnScreen::begin(&site, &people.viewer, &[]);
    top.shows(&["Punctual", "Lateness p50 / p99", "Completed", "Parked", "hour"]).await;
    top.press("?").await;
    top.shows(&["Curves", "brackets"]).await;
    top.press("?q").await;
    let (code, text) = top.ended().await;
    assert_eq!(code, Some(0), "{text:?}");
    assert!(text.rfind(LEFT) > text.rfind(TAKEN), "{text:?}");
    assert!(text.contains("\u{1b}[38;5;"), "colours where they are wanted: {text:?}");
}

#[tokio::test]
async fn a_signal_gives_the_terminal_back_too_and_nobody_gets_colours_who_wants_none() {
    let (site, people) = begun().await;
    for signal in ["-TERM", "-HUP", "-QUIT"] {
        let top = OnScreen::begin(&site, &people.viewer, &[("NO_COLOR", "1")]);
        top.shows(&["Lateness", "Parked"]).await;
        let pid = std::fs::read_to_string(top.pid.path()).expect("written by the shell");
        let killed: Output =
            Command::new("kill").args([signal, pid.trim()]).output().await.expect("kill(1) runs");
        assert!(killed.status.success(), "{killed:?}");
        let (code, text) = top.ended().await;
        assert_eq!(code, Some(0), "{signal}: {text:?}");
        assert!(text.rfind(LEFT) > text.rfind(TAKEN), "{signal}: {text:?}");
        assert!(!text.contains("\u{1b}[38;5;"), "{signal}: {text:?}");
    }
}

#[tokio::test]
async fn a_key_that_may_not_look_ends_it_with_4_and_says_so_after_the_terminal_is_left() {
    let (site, people) = begun().await;
    let (code, text) = OnScreen::begin(&site, &people.warden, &[]).ended().await;
    assert_eq!(code, Some(4), "{text:?}");
    let said = text.rfind("missing_scope").expect("the API's refusal");
    assert!(said > text.rfind(LEFT).expect("left"), "{text:?}");
}

#[tokio::test]
async fn a_pipe_gets_one_snapshot_and_ends() {
    let (site, people) = begun().await;
    let viewer = &people.viewer;
    let table = say(&site, viewer, "top", 0, "figure\tParked\t0\t✓ nobody is waited for\n").await;
    assert!(table.out.starts_with("problem\t"), "nobody relays, which is wrong: {table:?}");
    assert_eq!(table.out.lines().filter(|line| line.starts_with("figure\t")).count(), 7, "{table:?}");
    let found = look(&site, viewer, "top").await;
    for part in ["problems", "overview", "forecast", "gateways", "workers"] {
        assert!(found[part].is_object(), "{part}: {found}");
    }
    assert_eq!(found["overview"]["hour"]["laterThan60s"], 0, "{found}");
    assert!(found["problems"]["data"][0]["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{found}");
    say(&site, &people.warden, "top", 4, "missing_scope").await;
    let mut gone = client("http://127.0.0.1:1");
    let gone = gone.arg("top").output().await.expect("the binary runs");
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
}

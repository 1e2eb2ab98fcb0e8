//! Processes that cannot outlive us.
//!
//! **Promise.** A [`Child`] is dead when its value is dropped, and dies within seconds when we are
//! killed with a signal that nobody can catch.
//!
//! **How.** Each child leads its own process group (so a terminal's Ctrl-C reaches only us, and we
//! stop things in order). In that group a small shell, the *leash*, reads a pipe whose other end
//! only we hold. When we die, however we die, the kernel closes our end, the leash reads the end of
//! the file, sends the child its last word and, five seconds later, kills the group. This needs no
//! `unsafe`, unlike a parent-death signal set between fork and exec, and it works for Java too.
//! The child is the shell's own process after `exec`, so its id is the one that we know. The id
//! cannot be given to a stranger while the leash lives, because the group still bears it.
//!
//! **If this dies here** (between spawn and the pid file of the service): the leash does the work.

use super::failure::Failure;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// `$1` is the last word (a signal name), the rest the command.
const LEASH: &str = r#"
exec 3<&0
(
  trap '' HUP INT TERM
  while read -r _; do :; done
  kill -s "$1" "$$"
  tries=0
  while kill -0 "$$" && [ "$tries" -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
  kill -s KILL -- "-$$"
) <&3 3<&- >/dev/null 2>&1 &
shift
exec "$@" </dev/null 3<&-
"#;

/// How often a dying child is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// An unprivileged system user, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// What a child is told when we go away without stopping it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastWord {
    /// SIGINT, which Postgres takes as "fast shutdown"; ten seconds of grace when dropped.
    Interrupt,
    /// SIGKILL at once: nothing is worth saving.
    Kill,
}

/// What to run.
#[derive(Debug)]
pub struct Launch {
    /// For messages.
    pub name: String,
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Where its output is appended.
    pub log: PathBuf,
    /// Its working directory.
    pub folder: PathBuf,
    /// Who runs it; `None` is ourselves.
    pub user: Option<User>,
    /// See [`LastWord`].
    pub last_word: LastWord,
}

/// A running process that dies with us. See the module.
#[derive(Debug)]
pub struct Child {
    name: String,
    log: PathBuf,
    last_word: LastWord,
    process: std::process::Child,
    /// Our end of the leash. Never written to; closed when the process is gone.
    _leash: Option<ChildStdin>,
}

impl Child {
    /// Starts the process.
    ///
    /// # Errors
    /// [`Failure::Io`] when the log cannot be opened or the shell cannot be run.
    pub fn start(launch: Launch) -> Result<Self, Failure> {
        let doing = || format!("start {} with its log {}", launch.name, launch.log.display());
        let log =
            OpenOptions::new().create(true).append(true).open(&launch.log).map_err(Failure::io(doing()))?;
        let errors = log.try_clone().map_err(Failure::io(doing()))?;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(LEASH).arg("leash");
        command.arg(match launch.last_word {
            LastWord::Interrupt => "INT",
            LastWord::Kill => "KILL",
        });
        command.arg(&launch.program).args(&launch.args).current_dir(&launch.folder);
        command.stdin(Stdio::piped()).stdout(log).stderr(errors).process_group(0);
        if let Some(user) = launch.user {
            command.gid(user.gid).uid(user.uid);
        }
        let mut process = command.spawn().map_err(Failure::io(doing()))?;
        let leash = process.stdin.take();
        Ok(Self { name: launch.name, log: launch.log, last_word: launch.last_word, process, _leash: leash })
    }

    /// The process id of the program itself.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> &std::path::Path {
        &self.log
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// [`Failure::NotUp`] if it has ended.
    pub(crate) fn still_up(&mut self) -> Result<(), Failure> {
        match self.ended() {
            None => Ok(()),
            Some(status) => Err(Failure::not_up(&self.name, format!("stopped ({status})"), &self.log)),
        }
    }

    /// Sends a signal to the program, unless it has ended.
    ///
    /// # Errors
    /// What the system answered.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.ended().is_some() {
            return Ok(());
        }
        // Not reaped yet (we are its only reaper), so the id is still its own.
        match i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            Some(pid) => Ok(kill_process(pid, signal)?),
            None => Ok(()),
        }
    }

    /// Asks it to end with `signal`, and kills it when it is still there after `within`.
    pub async fn stop(mut self, signal: Signal, within: Duration) {
        let _gone_already = self.signal(signal);
        let deadline = Instant::now() + within;
        while self.ended().is_none() && Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
        }
        self.kill();
    }

    /// Kills it and waits for its end.
    pub fn kill(mut self) {
        self.end_now();
    }

    fn end_now(&mut self) {
        // Both fail only when it has ended and been waited for.
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}

impl Drop for Child {
    /// Says the last word and waits. Blocks its thread for at most ten seconds.
    fn drop(&mut self) {
        if self.last_word == LastWord::Interrupt {
            let _gone_already = self.signal(Signal::INT);
            let deadline = Instant::now() + Duration::from_secs(10);
            while self.ended().is_none() && Instant::now() < deadline {
                std::thread::sleep(LOOK);
            }
        }
        self.end_now();
    }
}

/// The process group of a tool that has not been waited for.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            let _ended = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Runs a tool to its end, as `user`, and gives its output.
///
/// It and what it started are killed when the future is dropped. It has no leash: it is short.
///
/// # Errors
/// [`Failure::Io`] when it cannot be run, [`Failure::Refused`] when it fails.
pub(crate) async fn run_tool(
    mut command: Command,
    user: Option<User>,
    stdin: &[u8],
) -> Result<String, Failure> {
    use tokio::io::AsyncWriteExt;
    if let Some(user) = user {
        command.gid(user.gid).uid(user.uid);
    }
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut command = tokio::process::Command::from(command);
    let mut process = command.kill_on_drop(true).spawn().map_err(Failure::io(format!("run {program}")))?;
    let mut group = Group(process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    if let Some(mut pipe) = process.stdin.take() {
        // A tool that ends without reading its input says why in its output.
        let _ended = pipe.write_all(stdin).await;
    }
    let output = process.wait_with_output().await.map_err(Failure::io(format!("run {program}")))?;
    // Waited for: the number may be given to a stranger from now on.
    group.0 = None;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(out);
    }
    let said = format!("{out}\n{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = said.trim().lines().collect();
    Err(Failure::Refused { program, said: lines[lines.len().saturating_sub(25)..].join("\n") })
}

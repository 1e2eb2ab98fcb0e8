//! Stops a process that an earlier run left behind, and only if it is certainly ours.
//!
//! A pid file outlives its process, and the number may have been given to a stranger. So the caller
//! says how to recognise the process, we look it up under `/proc`, and a live process that is not
//! recognised is an error, never a target. Without `/proc` nothing is recognised.

use super::failure::Failure;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::path::Path;
use std::time::{Duration, Instant};

/// The process that the first line of a pid file names. A minus sign before the number is Postgres's
/// mark for a server without a supervisor, which is how initdb runs it.
/// `None` for everything that is no process id: empty, 0, words, more than 31 bits.
/// Source: `CreateLockFile` in `src/backend/utils/init/miscinit.c` of Postgres 10 and later.
pub(crate) fn named_in(text: &str) -> Option<Pid> {
    let line = text.lines().next()?.trim();
    let number: u32 = line.strip_prefix('-').unwrap_or(line).parse().ok()?;
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// Stops process `pid`, named by `file`, with `gentle`, and with SIGKILL ten seconds later.
/// Nothing happens when there is no such process.
///
/// # Errors
/// [`Failure::Foreign`] when it is alive and `is_ours` does not recognise its `/proc` folder.
pub(crate) async fn stop(
    pid: Pid,
    file: &Path,
    gentle: Signal,
    is_ours: impl Fn(&Path) -> bool,
) -> Result<(), Failure> {
    let proc = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
    let gone = || test_kill_process(pid).is_err() || is_zombie(&proc);
    if gone() {
        return Ok(());
    }
    if !is_ours(&proc) {
        // It may have ended between the two looks.
        let foreign = Failure::Foreign { pid: pid.as_raw_nonzero().get(), file: file.to_owned() };
        return if gone() { Ok(()) } else { Err(foreign) };
    }
    // A frozen process takes no gentle signal before it is thawed.
    let _gone = kill_process(pid, Signal::CONT);
    let _gone = kill_process(pid, gentle);
    let start = Instant::now();
    while !gone() && is_ours(&proc) {
        if start.elapsed() > Duration::from_secs(10) {
            let _gone = kill_process(pid, Signal::KILL);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn is_zombie(proc: &Path) -> bool {
    std::fs::read_to_string(proc.join("stat"))
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

#[cfg(test)]
mod tests {
    use super::named_in;

    #[test]
    fn a_pid_file_names_its_process_whatever_was_written_into_it() {
        let raw = |text| named_in(text).map(|pid| pid.as_raw_nonzero().get());
        assert_eq!(raw("19411\n/data\n"), Some(19411));
        // What initdb leaves when it is killed.
        assert_eq!(raw("-19411\n/data\n"), Some(19411));
        for none in ["", "\n", "0", "-0", "--7", "+-7", "x", "2147483648", "-2147483648", "99999999999"] {
            assert_eq!(raw(none), None, "{none:?}");
        }
    }
}

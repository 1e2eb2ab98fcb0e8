//! Stops a process that an earlier run left behind, and only if it is certainly ours.
//!
//! A pid file outlives its process, and the number may have been given to a stranger. So the caller
//! says how to recognise the process, we look it up under `/proc`, and a live process that is not
//! recognised is an error, never a target. Without `/proc` nothing is recognised.

use super::failure::Failure;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::path::Path;
use std::time::{Duration, Instant};

/// Stops process `pid`, named by `file`, with `gentle`, and with SIGKILL ten seconds later.
/// Nothing happens when there is no such process.
///
/// # Errors
/// [`Failure::Foreign`] when it is alive and `is_ours` does not recognise its `/proc` folder.
pub(crate) async fn stop(
    pid: i32,
    file: &Path,
    gentle: Signal,
    is_ours: impl Fn(&Path) -> bool,
) -> Result<(), Failure> {
    let proc = Path::new("/proc").join(pid.to_string());
    let gone = |pid| test_kill_process(pid).is_err() || is_zombie(&proc);
    let Some(id) = Pid::from_raw(pid) else { return Ok(()) };
    if gone(id) {
        return Ok(());
    }
    if !is_ours(&proc) {
        // It may have ended between the two looks.
        return if gone(id) { Ok(()) } else { Err(Failure::Foreign { pid, file: file.to_owned() }) };
    }
    // A frozen process takes no gentle signal before it is thawed.
    let _gone = kill_process(id, Signal::CONT);
    let _gone = kill_process(id, gentle);
    let start = Instant::now();
    while !gone(id) && is_ours(&proc) {
        if start.elapsed() > Duration::from_secs(10) {
            let _gone = kill_process(id, Signal::KILL);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn is_zombie(proc: &Path) -> bool {
    std::fs::read_to_string(proc.join("stat"))
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

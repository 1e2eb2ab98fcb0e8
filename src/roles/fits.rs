//! Whether what is configured fits into what the machine grants this process.
//!
//! **Promise.** A process never finds out under load that it has no file for a socket, or no memory for
//! the notices that it holds: what does not fit is made smaller at the start, with a log line that says
//! what and why, and a worker that could not hold one batch is not started. Less in flight costs lateness
//! and is seen in the metrics; a process that is killed for its memory costs more.
//!
//! **Why estimates.** They are upper bounds of what was seen, so that somebody who sets a limit meets it
//! here and not in the log of the kernel.

use crate::platform::config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files beside sockets of gateway, database and clients: three clients of the Kafka library with their
/// brokers, health, logs.
const OTHER_FILES: u64 = 128;
/// A worker that has nothing to do, with what the Kafka library may fetch ahead (16 MiB).
const IDLE_BYTES: u64 = 96 << 20;
/// One call in flight: two answers of 64 KiB (a look-up and a charge), buffers, and its share of TLS.
const CALL_BYTES: u64 = 192 << 10;
/// One notice that waits, with its place in the maps of instants and of offsets.
const HELD_BYTES: u64 = 512;

/// What the machine grants; `None`: no limit that we know of.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Granted {
    files: Option<u64>,
    memory_bytes: Option<u64>,
}

impl Granted {
    /// Asks the machine, after raising the limit of open files as far as it may be.
    pub(super) fn by_this_machine() -> Self {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        let files = if raised.is_ok() { maximum } else { current };
        Self { files, memory_bytes: memory_bytes() }
    }
}

/// The container's limit, of either version of control groups, else what the machine has.
fn memory_bytes() -> Option<u64> {
    let said = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let group =
        said("/sys/fs/cgroup/memory.max").or_else(|| said("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|told| total_bytes(&told));
    group.into_iter().chain(machine).min()
}

/// `MemTotal:       24546792 kB` among other lines.
fn total_bytes(told: &str) -> Option<u64> {
    let kib = told.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// Makes a worker fit.
///
/// # Errors
/// Not even one batch does; says what is missing.
pub(super) fn worker(config: &mut Config, granted: &Granted) -> Result<(), String> {
    let pool = u64::from(config.database.pool);
    let calls = wide(config.worker.max_in_flight.min(config.gateway.max_in_flight));
    let mut fitting = calls;
    if let Some(files) = granted.files {
        let room = files.saturating_sub(OTHER_FILES + pool);
        if room == 0 {
            return Err(format!(
                "this process may open {files} files (ulimit -n), and a worker with database.pool = {pool} needs \
                 more than {}",
                OTHER_FILES + pool
            ));
        }
        fitting = fitting.min(room);
    }
    if let Some(memory) = granted.memory_bytes {
        let batch = wide(config.worker.claim_batch) * HELD_BYTES;
        let room = memory.saturating_sub(IDLE_BYTES + batch) / CALL_BYTES;
        if room == 0 {
            return Err(format!(
                "this process may use {} MiB of memory, and a worker that holds one batch \
                 (worker.claim_batch = {}) and makes one call may need {} MiB",
                memory >> 20,
                config.worker.claim_batch,
                (IDLE_BYTES + batch + CALL_BYTES).div_ceil(1 << 20)
            ));
        }
        fitting = fitting.min(room);
        // What is left is at least the batch.
        let held = (memory - IDLE_BYTES - fitting * CALL_BYTES) / HELD_BYTES;
        if held < wide(config.worker.max_held) {
            tracing::warn!(
                asked = config.worker.max_held,
                held,
                memory_mib = memory >> 20,
                "worker.max_held does not fit into the memory of this process: fewer notices are held"
            );
            config.worker.max_held = narrow(held);
        }
    }
    if fitting < calls {
        tracing::warn!(
            asked = calls,
            in_flight = fitting,
            files = granted.files,
            memory_mib = granted.memory_bytes.map(|bytes| bytes >> 20),
            "worker.max_in_flight does not fit into the files or the memory of this process: fewer calls are made"
        );
    }
    config.worker.max_in_flight = narrow(fitting);
    Ok(())
}

/// Makes an API fit: connections beyond its files would be refused one by one.
pub(super) fn api(config: &mut Config, granted: &Granted) {
    let Some(files) = granted.files else { return };
    let room = files.saturating_sub(OTHER_FILES + u64::from(config.database.pool)).max(1);
    if room < wide(config.api.max_connections) {
        tracing::warn!(
            asked = config.api.max_connections,
            connections = room,
            files,
            "api.max_connections does not fit into the files of this process (ulimit -n): fewer are taken at once"
        );
        config.api.max_connections = narrow(room);
    }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn narrow(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::Record;

    fn granted(files: u64, memory_mib: u64) -> Granted {
        Granted { files: Some(files), memory_bytes: Some(memory_mib << 20) }
    }

    #[test]
    fn the_defaults_fit_into_a_container_of_256_mib() {
        let mut config = Config::default();
        worker(&mut config, &granted(1_024, 256)).unwrap();
        let plain = Config::default();
        assert_eq!(config.worker.max_held, plain.worker.max_held);
        assert_eq!(config.worker.max_in_flight, plain.worker.max_in_flight);
    }

    #[test]
    fn what_does_not_fit_is_made_smaller_until_it_does() {
        let mut config = Config::default();
        worker(&mut config, &granted(200, 256)).unwrap();
        assert_eq!(config.worker.max_in_flight, 200 - 128 - 8);
        worker(&mut config, &granted(1_024, 128)).unwrap();
        assert_eq!(config.worker.max_in_flight, 64, "it was smaller already");
        assert_eq!(config.worker.max_held, (20 << 20) / 512);
        worker(&mut config, &granted(1_024, 97)).unwrap();
        assert_eq!((config.worker.max_in_flight, config.worker.max_held), (4, 512));
        assert!(config.worker.max_held >= config.worker.claim_batch);
        api(&mut config, &granted(1_000, 97));
        assert_eq!(config.api.max_connections, 1_000 - 128 - 8);
    }

    #[test]
    fn a_worker_that_cannot_hold_one_batch_is_not_started() {
        let files = worker(&mut Config::default(), &granted(136, 256)).unwrap_err();
        assert!(files.contains("136 files") && files.contains("database.pool = 8"), "{files}");
        let memory = worker(&mut Config::default(), &granted(1_024, 96)).unwrap_err();
        assert!(memory.contains("96 MiB") && memory.contains("worker.claim_batch = 200"), "{memory}");
    }

    #[test]
    fn without_limits_nothing_changes_and_this_machine_has_some() {
        let mut config = Config::default();
        worker(&mut config, &Granted::default()).unwrap();
        assert_eq!(config.worker.max_in_flight, 256);
        let here = Granted::by_this_machine();
        assert!(here.memory_bytes > Some(IDLE_BYTES), "{here:?}");
    }

    #[test]
    fn a_notice_that_waits_is_not_larger_than_is_reckoned_with() {
        // In two maps half full, with the heap's part of its gateway's name.
        let held = size_of::<Record>() + size_of::<(u64, u64, u64)>() + 64;
        assert!(wide(held) * 2 <= HELD_BYTES, "{held}");
    }
}

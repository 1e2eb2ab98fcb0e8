//! The ledger's file: append-only, durable before any answer.
//!
//! **Promises**: [`Ledger::append`]'s receiver resolves only after `fsync` of the line; lines stand in
//! the order of `append`. **Why a thread**: many requests wait for one `fsync`; whatever arrived
//! during the last one shares the next. **If this dies** in the middle of a write, the last line is
//! torn; nobody was answered for it, so the next start cuts it off. Any other damage is refused.

use super::line::Line;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};

/// Most bytes written before an `fsync`.
const GROUP_MAX: usize = 1 << 20;

/// Bytes read at once at the start.
const READ_AHEAD: usize = 64 * 1024;

/// Why there is no ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file cannot be opened, read or cut.
    #[error("ledger {path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process writes it.
    #[error("ledger {0} is in use by another sandbox")]
    InUse(PathBuf),
    /// A whole line that was not written by a sandbox; look at it before anything else.
    #[error("ledger {path}, line {line}: {why}")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
}

enum Order {
    Append { bytes: Vec<u8>, durable: oneshot::Sender<()> },
    Close(oneshot::Sender<()>),
}

/// The open ledger.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    orders: mpsc::UnboundedSender<Order>,
    durable_bytes: Arc<AtomicU64>,
}

impl Ledger {
    /// Opens or makes the file, hands every whole line to `absorb` and cuts a torn last one. The
    /// second value resolves if a write ever fails; nothing is durable from then on.
    pub(super) fn open(
        path: &Path,
        absorb: impl FnMut(Line) -> Result<(), String>,
    ) -> Result<(Self, oneshot::Receiver<io::Error>), LedgerError> {
        let failed = |source| LedgerError::File { path: path.to_owned(), source };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LedgerError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let whole_bytes = replay(&mut file, path, absorb)?;
        file.set_len(whole_bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        sync_folder(path).map_err(failed)?;
        let durable_bytes = Arc::new(AtomicU64::new(whole_bytes));
        let (orders, inbox) = mpsc::unbounded_channel();
        let (fault, faults) = oneshot::channel();
        let reach = Arc::clone(&durable_bytes);
        std::thread::Builder::new()
            .name("sandbox-ledger".into())
            .spawn(move || write_all(file, inbox, &reach, fault))
            .map_err(failed)?;
        Ok((Self { path: path.to_owned(), orders, durable_bytes }, faults))
    }

    /// Queues one line, in call order. An error from the receiver: it never became durable.
    pub(super) fn append(&self, line: &Line) -> oneshot::Receiver<()> {
        let (durable, receiver) = oneshot::channel();
        // On failure `durable` is dropped, and the receiver says so.
        if let Ok(mut bytes) = serde_json::to_vec(line) {
            bytes.push(b'\n');
            let _ = self.orders.send(Order::Append { bytes, durable });
        }
        receiver
    }

    /// Where the file is and how much of it is durable.
    pub(super) fn durable(&self) -> (&Path, u64) {
        (&self.path, self.durable_bytes.load(Ordering::Acquire))
    }

    /// Writes what is queued, then gives the file back; later lines are refused.
    pub(super) async fn close(&self) {
        let (closed, receiver) = oneshot::channel();
        if self.orders.send(Order::Close(closed)).is_ok() {
            // An error here means that the thread has ended already.
            let _ = receiver.await;
        }
    }
}

fn replay(
    file: &mut File,
    path: &Path,
    mut absorb: impl FnMut(Line) -> Result<(), String>,
) -> Result<u64, LedgerError> {
    let failed = |source| LedgerError::File { path: path.to_owned(), source };
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut reader = BufReader::with_capacity(READ_AHEAD, file);
    let (mut whole_bytes, mut number, mut text) = (0_u64, 0_u64, Vec::new());
    loop {
        text.clear();
        let length = reader.read_until(b'\n', &mut text).map_err(failed)?;
        if length == 0 || text.last() != Some(&b'\n') {
            if length > 0 {
                tracing::warn!(path = %path.display(), length, "cut a torn last line off the ledger");
            }
            return Ok(whole_bytes);
        }
        number += 1;
        let line = serde_json::from_slice(&text).map_err(|error| error.to_string());
        if let Err(why) = line.and_then(&mut absorb) {
            return Err(LedgerError::Damaged { path: path.to_owned(), line: number, why });
        }
        // A length read into memory fits in 64 bits.
        whole_bytes += length as u64;
    }
}

/// A new file's name must survive a power cut too.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// Where lines become durable.
trait Disk {
    /// Returns once a power cut would not take the bytes any more.
    fn keep(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl Disk for File {
    fn keep(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)?;
        self.sync_data()
    }
}

fn write_all(
    mut file: impl Disk,
    mut inbox: mpsc::UnboundedReceiver<Order>,
    durable_bytes: &AtomicU64,
    fault: oneshot::Sender<io::Error>,
) {
    let (mut group, mut waiting, mut close) = (Vec::new(), Vec::new(), None);
    while close.is_none() {
        let mut next = inbox.blocking_recv();
        while let Some(order) = next {
            match order {
                Order::Append { bytes, durable } => {
                    group.extend_from_slice(&bytes);
                    waiting.push(durable);
                }
                Order::Close(closed) => close = Some(closed),
            }
            next = if close.is_some() || group.len() > GROUP_MAX { None } else { inbox.try_recv().ok() };
        }
        if group.is_empty() {
            break;
        }
        if let Err(error) = file.keep(&group) {
            // Whoever waits learns of it by the dropped senders; nobody is answered any more.
            let _ = fault.send(error);
            return;
        }
        durable_bytes.fetch_add(group.len() as u64, Ordering::Release);
        group.clear();
        for durable in waiting.drain(..) {
            // A receiver that went away needs no word.
            let _ = durable.send(());
        }
    }
    // The lock goes with the file, before anyone hears that it is closed.
    drop(file);
    if let Some(closed) = close {
        let _ = closed.send(());
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::Verdict;
    use super::*;
    use chrono::DateTime;

    fn line(seq: u64) -> Line {
        Line {
            seq,
            at: DateTime::from_timestamp(1_700_000_000, 5_000).expect("in range"),
            key: Some("k:1".into()),
            payment_id: Some("p".into()),
            epoch: Some(1),
            claim_id: None,
            fence: Some(3),
            due_at: None,
            amount: Some(5),
            currency: Some("EUR".into()),
            payee: Some("sim_ok".into()),
            verdict: Verdict::Charged,
            charged: true,
            request: super::super::line::Request::Charge,
            charge: None,
            taken: None,
        }
    }

    fn read(path: &Path) -> Result<(Ledger, Vec<Line>), LedgerError> {
        let mut lines = Vec::new();
        let (ledger, _) = Ledger::open(path, |line| {
            lines.push(line);
            Ok(())
        })?;
        Ok((ledger, lines))
    }

    #[test]
    fn a_line_has_exactly_the_documented_fields_in_order() {
        assert_eq!(
            serde_json::to_string(&line(1)).expect("text"),
            r#"{"seq":1,"at":"2023-11-14T22:13:20.000005Z","key":"k:1","paymentId":"p","epoch":1,"claimId":null,"fence":3,"dueAt":null,"amount":5,"currency":"EUR","payee":"sim_ok","verdict":"charged","charged":true}"#
        );
    }

    #[tokio::test]
    async fn a_torn_last_line_is_cut_and_whole_ones_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ledger");
        let (ledger, _) = read(&path).expect("made");
        for seq in 1..=3 {
            ledger.append(&line(seq)).await.expect("durable");
        }
        ledger.close().await;
        let whole = std::fs::read(&path).expect("bytes");
        let torn_at = whole.len() - 7;
        std::fs::write(&path, &whole[..torn_at]).expect("torn");
        let (ledger, lines) = read(&path).expect("opened");
        assert_eq!(lines, [line(1), line(2)]);
        ledger.append(&line(3)).await.expect("durable");
        ledger.close().await;
        assert_eq!(std::fs::read(&path).expect("bytes"), whole);
    }

    #[tokio::test]
    async fn a_damaged_whole_line_is_refused_by_number_and_nothing_is_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ledger");
        let good = serde_json::to_string(&line(1)).expect("text");
        let damaged = format!("{good}\n{{\"seq\":2}}\n{good}\n");
        std::fs::write(&path, &damaged).expect("written");
        let refused = read(&path).map(|_| ());
        assert!(matches!(refused, Err(LedgerError::Damaged { line: 2, .. })), "{refused:?}");
        assert_eq!(std::fs::read_to_string(&path).expect("text"), damaged);
    }

    /// Remembers how often it was written to; fails from a certain time on.
    struct Counting<'a> {
        writes: &'a mut usize,
        works_for: usize,
    }

    impl Disk for Counting<'_> {
        fn keep(&mut self, _: &[u8]) -> io::Result<()> {
            *self.writes += 1;
            if *self.writes > self.works_for { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
    }

    /// How often the disk was written to for `lines` waiting lines of that length, and who was told.
    fn written(lines: usize, length: usize, works_for: usize) -> (usize, usize) {
        let (orders, inbox) = mpsc::unbounded_channel();
        let mut receivers = Vec::new();
        for _ in 0..lines {
            let (durable, receiver) = oneshot::channel();
            orders.send(Order::Append { bytes: vec![b'x'; length], durable }).expect("queued");
            receivers.push(receiver);
        }
        drop(orders);
        let (mut writes, (fault, _faults)) = (0, oneshot::channel());
        write_all(Counting { writes: &mut writes, works_for }, inbox, &AtomicU64::new(0), fault);
        let told = receivers.iter_mut().filter_map(|receiver| receiver.try_recv().ok()).count();
        (writes, told)
    }

    #[test]
    fn lines_that_wait_together_share_one_fsync_up_to_the_bound() {
        assert_eq!(written(3_000, 300, usize::MAX), (1, 3_000));
        let (writes, told) = written(3_000, 1_000, usize::MAX);
        assert_eq!((writes, told), (3, 3_000), "no more than {GROUP_MAX} bytes and a line");
    }

    #[test]
    fn nobody_hears_durable_of_what_the_disk_did_not_take() {
        let (writes, told) = written(3_000, 1_000, 1);
        assert_eq!(writes, 2, "nothing is written after a failure");
        assert!(told > 1_000 && told < 1_100, "{told}");
    }

    #[tokio::test]
    async fn two_sandboxes_never_share_a_ledger() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ledger");
        let (first, _) = read(&path).expect("made");
        assert!(matches!(read(&path).map(|_| ()), Err(LedgerError::InUse(_))));
        first.close().await;
        assert!(read(&path).is_ok());
        assert!(first.append(&line(1)).await.is_err(), "a closed ledger takes nothing");
    }
}

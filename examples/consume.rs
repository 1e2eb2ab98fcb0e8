//! Follows the topic of events and keeps every event once, each payment's in order: the consumer to begin from.
//!
//!     KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:9092 cargo run --example consume -- events.ndjson
//!
//! **What it promises.** Whatever is delivered again, by a broker, by a replay or after `kill -9`, the file has each
//! event once, and each payment's in the order of `sequence` without a gap.
//!
//! **How.** An event's effect and the place that it takes in its payment are written together (here: a line of a
//! file; with you: a transaction of your database), and the offset is committed only after that. So a crash
//! repeats events, and what is known already is passed over. An event that comes before the one it follows waits,
//! and while one waits no offset is committed. A payment of which nothing is known begins with the first of its
//! events that is met: older ones may be past the topic's retention.
//!
//! All members of a group share one such book: partitions move between them.

#![allow(unreachable_pub, reason = "a test takes it as a module")]

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

/// Most events that are written, and committed, together.
const BATCH: usize = 500;
/// An event that is not followed by another within this is written alone.
const LINGER: Duration = Duration::from_millis(200);

/// What has to be known of an event; whoever needs more reads `data` and ignores what it does not know.
#[derive(Debug, Deserialize)]
struct Event {
    subject: String,
    sequence: i64,
}

/// The effects, and how far each payment's go.
#[derive(Debug)]
pub struct Book {
    file: File,
    last: HashMap<String, i64>,
    waiting: HashMap<String, BTreeMap<i64, String>>,
}

impl Book {
    /// Opens it and reads where it stands; a line that a crash cut short is taken back.
    ///
    /// # Errors
    /// The file cannot be used, or is no book.
    pub fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        file.seek(SeekFrom::End(0))?;
        let mut last = HashMap::new();
        for line in text[..whole].lines() {
            let event: Event = serde_json::from_str(line)?;
            last.insert(event.subject, event.sequence);
        }
        Ok(Self { file, last, waiting: HashMap::new() })
    }

    /// Takes an event as it was delivered; answers how many lines that made.
    ///
    /// # Errors
    /// It is no event, or the file cannot be written.
    pub fn take(&mut self, text: &str) -> Result<usize, Box<dyn Error>> {
        let event: Event = serde_json::from_str(text)?;
        match self.last.get(&event.subject) {
            // Met before.
            Some(last) if event.sequence <= *last => return Ok(0),
            // The one that it follows has not come yet.
            Some(last) if event.sequence > last + 1 => {
                self.waiting.entry(event.subject).or_default().insert(event.sequence, text.to_owned());
                return Ok(0);
            }
            Some(_) | None => {}
        }
        self.write(&event.subject, event.sequence, text)?;
        let (mut written, mut next) = (1, event.sequence + 1);
        while let Some(text) = self.waiting.get_mut(&event.subject).and_then(|them| them.remove(&next)) {
            self.write(&event.subject, next, &text)?;
            written += 1;
            next += 1;
        }
        // What was met again meanwhile needs no waiting any more.
        if let Some(them) = self.waiting.get_mut(&event.subject) {
            them.retain(|sequence, _| *sequence >= next);
        }
        self.waiting.retain(|_, them| !them.is_empty());
        Ok(written)
    }

    /// The effect: yours goes here.
    fn write(&mut self, payment: &str, sequence: i64, text: &str) -> Result<(), Box<dyn Error>> {
        self.file.write_all(format!("{text}\n").as_bytes())?;
        self.last.insert(payment.to_owned(), sequence);
        Ok(())
    }

    /// Everything taken is on the disk, and nothing waits: offsets may be committed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn is_settled(&mut self) -> Result<bool, Box<dyn Error>> {
        self.file.sync_data()?;
        Ok(self.waiting.is_empty())
    }
}

/// Follows a topic as a member of a group until `enough` says so, asked after every batch.
///
/// # Errors
/// Whatever no waiting mends.
pub fn follow(
    servers: &str,
    group: &str,
    topic: &str,
    book: &mut Book,
    mut enough: impl FnMut(&Book) -> bool,
) -> Result<(), Box<dyn Error>> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .create()?;
    consumer.subscribe(&[topic])?;
    while !enough(book) {
        let mut taken = 0;
        while taken < BATCH {
            match consumer.poll(LINGER) {
                None => break,
                // It comes back by itself.
                Some(Err(error)) => eprintln!("{error}"),
                Some(Ok(record)) => {
                    let text = std::str::from_utf8(record.payload().unwrap_or_default())?;
                    book.take(text)?;
                    taken += 1;
                }
            }
        }
        if taken > 0 && book.is_settled()? {
            match consumer.commit_consumer_state(CommitMode::Sync) {
                // The group moved on without us: what we wrote is known, so its repetition does no harm.
                Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => {}
                Err(error) => eprintln!("{error}"),
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("to which file?")?;
    let servers = std::env::var("KAFKA_BOOTSTRAP_SERVERS")?;
    let prefix = std::env::var("PUNCTUAL_KAFKA__TOPIC_PREFIX").unwrap_or_else(|_| "payments.".to_owned());
    let group = std::env::var("CONSUMER_GROUP").unwrap_or_else(|_| "example-consumer".to_owned());
    let mut book = Book::open(Path::new(&path))?;
    follow(&servers, &group, &format!("{prefix}events"), &mut book, |_| false)
}

//! A stand-in for Kafka inside our own process, for trying things out without Java.
//!
//! It is the mock cluster of the client library: real sockets and real clients (kcat too), but one
//! process's memory, no admin requests, and the newest 5 MiB of a partition at most. Nothing that
//! is proved on it counts as proved on Kafka; whoever uses it says so to people.
//!
//! The cluster's handle must stay on the thread that made it, so it lives on a thread of its own,
//! which takes topics to create over a channel and ends when the value is dropped.

use rdkafka::error::KafkaError;
use rdkafka::mocking::MockCluster;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Why there is no stand-in, or no such topic in it.
#[derive(Debug, thiserror::Error)]
pub enum InProcessError {
    /// The client library said no.
    #[error("the in-process broker refused: {0}")]
    Refused(#[from] KafkaError),
    /// Its thread is gone, which only a panic in the client library can cause.
    #[error("the in-process broker is gone")]
    Gone,
}

type Answer<T> = mpsc::SyncSender<Result<T, KafkaError>>;

struct NewTopic {
    name: String,
    partitions: i32,
    answer: Answer<()>,
}

/// A running stand-in with one broker.
#[derive(Debug)]
pub struct InProcessKafka {
    bootstrap_servers: String,
    /// `None` only while dropping: closing it ends the thread.
    orders: Option<mpsc::Sender<NewTopic>>,
    thread: Option<JoinHandle<()>>,
}

impl InProcessKafka {
    /// Starts it on a port of the system's choice.
    ///
    /// # Errors
    /// [`InProcessError::Refused`] when the client library cannot make one.
    pub fn start() -> Result<Self, InProcessError> {
        let (orders, inbox) = mpsc::channel::<NewTopic>();
        let (ready, started) = mpsc::sync_channel(1);
        let thread = std::thread::spawn(move || live(&ready, &inbox));
        let bootstrap_servers = started.recv().map_err(|_| InProcessError::Gone)??;
        Ok(Self { bootstrap_servers, orders: Some(orders), thread: Some(thread) })
    }

    /// `host:port` for clients.
    #[must_use]
    pub fn bootstrap_servers(&self) -> &str {
        &self.bootstrap_servers
    }

    /// Creates a topic, since the stand-in takes no such request from clients.
    ///
    /// # Errors
    /// [`InProcessError::Refused`], for one when the topic exists.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), InProcessError> {
        let (answer, answered) = mpsc::sync_channel(1);
        let orders = self.orders.as_ref().ok_or(InProcessError::Gone)?;
        orders
            .send(NewTopic { name: name.to_owned(), partitions, answer })
            .map_err(|_| InProcessError::Gone)?;
        Ok(answered.recv().map_err(|_| InProcessError::Gone)??)
    }
}

/// The thread: makes the cluster, says where it is, creates topics until nobody can ask any more.
fn live(ready: &Answer<String>, inbox: &mpsc::Receiver<NewTopic>) {
    let cluster = match MockCluster::new(1) {
        Ok(cluster) => cluster,
        Err(refused) => return drop(ready.send(Err(refused))),
    };
    if ready.send(Ok(cluster.bootstrap_servers())).is_err() {
        return;
    }
    for order in inbox {
        // Whoever asked and has gone away does not need the answer.
        let _asker_gone = order.answer.send(cluster.create_topic(&order.name, order.partitions, 1));
    }
}

impl Drop for InProcessKafka {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; there is nothing left to do about it here.
            let _panicked = thread.join();
        }
    }
}

//! Real Apache Kafka brokers on this machine, one Java process each, without a container engine.
//!
//! **Promise.** [`Cluster::start`] returns when metadata lists every broker; a [`Broker`] can be
//! stopped, killed, frozen and restarted on the same ports and data, and is gone when dropped.
//!
//! **Shape.** Each broker is also a controller (KRaft, static quorum). One broker by default; with
//! three or more, internal topics have three copies and `min.insync.replicas` is 2, as in production.
//! Small heaps, few internal partitions and no waiting for the first member of a group: it is ready
//! in about three seconds.
//!
//! **If this dies here**: see `children`; the next run stops what is left by our `broker.pid`.

use super::artifacts::Kafka;
use super::children::{Child, LastWord, Launch, run_tool};
use super::failure::Failure;
use super::home::make_folder;
use super::postgres::Durability;
use super::{orphans, ports};
use crate::bucket::probe;
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const READY_WITHIN: Duration = Duration::from_secs(90);
/// 16 bytes in URL-safe base64, as the storage tool wants; all our clusters may share it.
const CLUSTER_ID: &str = "cHVuY3R1YWwtZGV2LTAwMQ";

/// How a cluster is laid out.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Brokers, 1 or an odd number (they are also the quorum of controllers).
    pub brokers: u16,
    /// The first broker's port, its controller on the next one, and so on; `None` finds free ones.
    pub first_port: Option<u16>,
    /// [`Durability::TestOnly`] also trades the broker's peak speed for a quick start.
    pub durability: Durability,
}

/// Brokers that know each other.
#[derive(Debug)]
pub struct Cluster {
    /// In order of their ids, from 1.
    pub brokers: Vec<Broker>,
}

/// One broker: a Java process, its ports and its folder.
#[derive(Debug)]
pub struct Broker {
    id: u16,
    port: u16,
    folder: PathBuf,
    java: PathBuf,
    args: Vec<OsString>,
    process: Option<Child>,
}

impl Cluster {
    /// Formats what is new under `home/kafka`, starts every broker, waits until all are registered.
    ///
    /// # Errors
    /// Why it is not up, with the end of a broker's log.
    pub async fn start(kafka: &Kafka, home: &Path, options: &ClusterOptions) -> Result<Self, Failure> {
        let mut ports = Vec::new();
        for number in 0..options.brokers {
            let pair = match options.first_port {
                Some(first) => (first + 2 * number, first + 2 * number + 1),
                None => (ports::free(), ports::free()),
            };
            ports.push(pair);
        }
        let mut this = Self { brokers: Vec::new() };
        for (number, id) in (1..=options.brokers).enumerate() {
            let folder = home.join("kafka").join(id.to_string());
            make_folder(&folder, None)?;
            let settings = folder.join("server.properties");
            let mut text = server_properties(id, number, &ports, &folder);
            if options.durability == Durability::TestOnly {
                // A killed broker is registered again only when its old session has run out.
                text.push_str("broker.session.timeout.ms=2000\nbroker.heartbeat.interval.ms=500\n");
            }
            fs::write(&settings, text).map_err(Failure::io(format!("write {}", settings.display())))?;
            format_storage(kafka, &settings, &folder).await?;
            let args = java_args(kafka, options, &settings);
            let broker =
                Broker { id, port: ports[number].0, folder, java: kafka.java.clone(), args, process: None };
            this.brokers.push(broker);
        }
        for broker in &mut this.brokers {
            broker.launch()?;
        }
        let (servers, wanted) = (this.bootstrap_servers(), this.brokers.len());
        wait_ready(&servers, wanted, this.brokers.iter_mut().collect()).await?;
        Ok(this)
    }

    /// `host:port` of every broker, with commas.
    #[must_use]
    pub fn bootstrap_servers(&self) -> String {
        self.brokers.iter().map(Broker::address).collect::<Vec<_>>().join(",")
    }

    /// [`Failure::NotUp`] if a broker that should run has ended.
    pub(crate) fn still_up(&mut self) -> Result<(), Failure> {
        self.brokers.iter_mut().try_for_each(Broker::still_up)
    }

    /// Stops every broker in good order.
    pub async fn stop(&mut self) {
        futures_util::future::join_all(self.brokers.iter_mut().map(Broker::stop)).await;
    }
}

impl Broker {
    /// `127.0.0.1:port` for clients.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.join("broker.log")
    }

    /// Controlled shutdown; killed if it takes longer than 20 s.
    pub async fn stop(&mut self) {
        self.thaw();
        if let Some(process) = self.process.take() {
            process.stop(Signal::TERM, Duration::from_secs(20)).await;
        }
        let _absent = fs::remove_file(self.folder.join("broker.pid"));
    }

    /// As a crash.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }

    /// Stops its clock: connections stay open and nothing is answered.
    pub fn freeze(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Lets a frozen broker go on.
    pub fn thaw(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Stops it if it runs, starts it on the same ports and data, waits until it answers itself.
    ///
    /// # Errors
    /// Why it is not up.
    pub async fn restart(&mut self) -> Result<(), Failure> {
        self.stop().await;
        self.launch()?;
        wait_ready(&self.address(), 1, vec![self]).await
    }

    fn signal(&mut self, signal: Signal) {
        if let Some(process) = &mut self.process {
            // It fails only for a process that has just ended, which `still_up` reports.
            let _ended = process.signal(signal);
        }
    }

    fn still_up(&mut self) -> Result<(), Failure> {
        self.process.as_mut().map_or(Ok(()), Child::still_up)
    }

    fn launch(&mut self) -> Result<(), Failure> {
        if !ports::is_free(self.port) {
            return Err(Failure::PortTaken { name: "Kafka", port: self.port });
        }
        let process = Child::start(Launch {
            name: format!("Kafka broker {}", self.id),
            program: self.java.clone(),
            args: self.args.clone(),
            log: self.log(),
            folder: self.folder.clone(),
            user: None,
            last_word: LastWord::Kill,
        })?;
        let file = self.folder.join("broker.pid");
        fs::write(&file, process.id().to_string())
            .map_err(Failure::io(format!("write {}", file.display())))?;
        self.process = Some(process);
        Ok(())
    }
}

/// Asks in short rounds, so that a broker that ended is noticed at once.
async fn wait_ready(servers: &str, wanted: usize, mut brokers: Vec<&mut Broker>) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let asked = servers.to_owned();
        let answer = tokio::task::spawn_blocking(move || {
            probe::wait_for_brokers(&asked, wanted, Duration::from_millis(500))
        });
        let not_ready = match answer.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(not_ready)) => not_ready.to_string(),
            Err(panic) => panic.to_string(),
        };
        for broker in &mut brokers {
            broker.still_up()?;
        }
        if start.elapsed() > READY_WITHIN {
            let how = format!("was not ready after {} s ({not_ready})", READY_WITHIN.as_secs());
            return Err(Failure::not_up("Kafka", how, &brokers.first().map(|b| b.log()).unwrap_or_default()));
        }
    }
}

async fn format_storage(kafka: &Kafka, settings: &Path, folder: &Path) -> Result<(), Failure> {
    let mut tool = Command::new(&kafka.java);
    tool.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN", "-cp"]);
    tool.arg(&kafka.class_path).args(["kafka.tools.StorageTool", "format", "--ignore-formatted"]);
    tool.args(["--cluster-id", CLUSTER_ID, "--config"]).arg(settings).current_dir(folder);
    run_tool(tool, None, b"").await.map(drop)
}

fn java_args(kafka: &Kafka, options: &ClusterOptions, settings: &Path) -> Vec<OsString> {
    let heap = if options.brokers > 1 { "-Xmx384m" } else { "-Xmx512m" };
    let mut args: Vec<OsString> =
        vec![heap.into(), "-XX:+UseSerialGC".into(), "-XX:+ExitOnOutOfMemoryError".into()];
    if options.durability == Durability::TestOnly {
        args.push("-XX:TieredStopAtLevel=1".into());
    }
    args.extend(["-Dlog4j2.level=INFO".into(), "-cp".into(), kafka.class_path.clone()]);
    args.extend(["kafka.Kafka".into(), settings.into()]);
    args
}

fn server_properties(id: u16, number: usize, ports: &[(u16, u16)], folder: &Path) -> String {
    let (port, controller) = ports[number];
    let voters: Vec<String> =
        (1..).zip(ports).map(|(id, (_, controller))| format!("{id}@127.0.0.1:{controller}")).collect();
    let (copies, in_sync) = if ports.len() >= 3 { (3, 2) } else { (1, 1) };
    format!(
        "process.roles=broker,controller\n\
         node.id={id}\n\
         controller.quorum.voters={voters}\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
         controller.listener.names=CONTROLLER\n\
         inter.broker.listener.name=PLAINTEXT\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         log.dirs={folder}/data\n\
         auto.create.topics.enable=false\n\
         default.replication.factor={copies}\n\
         min.insync.replicas={in_sync}\n\
         offsets.topic.num.partitions=4\n\
         offsets.topic.replication.factor={copies}\n\
         transaction.state.log.num.partitions=2\n\
         transaction.state.log.replication.factor={copies}\n\
         transaction.state.log.min.isr={in_sync}\n\
         share.coordinator.state.topic.num.partitions=2\n\
         share.coordinator.state.topic.replication.factor={copies}\n\
         share.coordinator.state.topic.min.isr={in_sync}\n\
         group.initial.rebalance.delay.ms=0\n\
         group.min.session.timeout.ms=1000\n\
         num.network.threads=2\n\
         num.io.threads=4\n\
         log.cleaner.dedupe.buffer.size=4194304\n",
        voters = voters.join(","),
        folder = folder.display(),
    )
}

/// Kills brokers that an earlier run left in `home`, if they are certainly those.
///
/// # Errors
/// [`Failure::Foreign`] is not among them: a stranger with an old number is left alone.
pub(crate) async fn stop_left_over(home: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(home.join("kafka")).into_iter().flatten().flatten() {
        let settings = entry.path().join("server.properties");
        let file = entry.path().join("broker.pid");
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let Some(pid) = orphans::named_in(&text) else { continue };
        // Its command line names the settings file of this very folder.
        let is_ours = |proc: &Path| {
            let line = fs::read(proc.join("cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|argument| argument == settings.as_os_str().as_encoded_bytes())
        };
        match orphans::stop(pid, &file, Signal::TERM, is_ours).await {
            Ok(()) | Err(Failure::Foreign { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

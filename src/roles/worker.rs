//! The role that pays.

use super::{Ended, NO_KAFKA, Process, failed, fits, lost_commits, usage};
use crate::bucket::{self, topics};
use crate::domain::ids::WorkerName;
use crate::domain::retry::Ladders;
use crate::gateway::{self, Gateway};
use crate::platform::clock::SharedClock;
use crate::platform::config;
use crate::platform::exit::Exit;
use crate::platform::health::Readiness;
use crate::schedule::{Access, Postgres};
use crate::worker::{self, Condition, RefundParts, Refunder, Worker};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Due payments to the gateway, until shutdown.
///
/// # Errors
/// What ended it; a worker that found itself frozen ends with a failure, so that it is started anew.
pub async fn worker(mut process: Process) -> Result<(), Ended> {
    fits::worker(&mut process.config, &fits::Granted::by_this_machine()).map_err(usage)?;
    let health = process.serve_health().await?;
    let gateway = Arc::new(gateway::connect(&process.config.gateway, process.clock.clone()).map_err(usage)?);
    refuse_wrong_topics(&process.config.kafka, &process.clock).await?;
    let Some(schedule) = process.connect(Access::Worker).await? else { return Ok(()) };
    // Held by whatever asks on; a worker needs no answer to begin.
    let _question = lost_commits::ask_the_events(&process, &schedule).await?;
    register(&schedule, Gateway::profile(gateway.as_ref())).await?;
    let slot = process.name(&process.config.worker.slot);
    // Slot and incarnation: a restarted worker is another one in history.
    let name = WorkerName(format!("{slot}/{:08x}", process.dice.bits() >> 96));
    let (worker, condition, _) = Worker::new(worker::Parts {
        settings: process.config.worker.clone(),
        ladders: ladders(&process.config.ladder),
        name: name.clone(),
        schedule: Arc::new(schedule.clone()),
        store: Arc::new(worker::PostgresStore {
            schedule: schedule.clone(),
            names: bucket::Names::new(&process.config.kafka.topic_prefix),
        }),
        gateways: vec![Arc::clone(&gateway) as Arc<dyn Gateway>],
        clock: process.clock.clone(),
        dice: process.dice.clone(),
        join: joiner(&process.config, process.clock.clone()),
    });
    health.started(works(process.postgres_is_ready(&schedule), condition));
    let told = tokio::spawn(tell_of_leaving(process.clone(), schedule.clone()));
    let refunds = refunds(&process, &schedule, gateway, name, &worker);
    let asked_at = Arc::new(OnceLock::new());
    let (shutdown, clock, asked) = (process.shutdown.clone(), process.clock.clone(), Arc::clone(&asked_at));
    let stop = async move {
        shutdown.wait().await;
        asked.get_or_init(|| clock.mono());
    };
    let ended = worker.run(stop).await;
    if !process.shutdown.is_asked() {
        told.abort();
    }
    // Written long ago, unless the database does not answer.
    given(&process, TELL_WITHIN, told, "the others were not told that this worker leaves").await;
    if let Some((stop, refunds)) = refunds {
        // Whatever ended the worker; what was claimed is recorded first, within the time that charges had.
        stop.send_replace(true);
        let passed = asked_at.get().map_or(Duration::ZERO, |at| process.clock.mono().0.saturating_sub(at.0));
        let left = process.config.worker.drain.saturating_sub(passed);
        given(&process, left, refunds, "refunds in flight are abandoned; they are asked about").await;
    }
    process.leave(&schedule).await;
    said(ended, &process.config.worker.slot)
}

/// Waits for a task, but not for longer than this: a process that is asked to go is gone within 30 s.
async fn given(process: &Process, length: Duration, mut task: JoinHandle<()>, otherwise: &'static str) {
    tokio::select! {
        biased;
        // What it had to say it has logged.
        _ended = &mut task => {}
        () = process.clock.sleep(length) => {
            task.abort();
            tracing::warn!("{otherwise}");
        }
    }
}

/// How the process ends, after how its worker did.
fn said(ended: worker::Ended, slot: &str) -> Result<(), Ended> {
    match ended {
        // The drain has said it.
        worker::Ended::Stopped(_) => Ok(()),
        worker::Ended::Frozen(_) => Err(failed("the worker was frozen for half a lease; start it anew")),
        worker::Ended::Replaced(_) => Err(Ended::with(
            Exit::Replaced,
            format!(
                "another process joined the group as worker.slot = {:?}; this one has drained and ends, so that the \
                 two do not take the name from each other for ever: give each worker a slot of its own, or none",
                slot
            ),
        )),
        worker::Ended::Defect(_) => Err(failed("a step panicked; see the log, then start the worker anew")),
    }
}

/// Refunds beside the charges, where the account offers them.
fn refunds(
    process: &Process,
    schedule: &Postgres,
    gateway: Arc<gateway::HttpGateway>,
    name: WorkerName,
    worker: &Worker<Postgres>,
) -> Option<(watch::Sender<bool>, JoinHandle<()>)> {
    let profile = Gateway::profile(gateway.as_ref()).clone();
    let (pacer, brake) = worker.shares(&profile.name).filter(|_| profile.refunds)?;
    let refunder = Refunder::new(RefundParts {
        schedule: schedule.clone(),
        gateway,
        pacer,
        brake,
        ladders: ladders(&process.config.ladder),
        margin: process.config.worker.margin,
        at_once: process.config.worker.max_in_flight,
        name,
        clock: process.clock.clone(),
        dice: process.dice.clone(),
    });
    let (stop, mut stopped) = watch::channel(false);
    let run = tokio::spawn(async move {
        refunder
            .run(async move {
                // An error means that the sender is gone, and the process with it.
                let _ = stopped.wait_for(|stop| *stop).await;
            })
            .await;
    });
    Some((stop, run))
}

/// At the end, for a word to the others that has not been written yet.
const TELL_WITHIN: Duration = Duration::from_secs(1);

/// After the session the group takes a moment to give the partitions to others.
const HAND_OVER: Duration = Duration::from_secs(10);

/// Beside the drain: under a stable name the partitions wait for a restart, and the payments in them
/// must not.
async fn tell_of_leaving(process: Process, schedule: Postgres) {
    process.shutdown.wait().await;
    let slot = &process.config.worker.slot;
    if slot.is_empty() {
        return;
    }
    let length = process.config.kafka.session_timeout + HAND_OVER;
    if let Err(error) = schedule.worker_leaves(slot, length).await {
        tracing::warn!(%error, "the others do not know that this worker leaves; the late scan waits as usual");
    }
}

/// A worker that starts while Kafka is silent waits no longer for it: its due payments wait for the
/// worker, and topics are checked again before it joins.
const KAFKA_ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// Topics of a wrong shape end the start; missing topics or no Kafka do not, since the late scan works.
async fn refuse_wrong_topics(kafka: &config::Kafka, clock: &SharedClock) -> Result<(), Ended> {
    let checked = tokio::select! {
        biased;
        checked = topics::check(kafka, topics::Depth::NamesAndPartitions) => checked,
        () = clock.sleep(KAFKA_ANSWERS_WITHIN) => {
            tracing::warn!("Kafka does not answer: direct mode");
            return Ok(());
        }
    };
    match checked {
        Ok(topics::Ready::All) => Ok(()),
        Ok(topics::Ready::Missing(missing)) => {
            tracing::warn!(
                missing = missing.len(),
                first = missing.first(),
                "topics are missing: direct mode; run `punctual topics apply`"
            );
            Ok(())
        }
        Err(error @ topics::TopicsError::Unreachable(_)) => {
            tracing::warn!(%error, "no Kafka: direct mode");
            Ok(())
        }
        Err(error) => Err(usage(error)),
    }
}

/// Rule R4: an account's identity is not edited by configuration.
async fn register(schedule: &Postgres, profile: &gateway::Profile) -> Result<(), Ended> {
    let registered = schedule.register_gateway(&profile.name, &profile.account, profile.void_support());
    let on_record = registered.await.map_err(failed)?;
    if on_record == profile.account {
        return schedule.register_refunds(&profile.name, profile.refunds).await.map_err(failed);
    }
    Err(usage(format!(
        "gateway {} is on record with account {on_record:?}, and gateway.account says {:?}: a key is unique only \
         within one account; give the new account a new gateway.name",
        profile.name, profile.account
    )))
}

fn joiner(config: &config::Config, clock: SharedClock) -> worker::Join {
    let (kafka, slot) = (config.kafka.clone(), config.worker.slot.clone());
    let buffer = RING_BUFFER.min(config.worker.max_held / 16);
    let patience = bucket::Patience::default();
    Box::new(move || {
        let (kafka, slot, clock, patience) = (kafka.clone(), slot.clone(), clock.clone(), patience.clone());
        Box::pin(async move {
            match topics::check(&kafka, topics::Depth::NamesAndPartitions).await {
                Ok(topics::Ready::All) => {}
                Ok(topics::Ready::Missing(missing)) => {
                    return Err(format!("{} topics are missing", missing.len()));
                }
                Err(error) => return Err(error.to_string()),
            }
            let ring = bucket::Ring::join(&kafka, &slot, buffer, clock, &patience);
            ring.map_err(|error| error.to_string())
        })
    })
}

/// Records that may wait between Kafka's thread and the worker's loop. Of a small hold less, so that what a
/// crowded one keeps free is not filled by what was on its way already.
const RING_BUFFER: usize = 4_096;

fn works(readiness: Readiness, condition: watch::Receiver<Condition>) -> Readiness {
    let (closed, bus) = (condition.clone(), condition.clone());
    let tell = move |is_bad: fn(&Condition) -> bool, word: &'static str| {
        let condition = condition.clone();
        move || {
            let bad = is_bad(&condition.borrow());
            async move { if bad { Err(word.to_owned()) } else { Ok(()) } }
        }
    };
    readiness
        .noting("kafka", move || (!bus.borrow().kafka_is_up).then(|| NO_KAFKA.to_owned()))
        .with("clock", tell(|condition| condition.clocks_apart, "host and database clock are too far apart"))
        .with(
            "work",
            tell(|condition| condition.is_stuck, "due work and free slots, and nothing is finished"),
        )
        .noting("gateway", move || {
            let closed = closed.borrow().closed.clone();
            let said = closed.iter().map(|(gateway, why)| format!("{gateway}: {why}"));
            (!closed.is_empty()).then(|| said.collect::<Vec<_>>().join("; "))
        })
}

fn ladders(config: &config::Ladder) -> Ladders {
    Ladders {
        retry: config.retry.clone(),
        reask: config.reask.clone(),
        pending: config.pending.clone(),
        held_back: config.held_back.clone(),
        jitter_percent: config.jitter_percent,
        retry_after_cap: config.retry_after_cap,
        held_back_limit: config.held_back_limit,
        held_back_for: config.held_back_for,
    }
}

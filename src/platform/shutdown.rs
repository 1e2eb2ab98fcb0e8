//! One word to everybody: stop.
//!
//! The first SIGTERM or SIGINT asks: every loop that holds a [`Shutdown`] stops taking work,
//! finishes its calls and returns. The second ends the process at once, which is safe at any
//! instant (that is what claims and leases are for) and leaves outcomes to be asked for.

use super::clock::Clock;
use super::exit::Exit;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Says when to stop. Cheap to clone; every clone sees the same instant.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// Asks everybody to stop: by [`Trigger::stop`], or by being dropped, so that a part whose owner is
/// gone does not run on.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

impl Shutdown {
    /// A pair for tests and for parts that are stopped apart from the process.
    #[must_use]
    pub fn manual() -> (Trigger, Self) {
        let (send, receive) = watch::channel(false);
        (Trigger(send), Self(receive))
    }

    /// Listens for signals from now on, on the current runtime.
    ///
    /// # Errors
    /// The system refuses a signal handler.
    pub fn on_signals() -> std::io::Result<Self> {
        let (trigger, shutdown) = Self::manual();
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        tokio::spawn(listen(trigger, interrupt, terminate));
        Ok(shutdown)
    }

    /// Has it been asked?
    #[must_use]
    pub fn is_asked(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// The same word for code that waits on a plain channel: true, or a gone sender, means stop.
    #[must_use]
    pub fn receiver(&self) -> watch::Receiver<bool> {
        self.0.clone()
    }

    /// Returns once it has been asked; at once if it was before. Cancel-safe.
    pub async fn wait(&self) {
        // An error means that the trigger is gone, which asks too.
        let _ = self.0.clone().wait_for(|asked| *asked).await;
    }

    /// What `work` comes to; `None` once it was asked to stop and has had so long for what it had begun: it is given up
    /// where it stands, as by a second signal.
    pub async fn bounding<T>(
        &self,
        clock: &dyn Clock,
        length: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let over = async {
            self.wait().await;
            clock.sleep(length).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = over => None,
        }
    }

    /// The pause of a loop between two rounds: over early once it has been asked. Cancel-safe.
    pub async fn pause(&self, clock: &dyn Clock, length: Duration) {
        tokio::select! {
            biased;
            () = self.wait() => {}
            () = clock.sleep(length) => {}
        }
    }
}

impl Trigger {
    /// Asks; more than once does no harm.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

async fn listen(trigger: Trigger, mut interrupt: Signal, mut terminate: Signal) {
    either(&mut interrupt, &mut terminate).await;
    tracing::info!("asked to stop; a second signal stops at once");
    trigger.stop();
    either(&mut interrupt, &mut terminate).await;
    tracing::warn!("asked twice; stopping at once, outcomes of calls in flight will be asked for");
    std::process::exit(i32::from(Exit::Failed.code()));
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::clock::Host;

    #[tokio::test]
    async fn everybody_hears_it_also_those_who_ask_later() {
        let (trigger, shutdown) = Shutdown::manual();
        let early = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { shutdown.wait().await }
        });
        assert!(!shutdown.is_asked());
        trigger.stop();
        early.await.unwrap();
        assert!(shutdown.is_asked());
        shutdown.clone().wait().await;
    }

    #[tokio::test]
    async fn a_dropped_trigger_stops_too() {
        let (trigger, shutdown) = Shutdown::manual();
        drop(trigger);
        shutdown.wait().await;
        assert!(shutdown.is_asked());
    }

    #[tokio::test]
    async fn a_pause_ends_with_its_time_or_with_the_word() {
        let (trigger, shutdown) = Shutdown::manual();
        shutdown.pause(&Host, Duration::from_millis(1)).await;
        assert!(!shutdown.is_asked());
        trigger.stop();
        shutdown.pause(&Host, Duration::MAX).await;
    }

    #[tokio::test]
    async fn work_that_hangs_is_given_up_once_it_was_asked_to_stop_and_had_its_time() {
        let (trigger, shutdown) = Shutdown::manual();
        let length = Duration::from_millis(5);
        let hangs = || std::future::pending::<u8>();
        let before = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { shutdown.bounding(&Host, length, hangs()).await }
        });
        Host.sleep(length * 4).await;
        assert!(!before.is_finished(), "nobody asked yet");
        trigger.stop();
        assert_eq!(before.await.unwrap(), None);
        assert_eq!(shutdown.bounding(&Host, Duration::MAX, async { 7 }).await, Some(7));
    }

    #[tokio::test]
    async fn the_first_sigterm_asks_and_does_not_end_the_process() {
        let shutdown = Shutdown::on_signals().unwrap();
        assert!(!shutdown.is_asked());
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
        shutdown.wait().await;
        assert!(shutdown.is_asked());
    }
}

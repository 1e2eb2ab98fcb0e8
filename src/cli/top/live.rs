//! The loop: a key, an answer, a second or a signal, and the screen is drawn anew.
//!
//! One question is open at a time; the next one begins when the last has ended and its time has come, or somebody
//! asks. The terminal is given back when [`Screen`] goes, and by the library's own hook in a panic before its message
//! is printed.

use super::super::Ended;
use super::super::remote::Remote;
use super::screen;
use super::seen::{self, Look};
use super::state::{Next, State};
use crate::domain::lease::Mono;
use crate::platform::exit::Exit;
use crate::platform::shutdown::Shutdown;
use crossterm::event::{Event, EventStream};
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, Fuse, FusedFuture, FutureExt};
use ratatui::DefaultTerminal;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ages on the screen grow each second.
const TICK: Duration = Duration::from_secs(1);

/// A terminal that is ours until it is dropped.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> std::io::Result<Self> {
        // What was changed before it failed is taken back: it fails also half way.
        ratatui::try_init().map(Self).inspect_err(|_| give_back())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    // A terminal that is gone has nothing to be given back.
    let _ = ratatui::try_restore();
}

/// The signals that end a process whose terminal goes, which would leave one that stays in our mode.
struct Gone {
    hangup: Signal,
    quit: Signal,
}

impl Gone {
    /// Returns once one of them came. Cancel-safe.
    async fn wait(&mut self) {
        tokio::select! {
            biased;
            _ = self.hangup.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}

/// Until somebody has seen enough.
///
/// # Errors
/// What a first question is refused for; the terminal cannot be used.
pub(super) async fn run(remote: &Remote, state: State) -> Result<(), Ended> {
    let stop = Shutdown::on_signals()?;
    let gone = Gone { hangup: signal(SignalKind::hangup())?, quit: signal(SignalKind::quit())? };
    let mut screen = Screen::open()?;
    let ended = watched(remote, &mut screen, state, (&stop, gone)).await;
    // Before anything is said about how it ended.
    drop(screen);
    ended
}

async fn watched(
    remote: &Remote,
    screen: &mut Screen,
    mut state: State,
    (stop, mut gone): (&Shutdown, Gone),
) -> Result<(), Ended> {
    let clock = &remote.clock;
    let mut keys = EventStream::new();
    let mut open: Fuse<BoxFuture<'_, Result<Look, Ended>>> = Fuse::terminated();
    let mut next_at = clock.mono();
    loop {
        let now = clock.mono();
        state.now = clock.wall();
        if open.is_terminated() && now >= next_at {
            open = seen::look(&remote.client).boxed().fuse();
            state.asked_at = Some(state.now);
            next_at = Mono(now.0 + state.every);
        }
        screen.0.draw(|frame| screen::draw(&state, frame.area(), frame.buffer_mut()))?;
        let until_next = next_at.0.saturating_sub(now.0);
        let pause = if open.is_terminated() { until_next.min(TICK) } else { TICK };
        tokio::select! {
            biased;
            () = stop.wait() => return Ok(()),
            () = gone.wait() => return Ok(()),
            event = keys.next() => match event {
                Some(Ok(Event::Key(key))) => match state.pressed(key) {
                    Next::Quit => return Ok(()),
                    Next::Ask => next_at = clock.mono(),
                    Next::Stay => {}
                },
                // Another size: it is drawn anew.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Err(Ended::with(Exit::Failed, "the terminal sends no keys any more")),
            },
            look = &mut open => match look {
                Ok(look) => state.answered(look),
                Err(ended) if !state.has_seen() && is_for_good(ended.exit) => return Err(ended),
                Err(ended) => state.failed(ended.message.lines().next().unwrap_or("it failed")),
            },
            () = clock.sleep(pause) => {}
        }
    }
}

/// Nothing that waiting mends: a wrong address, a key that may not.
fn is_for_good(exit: Exit) -> bool {
    matches!(exit, Exit::Usage | Exit::NotAllowed | Exit::NotFound)
}

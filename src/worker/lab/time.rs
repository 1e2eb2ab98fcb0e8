//! Virtual time and seeded chance.
//!
//! Time stands still while any future can go on, then jumps to the next sleeper: a run of hours
//! takes milliseconds, and two runs are equal. Sleepers of the same instant wake in the order in
//! which they lay down.

use crate::domain::lease::Mono;
use crate::platform::clock::Clock;
use crate::platform::dice::Dice;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use futures_util::task::{ArcWake, waker};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The one time of a simulated world; as a [`Clock`] it is the true one, the database's.
#[derive(Debug, Clone)]
pub struct VirtualTime(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    began_at: DateTime<Utc>,
    elapsed: Duration,
    sleepers: BTreeMap<(Duration, u64), Waker>,
    sleeps: u64,
}

impl VirtualTime {
    /// Starts at `began_at`.
    #[must_use]
    pub fn new(began_at: DateTime<Utc>) -> Self {
        let state = State { began_at, elapsed: Duration::ZERO, sleepers: BTreeMap::new(), sleeps: 0 };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Jumps ahead without waking anyone in between: what a process sees that was frozen.
    pub fn jump(&self, length: Duration) {
        self.0.lock().unwrap().elapsed += length;
    }

    /// Runs `work` to its end, moving time on whenever nothing else can go on.
    ///
    /// # Panics
    /// If `work` waits for something that no sleeper will bring: a deadlock.
    pub fn run<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        let flag = Arc::new(Woken(AtomicBool::new(true)));
        let waker = waker(Arc::clone(&flag));
        let mut context = Context::from_waker(&waker);
        loop {
            while flag.0.swap(false, Ordering::SeqCst) {
                if let Poll::Ready(output) = work.as_mut().poll(&mut context) {
                    return output;
                }
            }
            assert!(self.wake_next(), "deadlock: nobody sleeps and nothing can go on");
        }
    }

    /// Runs `work` to its end with all tasks that it spawns, on one thread and without any timer:
    /// time moves on to the next sleeper exactly when no task can go on.
    ///
    /// # Panics
    /// If all wait for something that no sleeper will bring: a deadlock.
    pub fn block_on<F: Future>(&self, work: F) -> F::Output {
        let time = self.clone();
        let pulse = Arc::new(Pulse { main: Mutex::default(), woken: AtomicBool::new(true) });
        let idle = {
            let pulse = Arc::clone(&pulse);
            move || {
                assert!(time.wake_next(), "deadlock: nobody sleeps and nothing can go on");
                // A sleeper may belong to a future that nobody polls at the moment, so that no task was
                // scheduled; without this the thread would now sleep for ever.
                pulse.beat();
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().on_thread_park(idle).build().unwrap();
        let waker = waker(Arc::clone(&pulse));
        let mut work = pin!(work);
        runtime.block_on(std::future::poll_fn(move |context| {
            *pulse.main.lock().unwrap() = Some(context.waker().clone());
            if pulse.woken.swap(false, Ordering::SeqCst) {
                work.as_mut().poll(&mut Context::from_waker(&waker))
            } else {
                Poll::Pending
            }
        }))
    }

    fn wake_next(&self) -> bool {
        let mut state = self.0.lock().unwrap();
        let Some(((at, _), waker)) = state.sleepers.pop_first() else { return false };
        state.elapsed = state.elapsed.max(at);
        drop(state);
        waker.wake();
        true
    }

    /// Since it began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.lock().unwrap().elapsed
    }
}

/// Keeps the thread of a runtime turning, and tells a turn from a wake of the main future.
struct Pulse {
    main: Mutex<Option<Waker>>,
    woken: AtomicBool,
}

impl Pulse {
    fn beat(&self) {
        if let Some(main) = self.main.lock().unwrap().as_ref() {
            main.wake_by_ref();
        }
    }
}

impl ArcWake for Pulse {
    fn wake_by_ref(this: &Arc<Self>) {
        this.woken.store(true, Ordering::SeqCst);
        this.beat();
    }
}

struct Woken(AtomicBool);

impl ArcWake for Woken {
    fn wake_by_ref(this: &Arc<Self>) {
        this.0.store(true, Ordering::SeqCst);
    }
}

impl Clock for VirtualTime {
    fn wall(&self) -> DateTime<Utc> {
        let state = self.0.lock().unwrap();
        state.began_at + state.elapsed
    }

    fn mono(&self) -> Mono {
        Mono(self.elapsed())
    }

    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        let until = self.elapsed() + length;
        Box::pin(Sleep { state: Arc::clone(&self.0), until, place: None })
    }
}

/// Takes its place away with it when it is dropped: a sleeper that nobody waits for any more must not
/// be the one that time moves on to.
struct Sleep {
    state: Arc<Mutex<State>>,
    until: Duration,
    place: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.state.lock().unwrap();
        if state.elapsed >= this.until {
            return Poll::Ready(());
        }
        // Asked again before its time, it keeps its place among sleepers of the same instant.
        let number = *this.place.get_or_insert_with(|| {
            state.sleeps += 1;
            state.sleeps
        });
        state.sleepers.insert((this.until, number), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        // A poisoned lock is a failed run that is being unwound.
        if let (Some(number), Ok(mut state)) = (self.place, self.state.lock()) {
            state.sleepers.remove(&(self.until, number));
        }
    }
}

/// A host whose wall clock is wrong by a constant.
#[derive(Debug, Clone)]
pub struct SkewedClock {
    /// The true time.
    pub time: VirtualTime,
    /// Added to the true wall clock.
    pub skew: TimeDelta,
}

impl Clock for SkewedClock {
    fn wall(&self) -> DateTime<Utc> {
        self.time.wall() + self.skew
    }

    fn mono(&self) -> Mono {
        self.time.mono()
    }

    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        self.time.sleep(length)
    }
}

/// Chance that repeats: splitmix64, two draws for 128 bits.
#[derive(Debug)]
pub struct SeededDice(AtomicU64);

impl SeededDice {
    /// The same seed, the same throws.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// 64 random bits.
    pub fn draw(&self) -> u64 {
        let mut z =
            self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Dice for SeededDice {
    fn bits(&self) -> u128 {
        (u128::from(self.draw()) << 64) | u128::from(self.draw())
    }
}

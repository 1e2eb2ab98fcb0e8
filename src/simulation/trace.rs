//! What happened, as one running hash: two runs of one seed are equal if their hashes are.
//!
//! Every event is a situation with a name, an instant, a payment and a number. Counting them tells
//! what a run has met; a run that never met a situation has shown nothing about it. Texts are kept
//! only when a failing seed is run again, which the hash makes exact.

use super::checks::Violation;
use crate::domain::ids::PaymentId;
use crate::domain::invariants::Invariant;
use crate::worker::lab::VirtualTime;
use std::sync::{Arc, Mutex, MutexGuard};

macro_rules! situations {
    ($( $id:ident = $text:literal; )*) => {
        /// Something that a run met.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Met { $( #[doc = $text] $id, )* }

        impl Met {
            /// Every situation, in the order of the table.
            pub const ALL: &[Self] = &[ $( Self::$id, )* ];

            /// Its name for people.
            #[must_use]
            pub fn text(self) -> &'static str { match self { $( Self::$id => $text, )* } }
        }
    };
}

situations! {
    Created = "creates";
    CreateLost = "creates whose answer was lost";
    CreatedAgain = "creates repeated with the same key";
    CancelGranted = "cancels granted";
    CancelLost = "cancels whose answer was lost";
    CancelRefused = "cancels refused";
    CancelWished = "cancels recorded as a wish";
    Claimed = "claims won by a notice";
    ClaimedLate = "claims won by the late scan";
    Reasked = "claims that ask about an unknown outcome";
    Refused = "notices refused by their row";
    Early = "notices presented too early";
    Settled = "outcomes written";
    FencedSettle = "outcomes fenced off";
    Deferred = "notices left to the late scan";
    Renewed = "leases renewed while a call was in flight";
    RenewedTooLate = "renewals of claims that had been taken away";
    EpochGrew = "gateway keys replaced after a proven refusal";
    LeaseExpired = "leases expired";
    DeadlineFailed = "deadlines missed before any charge";
    FailedBefore = "database errors before anything happened";
    LostClaim = "claims performed whose answer was lost";
    LostSettle = "settles performed whose answer was lost";
    LostMark = "marks performed whose answer was lost";
    NeverArrived = "commits that never arrived and nobody knew";
    StrayClaim = "claims that committed long after they were given up";
    Published = "notices published";
    PublishedTwice = "notices doubled by the bus";
    Reordered = "batches reordered by the bus";
    NotAcknowledged = "notices without a delivery report";
    ShardLost = "marks refused because the shard had changed hands";
    Delivered = "notices delivered";
    Redelivered = "notices delivered again";
    Rebalanced = "partitions taken away";
    StaleCommit = "offset commits of a member of an old generation";
    KafkaSilent = "times the bus was silent";
    KafkaErased = "times the bus lost everything";
    WorkerCrashed = "worker crashes";
    RelayCrashed = "relay crashes";
    KeeperCrashed = "keeper crashes";
    WorkerStopped = "workers drained and started again";
    WorkerFroze = "workers that noticed they were frozen";
    Paused = "processes paused past a lease";
    PausedShortly = "processes paused for less than a lease";
    ClockStepped = "host clocks stepped";
    ClocksApart = "database clock samples too far from the host's";
    Charged = "charges";
    Collapsed = "requests that collapsed on their key";
    Voided = "keys voided";
    VoidTooLate = "voids of keys that were decided";
    VoidLost = "voids whose answer was lost";
    Tombstoned = "charges refused because their key was voided";
    Zombie = "requests of claims that were over when they arrived";
    GateClosed = "sends stopped because too little of the lease was left";
    TooEarly = "sends stopped because the host's clock said early";
    TooLate = "sends stopped by a deadline";
    KeyExpired = "claims that came to nothing because the key was too old";
    OnlyAsked = "claims that only asked";
    Completed = "payments completed";
    Failed = "payments failed";
    Parked = "payments parked";
    Retried = "payments that wait for another send";
    StaysUnknown = "payments that wait for another question";
    NotSent = "requests proven unsent";
    RequestLost = "requests lost on their way";
    RequestLate = "requests that arrived after their caller had given up";
    AnswerLost = "answers lost";
    ServerError = "answers 5xx";
    ServerErrorCharged = "answers 5xx to a charge that happened";
    InUse = "answers that the key is in use";
    Pending = "answers that the outcome is pending";
    Declined = "declines replayed under their key";
    DeclinedSoft = "soft declines";
    DeclinedHard = "hard declines";
    DeclinedNeedsCustomer = "declines that need the payer";
    DeclinedAmbiguous = "ambiguous declines";
    DeclinedUnmapped = "declines without a class";
    LookedUpCharge = "look-ups that found a charge";
    LookedUpDecline = "look-ups that found a decline";
    LookedUpPending = "look-ups that found an open question";
    NotFound = "look-ups that found nothing";
    LookupBehind = "look-ups that did not show what had happened";
    LookupDown = "look-ups that failed";
}

/// One event with its text.
#[derive(Debug, Clone)]
pub struct Told {
    /// Whose; `None` of the world.
    pub payment: Option<PaymentId>,
    /// For people.
    pub text: String,
}

#[derive(Debug)]
struct State {
    hash: u64,
    events: u64,
    met: Vec<u64>,
    told: Option<Vec<Told>>,
    broken: Vec<Violation>,
}

/// Everything that happened in one run; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    time: VirtualTime,
    state: Arc<Mutex<State>>,
}

/// Whether texts are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texts {
    /// For people, at several times the cost.
    Kept,
    /// Hash and counts alone.
    Left,
}

impl Trace {
    pub(super) fn new(time: VirtualTime, texts: Texts) -> Self {
        let told = (texts == Texts::Kept).then(Vec::new);
        let state = State {
            hash: 0xcbf2_9ce4_8422_2325,
            events: 0,
            met: vec![0; Met::ALL.len()],
            told,
            broken: Vec::new(),
        };
        Self { time, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// It happened now, to this payment, with a number that tells it from others of its kind.
    pub(super) fn met(&self, what: Met, payment: Option<PaymentId>, number: u64) {
        let at = self.time.elapsed();
        let mut state = self.state();
        state.events += 1;
        state.met[what as usize] += 1;
        let bits = payment.map_or(0, |id| id.as_uuid().as_u128());
        // Wide enough for days of microseconds; the lower halves are all that is hashed.
        for word in [at.as_micros() as u64, what as u64, bits as u64, (bits >> 64) as u64, number] {
            state.mix(word);
        }
        if let Some(told) = &mut state.told {
            told.push(Told { payment, text: format!("{:>11.6} s  {what:?} {number}", at.as_secs_f64()) });
        }
    }

    /// Something else that two runs must agree on.
    pub(super) fn mix(&self, word: u64) {
        self.state().mix(word);
    }

    /// A promise was broken.
    pub(super) fn broke(&self, invariant: Invariant, payment: Option<PaymentId>, what: impl Into<String>) {
        self.state().broken.push(Violation { invariant, payment, what: what.into() });
    }

    pub(super) fn broken(&self) -> Vec<Violation> {
        self.state().broken.clone()
    }

    /// Hash, events, how often each situation was met, and the texts.
    pub(super) fn end(&self) -> (u64, u64, Vec<u64>, Vec<Told>) {
        let state = self.state();
        (state.hash, state.events, state.met.clone(), state.told.clone().unwrap_or_default())
    }
}

impl State {
    fn mix(&mut self, word: u64) {
        let mut z = self.hash ^ word;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.hash = (z ^ (z >> 31)).rotate_left(5);
    }
}

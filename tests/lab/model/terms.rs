//! What one exploration is about: the gateway's personality, the faults allowed, the bounds, and the
//! one rule that is left out, if any.
//!
//! Time is counted in ticks of an hour, because the shortest length that `outcome` knows by itself
//! (the key life that a decline needs to close open sends) is an hour; every other length is a
//! parameter of the real functions and is scaled to ticks here. If a length is scaled wrongly, the
//! `met:` properties of the positive variants are not found and their tests fail.

use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::declines::DeclineCaps;
use punctual::domain::facts::{Declines, Facts, LookupSupport, VoidSupport};
use punctual::domain::lease::{Lease, Mono};
use punctual::domain::payment::{OnExhausted, RetryPolicy};
use punctual::domain::retry::Ladders;
use std::time::Duration;

/// Hours since the model's beginning.
pub type Tick = u8;

/// Nothing may be charged before this tick.
pub const DUE: Tick = 1;
/// A request that was sent arrives in this tick or the next one, or never.
pub const TRAVEL: Tick = 1;
/// How long the gateway remembers a key.
pub const KEY_TTL: Tick = 3;
/// Kept from it: longer than a request travels.
pub const KEY_MARGIN: Tick = 1;
/// Keys that can be in use: one per epoch, or one per claim where that rule is left out.
pub const KEYS: usize = 5;

const MINUTES: u64 = 60;
const BEGINNING: i64 = 1_795_957_200;

/// The instant at which a tick begins.
pub fn instant(tick: Tick) -> DateTime<Utc> {
    DateTime::from_timestamp(BEGINNING, 0).expect("in range") + TimeDelta::hours(tick.into())
}

/// The tick of an instant: an instant within a tick counts as its beginning, so that what waits for
/// minutes can happen in the same tick. (That allows more than the product does, never less.)
pub fn tick(instant: DateTime<Utc>) -> Tick {
    u8::try_from((instant.timestamp() - BEGINNING) / 3_600).expect("explorations last hours")
}

/// The same instant by the host's suspend-counting clock, which runs straight.
pub fn mono(tick: Tick) -> Mono {
    Mono(hours(tick))
}

fn hours(tick: Tick) -> Duration {
    Duration::from_secs(u64::from(tick) * 60 * MINUTES)
}

/// The one rule that is left out, or weakened. Each is asked for in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Break {
    /// All rules hold.
    Nothing,
    /// A settle is written whenever the row is PROCESSING, whoever holds it (against R2).
    NoFence,
    /// A settle is written whatever happened to its claim (against R2).
    StaleSettle,
    /// A repeated settle whose first COMMIT got through is taken for another worker's evidence (R2).
    OwnCommitForgotten,
    /// A cancel is granted while the outcome is unknown (against the moves of state.rs).
    CancelFromUnknown,
    /// An expired lease makes the payment PENDING again (against the moves of state.rs).
    LeaseToPending,
    /// A soft decline opens a new epoch although another send has no answer (against R4).
    EpochWithOpenSend,
    /// A hard decline makes FAILED although another send has no answer (against R8).
    FailedWithOpenSend,
    /// A gateway that forgets declines is believed to replay them (against R4, R8).
    FalseReplay,
    /// The key's age is looked at when the claim is planned, not before the write (against R6).
    KeyAgeAtClaimOnly,
    /// A key is used however old it is (against R6).
    AgelessKey,
    /// A claim that sent nothing takes the age back of a key that an earlier one used (against R6).
    AgeTakenBack,
    /// A failover loses the last commit, and work goes on (against R17).
    LostCommit,
    /// Each attempt has a key of its own (against R4).
    KeyPerAttempt,
    /// An unknown outcome is recorded as FAILED (against R8).
    UnknownIsFailed,
    /// "Not found" is believed to mean "not charged" (against R7).
    NotFoundIsClean,
    /// A send may start after its lease ended (against R14).
    SendAfterLease,
    /// The bytes are rendered anew for a key that is in use (against R4, R5).
    BodyAnew,
    /// The HTTP client repeats a request by itself (against R15).
    HiddenRetry,
    /// A claim and its send do not wait for the due instant (against R9).
    Early,
    /// A send does not wait for an answer to its claim's COMMIT (against R3).
    UncommittedClaim,
    /// Nobody takes an expired claim away (liveness alone suffers).
    NoReaper,
    /// A void is sent however old its key is, and its tombstone believed (against R6).
    VoidPastKey,
    /// A claim that finds a wish to cancel charges as if there were none.
    ChargeAfterWish,
    /// The gateway says "voided" and keeps no tombstone.
    NoTombstone,
    /// The void names the payment's first key, whatever its epoch.
    VoidOfAnotherEpoch,
    /// A wish makes the payment CANCELLED, before any void is proven.
    CancelledAtWish,
    /// A settle writes back the wish that its claim saw: none.
    WishLost,
    /// A person gets a new key although a send under the old one has no answer (against R4, R16).
    NewKeyWithOpenSend,
    /// A person releases what was declined for good (against R16).
    RedrivenAfterHard,
    /// What a person releases is PENDING whatever was sent under its key (against R16).
    RedrivenAsClean,
}

/// One exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Stable, for the printed line.
    pub name: &'static str,
    /// What the gateway does with a decline under its key.
    pub declines: Declines,
    /// Whether it can be asked about a key.
    pub lookup: LookupSupport,
    /// Whether it refuses another body under a key in use.
    pub compares_body: bool,
    /// Whether it may accept a charge and know its outcome later.
    pub pends: bool,
    /// Whether a void of a key makes every later charge under it refused.
    pub voids: bool,
    /// Whether the client may cancel.
    pub cancels: bool,
    /// `executeBefore`.
    pub deadline: Option<Tick>,
    /// What an exhausted budget does.
    pub exhausted: OnExhausted,
    /// How many ticks a claim holds.
    pub lease: Tick,
    /// How often a person may release it from parking.
    pub redrives: u8,
    /// Whether the COMMIT of a claim may go unanswered, got through or not.
    pub unanswered_claims: bool,
    /// Whether the COMMIT of a settle may go unanswered.
    pub unanswered_settles: bool,
    /// Whether the database may fail over.
    pub failover: bool,
    /// Whether another version of the renderer may be deployed.
    pub deploys: bool,
    /// Whether it may answer 429, which executes nothing and is not kept under the key.
    pub limits: bool,
    /// Whether the network may deliver a request twice. Harmless only where the gateway remembers
    /// under the key whatever it answered: it replays declines, and never says 429.
    pub duplicates: bool,
    /// Whether faults may end, after which the payment must come to an end too (L1).
    pub heals: bool,
    /// Whether workers crash, beside pausing for ever: that makes room for others.
    pub crashes: bool,
    /// Workers that hold or once held a claim and are not done, at most.
    pub workers: usize,
    /// Claims made while there are faults, at most.
    pub claims: u8,
    /// The last tick in which there are faults.
    pub horizon: Tick,
    /// Left out.
    pub broken: Break,
}

impl Terms {
    /// Without any option, at the bounds of the everyday run.
    pub const fn new(name: &'static str, declines: Declines, lookup: LookupSupport) -> Self {
        Self {
            name,
            declines,
            lookup,
            compares_body: true,
            pends: false,
            voids: false,
            cancels: false,
            deadline: None,
            exhausted: OnExhausted::Fail,
            lease: 1,
            redrives: 0,
            unanswered_claims: false,
            unanswered_settles: false,
            failover: false,
            deploys: false,
            limits: true,
            duplicates: false,
            heals: false,
            crashes: false,
            workers: 3,
            claims: 3,
            horizon: 4,
            broken: Break::Nothing,
        }
    }

    /// The gateway's promises as the product believes them, at the given version of the renderer.
    pub fn facts(&self, renderer: u8) -> Facts {
        let believed = match self.broken {
            Break::FalseReplay => Declines::Replayed,
            _ => self.declines,
        };
        let key_ttl = if self.broken == Break::AgelessKey { 100 } else { KEY_TTL };
        Facts {
            account: "sandbox-1".into(),
            renderer: renderer.into(),
            key_ttl: hours(key_ttl),
            key_margin: hours(KEY_MARGIN),
            declines: believed,
            lookup: self.lookup,
            voids: if self.voids { VoidSupport::ByKey } else { VoidSupport::None },
            async_final_within: self.pends.then(|| hours(PENDING_WITHIN)),
            caps: DeclineCaps::default(),
        }
    }

    /// A lease that ends within its last tick: its worker may start to send until then, and the
    /// reaper comes at the beginning of the next one.
    pub fn lease(&self) -> Lease {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let length = minutes(u64::from(self.lease) * MINUTES - 10);
        Lease { length, margin: minutes(5), gateway_total: minutes(20) }
    }

    /// One send after the first, and the actor's choice for when they are spent.
    pub fn retry(&self) -> RetryPolicy {
        RetryPolicy { max_sends: 2, on_exhausted: self.exhausted, ..RetryPolicy::default() }
    }
}

/// A charge that is pending at the gateway is decided within this many ticks.
pub const PENDING_WITHIN: Tick = 2;

/// A retry may follow within the same tick; questions wait for the next one.
pub fn ladders() -> Ladders {
    let tick = vec![hours(1)];
    Ladders {
        retry: vec![Duration::from_secs(60)],
        reask: tick.clone(),
        pending: tick.clone(),
        held_back: tick,
        jitter_percent: 0,
        ..Ladders::default()
    }
}

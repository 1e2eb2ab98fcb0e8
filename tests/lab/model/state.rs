//! One state: the database's row, the workers with their claims, what travels, what the gateway
//! keeps, and ghosts that only the invariants read.
//!
//! Workers and requests are sorted lists, so two states that differ only by which worker is which
//! are one state: symmetry is reduced by construction, and breadth-first search stays possible.

use super::gateway::{Kept, Request, Wants, Word};
use super::row::Row;
use super::terms::{DUE, KEYS, Tick};
use punctual::domain::invariants::Invariant;
use punctual::domain::state::Status;
use punctual::schedule::How;

/// The claim that holds the row: columns that `Row` does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Held {
    pub claim: u8,
    pub since: Tick,
}

/// How a worker came by what it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    Sending,
    Asking,
    Voiding,
    /// Neither.
    Itself,
}

impl By {
    pub fn how(self) -> How {
        match self {
            Self::Sending => How::Sent,
            Self::Asking => How::LookedUp,
            Self::Voiding => How::Voided,
            Self::Itself => How::NotStarted,
        }
    }
}

/// Where a worker stands with its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doing {
    /// The COMMIT of its claim was not answered.
    Unsure,
    /// It has planned nothing yet.
    Claimed,
    /// About to send: planned, looked up, rendered; not yet checked.
    AtGate(Wants),
    /// Its request is under way; perhaps an answer waits.
    Sent(Wants, Option<Word>),
    /// It knows, and decided upon it in that tick; now it has to settle.
    Knows { word: Word, by: By, at: Tick },
    /// It parks without a call.
    Parks,
}

/// A worker with a claim, current or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Worker {
    pub claim: u8,
    pub was: Status,
    /// The row after the claim: all that it ever sees of it.
    pub view: Row,
    pub asked_at: Tick,
    pub key_age: Option<Tick>,
    /// The renderer of its process, and with it the version of the bytes that it makes.
    pub renderer: u8,
    pub doing: Doing,
}

/// What the answers on record say, which a person's act is judged by; by epoch, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct OnRecord {
    pub charged: bool,
    pub for_good: bool,
    pub declined: u8,
    pub voided: u8,
}

/// What only invariants read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Ghost {
    /// Claims that sent, one bit each; forgotten when the claim's worker is gone.
    pub sent: u16,
    /// Charges in the gateway's ledger, over all keys.
    pub charges: u8,
    /// A cancel was answered 200.
    pub cancelled: bool,
    /// Claims made before a cancel was wished, if one was.
    pub wished: Option<u8>,
    /// A hard decline was recorded.
    pub hard: bool,
    /// Claims whose commit a failover lost, one bit each.
    pub lost: u16,
    /// The largest fence handed out.
    pub fence: u8,
    /// What steps broke, one bit each by the place in `Invariant::ALL`.
    broke: u64,
}

fn bit(invariant: Invariant) -> u64 {
    let at = Invariant::ALL.iter().position(|other| *other == invariant).expect("in the table");
    1 << at
}

impl Ghost {
    /// Remembers that a step broke this unless it is `sound`.
    pub fn demand(&mut self, invariant: Invariant, sound: bool) {
        if !sound {
            self.broke |= bit(invariant);
        }
    }

    pub fn holds(&self, invariant: Invariant) -> bool {
        self.broke & bit(invariant) == 0
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub now: Tick,
    /// No more faults.
    pub healed: bool,
    pub row: Row,
    pub holding: Option<Held>,
    /// Row, claim and closed attempts before the last commit; kept only where a failover loses that.
    pub before: Option<(Row, Option<Held>, u16)>,
    /// Claims made; names the next one.
    pub claims: u8,
    /// Attempts with an outcome or with evidence, one bit each by claim; kept only where a settle
    /// may be repeated.
    pub closed: u16,
    pub quarantined: bool,
    pub failovers: u8,
    /// Releases by a person so far.
    pub redrives: u8,
    /// Kept only where a person may release it.
    pub on_record: OnRecord,
    /// The renderer's version in service.
    pub deployed: u8,
    pub workers: Vec<Worker>,
    pub travelling: Vec<Request>,
    pub keys: [Option<Kept>; KEYS],
    pub ghost: Ghost,
}

impl State {
    pub fn new() -> Self {
        Self {
            now: 0,
            healed: false,
            row: Row::new(),
            holding: None,
            before: None,
            claims: 0,
            closed: 0,
            quarantined: false,
            failovers: 0,
            redrives: 0,
            on_record: OnRecord::default(),
            deployed: 1,
            workers: Vec::new(),
            travelling: Vec::new(),
            keys: [None; KEYS],
            ghost: Ghost::default(),
        }
    }

    /// Final or parked: where L1 wants it.
    pub fn is_at_end(&self) -> bool {
        self.row.status.is_final() || self.row.status == Status::Parked
    }

    /// Nothing is under way any more.
    pub fn is_quiet(&self) -> bool {
        let pending = |kept: &Kept| kept.held == super::gateway::Held::Pending;
        self.workers.is_empty() && self.travelling.is_empty() && !self.keys.iter().flatten().any(pending)
    }

    /// One state for all that behave alike: the order of workers and requests does not matter, and
    /// what nothing reads any more is blanked.
    pub fn canonical(mut self) -> Self {
        self.workers.sort_unstable();
        self.travelling.sort_unstable();
        if !self.row.status.is_claimable() {
            self.row.next_at = DUE;
        }
        for worker in &mut self.workers {
            worker.view.next_at = DUE;
            match worker.doing {
                Doing::Unsure | Doing::Claimed | Doing::AtGate(_) => {}
                // Only the gate looks at when the claim was asked for, and at how old the key was; that it
                // was used before is still asked.
                Doing::Sent(..) | Doing::Knows { .. } | Doing::Parks => {
                    (worker.asked_at, worker.key_age) = (0, worker.key_age.map(|_| 0));
                }
            }
        }
        for kept in self.keys.iter_mut().flatten() {
            if !kept.is_known(self.now) {
                kept.since = 0;
            }
        }
        self
    }
}

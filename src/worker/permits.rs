//! Permits with their windows, and the ticket that carries one of them to its call.
//!
//! **Promises.** None leaves before its window begins, nor later than [`GRACE`] after its end; one that has
//! left, for a claim, may start its call until [`ON_ITS_WAY`] after the end. A ticket that is dropped without
//! having been spent gives its permit back. Pure but for that; if this dies here, the time of permits passes.

use super::pacer::Pacer;
use crate::domain::lease::Mono;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A permit is taken no later than this after its window.
const GRACE: Duration = Duration::from_millis(200);
/// The claim that it is for takes a moment.
const ON_ITS_WAY: Duration = Duration::from_millis(350);
/// What nobody used is told for so long after its window; later, its time is over.
const WORTH_TELLING: Duration = Duration::from_millis(500);

/// All permits of one kind that a worker has.
#[derive(Debug, Default)]
pub(super) struct Permits {
    /// By the end of the window: its beginning, and how many are left.
    windows: BTreeMap<Mono, (Mono, u32)>,
    unused: u32,
}

impl Permits {
    /// So many, from then until then.
    pub(super) fn add(&mut self, from: Mono, until: Mono, calls: u32) {
        let place = self.windows.entry(until).or_insert((from, 0));
        place.1 += calls;
    }

    /// Those that may be taken now.
    pub(super) fn available(&mut self, now: Mono) -> usize {
        self.expire(now);
        let open = self.windows.values().filter(|(from, _)| *from <= now);
        open.map(|(_, left)| *left as usize).sum()
    }

    /// Those whose time has not passed, begun or not.
    pub(super) fn outstanding(&mut self, now: Mono) -> u32 {
        self.expire(now);
        self.windows.values().map(|(_, left)| *left).sum()
    }

    /// When the next window begins.
    pub(super) fn next_at(&self, now: Mono) -> Option<Mono> {
        self.windows.values().filter(|(from, left)| *from > now && *left > 0).map(|(from, _)| *from).min()
    }

    /// One of those, the first to end; answers its window's end.
    pub(super) fn take(&mut self, now: Mono) -> Option<Mono> {
        self.expire(now);
        let open = self.windows.iter_mut().find(|(_, (from, left))| *from <= now && *left > 0);
        let (until, (_, left)) = open?;
        let until = *until;
        *left -= 1;
        Some(until)
    }

    /// One that was taken and not used.
    pub(super) fn put_back(&mut self, until: Mono) {
        // Its window had begun, or it could not have been taken.
        self.add(Mono(Duration::ZERO), until, 1);
    }

    /// Those that nobody can use any more, to be told.
    pub(super) fn unused(&self) -> u32 {
        self.unused
    }

    /// So many will not be used: the last ones.
    pub(super) fn give_up(&mut self, count: u32) {
        let mut spare = count;
        for (_, left) in self.windows.values_mut().rev() {
            let given = spare.min(*left);
            *left -= given;
            spare -= given;
            self.unused += given;
        }
    }

    /// So many were told.
    pub(super) fn forget_unused(&mut self, told: u32) {
        self.unused = self.unused.saturating_sub(told);
    }

    /// May a call with a permit of this window start?
    pub(super) fn is_sendable(until: Mono, now: Mono) -> bool {
        now.0 <= until.0 + ON_ITS_WAY
    }

    fn expire(&mut self, now: Mono) {
        while let Some(first) = self.windows.first_entry()
            && first.key().0 + GRACE < now.0
        {
            let (until, (_, left)) = first.remove_entry();
            if now.0 <= until.0 + WORTH_TELLING {
                self.unused += left;
            }
        }
    }
}

/// What a ticket stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// No permits are needed.
    Free,
    /// One permit, of the window that ends then.
    Paced(Mono),
    /// The one call that finds out whether calls make sense.
    Probe,
    /// Nothing: its call has to wait for a permit.
    Void,
}

/// The right to start one charge, if nothing happens before.
#[derive(Debug)]
pub struct Ticket {
    pacer: Arc<Pacer>,
    kind: Kind,
    is_spent: bool,
}

impl Ticket {
    pub(super) fn new(pacer: Arc<Pacer>, kind: Kind) -> Self {
        Self { pacer, kind, is_spent: false }
    }

    /// Its call starts: what it stood for, once; a probe may look up first, and then charge.
    pub(super) fn spend(&mut self) -> Kind {
        match (self.kind, std::mem::replace(&mut self.is_spent, true)) {
            (Kind::Probe, _) => Kind::Probe,
            (_, true) => Kind::Void,
            (kind, false) => kind,
        }
    }

    /// Whether its call is a probe; then that has begun.
    pub(super) fn probes(&mut self) -> bool {
        self.is_spent |= self.kind == Kind::Probe;
        self.kind == Kind::Probe
    }

    /// No charge will follow: the permit is given back at once, but for a probe's.
    pub(super) fn is_not_needed(&mut self) {
        if self.kind != Kind::Probe && !std::mem::replace(&mut self.is_spent, true) {
            self.pacer.take_back(self.kind);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_spent || self.kind == Kind::Probe {
            self.pacer.take_back(self.kind);
        }
    }
}

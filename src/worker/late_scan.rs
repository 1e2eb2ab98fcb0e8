//! Rows that Kafka did not bring in time, and whose turn it is while there are many of them.
//!
//! **Promises.** Every `late_poll` each gateway's overdue rows are looked for, with slots that no notice
//! wants. A scan that finds as many as it asked for says that older rows wait than any notice of the same
//! lanes (actors) held here may be: the gateway is *behind*, and until a scan comes back with fewer, the
//! notices of those lanes wait and it is scanned again as soon as it has slots. Questions about unknown
//! outcomes alone do not make it so: they may take long, and must not keep a payment from its instant. So a
//! backlog goes oldest first (rule R10), over all workers: each scan takes the oldest rows that nobody holds.
//!
//! **Whose backlog.** Oldest first is a promise to one actor. While a gateway is behind, three take turns with
//! its free slots: notices of other lanes; the oldest rows of all; and the oldest rows of lanes that the
//! scans before did not bring, until every lane had its turn. So an actor's million does not stand before
//! another's ten. The last of the three reads past the crowd's rows, in time that grows with them, so it is
//! made seldom: what it takes longer than another scan is at most a twentieth of a worker's time. Where nothing is behind, there are no turns.
//! While a kill switch names some of a gateway's payments, every scan reads past theirs and all are made as seldom.
//!
//! **Why not by notices.** A worker that comes back to a day's backlog is given it partition by partition,
//! in the order in which Kafka hands them over, and another worker has the rest. Its hold sorts what it
//! has; only the schedule knows what is oldest.
//!
//! If this dies here, the rows are PENDING or UNKNOWN and found by the next scan of anybody.

use super::lane::Lane;
use super::run::{Done, Worker};
use super::step::Late;
use crate::domain::ids::GatewayName;
use crate::domain::lease::Mono;
use crate::schedule::Schedule;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Which gateways are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// All of them: it is time.
    All,
    /// Those that are behind.
    Behind,
    /// Those whose time it was while nothing could be claimed.
    Waiting,
}

/// What one scan asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scan {
    whose: Whose,
    wanted: usize,
    /// How long the answer took.
    took: Duration,
}

/// Whose rows a scan brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The oldest of all.
    Anyone,
    /// The oldest of lanes whose turn it was not yet.
    Others,
}

/// After a scan for others the next one waits so many times as long as this one took longer than usual.
const PAUSE_PER_LENGTH: u32 = 20;

/// Who goes next at a gateway that is behind.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The lanes of the last full scan for anyone: their rows are older than their notices.
    crowd: BTreeSet<i16>,
    /// Lanes that had their turn in this round of scans for others, and have more.
    had_theirs: BTreeSet<i16>,
    /// Notices went last, so a scan is next.
    scan_is_next: bool,
    /// A scan for anyone went last.
    others_are_next: bool,
    /// How long the last scan for anyone took.
    usual: Duration,
    /// `None`: at once.
    others_at: Option<Mono>,
}

impl Turns {
    /// Notices took slots.
    pub(super) fn notices_went(&mut self) {
        self.scan_is_next = true;
    }

    fn next_scan(&self, now: Mono) -> Whose {
        if self.others_are_next && self.others_at.is_none_or(|at| now >= at) {
            Whose::Others
        } else {
            Whose::Anyone
        }
    }

    /// Lanes that a scan passes over.
    fn passed_over(&self, whose: Whose) -> Vec<i16> {
        match whose {
            Whose::Anyone => Vec::new(),
            Whose::Others => self.crowd.union(&self.had_theirs).copied().collect(),
        }
    }

    /// A scan came back, full or not, with rows of these lanes; `poll` is the wait after one that found
    /// nobody.
    fn scanned(&mut self, scan: Scan, found: usize, lanes: BTreeSet<i16>, now: Mono, poll: Duration) {
        self.others_are_next = scan.whose == Whose::Anyone;
        match scan.whose {
            Whose::Anyone => (self.crowd, self.usual) = (lanes, scan.took),
            Whose::Others => {
                let nobody = found == 0 && self.had_theirs.is_empty();
                if found >= scan.wanted {
                    self.had_theirs.extend(lanes);
                } else {
                    // The round is over; whoever has more goes on before the crowd does.
                    self.others_are_next = !self.had_theirs.is_empty();
                    self.had_theirs.clear();
                }
                let longer = scan.took.saturating_sub(self.usual);
                let least = if nobody { poll } else { Duration::ZERO };
                self.others_at = Some(Mono(now.0 + (longer * PAUSE_PER_LENGTH).max(least)));
            }
        }
    }
}

impl<S: Schedule> Worker<S> {
    /// Starts scans where slots are free.
    pub(super) fn scan_late(&mut self, which: Which) {
        if self.brake.thrown().is_some() {
            return;
        }
        let now = self.clock.mono();
        let kafka_is_up = self.bus.is_up();
        let late_by = if kafka_is_up { self.settings.late_by } else { Duration::ZERO };
        for (name, lane) in &mut self.lanes {
            let is_meant = match which {
                Which::All => true,
                Which::Behind => lane.may_catch_up(now),
                // A gateway that is behind has turns, and is scanned in them.
                Which::Waiting => lane.scan_waits && !lane.behind && now >= lane.claims_at,
            };
            if lane.scans || !is_meant || now < lane.scans_at {
                continue;
            }
            let free = lane.free(now);
            lane.scan_waits = free == 0;
            // Half is left to notices that become due while the scan is asked.
            let spare = if kafka_is_up && !lane.behind { free.div_ceil(2) } else { free };
            let whose = if lane.behind { lane.turns.next_scan(now) } else { Whose::Anyone };
            // Who has few has room beside who has many.
            let spare = if whose == Whose::Others { spare.div_ceil(2) } else { spare };
            let spare = spare.min(self.settings.claim_batch);
            if spare == 0 {
                continue;
            }
            lane.scans = true;
            lane.turns.scan_is_next = false;
            let but_lanes = lane.turns.passed_over(whose);
            let (step, permits, name) = (Arc::clone(&lane.step), lane.take(spare, now), name.clone());
            let clock = Arc::clone(&self.clock);
            self.steps += 1;
            self.tasks.spawn(async move {
                let late = step.find_late(late_by, &but_lanes, permits).await;
                let took = clock.mono().0.saturating_sub(now.0);
                Done::LateScan(name, Scan { whose, wanted: spare, took }, late)
            });
        }
    }

    /// Carries out what a scan found. Still one of the steps: what was claimed must be sent or given back,
    /// drain or not.
    pub(super) fn found_late(&mut self, name: &GatewayName, scan: Scan, late: Late) {
        let now = self.clock.mono();
        let Some(lane) = self.lanes.get_mut(name) else { return };
        lane.scans = false;
        let lanes = late.lanes();
        if scan.whose == Whose::Anyone {
            lane.behind = late.len() >= scan.wanted && !lanes.is_empty();
        }
        if lane.pacer().is_selective() {
            // It read past what is switched off, which may be a crowd.
            lane.scans_at = Mono(now.0 + scan.took * PAUSE_PER_LENGTH);
        }
        lane.turns.scanned(scan, late.len(), lanes, now, self.settings.late_poll);
        lane.claims_at = lane.claims_at.max(Mono(now.0 + super::run::BETWEEN_CLAIMS));
        let step = Arc::clone(&lane.step);
        self.tasks.spawn(async move {
            step.carry_out_late(late).await;
            Done::Step
        });
    }
}

impl<S> Lane<S> {
    /// Whether notices may go now: always, but for the turns of a gateway that is behind.
    pub(super) fn takes_notices(&self) -> bool {
        !self.behind || !self.turns.scan_is_next
    }

    /// Whether the notices of a lane may go: no older row of the same lane is known to wait.
    pub(super) fn serves(&self, lane: i16) -> bool {
        !self.behind || !self.turns.crowd.contains(&lane) && !self.turns.had_theirs.contains(&lane)
    }

    /// Older rows wait than any notice may be, and a scan may look for them now.
    fn may_catch_up(&self, now: Mono) -> bool {
        self.behind && !self.scans && now >= self.claims_at.max(self.scans_at)
    }

    /// How long until it may; `None` if nothing is to be caught up with, or a step must end before.
    pub(super) fn until_catch_up(&self, now: Mono) -> Option<Duration> {
        let until_free = if self.behind && !self.scans { self.until_free(now) } else { None };
        until_free.map(|pause| pause.max(self.scans_at.0.saturating_sub(now.0)))
    }
}

//! What a person does with a parked payment: the release of `redrive_parked()`, around the product's own
//! `parked::redrive` and `parked::apply_redrive`, judged by what the answers on record say.

use super::protocol::Protocol;
use super::state::{OnRecord, State};
use super::terms::{Break, instant};
use punctual::domain::invariants::Invariant;
use punctual::domain::parked::{self, KeyWanted, Said};
use punctual::domain::state::{Cause, Status};
use punctual::domain::verdict::{DeclineClass, Verdict};

impl Protocol {
    /// Is there a release left for a person, while there are faults?
    pub fn may_redrive(&self, state: &State) -> bool {
        !state.healed && state.row.status == Status::Parked && state.redrives < self.terms.redrives
    }

    /// Rule R16: a person releases it, under its key or, with a second person, under a new one.
    pub fn redrive(&self, state: &mut State, key: KeyWanted) -> Option<()> {
        let (epoch, now) = (state.row.epoch, instant(state.now));
        let mut row = self.payment(&state.row);
        let mut said = state.on_record.said(epoch);
        match self.terms.broken {
            Break::NewKeyWithOpenSend => row.unanswered = 0,
            Break::RedrivenAfterHard => said.declined_for_good = false,
            _ => {}
        }
        let to = parked::redrive(&row, &said, key, None, Self::lineage(state), now).ok()?;
        if self.breaks(Break::RedrivenAsClean) {
            (state.row.unanswered, state.row.first_sent_at) = (0, None);
        }
        let to = if self.breaks(Break::RedrivenAsClean) { Status::Pending } else { to };
        self.write(state, Some(Cause::Redriven), |row| {
            parked::apply_redrive(row, key, to, now)?;
            Ok(())
        })?;
        state.redrives += 1;
        if state.row.epoch > epoch {
            let proven = self.is_proven_uncharged(state, epoch);
            state.ghost.demand(Invariant::M5, proven);
        }
        Some(())
    }
}

impl OnRecord {
    /// An answer is written down, with the attempt that learned it.
    pub fn hear(&mut self, verdict: &Verdict, epoch: u8) {
        match verdict {
            Verdict::Charged { .. } => self.charged = true,
            Verdict::Declined(decline) => {
                self.declined |= 1 << epoch;
                self.for_good |= !matches!(decline.class, DeclineClass::Soft | DeclineClass::Ambiguous);
            }
            Verdict::Voided => self.voided |= 1 << epoch,
            Verdict::NotSent { .. }
            | Verdict::InProgress { .. }
            | Verdict::PendingAtGateway { .. }
            | Verdict::Unknown(_)
            | Verdict::ContractViolation { .. } => {}
        }
    }

    fn said(self, epoch: u8) -> Said {
        Said {
            charged: self.charged,
            declined_for_good: self.for_good,
            declined_here: self.declined & 1 << epoch != 0,
            voided_here: self.voided & 1 << epoch != 0,
            // This gateway takes what it is asked for.
            charged_otherwise: false,
            // Nobody compares reports here.
            reported: false,
        }
    }
}

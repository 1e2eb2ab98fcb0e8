//! What the workers of an account share, in memory: the same rules on the virtual clock.

use super::{Memory, Verb};
use crate::domain::ids::GatewayName;
use crate::domain::pace::{Beat, Grant, Pace, Terms};
use crate::domain::switches::{Orders, Pause};
use crate::schedule::port::ScheduleError;

impl Memory {
    /// As `Postgres::beat_gateway`.
    pub async fn beat_gateway(
        &self,
        gateway: &GatewayName,
        terms: &Terms,
        beat: &Beat,
    ) -> Result<Grant, ScheduleError> {
        let beats = self.transact(Verb::Beat, |state, now| {
            let pace = state.paces.entry(gateway.clone()).or_insert_with(|| Pace::new(now));
            let grant = pace.beat(terms, beat, now);
            let pause = if state.held.contains(gateway) { Pause::Held } else { Pause::None };
            Grant { orders: Orders::of(gateway, pause, state.switches.clone()), ..grant }
        });
        beats.await
    }

    /// What is shared of this account, as it stands.
    pub fn pace(&self, gateway: &GatewayName) -> Option<Pace> {
        self.state().paces.get(gateway).cloned()
    }
}

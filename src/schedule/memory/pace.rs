//! What the workers of an account share, in memory: the same rules on the virtual clock.

use super::{Memory, Verb};
use crate::domain::ids::GatewayName;
use crate::domain::pace::{Beat, Grant, Pace, Terms};
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
            state.paces.entry(gateway.clone()).or_insert_with(|| Pace::new(now)).beat(terms, beat, now)
        });
        beats.await
    }

    /// What is shared of this account, as it stands.
    pub fn pace(&self, gateway: &GatewayName) -> Option<Pace> {
        self.state().paces.get(gateway).cloned()
    }
}

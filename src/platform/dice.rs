//! Chance as a parameter: claim ids and jitter. The simulation hands in a seeded one.

use crate::domain::ids::ClaimId;
use std::sync::Arc;

/// The only source of chance for stages, workers, relays and keepers.
pub trait Dice: Send + Sync + 'static {
    /// 128 random bits.
    fn bits(&self) -> u128;

    /// A name for a claim, never used before.
    fn claim_id(&self) -> ClaimId {
        ClaimId(uuid::Builder::from_random_bytes(self.bits().to_be_bytes()).into_uuid())
    }

    /// A number from 0 to 999, for jitter in per mille.
    fn per_mille(&self) -> u32 {
        // A remainder of 1000 fits in u32.
        u32::try_from(self.bits() % 1000).unwrap_or(0)
    }
}

/// Dice that can be shared.
pub type SharedDice = Arc<dyn Dice>;

/// The operating system's chance.
#[derive(Debug, Clone, Copy, Default)]
pub struct Os;

impl Dice for Os {
    fn bits(&self) -> u128 {
        rand::random()
    }
}

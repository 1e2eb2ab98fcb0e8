//! Rules R17 and R18: a database that lost commits charges nothing until two people have compared and release it, and
//! what was charged before is not charged again.

mod backup;
mod intent;
mod lost;
mod release;
mod rules;

use punctual::domain::ids::GatewayName;
use punctual::schedule::ReleaseTerms;

/// Days behind a lost one in which a charge may still be booked.
const LATER: u32 = 2;

/// What a release asks for where these gateways are configured.
fn asked_of(gateways: &[&str]) -> ReleaseTerms {
    let gateways = gateways.iter().map(|name| GatewayName((*name).to_owned())).collect();
    ReleaseTerms { grace_days: LATER, gateways }
}

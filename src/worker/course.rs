//! What a claim does at the gateway: the plan of `outcome`, held against the request's real bytes.
//!
//! **Promises.** A [`Course`] that may send carries the frozen request, so nothing is sent whose
//! bytes, account or renderer differ from those first sent under the key (rules R4, R5). A payment
//! that cannot be rendered any more, while an earlier send is open, is asked about, not parked away.
//!
//! Pure but for `prepare`, which is pure itself. If this dies here, nothing was sent yet.

use crate::domain::facts::{Declines, Facts, LookupSupport, VoidSupport};
use crate::domain::reason::Reason;
use crate::domain::verdict::NotSent;
use crate::gateway::{FrozenRequest, Gateway, Profile};
use crate::outcome::{self, Plan, View};
use crate::platform::failpoints::{Point, reach};
use crate::platform::faults::{Sabotage, sabotaged};
use crate::schedule::Claimed;
use chrono::{DateTime, Utc};
use std::time::Duration;

/// One claim's way.
#[derive(Debug)]
pub(super) enum Course {
    /// Send this.
    Send(FrozenRequest),
    /// Ask; send this if the gateway does not show the key.
    AskThenSend(FrozenRequest),
    /// Ask, and send nothing.
    Ask,
    /// Void the key.
    Void,
    /// Settle as not sent, without any call.
    GiveBack(NotSent),
    /// A human must look; nothing is called.
    Park(Reason),
}

/// Plans one claim. `now` is aligned to the database's clock.
pub(super) fn course(gateway: &dyn Gateway, facts: &Facts, claimed: &Claimed, now: DateTime<Utc>) -> Course {
    let plan = outcome::plan(&view(claimed), facts, now);
    match plan {
        Plan::Charge | Plan::LookUpThenCharge => {}
        Plan::LookUpOnly => return Course::Ask,
        // No bytes of ours go out but the key, so there is nothing to prepare.
        Plan::Void => return Course::Void,
        Plan::GiveBack(why) => return Course::GiveBack(why),
        Plan::Park(reason) => return Course::Park(reason),
    }
    reach(Point::BeforePrepare);
    let mut request = match (gateway.prepare(claimed), plan) {
        (Ok(request), _) => request,
        (Err(cannot), plan) => {
            tracing::error!(payment = %claimed.payment().id, %cannot, "no request can be made");
            let asks = plan == Plan::LookUpThenCharge;
            return if asks { Course::Ask } else { Course::Park(Reason::CannotRender) };
        }
    };
    if sabotaged(Sabotage::KeyPerAttempt) {
        request.key = format!("{}#{}", request.key, claimed.payment().attempt);
    }
    match outcome::with_request(plan, claimed.payment(), facts, &request.hash) {
        Plan::Charge => Course::Send(request),
        Plan::LookUpThenCharge => Course::AskThenSend(request),
        Plan::LookUpOnly => Course::Ask,
        Plan::Void => Course::Void,
        Plan::GiveBack(why) => Course::GiveBack(why),
        Plan::Park(reason) => Course::Park(reason),
    }
}

/// The claim as judgement sees it.
pub(super) fn view(claimed: &Claimed) -> View<'_> {
    View {
        payment: claimed.payment(),
        was: claimed.was(),
        key_age: claimed.key_age(),
        declines: claimed.declines(),
    }
}

/// Of a seeded bug alone: longer than any key lives.
const AGES: Duration = Duration::from_secs(90 * 86_400);

/// The part of a gateway's description that decides money questions.
#[must_use]
pub fn facts(profile: &Profile) -> Facts {
    Facts {
        account: profile.account.clone(),
        renderer: profile.renderer,
        key_ttl: if sabotaged(Sabotage::AgelessKey) { AGES } else { profile.key_ttl },
        key_margin: profile.key_margin,
        declines: if profile.replays_declines || sabotaged(Sabotage::FalseReplay) {
            Declines::Replayed
        } else {
            Declines::Forgotten
        },
        lookup: if profile.lookup { LookupSupport::ByKey } else { LookupSupport::None },
        voids: if sabotaged(Sabotage::FalseVoid) { VoidSupport::ByKey } else { profile.void_support() },
        async_final_within: profile.async_final_within,
        caps: profile.caps,
    }
}

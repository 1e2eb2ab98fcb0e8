//! `/v1/webhook-endpoints`: where an actor is told of its payments, and what came of it.
//!
//! **Promises.** Everything here is the caller's own; another's endpoint is answered exactly like one that does not
//! exist. A secret is in the one answer that makes it and nowhere else. What is accepted as an address is judged here
//! (`url`) and by the sender at each call again. A resend owes an event; it sends nothing itself, so no request of a
//! client makes this process call anybody.
//!
//! **Relies on** the schedule for the acts, and on the sender (`publisher`) for what happens then. If an answer is lost,
//! the endpoint that it would have shown is in the list; of its secret nobody knows, so rotate it.

mod deliveries;
mod endpoints;
mod told;
mod url;

pub(super) use deliveries::{list as deliveries, resend, resend_failed, show as delivery};
pub(super) use endpoints::{change, create, delete, disable, enable, get, rotate, show, test};
pub(super) use told::TOLD;

use super::problem::{Code, Problem};
use crate::platform::config;
use ipnet::IpNet;
use std::time::Duration;
use uuid::Uuid;

/// What the installation allows.
#[derive(Debug, Clone)]
pub(super) struct HookTerms {
    allow: Vec<IpNet>,
    most_endpoints: u32,
    overlap: Duration,
    keep_days: u32,
}

impl HookTerms {
    pub(super) fn of(settings: &config::Webhooks) -> Self {
        Self {
            allow: settings.allow.clone(),
            most_endpoints: settings.max_endpoints,
            overlap: settings.secret_overlap,
            keep_days: settings.keep_days,
        }
    }
}

/// The endpoint in a path.
///
/// # Errors
/// 404, like an unknown one.
fn endpoint_id(text: &str) -> Result<Uuid, Problem> {
    // One spelling, as in every answer: `Uuid` would read several.
    let id = Uuid::try_parse(text).ok().filter(|id| id.as_hyphenated().to_string() == text);
    id.ok_or_else(|| Problem::new(Code::WebhookEndpointNotFound))
}

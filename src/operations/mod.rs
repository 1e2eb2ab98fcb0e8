//! Stage 11, for people: what is held for them, and what they may do about it.
//!
//! **Promises.** A look needs `ops:read`, an act the scope of its kind, and a reason. Every act is one verb of the
//! schedule, whose own guard decides on the locked row: what is shown as possible here is advice, and two people
//! at two consoles are told which of them came first. What one person may not do alone becomes an approval: 202
//! with its id, and a second person carries it out. Nothing here calls a gateway or moves money; an act makes a
//! payment claimable at most, and a worker looks up before it sends.
//!
//! **Relies on** `intake` for who asks and how a request is read, and on `schedule` for everything else.
//!
//! **If this dies here**, an act happened whole or not at all; whoever repeats it is told.

mod acts;
mod approvals;
mod bulk;
mod gateways;
mod parked;
mod payments;
mod problems;
mod reconciliation_shapes;
mod reconciliations;
mod quarantine;
mod quarantine_advice;
mod redrive;
mod refund_resolve;
mod refunds;
mod refusal;
mod resolve;
mod shapes;
mod switches;

pub(crate) use reconciliation_shapes::by_class;
pub use reconciliation_shapes::{
    found as difference_as_json, item as item_as_json, run as reconciliation_as_json, sum as sum_as_json,
};

use crate::domain::ids::GatewayName;
use crate::gateway::{DECLINE_TABLE, may_retry};
use crate::intake::{Code, Intake, Needs, Pairs, Problem, trouble};
use crate::platform::clock::SharedClock;
use crate::platform::config::{self, Config};
use crate::schedule::{ReleaseTerms, ScheduleError};
use axum::Router;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use std::sync::Arc;
use uuid::Uuid;

/// An id in a path; what cannot be read is no id.
type IdInPath = Result<Path<String>, PathRejection>;

fn text(path: IdInPath) -> String {
    path.map(|Path(text)| text).unwrap_or_default()
}

/// The number of something that is not a payment; what is none names nothing.
fn uuid(path: IdInPath, none: Code) -> Result<Uuid, Problem> {
    text(path).parse().map_err(|_| Problem::new(none))
}

/// The row that a cursor names, where one is given: the last of the page before, whose place never changes.
async fn before<T, F>(pairs: &Pairs, find: impl FnOnce(Uuid) -> F) -> Result<Option<T>, Problem>
where
    F: Future<Output = Result<Option<T>, ScheduleError>>,
{
    let Some(text) = pairs.text("cursor") else { return Ok(None) };
    let invalid = || Problem::at(Code::InvalidCursor, "/cursor", Code::InvalidCursor.doc());
    let id = text.parse().map_err(|_| invalid())?;
    find(id).await.map_err(trouble)?.ok_or_else(invalid).map(Some)
}

/// Everything that a person's request needs. Cheap to clone.
#[derive(Clone)]
pub struct Desk {
    intake: Intake,
    rules: Arc<Rules>,
    /// The gateway that is configured here.
    profile: Arc<Option<gateways::Profile>>,
    /// What the problems are asked of; `None`: they cannot be.
    examined: Option<Arc<problems::Examined>>,
}

/// What one person may do alone.
struct Rules {
    /// Codes of declines after which something may be sent again.
    retryable_codes: Vec<String>,
    /// A larger amount needs a second person.
    approve_above_minor: i64,
    /// What a quarantine's release asks for.
    release: ReleaseTerms,
}

impl Desk {
    /// Puts the stage together.
    #[must_use]
    pub fn new(intake: Intake, operations: &config::Operations) -> Self {
        let grace_days = config::Reconcile::default().grace_days;
        let rules = Rules {
            retryable_codes: retryable_codes(),
            approve_above_minor: operations.approve_above_minor,
            release: ReleaseTerms { grace_days, gateways: Vec::new() },
        };
        Self { intake, rules: Arc::new(rules), profile: Arc::default(), examined: None }
    }

    /// From now on this gateway is shown as it is configured, its rate can be set, and a quarantine is released only
    /// after its reports were compared, with those of the days in which it may book late.
    #[must_use]
    pub fn knowing(self, gateway: &config::Gateway, reconcile: &config::Reconcile) -> Self {
        let release = ReleaseTerms {
            grace_days: reconcile.grace_days,
            gateways: vec![GatewayName(gateway.name.clone())],
        };
        let rules = Rules {
            retryable_codes: self.rules.retryable_codes.clone(),
            approve_above_minor: self.rules.approve_above_minor,
            release,
        };
        Self { rules: Arc::new(rules), profile: Arc::new(Some(gateways::Profile::of(gateway))), ..self }
    }

    /// From now on problems are told, as these settings judge them.
    #[must_use]
    pub fn examining(self, config: &Config, clock: SharedClock) -> Self {
        Self { examined: Some(Arc::new(problems::Examined::new(config, clock))), ..self }
    }

    /// The people's routes, to be served beside the clients'.
    pub fn routes(self) -> Router {
        router().with_state(self)
    }
}

crate::intake::routes! {
    Desk;
    get "/v1/ops/problems", Needs::OPERATE, problems::list;
    get "/v1/ops/payments", Needs::OPERATE, payments::list;
    get "/v1/ops/payments/{id}", Needs::OPERATE, payments::show;
    get "/v1/ops/payments/{id}/history", Needs::OPERATE, payments::history;
    get "/v1/ops/payments/{id}/deliveries", Needs::OPERATE, payments::deliveries;
    post "/v1/ops/payments/{id}/cancel", Needs::REDRIVE, payments::cancel;
    post "/v1/ops/payments/{id}/payee", Needs::REDRIVE, payments::payee;
    get "/v1/ops/parked", Needs::OPERATE, parked::list;
    get "/v1/ops/parked-counts", Needs::OPERATE, parked::counts;
    get "/v1/ops/parked/{id}", Needs::OPERATE, parked::show;
    post "/v1/ops/parked/{id}/redrive", Needs::REDRIVE, redrive::post;
    post "/v1/ops/parked/{id}/resolve", Needs::REDRIVE, resolve::post;
    get "/v1/ops/bulk-redrives", Needs::OPERATE, bulk::list;
    post "/v1/ops/bulk-redrives", Needs::REDRIVE, bulk::create;
    get "/v1/ops/bulk-redrives/{id}", Needs::OPERATE, bulk::show;
    post "/v1/ops/bulk-redrives/{id}/start", Needs::REDRIVE, bulk::start;
    post "/v1/ops/bulk-redrives/{id}/stop", Needs::REDRIVE, bulk::stop;
    get "/v1/ops/approvals", Needs::OPERATE, approvals::list;
    get "/v1/ops/approvals/{id}", Needs::OPERATE, approvals::show;
    post "/v1/ops/approvals/{id}/approve", Needs::APPROVE, approvals::approve;
    post "/v1/ops/approvals/{id}/reject", Needs::APPROVE, approvals::reject;
    get "/v1/ops/acts", Needs::OPERATE, acts::list;
    get "/v1/ops/gateways", Needs::OPERATE, gateways::list;
    post "/v1/ops/gateways/{id}/pause", Needs::GATEWAYS, gateways::pause;
    post "/v1/ops/gateways/{id}/resume", Needs::GATEWAYS, gateways::resume;
    put "/v1/ops/gateways/{id}/rate", Needs::GATEWAYS, gateways::rate;
    get "/v1/ops/kill-switches", Needs::OPERATE, switches::list;
    put "/v1/ops/kill-switches/{kind}/{value}", Needs::GATEWAYS, switches::put;
    get "/v1/ops/quarantine", Needs::OPERATE, quarantine::show;
    post "/v1/ops/quarantine", Needs::APPROVE, quarantine::enter;
    post "/v1/ops/quarantine/release", Needs::APPROVE, quarantine::release;
    get "/v1/ops/refunds", Needs::REFUND, refunds::list;
    post "/v1/ops/refunds", Needs::REFUND, refunds::post;
    get "/v1/ops/refunds/{id}", Needs::REFUND, refunds::show;
    post "/v1/ops/refunds/{id}/resolve", Needs::REFUND, refund_resolve::post;
    get "/v1/ops/reconciliations", Needs::OPERATE, reconciliations::list;
    get "/v1/ops/reconciliations/{id}", Needs::OPERATE, reconciliations::show;
    post "/v1/ops/reconciliations/{id}/withdraw", Needs::REDRIVE, reconciliations::withdraw;
    get "/v1/ops/reconciliation-standing", Needs::OPERATE, reconciliations::standing;
    get "/v1/ops/reconciliation-items", Needs::OPERATE, reconciliations::items;
    get "/v1/ops/reconciliation-items/{id}", Needs::OPERATE, reconciliations::item;
    post "/v1/ops/reconciliation-items/{id}/repair", Needs::REDRIVE, reconciliations::repair;
    post "/v1/ops/reconciliation-items/{id}/dismiss", Needs::REDRIVE, reconciliations::dismiss;
    get "/v1/ops/reconciliation-sums", Needs::OPERATE, reconciliations::sums;
}

/// Codes of declines after which something may be sent again; every other one is for good.
#[must_use]
pub fn retryable_codes() -> Vec<String> {
    let retryable = DECLINE_TABLE.iter().filter(|(_, class)| may_retry(*class));
    retryable.map(|(code, _)| (*code).to_owned()).collect()
}

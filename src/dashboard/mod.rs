//! For people in a browser: pages of what happens, and forms for what may be done about it, at `/ui`.
//!
//! **Promises.** Every page is made here, whole, and works without JavaScript; nothing is loaded from elsewhere. A
//! page is a look with `ops:read`; an act asks for the scope of its route, for a reason and for the form's token,
//! and is carried out by the same route of the API that any client would call (`Ui::ask`): the dashboard decides
//! nothing, so a button can never do what a command could not, or skip a second person. A 409 is an answer and is
//! shown as one. No payee is shown unasked, and no page counts a whole table.
//!
//! **Relies on** `intake` for who asks, `operations` for acts, `schedule` for what is shown, `doctor` for what is
//! wrong.
//!
//! **How**: [`ROUTES`] lists every page with what it needs; `guard` opens the cookie, refuses what the list refuses
//! and checks every form, before a page's own code runs. A page is a function from `Ui` and `Viewer` to a
//! template below `templates/`; what all pages show is their `Frame`. CONTRIBUTING tells how one is added.
//!
//! **If this dies here**, a page is not shown, or an act happened whole and its answer did not come: the page says
//! how things stand.

mod act;
mod acts;
mod api;
mod approvals;
mod assets;
mod buckets;
mod bulks;
mod diagram;
mod door;
mod forecast;
mod frame;
mod gateways;
mod guard;
mod overview;
mod parked;
mod payment;
mod payment_acts;
mod payments;
mod pulse;
mod quarantine;
mod reconciliation;
mod runbooks;
mod seal;
mod show;
mod stream;
mod text;
mod viewer;
mod webhooks;
mod workers;

use act::Said;
use frame::{Frame, Place};
use viewer::Viewer;

use crate::doctor::Finding;
use crate::intake::{Attempts, Intake, Needs};
use crate::platform::clock::SharedClock;
use crate::platform::config::Config;
use crate::platform::dice::SharedDice;
use crate::platform::kept::Kept;
use crate::schedule::Postgres;
use axum::Router;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};
use uuid::Uuid;

/// Everything that a page needs. Cheap to clone.
#[derive(Clone)]
pub struct Ui(Arc<Inner>);

struct Inner {
    intake: Intake,
    /// The routes of the API, asked within this process.
    api: Router,
    clock: SharedClock,
    config: Config,
    seal: seal::Seal,
    attempts: Option<Attempts>,
    problems: Kept<Vec<Finding>>,
    ended_logins: Kept<BTreeSet<Uuid>>,
    pulse: pulse::Pulse,
    /// Names this life of the process, in the numbers of its streams.
    run: String,
    /// Places for streams.
    room: Arc<Semaphore>,
    /// Turns true when the process is asked to stop; `None` where nobody asks.
    stop: Option<watch::Receiver<bool>>,
}

impl Ui {
    /// Puts the stage together; `desk` are the people's routes of the API. Streams end when `stop` turns true, or its
    /// sender is gone.
    #[must_use]
    pub fn new(
        intake: Intake,
        desk: Router,
        (clock, dice): (SharedClock, SharedDice),
        config: &Config,
        stop: Option<watch::Receiver<bool>>,
    ) -> Self {
        let attempts = NonZeroU32::new(config.dashboard.logins_per_address);
        Self(Arc::new(Inner {
            api: intake.bare().merge(desk),
            attempts: attempts.map(|a_minute| Attempts::new(a_minute, &clock)),
            clock,
            config: config.clone(),
            problems: Kept::default(),
            ended_logins: Kept::default(),
            pulse: pulse::Pulse::default(),
            run: format!("{:016x}", dice.bits() >> 64),
            seal: seal::Seal::of(intake.schedule().installation_secret(), dice),
            room: Arc::new(Semaphore::new(config.dashboard.max_streams.min(Semaphore::MAX_PERMITS))),
            stop,
            intake,
        }))
    }

    /// The pages, to be served beside the API.
    pub fn routes(self) -> Router {
        let guarded = axum::middleware::from_fn_with_state(self.clone(), guard::guard);
        router().layer(guarded).with_state(self)
    }

    async fn stopped(&self) {
        match self.0.stop.clone() {
            // An error means that whoever could ask is gone, which asks too.
            Some(mut stop) => drop(stop.wait_for(|stop| *stop).await),
            None => std::future::pending().await,
        }
    }

    fn is_stopped(&self) -> bool {
        self.0.stop.as_ref().is_some_and(|stop| *stop.borrow() || stop.has_changed().is_err())
    }

    fn schedule(&self) -> &Postgres {
        self.0.intake.schedule()
    }
}

crate::intake::routes! {
    Ui;
    get "/ui/login", Needs::Nothing, door::page;
    post "/ui/login", Needs::Nothing, door::enter;
    post "/ui/logout", Needs::Nothing, door::leave;
    post "/ui/theme", Needs::Nothing, door::theme;
    get "/ui/assets/{file}", Needs::Nothing, assets::get;
    get "/ui/stream", Needs::OPERATE, stream::get;
    get "/ui", Needs::OPERATE, overview::page;
    get "/ui/payments", Needs::OPERATE, payments::page;
    get "/ui/payments/{id}", Needs::OPERATE, payment::page;
    post "/ui/payments/{id}/payee", Needs::REDRIVE, payment::payee;
    post "/ui/payments/{id}/cancel", Needs::REDRIVE, payment_acts::cancel;
    post "/ui/payments/{id}/redrive", Needs::REDRIVE, payment_acts::redrive;
    post "/ui/payments/{id}/resolve", Needs::REDRIVE, payment_acts::resolve;
    post "/ui/payments/{id}/refund", Needs::REFUND, payment_acts::refund;
    get "/ui/parked", Needs::OPERATE, parked::page;
    get "/ui/approvals", Needs::OPERATE, approvals::list;
    get "/ui/approvals/{id}", Needs::OPERATE, approvals::page;
    post "/ui/approvals/{id}/approve", Needs::APPROVE, approvals::approve;
    post "/ui/approvals/{id}/reject", Needs::APPROVE, approvals::reject;
    get "/ui/bulks", Needs::OPERATE, bulks::list;
    post "/ui/bulks", Needs::REDRIVE, bulks::make;
    get "/ui/bulks/{id}", Needs::OPERATE, bulks::page;
    post "/ui/bulks/{id}/start", Needs::REDRIVE, bulks::start;
    post "/ui/bulks/{id}/stop", Needs::REDRIVE, bulks::stop;
    get "/ui/acts", Needs::OPERATE, acts::page;
    get "/ui/workers", Needs::OPERATE, workers::page;
    get "/ui/buckets", Needs::OPERATE, buckets::page;
    get "/ui/forecast", Needs::OPERATE, forecast::page;
    get "/ui/gateways", Needs::OPERATE, gateways::page;
    post "/ui/gateways/{id}/pause", Needs::GATEWAYS, gateways::pause;
    post "/ui/gateways/{id}/resume", Needs::GATEWAYS, gateways::resume;
    post "/ui/gateways/{id}/rate", Needs::GATEWAYS, gateways::rate;
    post "/ui/switches", Needs::GATEWAYS, gateways::switch;
    get "/ui/reconciliation", Needs::OPERATE, reconciliation::page;
    get "/ui/reconciliation/items/{id}", Needs::OPERATE, reconciliation::item;
    post "/ui/reconciliation/items/{id}/repair", Needs::REDRIVE, reconciliation::repair;
    post "/ui/reconciliation/items/{id}/dismiss", Needs::REDRIVE, reconciliation::dismiss;
    get "/ui/webhooks", Needs::OPERATE, webhooks::page;
    get "/ui/runbooks", Needs::OPERATE, runbooks::list;
    get "/ui/runbooks/{id}", Needs::OPERATE, runbooks::page;
    get "/ui/quarantine", Needs::OPERATE, quarantine::page;
    post "/ui/quarantine", Needs::APPROVE, quarantine::enter;
    post "/ui/quarantine/release", Needs::APPROVE, quarantine::release;
    // Last: whatever else is asked for below /ui.
    get "/ui/{*rest}", Needs::OPERATE, show::nowhere;
}

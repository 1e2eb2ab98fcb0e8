//! What every page shows around its own part: where one is, who one is, what is wrong, and what the last act came to.
//!
//! A template's struct has a field `frame`; the template extends `layout.html`, which asks the frame for everything.
//! Times, amounts and ids are written by the methods here (see `text`), so that all pages write them alike.

use super::text::{self, Html};
use super::viewer::{Theme, Viewer};
use super::{Said, Ui, assets};
use crate::doctor::{self, Check, Finding, Level};
use crate::domain::ids::PaymentId;
use crate::domain::state::Status;
use crate::intake::Scope;
use askama::Template;
use chrono::{DateTime, Utc};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How old the problems may be, and how long one may wait for them.
const PROBLEMS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3));

/// The environment's name in `punctual dev`.
const DEVELOPMENT: &str = "development";

macro_rules! places {
    ($( $group:literal: $( $place:ident = $path:literal, $label:literal; )* )*) => {
        /// The pages of the navigation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Place {
            $( $( $place, )* )*
            /// None of them.
            Elsewhere,
        }

        impl Place {
            /// In the order shown, by what they are about: path and words.
            pub(super) const GROUPS: &[Group] =
                &[ $( ($group, &[ $( (Self::$place, $path, $label), )* ]), )* ];
        }
    };
}

/// Pages about one thing: its name, and of each page path and words.
type Group = (&'static str, &'static [(Place, &'static str, &'static str)]);

// A page of the navigation: one line here, one line in the list of routes.
places! {
    "Payments":
    Overview = "/ui", "Overview";
    Payments = "/ui/payments", "Payments";
    Parked = "/ui/parked", "Parked";
    Approvals = "/ui/approvals", "Approvals";
    Bulks = "/ui/bulks", "Bulk actions";
    Acts = "/ui/acts", "Acts";
    "Machine":
    Buckets = "/ui/buckets", "Buckets";
    Forecast = "/ui/forecast", "Forecast";
    Workers = "/ui/workers", "Workers";
    Gateways = "/ui/gateways", "Gateways";
    Webhooks = "/ui/webhooks", "Webhooks";
    "Books":
    Reconciliation = "/ui/reconciliation", "Reconciliation";
    Quarantine = "/ui/quarantine", "Quarantine";
    "Help":
    Runbooks = "/ui/runbooks", "Runbooks";
}

/// What is wrong, as the banner says it.
#[derive(Debug, Clone)]
pub(super) struct Problems {
    /// Not fine; the worst first. `None`: nobody could be asked.
    pub(super) found: Option<Vec<Finding>>,
}

impl Problems {
    /// Those at which a promise is at stake.
    pub(super) fn bad(&self) -> usize {
        self.found.iter().flatten().filter(|finding| finding.level == Level::Bad).count()
    }
}

#[derive(Template)]
#[template(path = "banner.html")]
pub(super) struct Banner<'a> {
    pub(super) problems: &'a Problems,
}

/// See the module.
pub(super) struct Frame {
    pub(super) place: Place,
    pub(super) viewer: Viewer,
    pub(super) environment: String,
    pub(super) problems: Problems,
}

impl Ui {
    /// The frame of a page.
    pub(super) async fn frame(&self, viewer: &Viewer, place: Place) -> Frame {
        Frame {
            place,
            viewer: viewer.clone(),
            environment: self.0.config.dashboard.environment.clone(),
            problems: Problems { found: self.problems().await },
        }
    }

    pub(super) async fn problems(&self) -> Option<Vec<Finding>> {
        let ask = doctor::problems(self.schedule(), &self.0.config, &self.0.clock);
        let found: Option<Arc<Vec<Finding>>> = self.0.problems.get(&*self.0.clock, PROBLEMS, ask).await;
        let (found, environment) = (found?, self.0.config.dashboard.environment.as_str());
        let mut wrong: Vec<Finding> = found
            .iter()
            .filter(|finding| match finding.level {
                Level::Fine => false,
                Level::Unseen | Level::Warn | Level::Bad => !is_meant(finding, environment),
            })
            .cloned()
            .collect();
        wrong.sort_by_key(Finding::urgency);
        Some(wrong)
    }
}

/// What is so on purpose where things are only tried out.
fn is_meant(finding: &Finding, environment: &str) -> bool {
    finding.check == Check::Durability && environment == DEVELOPMENT
}

/// For the templates.
impl Frame {
    /// The problems, as every page and every stream shows them.
    pub(super) fn banner(&self) -> Html {
        text::written(&Banner { problems: &self.problems })
    }

    /// The token of every form.
    pub(super) fn token(&self) -> &str {
        &self.viewer.0.visit.token
    }

    pub(super) fn theme(&self) -> Theme {
        self.viewer.0.visit.theme
    }

    /// Path and query of this page.
    pub(super) fn at(&self) -> &str {
        &self.viewer.0.visit.at
    }

    /// Is this the page that a link leads to?
    pub(super) fn is_at(&self, way: &str) -> bool {
        self.at() == way
    }

    pub(super) fn said(&self) -> Option<&Said> {
        self.viewer.0.said.as_ref()
    }

    pub(super) fn groups(&self) -> &'static [Group] {
        Place::GROUPS
    }

    /// `punctual dev` gives up durability for speed and means it: the frame says so, and shouts nowhere.
    pub(super) fn is_for_trying_out(&self) -> bool {
        self.environment == DEVELOPMENT
    }

    /// Nobody acts from here, whatever their key may do.
    pub(super) fn is_read_only(&self) -> bool {
        self.viewer.0.acting == super::viewer::Acting::Off
    }

    /// May who looks do what needs this scope, by its name like `ops:redrive`?
    pub(super) fn may(&self, scope: &str) -> bool {
        Scope::ALL.into_iter().any(|known| known.as_str() == scope && self.viewer.may(known))
    }

    /// The way to a file of ours.
    pub(super) fn asset(&self, name: &str) -> String {
        assets::way(name)
    }

    /// `2026-11-30 21:14:45 UTC`, and how far away that is.
    pub(super) fn when(&self, at: &DateTime<Utc>) -> Html {
        text::when(*at, self.viewer.now())
    }

    /// How far away it is, alone: the instant is in its title.
    pub(super) fn ago(&self, at: &DateTime<Utc>) -> Html {
        text::ago(*at, self.viewer.now())
    }

    /// When this page was made.
    pub(super) fn made_at(&self) -> Html {
        text::instant(self.viewer.now())
    }

    /// The same, or a dash.
    pub(super) fn when_any(&self, at: &Option<DateTime<Utc>>) -> Html {
        at.map_or_else(text::nothing, |at| text::when(at, self.viewer.now()))
    }

    /// `1,234.50 EUR`, with the currency's own places.
    pub(super) fn amount(&self, minor: &i64, currency: &str) -> Html {
        text::amount(*minor, currency)
    }

    /// A whole number, grouped: `12,345`.
    pub(super) fn count(&self, count: &i64) -> String {
        text::count(*count)
    }

    /// A sentence with commands between backticks.
    pub(super) fn sentence(&self, text: &str) -> Html {
        text::sentence(text)
    }

    /// A payment's id as a link to its page.
    pub(super) fn payment(&self, id: &PaymentId) -> Html {
        text::payment(*id)
    }

    /// Any other id.
    pub(super) fn id(&self, id: &Uuid) -> Html {
        text::id(*id)
    }

    /// A payment's state, with a shape of its own.
    pub(super) fn status(&self, status: &Status) -> Html {
        text::status(*status)
    }
}

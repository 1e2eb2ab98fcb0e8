//! Webhooks: every client's endpoints, what each is owed and what failed. Their owners change them; operators see
//! who does not hear.

use super::show::{self, Shown};
use super::text::{self, Html};
use super::{Frame, Place, Ui, Viewer};
use crate::schedule::WebhookStanding;
use askama::Template;
use axum::extract::State;

/// Endpoints shown; those that need somebody come first.
const MOST: u32 = 200;
/// Deliveries counted of each.
const COUNTED: u32 = 1_000;

#[derive(Template)]
#[template(path = "webhooks.html")]
struct Page {
    frame: Frame,
    endpoints: Vec<WebhookStanding>,
}

impl Page {
    fn chip(&self, of: &WebhookStanding) -> Html {
        match (&of.disabled, of.failing_since, of.last_success_at) {
            (Some(_), _, _) => text::chip("cancelled", "⊘", "disabled"),
            (None, Some(_), _) => text::chip("failed", "✕", "failing"),
            (None, None, Some(_)) => text::chip("completed", "✓", "hears"),
            (None, None, None) => text::chip("pending", "○", "not tried yet"),
        }
    }

    /// A count that stopped says so.
    fn capped(&self, count: &i64) -> String {
        let more = if *count >= i64::from(COUNTED) { "≥ " } else { "" };
        format!("{more}{}", text::count(*count))
    }

    fn is_cut(&self) -> bool {
        self.endpoints.len() >= usize::try_from(MOST).unwrap_or(usize::MAX)
    }
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer) -> Shown {
    let endpoints = ui.schedule().webhook_standings(MOST, COUNTED).await?;
    show::page(&Page { frame: ui.frame(&viewer, Place::Webhooks).await, endpoints })
}

//! Workers, relays and the publisher: who is at work. The pattern for every page that only shows.

use super::show::{self, Shown};
use super::{Frame, Place, Ui, Viewer};
use crate::schedule::Crew;
use crate::story::NOBODY_AT_WORK;
use askama::Template;
use axum::extract::State;

#[derive(Template)]
#[template(path = "workers.html")]
struct Page {
    frame: Frame,
    crew: Crew,
    nobody: [&'static str; 3],
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer) -> Shown {
    let crew = ui.schedule().crew().await?;
    let frame = ui.frame(&viewer, Place::Workers).await;
    show::page(&Page { frame, crew, nobody: NOBODY_AT_WORK })
}

//! Runbooks: what to look at and what to do for each alert, step by step; where problems and alerts lead.
//!
//! From the table that the alerts themselves are made from, so it is that of the version that runs, and it is there
//! when the network to everything else is not.

use super::show::{self, Shown};
use super::{Frame, Place, Ui, Viewer};
use crate::intake::{Code, Problem};
use crate::platform::alerts::{Alert, alerts};
use askama::Template;
use axum::extract::{Path, State};

/// A sentence in pieces; those that are typed into a shell or stand in a log are marked.
type Pieces = Vec<(Kind, &'static str)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Prose,
    Code,
    /// A page of the dashboard.
    Page,
}

/// Text between backticks is code, as in the file that the same table makes.
fn pieces(sentence: &'static str) -> Pieces {
    let kinds = [Kind::Prose, Kind::Code].into_iter().cycle();
    let pieces = kinds.zip(sentence.split('`')).filter(|(_, text)| !text.is_empty());
    pieces
        .map(|(kind, text)| if text.starts_with("/ui/") { (Kind::Page, text) } else { (kind, text) })
        .collect()
}

#[derive(Template)]
#[template(path = "runbooks.html")]
struct All {
    frame: Frame,
    alerts: Vec<&'static Alert>,
}

#[derive(Template)]
#[template(path = "runbook.html")]
struct Page {
    frame: Frame,
    alert: &'static Alert,
    means: Pieces,
    look: Vec<Pieces>,
    act: Vec<Pieces>,
}

impl Page {
    fn is_code(kind: &Kind) -> bool {
        *kind == Kind::Code
    }

    fn is_page(kind: &Kind) -> bool {
        *kind == Kind::Page
    }

    fn lasts(&self) -> &'static str {
        if self.alert.lasts.is_empty() { "at once" } else { self.alert.lasts }
    }
}

pub(super) async fn list(State(ui): State<Ui>, viewer: Viewer) -> Shown {
    show::page(&All { frame: ui.frame(&viewer, Place::Runbooks).await, alerts: alerts().collect() })
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer, Path(name): Path<String>) -> Shown {
    let Some(alert) = alerts().find(|alert| alert.name == name) else {
        return Err(Problem::new(Code::RouteNotFound).into());
    };
    let of = |sentences: &[&'static str]| sentences.iter().map(|sentence| pieces(sentence)).collect();
    show::page(&Page {
        frame: ui.frame(&viewer, Place::Runbooks).await,
        alert,
        means: pieces(alert.means),
        look: of(alert.look),
        act: of(alert.act),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_backticks_is_code_and_the_rest_is_prose() {
        let found = pieces("`punctual gateway list`: is it paused?");
        assert_eq!(found, [(Kind::Code, "punctual gateway list"), (Kind::Prose, ": is it paused?")]);
        assert_eq!(pieces("Wait."), [(Kind::Prose, "Wait.")]);
        assert_eq!(
            pieces("See `/ui/gateways`."),
            [(Kind::Prose, "See "), (Kind::Page, "/ui/gateways"), (Kind::Prose, "."),]
        );
        for alert in alerts() {
            for sentence in alert.look.iter().chain(alert.act).chain([&alert.means]) {
                assert!(sentence.matches('`').count().is_multiple_of(2), "{}: {sentence}", alert.name);
                for (_, page) in pieces(sentence).into_iter().filter(|(kind, _)| *kind == Kind::Page) {
                    let path = page.split('?').next();
                    let is_there = super::super::ROUTES.iter().any(|route| Some(route.path) == path);
                    assert!(is_there, "{}: there is no {page}", alert.name);
                }
            }
        }
    }
}

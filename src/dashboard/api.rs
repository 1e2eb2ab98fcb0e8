//! Pages of what the API answers: its own JSON, read into what a template needs.
//!
//! **Why the API and not the schedule**: what a page says of a gateway, a report or a quarantine is then what a command
//! and a client are told, worded once.

use super::Ui;
use super::act::Told;
use super::show::Trouble;
use super::viewer::Viewer;
use crate::intake::{Code, Problem};
use axum::http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::form_urlencoded;

/// A page of a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listed<T> {
    pub(super) data: Vec<T>,
    /// The next page's cursor, where the list has pages.
    #[serde(default)]
    pub(super) next_cursor: Option<String>,
}

impl Ui {
    /// Reads a route of the API as the person who looks.
    pub(super) async fn read<T: DeserializeOwned>(&self, viewer: &Viewer, path: &str) -> Result<T, Trouble> {
        Ok(self.look(viewer, path).await?)
    }

    /// The same, for pages on which a refusal has a place of its own.
    pub(super) async fn look<T: DeserializeOwned>(&self, viewer: &Viewer, path: &str) -> Result<T, Problem> {
        match self.ask(viewer, Method::GET, path, None).await {
            Told::Done(found) | Told::Asked(found) => serde_json::from_value(found).map_err(|error| {
                tracing::error!(%error, path, "an answer of our own cannot be read");
                Problem::new(Code::Internal)
            }),
            Told::Refused(problem) => Err(problem),
        }
    }
}

/// A path with its query; what is `None` is left out.
pub(super) fn way(path: &str, query: &[(&str, Option<&str>)]) -> String {
    let mut written = form_urlencoded::Serializer::new(String::new());
    for (name, value) in query {
        if let Some(value) = value {
            written.append_pair(name, value);
        }
    }
    let query = written.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_escaped_and_leaves_out_what_is_not_there() {
        assert_eq!(way("/ui/payments", &[("q", None), ("cursor", None)]), "/ui/payments");
        let filtered = way("/ui/payments", &[("q", Some("actor:\"a & b\"")), ("cursor", Some("x"))]);
        assert_eq!(filtered, "/ui/payments?q=actor%3A%22a+%26+b%22&cursor=x");
    }
}

//! How a form acts: through the API's own route, as the person who looks, and what is said afterwards.
//!
//! **Promises.** [`Ui::ask`] hands a request to the same router that clients are answered by, with the person's own
//! key, inside this process: the scope, the reason, the second person and the guards of the schedule are judged
//! there and nowhere else. Whatever it answers, [`Ui::said`] leads the browser back to a page (303, so a reload does
//! nothing) which shows it once: that it is done, that a second person is needed, or why not. A 409 says how things
//! stand, in the same place and the same calm colour as the rest.
//!
//! What is to be said travels in a sealed cookie, so any process can show it and nobody can put words into a page.

use super::Ui;
use super::seal::Seal;
use super::show::{self, Shown};
use super::viewer::{Sent, Viewer};
use crate::intake::{Code, Problem};
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{Method, Request};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;

/// What sealed cookies of words are sealed for.
const SAID: &str = "said";
/// For so long what was said waits for a page.
const SAID_FOR: Duration = Duration::from_secs(60);
/// Longest text that is said, in characters: a cookie holds 4 KiB.
const LONGEST: usize = 600;

/// What the API answered.
#[derive(Debug)]
pub(super) enum Told {
    /// 200, 201
    Done(Value),
    /// 202: a second person carries it out, or a wish was written down.
    Asked(Value),
    /// Anything else.
    Refused(Problem),
}

/// How something is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Tone {
    /// It is done.
    Done,
    /// It waits for somebody.
    Waits,
    /// How things stand, which is why it was not done: a 409.
    Answer,
    /// What was sent is not usable, or may not be done.
    Refused,
    /// It could not be asked.
    Trouble,
}

impl Tone {
    /// For the style, which also gives it a shape.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Waits => "waits",
            Self::Answer => "answer",
            Self::Refused => "refused",
            Self::Trouble => "trouble",
        }
    }
}

/// What the next page says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) tone: Tone,
    /// One sentence.
    pub(super) title: String,
    /// More of them; may be empty.
    pub(super) detail: String,
    /// A page to go on to, with the words of its link.
    pub(super) way: Option<(String, String)>,
}

impl Said {
    /// Reads what a cookie holds.
    pub(super) fn open(seal: &Seal, text: &str) -> Option<Self> {
        serde_json::from_slice(&seal.open(SAID, text)?).ok()
    }

    /// What is to be said of this answer; `done` is the sentence for when it is done.
    pub(super) fn of(told: &Told, done: &str) -> Self {
        match told {
            Told::Done(_) => {
                Self { tone: Tone::Done, title: done.to_owned(), detail: String::new(), way: None }
            }
            Told::Asked(body) => Self {
                tone: Tone::Waits,
                title: "A second person is asked.".to_owned(),
                detail: "Nothing is done until somebody else approves it.".to_owned(),
                way: body
                    .get("approvalId")
                    .and_then(Value::as_str)
                    .map(|id| (format!("/ui/approvals/{id}"), "Show what was asked".to_owned())),
            },
            Told::Refused(problem) => Self::of_problem(problem),
        }
    }

    /// Of a form that was not sent on.
    pub(super) fn refused(title: &str, detail: &str) -> Self {
        Self { tone: Tone::Refused, title: title.to_owned(), detail: detail.to_owned(), way: None }
    }

    fn of_problem(problem: &Problem) -> Self {
        let tone = match problem.code.http() {
            409 => Tone::Answer,
            500.. | 429 => Tone::Trouble,
            _ => Tone::Refused,
        };
        let detail = problem.detail.as_deref().unwrap_or_else(|| problem.code.doc());
        let places = problem.errors.iter().filter(|error| error.detail != detail);
        let places = places.map(|error| format!(" {}", error.detail));
        let detail: String = [detail.to_owned()].into_iter().chain(places).collect();
        let detail = detail.chars().take(LONGEST).collect();
        Self { tone, title: format!("{}.", problem.code.title()), detail, way: None }
    }
}

impl Ui {
    /// Asks a route of the API as the person who looks. `body` is an act's JSON.
    pub(super) async fn ask(&self, viewer: &Viewer, method: Method, path: &str, body: Option<Value>) -> Told {
        self.ask_once(viewer, method, path, body, None).await
    }

    /// The same under an idempotency key, where a form may come twice.
    pub(super) async fn ask_once(
        &self,
        viewer: &Viewer,
        method: Method,
        path: &str,
        body: Option<Value>,
        key: Option<&str>,
    ) -> Told {
        let mut request = Request::new(body.map_or_else(Body::empty, |body| Body::from(body.to_string())));
        *request.method_mut() = method;
        let Ok(uri) = path.parse() else { return Told::Refused(Problem::new(Code::RouteNotFound)) };
        *request.uri_mut() = uri;
        request.headers_mut().clone_from(&viewer.0.credentials);
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = key.and_then(|key| HeaderValue::from_str(key).ok()) {
            request.headers_mut().insert(HeaderName::from_static("idempotency-key"), key);
        }
        let response = match self.0.api.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let (mut parts, body) = response.into_parts();
        if let Some(problem) = parts.extensions.remove::<Problem>() {
            return Told::Refused(problem);
        }
        let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let read = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        match parts.status.as_u16() {
            200 | 201 | 204 => Told::Done(read),
            202 => Told::Asked(read),
            _ => Told::Refused(Problem::new(Code::Internal)),
        }
    }

    /// Carries out an act that takes a reason and nothing else by a route of the API, and leads to a page that says
    /// what came of it: `done` where it is done.
    pub(super) async fn act(
        &self,
        viewer: &Viewer,
        route: &str,
        sent: &Sent,
        (page, done): (&str, &str),
    ) -> Shown {
        let body = json!({"reason": sent.text("reason").unwrap_or_default()});
        let told = self.ask(viewer, Method::POST, route, Some(body)).await;
        self.said(page, &Said::of(&told, done))
    }

    /// Leads to a page that says this.
    pub(super) fn said(&self, page: &str, said: &Said) -> Shown {
        let mut response = show::other(page);
        // Texts only.
        let plain = serde_json::to_vec(said).unwrap_or_default();
        let sealed = self.seal().seal(SAID, &plain);
        self.put_cookie(response.headers_mut(), show::SAID, &sealed, Some(SAID_FOR));
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::dice::Os;
    use std::sync::Arc;

    #[test]
    fn a_conflict_is_an_answer_and_trouble_is_not() {
        for (code, tone) in [
            (Code::NotParked, Tone::Answer),
            (Code::AlreadyProcessing, Tone::Answer),
            (Code::TooLong, Tone::Refused),
            (Code::MissingScope, Tone::Refused),
            (Code::DatabaseUnavailable, Tone::Trouble),
            (Code::RateLimited, Tone::Trouble),
        ] {
            let said = Said::of(&Told::Refused(Problem::new(code)), "done");
            assert_eq!((said.tone, said.title), (tone, format!("{}.", code.title())));
        }
        let asked = Said::of(&Told::Asked(json!({"approvalId": "7"})), "done");
        assert_eq!(asked.way.map(|(way, _)| way).as_deref(), Some("/ui/approvals/7"));
    }

    #[test]
    fn what_is_said_fits_into_a_cookie_and_is_read_back() {
        let seal = Seal::of(&[1; 32], Arc::new(Os));
        let problem = Problem::new(Code::NotParked).detail("ü".repeat(5_000));
        let said = Said::of(&Told::Refused(problem), "");
        let sealed = seal.seal(SAID, &serde_json::to_vec(&said).unwrap());
        assert!(sealed.len() < 3_000, "{}", sealed.len());
        assert_eq!(Said::open(&seal, &sealed), Some(said));
        assert_eq!(Said::open(&seal, &seal.seal("login", b"{}")), None);
    }
}

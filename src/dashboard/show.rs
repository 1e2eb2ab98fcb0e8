//! From a template to an answer, and from trouble to a page that says so.
//!
//! A page's code answers [`Shown`]. Trouble travels in the answer's extensions to `guard`, which knows who looks, and
//! is shown inside the frame of every page: nobody is stranded on a bare line of text.

use super::frame::Place;
use super::seal::Seal;
use super::viewer::{Theme, Viewer, Visit};
use super::{Frame, Ui, assets};
use crate::intake::{Code, Problem, trouble};
use crate::schedule::ScheduleError;
use askama::Template;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, SET_COOKIE};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use std::time::Duration;

/// The kind of every page.
pub(super) const HTML: &str = "text/html; charset=utf-8";
/// Cookie of a login.
pub(super) const SESSION: &str = "punctual_session";
/// Cookie of a browser before its login.
pub(super) const DOOR: &str = "punctual_door";
/// How long that is kept.
pub(super) const DOOR_FOR: Duration = Duration::from_secs(3_600);
/// Cookie of what an act came to, until the next page has shown it.
pub(super) const SAID: &str = "punctual_said";
/// Cookie of the theme; nothing is secret about it, and the page's own script reads it.
pub(super) const THEME: &str = "punctual_theme";

/// What a page's code answers.
pub(super) type Shown = Result<Response<Body>, Trouble>;

/// Why there is no page.
#[derive(Debug)]
pub(super) struct Trouble(Problem);

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<ScheduleError> for Trouble {
    fn from(error: ScheduleError) -> Self {
        Self(trouble(error))
    }
}

/// Trouble on its way to `guard`.
#[derive(Debug, Clone)]
pub(super) struct Wrong(pub(super) Problem);

impl IntoResponse for Trouble {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status(&self.0);
        response.extensions_mut().insert(Wrong(self.0));
        response
    }
}

fn status(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// A template as an answer.
pub(super) fn page(template: &impl Template) -> Shown {
    let written = template.render().map_err(|error| {
        tracing::error!(%error, "a page could not be written");
        Problem::new(Code::Internal)
    })?;
    let mut response = Response::new(Body::from(written));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(HTML));
    Ok(response)
}

/// Go and look there (303): a reload repeats no act.
pub(super) fn other(path: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    // Paths of ours, and what was checked to be one.
    let way = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/ui"));
    response.headers_mut().insert(LOCATION, way);
    response
}

/// Nothing is here.
pub(super) async fn nowhere() -> Shown {
    Err(Problem::new(Code::RouteNotFound).into())
}

#[derive(Template)]
#[template(path = "trouble.html")]
struct Told<'a> {
    frame: Frame,
    status: u16,
    title: &'a str,
    detail: &'a str,
}

#[derive(Template)]
#[template(path = "trouble_bare.html")]
struct Bare<'a> {
    visit: &'a Visit,
    status: u16,
    title: &'a str,
    detail: &'a str,
}

impl Ui {
    /// The page of what is wrong, in the frame if somebody is known to look.
    pub(super) async fn wrong(
        &self,
        viewer: Option<&Viewer>,
        visit: Option<&Visit>,
        problem: &Problem,
    ) -> Response<Body> {
        let (status_code, title) = (problem.code.http(), problem.code.title());
        let detail = problem.detail.as_deref().unwrap_or_else(|| problem.code.doc());
        let written = match (viewer, visit) {
            (Some(viewer), _) => {
                let frame = self.frame(viewer, Place::Elsewhere).await;
                page(&Told { frame, status: status_code, title, detail })
            }
            (None, Some(visit)) => page(&Bare { visit, status: status_code, title, detail }),
            (None, None) => Ok(title.into_response()),
        };
        let mut response = written.unwrap_or_else(|_| title.into_response());
        *response.status_mut() = status(problem);
        if let Some(seconds) = problem.retry_after_s {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    /// The name of a cookie; one that needs https says so in its name, and browsers hold it to that.
    pub(super) fn cookie_name(&self, name: &str) -> String {
        if self.0.config.dashboard.secure_cookie { format!("__Host-{name}") } else { name.to_owned() }
    }

    /// Sets a cookie that no script reads; without an age the browser forgets it.
    pub(super) fn put_cookie(&self, headers: &mut HeaderMap, name: &str, value: &str, age: Option<Duration>) {
        let secure = if self.0.config.dashboard.secure_cookie { "; Secure" } else { "" };
        let (name, age_s) = (self.cookie_name(name), age.unwrap_or_default().as_secs());
        let cookie = format!("{name}={value}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}");
        // Base64 and our own words: always a legal header value.
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            headers.append(SET_COOKIE, cookie);
        }
    }

    /// Remembers the theme for a year.
    pub(super) fn put_theme(&self, headers: &mut HeaderMap, theme: Theme) {
        let secure = if self.0.config.dashboard.secure_cookie { "; Secure" } else { "" };
        let age_s = if theme == Theme::Browser { 0 } else { 365 * 86_400 };
        let theme = theme.as_str();
        let cookie = format!("{THEME}={theme}; Path=/ui; Max-Age={age_s}; SameSite=Lax{secure}");
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            headers.append(SET_COOKIE, cookie);
        }
    }

    /// What was said was shown.
    pub(super) fn forget_said(&self, headers: &mut HeaderMap) {
        self.put_cookie(headers, SAID, "", None);
    }

    pub(super) fn seal(&self) -> &Seal {
        &self.0.seal
    }
}

/// For templates without a frame.
impl Visit {
    pub(super) fn asset(&self, name: &str) -> String {
        assets::way(name)
    }
}

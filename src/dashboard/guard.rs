//! Before every page: who comes, may they, and is the form ours?
//!
//! **Promises.** What the list of routes says is needed is asked for here, once, so no page can forget it: a login
//! that has not ended with a key that still is one, `ops:read`, the scope of the route. Every POST carries the token
//! of its visit, whatever else it needs, and an `Origin`, where the browser sends one, that is this host. In a
//! read-only dashboard every act is refused. Every answer forbids the browser to load, run or frame anything that
//! is not from here.
//!
//! **Three hurdles against forged requests**, each enough: cookies are `SameSite=Strict`; the token is one that only
//! a page of this visit has; the origin is compared.

use super::act::Said;
use super::show::{Trouble, Wrong};
use super::viewer::{Acting, Known, Login, Sent, Theme, Viewer, Visit, cookie};
use super::{ROUTES, Ui, show};
use crate::intake::{Arrival, Code, Needs, Problem, Route, Scope, read_form};
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Response, StatusCode};
use axum::middleware::Next;
use axum::response::IntoResponse;
use std::sync::Arc;
use url::form_urlencoded;

/// Styles and scripts are files of ours; nothing stands in a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What is said with every page.
const SAID: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The field of a form that proves where it is from.
const TOKEN: &str = "csrf";

/// Around every route of the dashboard. For `axum::middleware::from_fn_with_state`.
pub(super) async fn guard(State(ui): State<Ui>, mut request: Request, next: Next) -> Response<Body> {
    let is_from_htmx = request.headers().contains_key("hx-request");
    let told = ui.welcome(&mut request).await;
    let viewer = request.extensions().get::<Viewer>().cloned();
    let visit = request.extensions().get::<Visit>().cloned();
    let said = viewer.as_ref().is_some_and(|viewer| viewer.0.said.is_some());
    let mut response = match told {
        Ok(Welcome::In) => next.run(request).await,
        Ok(Welcome::LogInFirst(way)) if is_from_htmx => led_by_script(&way),
        Ok(Welcome::LogInFirst(way)) => show::other(&way),
        Err(problem) => Trouble::from(problem).into_response(),
    };
    if let Some(Wrong(problem)) = response.extensions_mut().remove::<Wrong>() {
        response = ui.wrong(viewer.as_ref(), visit.as_ref(), &problem).await;
    }
    let is_page = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == show::HTML);
    let headers = response.headers_mut();
    for (name, value) in SAID {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if said && is_page {
        ui.forget_said(headers);
    }
    response
}

/// What comes of a visit.
enum Welcome {
    In,
    /// With the way there.
    LogInFirst(String),
}

/// The page that an act belongs to: where "again", another theme and `r` lead from what it answers.
fn page_of(act: &str) -> &str {
    let mut path = act;
    while !is_page(path) {
        match path.rsplit_once('/') {
            Some((above, _)) => path = above,
            None => return "/ui",
        }
    }
    path
}

/// Can this path be looked at?
fn is_page(path: &str) -> bool {
    let length = path.split('/').count();
    super::ROUTES.iter().filter(|route| route.method == "get" && !route.path.contains('*')).any(|route| {
        let mut pairs = route.path.split('/').zip(path.split('/'));
        route.path.split('/').count() == length && pairs.all(|(of, part)| of == part || of.starts_with('{'))
    })
}

/// What a browser sent besides a login: nothing that anybody may act by.
fn visit(ui: &Ui, request: &Request, login: Option<&Login>) -> Visit {
    let headers = request.headers();
    let door = || ui.door_of(headers).map(|id| ui.0.seal.token(&id)).unwrap_or_default();
    let uri = request.uri();
    let at = match *request.method() {
        Method::GET | Method::HEAD => uri.path_and_query().map_or("/ui", |at| at.as_str()),
        _ => page_of(uri.path()),
    };
    Visit {
        token: login.map_or_else(door, |login| ui.0.seal.token(&login.id)),
        theme: cookie(headers, show::THEME).map(Theme::named).unwrap_or_default(),
        at: at.to_owned(),
    }
}

impl Ui {
    /// Puts a [`Visit`], a [`Viewer`] and a [`Sent`] into the request, as far as there are any.
    async fn welcome(&self, request: &mut Request) -> Result<Welcome, Problem> {
        let route = route(request).ok_or_else(|| Problem::new(Code::RouteNotFound))?;
        let login = self.login_of(request.headers());
        let visit = visit(self, request, login.as_ref());
        request.extensions_mut().insert(visit.clone());
        let door = self.door_of(request.headers());
        let id = match &login {
            // Whoever comes in again, as somebody else or after the end of a login, does so by the door's form.
            Some(login) if route.path != "/ui/login" => Some(login.id),
            _ => door,
        };
        if let Needs::Scope(scope) = route.needs {
            let Some(viewer) = self.viewer(login, visit, request.headers()).await? else {
                return Ok(Welcome::LogInFirst(way_to_login(request)));
            };
            let may = viewer.0.caller.scopes.contains(&scope);
            request.extensions_mut().insert(viewer);
            if !may {
                let detail = format!("This needs a key with the scope {}.", scope.as_str());
                return Err(Problem::new(Code::MissingScope).detail(detail));
            }
            if route.method == "post" && self.acting() == Acting::Off {
                let detail = "This dashboard only shows: dashboard.read_only is set. The command line and the API act.";
                return Err(Problem::new(Code::MissingScope).detail(detail));
            }
        }
        if route.method == "post" {
            same_origin(request.headers())?;
            let arrival = request.extensions().get::<Arrival>().cloned().unwrap_or_default();
            let body = std::mem::take(request.body_mut());
            let sent = read_form(body, &arrival).await?;
            let mut fields: Vec<(String, String)> = form_urlencoded::parse(&sent).into_owned().collect();
            let is_ours = fields
                .iter()
                .any(|(name, value)| name == TOKEN && id.is_some_and(|id| self.0.seal.is_token(&id, value)));
            if !is_ours {
                return Err(not_ours());
            }
            fields.retain(|(name, _)| name != TOKEN);
            request.extensions_mut().insert(Sent(fields));
        }
        Ok(Welcome::In)
    }

    pub(super) fn login_of(&self, headers: &HeaderMap) -> Option<Login> {
        Login::open(&self.0.seal, cookie(headers, &self.cookie_name(show::SESSION))?)
    }

    /// Who looks; `None` without a login that still holds.
    async fn viewer(
        &self,
        login: Option<Login>,
        visit: Visit,
        headers: &HeaderMap,
    ) -> Result<Option<Viewer>, Problem> {
        let Some(Login { id, until, credentials }) = login else { return Ok(None) };
        let caller = match self.0.intake.authorise(&credentials, Scope::Operate).await {
            Ok(caller) => caller,
            Err(problem) if problem.code == Code::Unauthenticated => return Ok(None),
            Err(problem) => return Err(problem),
        };
        if caller.now >= until || self.has_ended(&id).await? {
            return Ok(None);
        }
        let said =
            cookie(headers, &self.cookie_name(show::SAID)).and_then(|text| Said::open(&self.0.seal, text));
        Ok(Some(Viewer(Arc::new(Known {
            caller,
            credentials,
            login: id,
            until,
            acting: self.acting(),
            visit,
            said,
        }))))
    }

    fn acting(&self) -> Acting {
        if self.0.config.dashboard.read_only { Acting::Off } else { Acting::Allowed }
    }
}

/// A page that was left open, or somebody else's.
fn not_ours() -> Problem {
    Problem::new(Code::InvalidParameter).detail(
        "This form is not of a page that you have open. Nothing was done. Open the page anew and try again.",
    )
}

/// Where a browser says from where a form comes, it must be from here.
fn same_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let from = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    if from.is_some_and(|(_, authority)| !host.is_empty() && authority == host) {
        Ok(())
    } else {
        Err(not_ours())
    }
}

/// The line of the list that this request is for; HEAD is answered as GET.
fn route(request: &Request) -> Option<&'static Route> {
    let path = request.extensions().get::<MatchedPath>()?;
    let method = if *request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let method = method.as_str().to_ascii_lowercase();
    ROUTES.iter().find(|route| route.path == path.as_str() && route.method == method)
}

/// Back to where somebody wanted to look; an act is not repeated.
fn way_to_login(request: &Request) -> String {
    let at = request.uri().path_and_query().map_or("/ui", |at| at.as_str());
    if *request.method() == Method::GET && at != "/ui" {
        let next: String = form_urlencoded::byte_serialize(at.as_bytes()).collect();
        format!("/ui/login?next={next}")
    } else {
        "/ui/login".to_owned()
    }
}

/// A script must not put the page of the log-in into a part of another.
fn led_by_script(way: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    if let Ok(way) = HeaderValue::from_str(way) {
        response.headers_mut().insert("hx-redirect", way);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_act_answers_leads_back_to_a_page_that_can_be_looked_at() {
        for (act, page) in [
            ("/ui/payments/7/payee", "/ui/payments/7"),
            ("/ui/gateways/sandbox/pause", "/ui/gateways"),
            ("/ui/quarantine/release", "/ui/quarantine"),
            ("/ui/bulks", "/ui/bulks"),
            ("/ui/switches", "/ui"),
            ("/ui/login", "/ui/login"),
        ] {
            assert_eq!(page_of(act), page, "{act}");
        }
    }

    #[test]
    fn a_form_from_another_origin_is_refused_and_one_that_names_none_is_judged_by_its_token() {
        let sent = |origin: Option<&'static str>| {
            let mut headers =
                HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("pay.example:8080"))]);
            headers.extend(origin.map(|origin| (header::ORIGIN, HeaderValue::from_static(origin))));
            same_origin(&headers).is_ok()
        };
        assert!(
            sent(None) && sent(Some("https://pay.example:8080")) && sent(Some("http://pay.example:8080"))
        );
        for origin in ["https://pay.example", "https://evil.example", "null", "https://pay.example:8080.evil"]
        {
            assert!(!sent(Some(origin)), "{origin}");
        }
    }
}

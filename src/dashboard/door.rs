//! In and out: a person gives an API key once, and the browser keeps it sealed.
//!
//! **Promises.** The key goes into an `HttpOnly`, `SameSite=Strict` cookie that only this installation opens, for
//! `dashboard.session` at most, and is written nowhere else. A wrong key is told from a missing scope, and nothing
//! more; attempts are counted for their address. A login that its person ended opens nothing, whoever has a copy of the
//! cookie. Where to go on is a path of the dashboard, never another place.
//!
//! The form of the log-in has a token too, bound to a cookie of the browser before its login: nobody can log others
//! in as themselves unseen.

use super::Ui;
use super::seal::VisitId;
use super::show::{self, Shown};
use super::viewer::{Login, Sent, Theme, Visit, cookie, credentials};
use crate::intake::{ApiKey, Code, Problem, Scope, trouble};
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::time::Duration;
use url::form_urlencoded;
use uuid::Uuid;

/// How old what is known of ended logins may be, and how long asking may take.
const ENDED: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(3));

#[derive(Template)]
#[template(path = "login.html")]
struct Door<'a> {
    visit: &'a Visit,
    token: String,
    environment: &'a str,
    next: &'a str,
    refusal: Option<String>,
}

/// The form.
pub(super) async fn page(State(ui): State<Ui>, visit: Visit, uri: Uri, headers: HeaderMap) -> Shown {
    let query = uri.query().unwrap_or_default().as_bytes();
    let next =
        form_urlencoded::parse(query).find(|(name, _)| name == "next").map(|(_, next)| next.into_owned());
    ui.door(&visit, &headers, next.as_deref().unwrap_or("/ui"), None)
}

/// The key of somebody who wants in.
pub(super) async fn enter(State(ui): State<Ui>, visit: Visit, headers: HeaderMap, sent: Sent) -> Shown {
    let next = sent.text("next").filter(|next| is_ours(next)).unwrap_or("/ui");
    if let Some(attempts) = &ui.0.attempts
        && let Err(problem) = attempts.admit()
    {
        return ui.door(&visit, &headers, next, Some(&problem));
    }
    let none = || Problem::new(Code::Unauthenticated);
    let key = sent.text("key").and_then(|text| ApiKey::parse(text).ok().zip(credentials(text)));
    let Some((key, credentials)) = key else { return ui.door(&visit, &headers, next, Some(&none())) };
    let caller = match ui.0.intake.authorise(&credentials, Scope::Operate).await {
        Ok(caller) => caller,
        Err(problem) => return ui.door(&visit, &headers, next, Some(&problem)),
    };
    let length = ui.0.config.dashboard.session;
    let login = Login::begin(&ui.0.seal, &key, caller.now, length);
    tracing::info!(operator = caller.operator.0, "somebody logged in to the dashboard");
    let mut response = show::other(next);
    ui.put_cookie(response.headers_mut(), show::SESSION, &login, Some(length));
    ui.put_cookie(response.headers_mut(), show::DOOR, "", None);
    Ok(response)
}

/// The browser forgets the key, and whoever has a copy of the cookie cannot use it.
pub(super) async fn leave(State(ui): State<Ui>, headers: HeaderMap) -> Shown {
    if let Some(login) = ui.login_of(&headers) {
        ui.end(&login).await?;
    }
    let mut response = show::other("/ui/login");
    ui.put_cookie(response.headers_mut(), show::SESSION, "", None);
    Ok(response)
}

/// Light or dark, and back to the page.
pub(super) async fn theme(State(ui): State<Ui>, sent: Sent) -> Shown {
    let back = sent.text("back").filter(|back| is_ours(back)).unwrap_or("/ui");
    let mut response = show::other(back);
    let chosen = sent.text("theme").map(Theme::named).unwrap_or_default();
    ui.put_theme(response.headers_mut(), chosen);
    Ok(response)
}

/// A path of the dashboard.
fn is_ours(path: &str) -> bool {
    let is_below = path == "/ui" || path.starts_with("/ui/") || path.starts_with("/ui?");
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') && !path.contains("//");
    // A browser goes up by these, also where a dot is written as its code.
    let only = path.split(['?', '#']).next().unwrap_or_default();
    let goes_up = only
        .split('/')
        .any(|part| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | ".."));
    is_below && is_plain && !goes_up
}

impl Ui {
    /// Here at once, in other processes within [`ENDED`].
    async fn end(&self, login: &Login) -> Result<(), Problem> {
        self.schedule().end_login(Uuid::from_bytes(login.id), login.until).await.map_err(trouble)?;
        self.0.ended_logins.forget().await;
        Ok(())
    }

    /// Did somebody end it before its time? An error while that is not known.
    pub(super) async fn has_ended(&self, login: &VisitId) -> Result<bool, Problem> {
        let ask = self.schedule().ended_logins();
        let ended = self.0.ended_logins.get(&*self.0.clock, ENDED, ask).await;
        let ended = ended.ok_or_else(|| Problem::new(Code::DatabaseUnavailable).retry_after(2))?;
        Ok(ended.contains(&Uuid::from_bytes(*login)))
    }

    /// What names a browser before its login.
    pub(super) fn door_of(&self, headers: &HeaderMap) -> Option<VisitId> {
        let bytes = URL_SAFE_NO_PAD.decode(cookie(headers, &self.cookie_name(show::DOOR))?).ok()?;
        bytes.try_into().ok()
    }

    fn door(&self, visit: &Visit, headers: &HeaderMap, next: &str, refused: Option<&Problem>) -> Shown {
        let known = self.door_of(headers);
        let id = known.unwrap_or_else(|| self.0.seal.visit_id());
        let refusal = refused.map(|problem| match problem.code {
            Code::Unauthenticated => "This is no key, or none any more.".to_owned(),
            Code::MissingScope => "This key may not look: it lacks the scope ops:read.".to_owned(),
            Code::RateLimited => "Too many attempts from here. Wait a minute.".to_owned(),
            // The database is away.
            _ => problem.code.title().to_owned(),
        });
        let door = Door {
            visit,
            token: self.0.seal.token(&id),
            environment: &self.0.config.dashboard.environment,
            next: if is_ours(next) { next } else { "/ui" },
            refusal,
        };
        let mut response = show::page(&door)?;
        if let Some(problem) = refused {
            *response.status_mut() =
                StatusCode::from_u16(problem.code.http()).unwrap_or(StatusCode::FORBIDDEN);
        }
        if known.is_none() {
            self.put_cookie(
                response.headers_mut(),
                show::DOOR,
                &URL_SAFE_NO_PAD.encode(id),
                Some(show::DOOR_FOR),
            );
        }
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_on_never_leads_elsewhere() {
        for path in [
            "/ui",
            "/ui/payments?q=status:PARKED",
            "/ui?x=1",
            "/ui/payments?q=due:..2026/..",
            "/ui/runbooks/a.b",
        ] {
            assert!(is_ours(path), "{path}");
        }
        for path in [
            "",
            "/",
            "/uix",
            "//evil.example",
            "/ui//evil",
            "https://evil.example/ui",
            "/ui/\\evil",
            "/ui/\r\nx",
            "/ui/../../v1/ops/acts",
            "/ui/..",
            "/ui/..?x=1",
            "/ui/payments/./x",
            "/ui/%2e%2E/v1/ops/acts",
            "/ui/.%2e/v1/ops/acts",
            "/ui/%2E",
            "/ui/..#x",
        ] {
            assert!(!is_ours(path), "{path:?}");
        }
    }
}

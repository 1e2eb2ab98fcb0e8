//! Who looks at a page, and what they may do there.
//!
//! A login is a sealed cookie with the API key in it ([`Login`]); its key is asked about on every request, as that
//! of any client. What a person may do follows from the key's scopes alone; the [`Role`] is only the word for it
//! that the pages show. In a read-only dashboard nobody may do anything, so no page shows a form.

use super::act::Said;
use super::seal::{Seal, VisitId};
use super::show::Trouble;
use crate::domain::ids::Operator;
use crate::intake::{ApiKey, Caller, Code, Problem, Scope};
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE, HeaderValue};
use axum::http::request::Parts;
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use secrecy::ExposeSecret;
use std::sync::Arc;
use std::time::Duration;

/// What sealed cookies of a login are sealed for.
const LOGIN: &str = "login";

/// A login, as its cookie holds it.
pub(super) struct Login {
    /// Names it, for the tokens of its forms.
    pub(super) id: VisitId,
    /// It ends then, by the database's clock.
    pub(super) until: DateTime<Utc>,
    /// The key, as a client would send it.
    pub(super) credentials: HeaderMap,
}

impl Login {
    /// The cookie's text of a login that begins now.
    pub(super) fn begin(seal: &Seal, key: &ApiKey, now: DateTime<Utc>, length: Duration) -> String {
        let until = now + TimeDelta::from_std(length).unwrap_or_default();
        let mut plain = seal.visit_id().to_vec();
        plain.extend(until.timestamp().to_be_bytes());
        plain.extend(key.text().expose_secret().as_bytes());
        seal.seal(LOGIN, &plain)
    }

    /// Opens one. Whether it has ended, and whether its key still is one, is not known yet.
    pub(super) fn open(seal: &Seal, text: &str) -> Option<Self> {
        let plain = seal.open(LOGIN, text)?;
        let (id, rest) = plain.split_first_chunk::<16>()?;
        let (until, key) = rest.split_first_chunk::<8>()?;
        let until = DateTime::from_timestamp(i64::from_be_bytes(*until), 0)?;
        Some(Self { id: *id, until, credentials: credentials(std::str::from_utf8(key).ok()?)? })
    }
}

/// A key, as a client would send it.
pub(super) fn credentials(key: &str) -> Option<HeaderMap> {
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).ok()?;
    value.set_sensitive(true);
    Some(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

/// The value of a cookie that the request has once.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut found = pairs.filter(|(found, _)| *found == name);
    let (_, value) = found.next()?;
    found.next().is_none().then_some(value)
}

/// Light, dark, or as the browser likes it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Theme {
    #[default]
    Browser,
    Light,
    Dark,
}

impl Theme {
    pub(super) const ALL: [Self; 3] = [Self::Browser, Self::Light, Self::Dark];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Browser => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    pub(super) fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|theme| theme.as_str() == name).unwrap_or_default()
    }
}

/// What the key's scopes amount to, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Looks.
    Viewer,
    /// Releases, resolves, refunds or pauses.
    Operator,
    /// Is the second person.
    Approver,
    /// Makes and revokes keys.
    Admin,
}

impl Role {
    fn of(scopes: &[Scope]) -> Self {
        let holds = |any: &[Scope]| any.iter().any(|scope| scopes.contains(scope));
        if holds(&[Scope::Admin]) {
            Self::Admin
        } else if holds(&[Scope::Approve]) {
            Self::Approver
        } else if holds(&[Scope::Redrive, Scope::Refund, Scope::Gateways]) {
            Self::Operator
        } else {
            Self::Viewer
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Approver => "approver",
            Self::Admin => "admin",
        }
    }
}

/// Whether people may act from the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acting {
    Allowed,
    /// `dashboard.read_only`
    Off,
}

/// One browser, logged in or not: what every page is told about it.
#[derive(Debug, Clone)]
pub(super) struct Visit {
    /// What its forms carry.
    pub(super) token: String,
    pub(super) theme: Theme,
    /// Path and query that were asked for, to come back to.
    pub(super) at: String,
}

/// Who looks. Found by `guard` before a page runs; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Viewer(pub(super) Arc<Known>);

/// What is known of who looks.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) caller: Caller,
    pub(super) credentials: HeaderMap,
    /// Names the login.
    pub(super) login: VisitId,
    /// It ends then, unless somebody ends it before.
    pub(super) until: DateTime<Utc>,
    pub(super) acting: Acting,
    pub(super) visit: Visit,
    /// What the act before this page came to.
    pub(super) said: Option<Said>,
}

impl Viewer {
    /// May they do what needs this scope? Of looks, whether they may look.
    pub(super) fn may(&self, scope: Scope) -> bool {
        let is_look = match scope {
            Scope::Read | Scope::Operate => true,
            Scope::Write
            | Scope::Redrive
            | Scope::Refund
            | Scope::Approve
            | Scope::Gateways
            | Scope::Admin => false,
        };
        self.0.caller.scopes.contains(&scope) && (is_look || self.0.acting == Acting::Allowed)
    }

    pub(super) fn role(&self) -> Role {
        Role::of(&self.0.caller.scopes)
    }

    /// Under this name their acts are written down.
    pub(super) fn name(&self) -> &Operator {
        &self.0.caller.operator
    }

    /// The database's clock, when the request came; with its digits, which are those that filters take.
    pub(super) fn now(&self) -> DateTime<Utc> {
        // Between two answers of the database the host's clock counts on, in nanoseconds.
        self.0.caller.now.trunc_subsecs(6)
    }
}

impl<S: Sync> FromRequestParts<S> for Viewer {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Trouble> {
        // Only routes that need nothing run without one, and they do not ask.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Problem::new(Code::Internal).into())
    }
}

impl<S: Sync> FromRequestParts<S> for Visit {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Trouble> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Problem::new(Code::Internal).into())
    }
}

/// What a form sent, its token checked and taken out.
#[derive(Debug, Clone, Default)]
pub(super) struct Sent(pub(super) Vec<(String, String)>);

impl Sent {
    /// The value of a field; the first one, trimmed. An empty field is none.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The value of a field that every form of its kind has, empty or not: `None` where it is missing or stands there
    /// twice, which means nothing in particular.
    pub(super) fn only(&self, name: &str) -> Option<&str> {
        let mut named = self.0.iter().filter(|(found, _)| found == name);
        let (_, value) = named.next()?;
        named.next().is_none().then_some(value.trim())
    }

    /// Every value of a field, such as that of ticked boxes.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let name = name.to_owned();
        let named = self.0.iter().filter(move |(found, _)| *found == name);
        named.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }
}

impl<S: Sync> FromRequestParts<S> for Sent {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Trouble> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Problem::new(Code::Internal).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::dice::Os;

    #[test]
    fn a_login_is_read_back_and_names_its_end() {
        let seal = Seal::of(&[1; 32], Arc::new(Os));
        let key = ApiKey::generate(&Os);
        let text = Login::begin(&seal, &key, DateTime::UNIX_EPOCH, Duration::from_secs(60));
        assert!(text.len() < 400, "{} bytes", text.len());
        let login = Login::open(&seal, &text).unwrap();
        assert_eq!(login.until.timestamp(), 60);
        assert_eq!(login.credentials[AUTHORIZATION], format!("Bearer {}", key.text().expose_secret()));
        assert!(
            !format!("{:?}", login.credentials).contains(key.text().expose_secret()),
            "it is not printed"
        );
        let again = Login::begin(&seal, &key, DateTime::UNIX_EPOCH, Duration::from_secs(60));
        assert_ne!(Login::open(&seal, &again).unwrap().id, login.id);
    }

    #[test]
    fn a_cookie_is_found_among_others_and_counts_only_once() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=1; punctual=x=y;b=2"));
        assert_eq!(cookie(&headers, "punctual"), Some("x=y"));
        assert_eq!(cookie(&headers, "unctual"), None);
        headers.append(COOKIE, HeaderValue::from_static("punctual=z"));
        assert_eq!(cookie(&headers, "punctual"), None, "somebody put another one beside it");
    }

    #[test]
    fn a_field_that_must_be_there_is_there_once() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Sent(pairs.collect()).only("on").map(str::to_owned)
        };
        assert_eq!(of(&[("of", "x"), ("on", " true ")]).as_deref(), Some("true"));
        assert_eq!(of(&[("on", "")]).as_deref(), Some(""), "empty is not missing");
        assert_eq!(of(&[("of", "x")]), None);
        assert_eq!(of(&[("on", "true"), ("on", "")]), None, "two of them say two things");
    }

    #[test]
    fn the_role_is_the_most_that_the_scopes_amount_to() {
        for (scopes, role) in [
            (&[Scope::Operate][..], Role::Viewer),
            (&[Scope::Operate, Scope::Refund], Role::Operator),
            (&[Scope::Gateways], Role::Operator),
            (&[Scope::Redrive, Scope::Approve], Role::Approver),
            (&Scope::ALL, Role::Admin),
        ] {
            assert_eq!(Role::of(scopes), role, "{scopes:?}");
        }
    }
}

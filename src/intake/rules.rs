//! What a well-formed request must also satisfy, all broken rules at once.
//!
//! Some rules are true for ever (a text is too long), others only now and here: a due time passes, a
//! limit or a gateway is configured away. A request that breaks only rules of the second kind may
//! have been accepted *earlier* under the same key, and then the client must get its payment
//! back, not a refusal: a client whose first answer was lost and who repeats after the due time
//! would otherwise believe that nothing was scheduled, and schedule it again.
//! [`Broken::only_now`] tells the two apart.

use super::card::holds_card_number;
use super::problem::{Code, FieldError, Problem};
use super::wire::{Draft, utc};
use crate::domain::ids::GatewayName;
use crate::domain::money::{Currency, Minor, Money};
use crate::domain::payment::{OnExhausted, OnSoftDecline, RetryPolicy};
use crate::domain::window::Window;
use crate::platform::config::Value;
use crate::schedule::Actor;
use chrono::{DateTime, TimeDelta, Utc};
use secrecy::{ExposeSecret, SecretString};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

/// What this installation accepts.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Latest due time, from now.
    pub horizon: Duration,
    /// How far in the past a due time may lie.
    pub due_grace: Duration,
    /// Largest amount, in minor units of whatever currency.
    pub max_amount_minor: i64,
    /// The configured gateways; the first is the default. Never empty.
    pub gateways: Vec<GatewayName>,
    /// How long after its due time a payment may first be tried that does not say so itself.
    pub execute_within: Option<Window>,
}

/// A well-formed request with every default applied, not judged yet. Its digests decide whether two
/// requests are the same.
pub(super) struct Request {
    pub(super) payee: SecretString,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) due_at: DateTime<Utc>,
    pub(super) execute_before: Option<DateTime<Utc>>,
    /// Seconds, as asked for; 0 asks for none.
    pub(super) execute_within: Option<i64>,
    pub(super) gateway: String,
    pub(super) external_id: Option<String>,
    pub(super) description: Option<String>,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) max_sends: i64,
    pub(super) on_soft_decline: String,
    pub(super) on_exhausted: String,
}

/// What the rules made of the request's texts and numbers.
#[derive(Debug)]
pub(super) struct Allowed {
    pub(super) amount: Money,
    pub(super) gateway: GatewayName,
    pub(super) retry: RetryPolicy,
    pub(super) execute_within: Option<Window>,
}

/// The broken rules, in the order of the interface's table; never empty.
#[derive(Debug)]
pub(super) struct Broken(Vec<FieldError>);

impl Broken {
    /// The same request may have been allowed at another time.
    pub(super) fn only_now(&self) -> bool {
        self.0.iter().all(|error| {
            matches!(
                error.code,
                Code::DueInPast
                    | Code::DueBeyondHorizon
                    | Code::AmountAboveLimit
                    | Code::UnsupportedCurrency
                    | Code::UnknownGateway
            )
        })
    }

    /// Nothing but its due time stands against the request: it has passed.
    pub(super) fn only_for_having_passed(&self) -> bool {
        self.0.iter().all(|error| error.code == Code::DueInPast)
    }

    /// The answer.
    pub(super) fn problem(self) -> Problem {
        // Only made from a list that is not empty (see `judge`).
        Problem::rules(self.0).unwrap_or_else(|| Problem::new(Code::Internal))
    }
}

impl Request {
    /// Applies the defaults of the actor and of this installation.
    ///
    /// # Errors
    /// 400 where a field is missing that this actor has no default for, or a time leaves the calendar.
    pub(super) fn with_defaults(draft: Draft, actor: &Actor, terms: &Terms) -> Result<Self, Problem> {
        let currency = draft
            .currency
            .or_else(|| actor.default_currency.map(|currency| currency.as_str().to_owned()))
            .ok_or_else(|| {
                Problem::at(
                    Code::MissingField,
                    "/currency",
                    "currency is required: this client has no default.",
                )
            })?;
        let gateway = draft
            .gateway
            .or_else(|| actor.default_gateway.as_ref().map(|gateway| gateway.0.clone()))
            .or_else(|| terms.gateways.first().map(|gateway| gateway.0.clone()))
            .ok_or_else(|| {
                Problem::at(Code::MissingField, "/gateway", "gateway is required: there is no default.")
            })?;
        let due_at = draft.due_at.rounded_up().ok_or_else(|| {
            Problem::at(Code::InvalidTime, "/dueAt", "The time is past the end of the calendar.")
        })?;
        let policy = RetryPolicy::default();
        Ok(Self {
            payee: draft.payee,
            amount: draft.amount,
            currency,
            due_at,
            execute_before: draft.execute_before.map(|at| at.rounded_down()),
            execute_within: draft.execute_within,
            gateway,
            external_id: draft.external_id,
            description: draft.description,
            metadata: draft.metadata,
            max_sends: draft.retry.max_sends.unwrap_or_else(|| policy.max_sends.into()),
            on_soft_decline: draft
                .retry
                .on_soft_decline
                .unwrap_or_else(|| soft(policy.on_soft_decline).into()),
            on_exhausted: draft.retry.on_exhausted.unwrap_or_else(|| exhausted(policy.on_exhausted).into()),
        })
    }

    /// Judges every rule.
    ///
    /// # Errors
    /// All that are broken.
    pub(super) fn judge(&self, terms: &Terms, now: DateTime<Utc>) -> Result<Allowed, Broken> {
        let mut found = Findings::default();
        found.texts(self);
        let minor = found.amount(self.amount, terms.max_amount_minor);
        let currency = found.currency(&self.currency, self.due_at);
        found.times(self, terms, now);
        let execute_within = found.window(self, terms);
        let gateway = terms.gateways.iter().find(|gateway| gateway.0 == self.gateway).cloned();
        found.require(
            gateway.is_some(),
            "/gateway",
            Code::UnknownGateway,
            "No gateway of this name is configured.",
        );
        found.free_texts(self);
        let retry = found.retry(self);
        match (minor, currency, gateway, retry) {
            (Some(minor), Some(currency), Some(gateway), Some(retry)) if found.0.is_empty() => {
                Ok(Allowed { amount: Money { minor, currency }, gateway, retry, execute_within })
            }
            _ => Err(Broken(found.0)),
        }
    }
}

/// The texts of the retry choices; the same as in answers.
fn soft(choice: OnSoftDecline) -> &'static str {
    match choice {
        OnSoftDecline::Retry => "retry",
        OnSoftDecline::Fail => "fail",
    }
}

fn exhausted(choice: OnExhausted) -> &'static str {
    match choice {
        OnExhausted::Park => "park",
        OnExhausted::Fail => "fail",
    }
}

/// How much of Unicode a text may hold.
#[derive(Clone, Copy)]
enum Characters {
    /// Space to tilde.
    PrintableAscii,
    /// Everything but control characters.
    OneLine,
    /// Line breaks and tabs as well.
    Lines,
}

impl Characters {
    fn allow(self, character: char) -> bool {
        match self {
            Self::PrintableAscii => matches!(character, ' '..='~'),
            Self::OneLine => !character.is_control(),
            Self::Lines => !character.is_control() || matches!(character, '\n' | '\r' | '\t'),
        }
    }
}

fn at(pointer: &str, code: Code, detail: impl Into<Cow<'static, str>>) -> FieldError {
    FieldError { pointer: pointer.to_owned(), code, detail: detail.into() }
}

#[derive(Default)]
struct Findings(Vec<FieldError>);

impl Findings {
    fn require(&mut self, holds: bool, pointer: &str, code: Code, detail: &'static str) {
        if !holds {
            self.0.push(at(pointer, code, detail));
        }
    }

    /// Length in characters, alphabet, and no card number.
    fn text(&mut self, pointer: &str, text: &str, longest: usize, characters: Characters) {
        if text.chars().count() > longest {
            self.0.push(at(pointer, Code::TooLong, format!("At most {longest} characters.")));
        }
        let allowed = text.chars().all(|character| characters.allow(character));
        self.require(allowed, pointer, Code::InvalidCharacter, Code::InvalidCharacter.doc());
        let card = holds_card_number(text);
        self.require(
            !card,
            pointer,
            Code::RawCardNumber,
            "This looks like a card number; send a token instead.",
        );
    }

    fn texts(&mut self, request: &Request) {
        let payee = request.payee.expose_secret();
        self.require(!payee.trim().is_empty(), "/payee", Code::Empty, "payee has at least one character.");
        self.text("/payee", payee, 255, Characters::PrintableAscii);
    }

    fn amount(&mut self, amount: i64, most: i64) -> Option<Minor> {
        let minor = Minor::new(amount);
        self.require(minor.is_some(), "/amount", Code::AmountNotPositive, "amount is at least 1 minor unit.");
        if amount > most {
            let detail = format!("amount is at most {most} minor units here.");
            self.0.push(at("/amount", Code::AmountAboveLimit, detail));
        }
        minor
    }

    fn currency(&mut self, code: &str, due_at: DateTime<Utc>) -> Option<Currency> {
        let due_day = due_at.date_naive();
        let currency = Currency::from_code(code).filter(|currency| currency.active_on(due_day));
        let detail = "Not an upper-case ISO 4217 code in use on the due day.";
        self.require(currency.is_some(), "/currency", Code::UnsupportedCurrency, detail);
        currency
    }

    fn times(&mut self, request: &Request, terms: &Terms, now: DateTime<Utc>) {
        // Settings longer than the calendar mean "no limit" and saturate there.
        let grace = TimeDelta::from_std(terms.due_grace).unwrap_or(TimeDelta::MAX);
        let horizon = TimeDelta::from_std(terms.horizon).unwrap_or(TimeDelta::MAX);
        let earliest = now.checked_sub_signed(grace).unwrap_or(DateTime::<Utc>::MIN_UTC);
        let latest = now.checked_add_signed(horizon).unwrap_or(DateTime::<Utc>::MAX_UTC);
        // The id carries milliseconds since 1970, so nothing older can be named whatever the grace.
        let future = request.due_at > earliest && request.due_at >= DateTime::UNIX_EPOCH;
        self.require(future, "/dueAt", Code::DueInPast, "dueAt has passed.");
        if request.due_at > latest {
            let length = terms.horizon.show();
            let detail = format!("dueAt is at most {length} from now, so not after {}.", utc(latest));
            self.0.push(at("/dueAt", Code::DueBeyondHorizon, detail));
        }
        let ordered = request.execute_before.is_none_or(|deadline| deadline > request.due_at);
        let detail = "executeBefore is not later than dueAt.";
        self.require(ordered, "/executeBefore", Code::ExecuteBeforeNotAfterDue, detail);
    }

    /// The window that the request names, or this installation's as far as the deadline leaves room.
    fn window(&mut self, request: &Request, terms: &Terms) -> Option<Window> {
        let room = request.execute_before.map(|deadline| deadline - request.due_at);
        let Some(seconds) = request.execute_within else {
            let whole = room.map_or(i64::MAX, |room| room.num_seconds());
            return terms
                .execute_within
                .and_then(|usual| Window::of_seconds(whole.min(usual.seconds().into())));
        };
        let window = Window::of_seconds(seconds);
        let allowed = seconds == 0 || window.is_some();
        self.require(allowed, "/executeWithin", Code::OutOfRange, "executeWithin is 0 to 86400 seconds.");
        // A deadline before the due time is told of already.
        let fits = window
            .zip(room)
            .is_none_or(|(window, room)| room >= window.length() || room <= TimeDelta::zero());
        let detail = "executeBefore is earlier than dueAt + executeWithin.";
        self.require(fits, "/executeBefore", Code::ExecuteBeforeWithinWindow, detail);
        window
    }

    fn free_texts(&mut self, request: &Request) {
        if let Some(id) = &request.external_id {
            self.require(
                !id.is_empty(),
                "/externalId",
                Code::Empty,
                "externalId has at least one character.",
            );
            self.text("/externalId", id, 180, Characters::OneLine);
        }
        if let Some(description) = &request.description {
            self.text("/description", description, 500, Characters::Lines);
        }
        let few = request.metadata.len() <= 50;
        self.require(few, "/metadata", Code::TooManyPairs, "metadata has at most 50 pairs.");
        for (name, value) in &request.metadata {
            let pointer = super::node::pointer("/metadata", name);
            self.require(
                !name.is_empty(),
                &pointer,
                Code::Empty,
                "A metadata name has at least one character.",
            );
            self.text(&pointer, name, 40, Characters::OneLine);
            self.text(&pointer, value, 500, Characters::Lines);
        }
    }

    fn retry(&mut self, request: &Request) -> Option<RetryPolicy> {
        let max_sends = i16::try_from(request.max_sends).ok().filter(|sends| (1..=6).contains(sends));
        self.require(max_sends.is_some(), "/retry/maxSends", Code::OutOfRange, "maxSends is 1 to 6.");
        let on_soft_decline = [OnSoftDecline::Retry, OnSoftDecline::Fail]
            .into_iter()
            .find(|choice| soft(*choice) == request.on_soft_decline);
        let detail = "onSoftDecline is retry or fail.";
        self.require(on_soft_decline.is_some(), "/retry/onSoftDecline", Code::UnknownChoice, detail);
        let on_exhausted = [OnExhausted::Park, OnExhausted::Fail]
            .into_iter()
            .find(|choice| exhausted(*choice) == request.on_exhausted);
        let detail = "onExhausted is park or fail.";
        self.require(on_exhausted.is_some(), "/retry/onExhausted", Code::UnknownChoice, detail);
        Some(RetryPolicy {
            max_sends: max_sends?,
            on_soft_decline: on_soft_decline?,
            on_exhausted: on_exhausted?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_by_a_limit_of_this_installation_names_the_limit() {
        let actor = Actor {
            id: crate::domain::ids::ActorId(uuid::Uuid::nil()),
            default_currency: None,
            default_gateway: None,
        };
        let terms = Terms {
            horizon: Duration::from_secs(365 * 86_400),
            due_grace: Duration::ZERO,
            max_amount_minor: 1_000_000,
            gateways: vec![GatewayName("sandbox".into())],
            execute_within: None,
        };
        let body =
            br#"{"payee":"a","amount":1000001,"currency":"EUR","dueAt":"2031-01-01T00:00:00.000001Z"}"#;
        let Ok(request) = Draft::read(body).and_then(|draft| Request::with_defaults(draft, &actor, &terms))
        else {
            panic!("well formed")
        };
        let broken = request.judge(&terms, "2030-01-01T00:00:00Z".parse().unwrap()).unwrap_err();
        let told: Vec<&str> = broken.0.iter().map(|error| &*error.detail).collect();
        assert_eq!(
            told,
            [
                "amount is at most 1000000 minor units here.",
                "dueAt is at most 365d from now, so not after 2031-01-01T00:00:00Z.",
            ]
        );
    }
}

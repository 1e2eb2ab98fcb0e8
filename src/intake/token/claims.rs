//! What a token says of itself, and whether that is meant for us.
//!
//! The order is: form, name of the key, algorithm against the key's, signature, issuer and audience, and only
//! then what the claims give. `jsonwebtoken` verifies signature, issuer and audience. It looks at no clock here:
//! whether a token holds now is asked of the database's.

use super::Told;
use super::keys::{Key, LONGEST_KID};
use crate::domain::ids::Operator;
use crate::intake::actor::{Scope, actor_name};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta};
use jsonwebtoken::Validation;
use jsonwebtoken::errors::ErrorKind;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Longest subject, in characters.
const LONGEST_SUBJECT: usize = 255;

/// Why a token is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is no token, or its claims have the wrong shape.
    Malformed,
    /// It is not signed as its key signs.
    Algorithm,
    /// The issuer has no key of that name.
    UnknownKey,
    /// It was changed, or somebody else signed it.
    Signature,
    /// It is of another issuer, for somebody else, or names nobody.
    Claims,
}

impl Refused {
    /// As it is counted.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Algorithm => "algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Claims => "claims",
        }
    }
}

/// The header, as far as anything of it is used. Keys and addresses of keys in it are not.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    alg: String,
    pub(super) kid: String,
    typ: Option<String>,
    crit: Option<Value>,
}

impl Head {
    /// The header of a token that was not verified.
    pub(super) fn read(token: &str) -> Result<Self, Refused> {
        let first = token.split('.').next().unwrap_or_default();
        let bytes = URL_SAFE_NO_PAD.decode(first).map_err(|_| Refused::Malformed)?;
        let head: Self = serde_json::from_slice(&bytes).map_err(|_| Refused::Malformed)?;
        let is_of_type = |typ: &str| {
            let typ = typ.strip_prefix("application/").unwrap_or(typ);
            typ.eq_ignore_ascii_case("JWT") || typ.eq_ignore_ascii_case("at+jwt")
        };
        // What must be understood and is not known here is not understood (RFC 7515 §4.1.11).
        let sane = head.crit.is_none()
            && head.typ.as_deref().is_none_or(is_of_type)
            && (1..=LONGEST_KID).contains(&head.kid.len());
        if sane { Ok(head) } else { Err(Refused::Malformed) }
    }
}

/// The claims that every token must have, and the rest.
#[derive(Debug, Deserialize)]
struct Said {
    iss: String,
    sub: String,
    exp: i64,
    nbf: i64,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

impl Said {
    fn claim(&self, name: &str) -> Option<Value> {
        match name {
            "sub" => Some(Value::from(self.sub.as_str())),
            "iss" => Some(Value::from(self.iss.as_str())),
            other => self.others.get(other).cloned(),
        }
    }
}

/// What a token must say.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) issuer: String,
    pub(super) audience: String,
    pub(super) leeway: TimeDelta,
    pub(super) actor_claim: String,
    pub(super) scope_claim: String,
    pub(super) grants: Grants,
}

impl Expected {
    /// Verifies a token by this key.
    pub(super) fn judge(&self, token: &str, head: &Head, key: &Key) -> Result<Told, Refused> {
        if head.alg != key.kind.name() {
            return Err(Refused::Algorithm);
        }
        let mut validation = Validation::new(key.kind.algorithm());
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.audience]);
        validation.set_required_spec_claims(&["iss", "aud", "sub", "exp", "nbf"]);
        validation.leeway = 0;
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let read = jsonwebtoken::decode::<Said>(token, &key.decoding, &validation);
        let said = read.map_err(|error| refused(error.kind()))?.claims;
        self.told(&said)
    }

    fn told(&self, said: &Said) -> Result<Told, Refused> {
        let not_before =
            DateTime::from_timestamp(said.nbf, 0).and_then(|at| at.checked_sub_signed(self.leeway));
        let ends_at = DateTime::from_timestamp(said.exp, 0).and_then(|at| at.checked_add_signed(self.leeway));
        let (Some(not_before), Some(ends_at)) = (not_before, ends_at) else { return Err(Refused::Malformed) };
        let subject = &said.sub;
        let named = (1..=LONGEST_SUBJECT).contains(&subject.chars().count())
            && !subject.chars().any(char::is_control);
        if said.exp <= said.nbf || !named {
            return Err(Refused::Claims);
        }
        let actor = match said.claim(&self.actor_claim) {
            Some(Value::String(name)) => actor_name(&name).map_err(|_| Refused::Claims)?,
            _ => return Err(Refused::Claims),
        };
        let scopes = self.grants.of(&values(said.claim(&self.scope_claim)));
        Ok(Told { actor, operator: Operator::of_token(&said.iss, subject), scopes, not_before, ends_at })
    }
}

fn refused(kind: &ErrorKind) -> Refused {
    match kind {
        ErrorKind::InvalidSignature => Refused::Signature,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName | ErrorKind::MissingAlgorithm => {
            Refused::Algorithm
        }
        ErrorKind::InvalidIssuer | ErrorKind::InvalidAudience | ErrorKind::MissingRequiredClaim(_) => {
            Refused::Claims
        }
        _ => Refused::Malformed,
    }
}

/// The words of a claim: a text with spaces, or a list of texts; anything else says nothing.
fn values(claim: Option<Value>) -> Vec<String> {
    match claim {
        Some(Value::String(text)) => text.split_ascii_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(items)) => {
            items.into_iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    }
}

/// What the values of a claim give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grants(BTreeMap<String, Vec<Scope>>);

impl Grants {
    /// `value=scope+scope,…`; an empty text: each scope gives itself.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            let own = |scope: Scope| (scope.as_str().to_owned(), vec![scope]);
            return Ok(Self(Scope::ALL.map(own).into()));
        }
        let mut grants = BTreeMap::new();
        for part in text.split(',').map(str::trim) {
            let (value, scopes) = part
                .split_once('=')
                .filter(|(value, _)| !value.trim().is_empty())
                .ok_or_else(|| format!("`{part}` is not value=scope+scope"))?;
            let scope = |name: &str| {
                let known = Scope::ALL.into_iter().find(|scope| scope.as_str() == name.trim());
                known.ok_or_else(|| {
                    let all = Scope::ALL.map(Scope::as_str).join(", ");
                    format!("`{}` is no scope; they are {all}", name.trim())
                })
            };
            let scopes = scopes.split('+').map(scope).collect::<Result<Vec<_>, _>>()?;
            if grants.insert(value.trim().to_owned(), scopes).is_some() {
                return Err(format!("`{}` stands there twice", value.trim()));
            }
        }
        Ok(Self(grants))
    }

    /// The scopes of these values, each once, in the order of the table.
    pub(super) fn of(&self, values: &[String]) -> Vec<String> {
        let given: Vec<Scope> =
            values.iter().filter_map(|value| self.0.get(value)).flatten().copied().collect();
        let held = Scope::ALL.into_iter().filter(|scope| given.contains(scope));
        held.map(|scope| scope.as_str().to_owned()).collect()
    }
}

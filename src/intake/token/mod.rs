//! Tokens of an identity provider (JWT, RFC 7519), beside API keys.
//!
//! **Promises.** A token is taken only if a key of the configured issuer signed it, with the algorithm of *that
//! key* (RS256 or EdDSA; what the token says decides nothing), for this audience, and if it says from when to
//! when it holds; both by the database's clock, with at most 30 s of leeway. Everything else is 401, without a
//! word about what was wrong: that is in the log and in `punctual_tokens_total`.
//!
//! **Relies on** the issuer for the truth of the claims: `oidc.actor_claim` names the payer, so it must be one
//! that users cannot choose. What a claim's values give is `oidc.scopes`, and nothing gives a scope that is not
//! one of ours.
//!
//! **Keys** are read at the start and every `oidc.refresh` (`keys`, `source`). If the issuer is away the last ones
//! are believed for a day; if there are none, tokens are answered 503 and API keys work as ever.

mod claims;
mod keys;
mod source;

use super::problem::{Code, Problem};
use crate::domain::ids::Operator;
use crate::platform::clock::SharedClock;
use crate::platform::config::Oidc;
use crate::platform::metrics;
use crate::platform::shutdown::Shutdown;
use chrono::{DateTime, TimeDelta, Utc};
use claims::{Expected, Head, Refused};
use keys::{Keys, NoKeys};
use source::Source;
use std::time::Duration;

/// Why tokens cannot be taken with these settings.
#[derive(Debug, thiserror::Error)]
pub enum CannotTakeTokens {
    /// `oidc.scopes` is not what it should be; correct it.
    #[error("oidc.scopes: {0}")]
    BadScopes(String),
    /// `oidc.jwks` is an address that nobody can be asked at; correct it.
    #[error("oidc.jwks: {0}")]
    BadSource(String),
}

/// What a token says, signed and for us, the time apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) actor: String,
    pub(super) operator: Operator,
    pub(super) scopes: Vec<String>,
    /// It holds from then on, leeway included.
    pub(super) not_before: DateTime<Utc>,
    /// It holds until then, leeway included.
    pub(super) ends_at: DateTime<Utc>,
}

/// Verifies tokens of one issuer.
pub struct Tokens {
    expected: Expected,
    keys: Keys,
    refresh: Duration,
    clock: SharedClock,
}

impl Tokens {
    /// As configured; `None` without an issuer. No keys are read yet.
    ///
    /// # Errors
    /// See [`CannotTakeTokens`].
    pub fn new(oidc: &Oidc, clock: SharedClock) -> Result<Option<Self>, CannotTakeTokens> {
        if oidc.issuer.is_empty() {
            return Ok(None);
        }
        let expected = Expected {
            issuer: oidc.issuer.clone(),
            audience: oidc.audience.clone(),
            // Checked to be at most 30 s.
            leeway: TimeDelta::from_std(oidc.leeway).unwrap_or_default(),
            actor_claim: oidc.actor_claim.clone(),
            scope_claim: oidc.scope_claim.clone(),
            grants: claims::Grants::read(&oidc.scopes).map_err(CannotTakeTokens::BadScopes)?,
        };
        let source = Source::of(&oidc.jwks).map_err(CannotTakeTokens::BadSource)?;
        let keys = Keys::new(source, clock.clone());
        Ok(Some(Self { expected, keys, refresh: oidc.refresh, clock }))
    }

    /// Reads the issuer's keys now; false, and a line in the log, if they could not be had.
    pub async fn read_keys(&self) -> bool {
        self.keys.read_now().await
    }

    /// Reads them anew every so often, until shutdown.
    pub async fn kept_fresh(&self, shutdown: Shutdown) {
        loop {
            let has_keys = self.keys.are_known();
            let pause = if has_keys { self.refresh } else { keys::LOOK_AGAIN };
            tokio::select! {
                biased;
                () = shutdown.wait() => return,
                () = self.clock.sleep(pause) => {}
            }
            self.read_keys().await;
        }
    }

    /// What a token says; `None` for one that is not to be believed.
    ///
    /// # Errors
    /// 503 while no keys are known.
    pub(super) async fn read(&self, token: &str) -> Result<Option<Told>, Problem> {
        let read = match Head::read(token) {
            Ok(head) => match self.keys.find(&head.kid).await {
                Ok(Some(key)) => self.expected.judge(token, &head, &key),
                Ok(None) => Err(Refused::UnknownKey),
                Err(NoKeys) => return Err(Problem::new(Code::TokenKeysUnavailable).retry_after(10)),
            },
            Err(refused) => Err(refused),
        };
        match read {
            Ok(told) => Ok(Some(told)),
            Err(refused) => {
                metrics::TOKENS.add(1, [refused.as_str()]);
                tracing::debug!(why = refused.as_str(), "a token was refused");
                Ok(None)
            }
        }
    }

    /// Counts a token whose signature and claims were good.
    pub(super) fn count(&self, in_time: InTime) {
        metrics::TOKENS.add(1, [if in_time == InTime::Yes { "accepted" } else { "out_of_time" }]);
    }
}

/// Whether a token holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InTime {
    Yes,
    No,
}

#[cfg(test)]
#[path = "../token_tests.rs"]
mod tests;

//! The issuer's public keys: which of a document are used, and for how long they are believed.
//!
//! Only RSA keys of 2048 to 4096 bits for RS256 and Ed25519 keys for EdDSA, each with a `kid` of its own and not
//! meant for anything but signing. Others are passed over: an issuer may have keys for more than us. One that
//! holds a private part is passed over too, and said loudly.
//!
//! **Rotation.** A `kid` that is not known is looked for at once, at most once in [`LOOK_AGAIN`] however many ask:
//! made-up ones cost a question every ten seconds. A document that cannot be read, or has no key that can be
//! used, changes nothing; what was read last is believed for [`LONGEST_BELIEVED`].

use super::source::Source;
use crate::domain::lease::Mono;
use crate::platform::clock::SharedClock;
use crate::platform::metrics;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The pause between two looks for an unknown key, or for any at all.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Keys that were not read again for so long are believed no more.
const LONGEST_BELIEVED: Duration = Duration::from_secs(86_400);
/// Most keys of one document.
const MOST_KEYS: usize = 100;
/// Longest name of a key, in bytes.
pub(super) const LONGEST_KID: usize = 255;

/// What a key signs with: the key decides, never the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Rs256,
    EdDsa,
}

impl Kind {
    /// As `alg` says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::EdDsa => "EdDSA",
        }
    }

    pub(super) fn algorithm(self) -> Algorithm {
        match self {
            Self::Rs256 => Algorithm::RS256,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }
}

/// A public key and what it is for.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) kind: Kind,
    pub(super) decoding: Arc<DecodingKey>,
}

/// No keys are known, so nothing can be said of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoKeys;

/// The keys, and where they come from.
pub(super) struct Keys {
    source: Source,
    clock: SharedClock,
    ring: Mutex<Ring>,
    /// When they were looked for last; held by whoever does, so that one asks for all.
    looking: tokio::sync::Mutex<Option<Mono>>,
}

#[derive(Default)]
struct Ring {
    by_kid: HashMap<String, Key>,
    read_at: Option<Mono>,
}

impl Keys {
    pub(super) fn new(source: Source, clock: SharedClock) -> Self {
        Self { source, clock, ring: Mutex::default(), looking: tokio::sync::Mutex::default() }
    }

    /// Are there any that are still believed?
    pub(super) fn are_known(&self) -> bool {
        let now = self.clock.mono();
        self.ring().read_at.is_some_and(|at| now.0.saturating_sub(at.0) < LONGEST_BELIEVED)
    }

    /// The key of this name, looked for if it is not known.
    pub(super) async fn find(&self, kid: &str) -> Result<Option<Key>, NoKeys> {
        if let Ok(Some(key)) = self.known(kid) {
            return Ok(Some(key));
        }
        let mut looked_at = self.looking.lock().await;
        // Whoever waited finds what the one before has read.
        if let Ok(Some(key)) = self.known(kid) {
            return Ok(Some(key));
        }
        let now = self.clock.mono();
        if looked_at.is_none_or(|at| now.0.saturating_sub(at.0) >= LOOK_AGAIN) {
            self.read(&mut looked_at).await;
        }
        self.known(kid)
    }

    /// Reads them now; false if they could not be had.
    pub(super) async fn read_now(&self) -> bool {
        let mut looked_at = self.looking.lock().await;
        self.read(&mut looked_at).await
    }

    async fn read(&self, looked_at: &mut Option<Mono>) -> bool {
        let now = self.clock.mono();
        *looked_at = Some(now);
        let document = self.source.read().await.map_err(|error| error.to_string());
        match document.and_then(|document| usable(&document)) {
            Ok(by_kid) => {
                metrics::TOKEN_KEYS_READ.add(1, ["read"]);
                *self.ring() = Ring { by_kid, read_at: Some(now) };
                true
            }
            Err(why) => {
                metrics::TOKEN_KEYS_READ.add(1, ["failed"]);
                tracing::warn!(
                    why,
                    "the token issuer's keys could not be read; the last ones are believed for a day"
                );
                false
            }
        }
    }

    fn known(&self, kid: &str) -> Result<Option<Key>, NoKeys> {
        if self.are_known() { Ok(self.ring().by_kid.get(kid).cloned()) } else { Err(NoKeys) }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // A panic while the lock was held leaves a map that is still whole.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Deserialize)]
struct Published {
    keys: Vec<serde_json::Value>,
}

/// One key as RFC 7517 and RFC 8037 write it.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    d: Option<serde_json::Value>,
    k: Option<serde_json::Value>,
}

/// The keys of a document that can be used here, by their names.
pub(super) fn usable(document: &[u8]) -> Result<HashMap<String, Key>, String> {
    let published: Published =
        serde_json::from_slice(document).map_err(|_| "it is no JWKS document".to_owned())?;
    if published.keys.len() > MOST_KEYS {
        return Err(format!("it has more than {MOST_KEYS} keys"));
    }
    let mut by_kid: HashMap<String, Option<Key>> = HashMap::new();
    for key in published.keys {
        let read = serde_json::from_value::<Jwk>(key).map_err(|_| "it is no key");
        match read.and_then(|jwk| jwk.key()) {
            // Of two keys of one name neither is used: which one signs is anybody's guess.
            Ok((kid, key)) => {
                by_kid.entry(kid).and_modify(|taken| *taken = None).or_insert(Some(key));
            }
            Err(why) => tracing::info!(why, "a key of the token issuer is passed over"),
        }
    }
    let by_kid: HashMap<String, Key> =
        by_kid.into_iter().filter_map(|(kid, key)| Some((kid, key?))).collect();
    if by_kid.is_empty() { Err("none of its keys can be used".to_owned()) } else { Ok(by_kid) }
}

impl Jwk {
    fn key(&self) -> Result<(String, Key), &'static str> {
        if self.d.is_some() || self.k.is_some() {
            tracing::error!("the token issuer publishes a PRIVATE key: whoever reads it can sign");
            return Err("it is a private or shared key");
        }
        let kid = self.kid.as_ref().filter(|kid| (1..=LONGEST_KID).contains(&kid.len()));
        let kid = kid.ok_or("it has no name")?.clone();
        let signs = self.r#use.as_deref().is_none_or(|usage| usage == "sig")
            && self.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !signs {
            return Err("it is not for signatures");
        }
        let (kind, decoding) = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => (Kind::Rs256, self.rsa()?),
            ("OKP", Some("Ed25519")) => (Kind::EdDsa, self.ed25519()?),
            _ => return Err("it is neither RSA nor Ed25519"),
        };
        if self.alg.as_deref().is_some_and(|alg| alg != kind.name()) {
            return Err("it is for another algorithm than RS256 or EdDSA");
        }
        Ok((kid, Key { kind, decoding: Arc::new(decoding) }))
    }

    fn rsa(&self) -> Result<DecodingKey, &'static str> {
        let (n, e) = (self.n.as_deref().unwrap_or(""), self.e.as_deref().unwrap_or(""));
        let (modulus, exponent) = (bytes(n)?, bytes(e)?);
        let first = modulus.iter().position(|byte| *byte != 0).unwrap_or(modulus.len());
        let significant = &modulus[first..];
        let unused = significant.first().map_or(0, |byte| byte.leading_zeros() as usize);
        let bits = significant.len() * 8 - unused;
        if !(2_048..=4_096).contains(&bits) {
            return Err("its modulus has not 2048 to 4096 bits");
        }
        // 3 is the least, 65537 the usual one; a large one only costs time.
        let odd = exponent.last().is_some_and(|last| last % 2 == 1);
        if !odd || exponent.len() > 4 || exponent == [1] {
            return Err("its exponent is not an odd number of 3 or more in 4 bytes");
        }
        DecodingKey::from_rsa_components(n, e).map_err(|_| "it is no RSA key")
    }

    fn ed25519(&self) -> Result<DecodingKey, &'static str> {
        let x = self.x.as_deref().unwrap_or("");
        if bytes(x)?.len() != 32 {
            return Err("an Ed25519 key has 32 bytes");
        }
        DecodingKey::from_ed_components(x).map_err(|_| "it is no Ed25519 key")
    }
}

fn bytes(text: &str) -> Result<Vec<u8>, &'static str> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| "it is not base64url")
}

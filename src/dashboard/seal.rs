//! What a browser keeps for us, so that it can neither be read nor made elsewhere.
//!
//! **Promises.** A sealed text opens only here, for the purpose that it was sealed for, unchanged. The key is made
//! from the installation's secret, so every process opens what another has sealed, and there is nothing to keep in
//! step.
//!
//! **Why the API key itself is inside a login** and not its hash or its id: whoever reads the database knows the
//! secret and the hashes. Such a reader can make a sealed text, and still cannot get in: inside it must be a key
//! that only its owner has. It is checked on every request like that of any client, so a login dies with its key.
//!
//! **How**: XChaCha20-Poly1305 with random nonces of 192 bits, which never meet again; the purpose is authenticated
//! beside the text.

use crate::platform::dice::SharedDice;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

const NONCE: usize = 24;

/// Seals and opens.
pub(super) struct Seal {
    cipher: XChaCha20Poly1305,
    tokens: [u8; 32],
    dice: SharedDice,
}

/// Names one login, or one browser before its login.
pub(super) type VisitId = [u8; 16];

impl Seal {
    /// With keys of this installation.
    pub(super) fn of(secret: &[u8; 32], dice: SharedDice) -> Self {
        let cipher = XChaCha20Poly1305::new(&Key::from(derived(secret, b"punctual dashboard: cookies")));
        Self { cipher, tokens: derived(secret, b"punctual dashboard: forms"), dice }
    }

    /// A fresh id.
    pub(super) fn visit_id(&self) -> VisitId {
        self.dice.bits().to_be_bytes()
    }

    /// A text for a cookie; empty if it cannot be sealed, which opens nowhere.
    pub(super) fn seal(&self, purpose: &str, plain: &[u8]) -> String {
        let mut nonce = [0; NONCE];
        nonce[..16].copy_from_slice(&self.dice.bits().to_be_bytes());
        nonce[16..].copy_from_slice(&self.dice.bits().to_be_bytes()[..NONCE - 16]);
        let payload = Payload { msg: plain, aad: purpose.as_bytes() };
        // It refuses only what has gigabytes.
        let Ok(sealed) = self.cipher.encrypt(&XNonce::from(nonce), payload) else { return String::new() };
        URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat())
    }

    /// What was sealed for this purpose.
    pub(super) fn open(&self, purpose: &str, text: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE>()?;
        let payload = Payload { msg: sealed, aad: purpose.as_bytes() };
        self.cipher.decrypt(&XNonce::from(*nonce), payload).ok()
    }

    /// What every form of this visit carries.
    pub(super) fn token(&self, visit: &VisitId) -> String {
        URL_SAFE_NO_PAD.encode(mac(&self.tokens, visit))
    }

    /// Is this the token of a form of this visit? Takes as long for a wrong one.
    pub(super) fn is_token(&self, visit: &VisitId, text: &str) -> bool {
        self.token(visit).as_bytes().ct_eq(text.as_bytes()).into()
    }
}

fn derived(secret: &[u8; 32], what_for: &[u8]) -> [u8; 32] {
    mac(secret, what_for)
}

fn mac(key: &[u8; 32], text: &[u8]) -> [u8; 32] {
    // A key that is shorter than a block is filled up with zeros (RFC 2104).
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let mut mac = <Hmac<Sha256> as Mac>::new(&block.into());
    mac.update(text);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::dice::Os;
    use std::sync::Arc;

    fn seal(secret: u8) -> Seal {
        Seal::of(&[secret; 32], Arc::new(Os))
    }

    #[test]
    fn a_sealed_text_opens_here_unchanged_and_for_its_purpose_alone() {
        let sealed = seal(1).seal("login", b"a secret");
        assert_eq!(seal(1).open("login", &sealed).as_deref(), Some(&b"a secret"[..]));
        assert_eq!(seal(1).open("said", &sealed), None);
        assert_eq!(seal(2).open("login", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(seal(1).open("login", &String::from_utf8(changed).unwrap()), None, "at {at}");
        }
        for text in ["", "A", "!", &sealed[..30]] {
            assert_eq!(seal(1).open("login", text), None);
        }
        assert_ne!(seal(1).seal("login", b"a secret"), sealed);
    }

    #[test]
    fn a_token_belongs_to_one_visit_of_one_installation() {
        let token = seal(1).token(&[1; 16]);
        assert!(seal(1).is_token(&[1; 16], &token));
        for (secret, visit) in [(1, 2), (2, 1)] {
            assert!(!seal(secret).is_token(&[visit; 16], &token));
        }
        assert!(!seal(1).is_token(&[1; 16], ""));
    }
}

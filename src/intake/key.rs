//! API keys: 256 random bits that can be told from noise without asking the database.
//!
//! Text form: `pk_live_` or `pk_test_`, then 48 characters of base64url: 32 random bytes and the
//! CRC-32 of prefix and bytes. The checksum turns away typing errors and scanners' guesses for free
//! and lets secret scanners be sure; it protects nothing. Only the SHA-256 of the text is stored: a
//! fast hash is enough, because nobody can guess 256 bits.

use crate::platform::dice::Dice;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// Characters after the prefix: 36 bytes in base64, so no padding and one spelling only.
const BODY_LENGTH: usize = 48;

/// What a key is for, as its prefix says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyMode {
    /// `pk_live_`
    Live,
    /// `pk_test_`
    Test,
}

impl KeyMode {
    fn prefix(self) -> &'static str {
        match self {
            Self::Live => "pk_live_",
            Self::Test => "pk_test_",
        }
    }
}

/// A well-formed API key. Its text is shown once, when it is made.
#[derive(Debug, Clone)]
pub struct ApiKey {
    text: SecretString,
    mode: KeyMode,
}

/// Not an API key: wrong prefix, length, alphabet or checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an API key")]
pub struct NotAKey;

impl ApiKey {
    /// A new live key.
    #[must_use]
    pub fn generate(dice: &dyn Dice) -> Self {
        Self::generate_for(KeyMode::Live, dice)
    }

    /// A new key of this mode.
    #[must_use]
    pub fn generate_for(mode: KeyMode, dice: &dyn Dice) -> Self {
        let mut bytes = [0; 36];
        bytes[..16].copy_from_slice(&dice.bits().to_be_bytes());
        bytes[16..32].copy_from_slice(&dice.bits().to_be_bytes());
        let check = checksum(mode, &bytes[..32]);
        bytes[32..].copy_from_slice(&check);
        let text = format!("{}{}", mode.prefix(), URL_SAFE_NO_PAD.encode(bytes));
        Self { text: text.into(), mode }
    }

    /// Reads a key that came from outside.
    ///
    /// # Errors
    /// [`NotAKey`], without a database call.
    pub fn parse(text: &str) -> Result<Self, NotAKey> {
        let (mode, body) = [KeyMode::Live, KeyMode::Test]
            .into_iter()
            .find_map(|mode| Some((mode, text.strip_prefix(mode.prefix())?)))
            .ok_or(NotAKey)?;
        if body.len() != BODY_LENGTH {
            return Err(NotAKey);
        }
        let bytes = URL_SAFE_NO_PAD.decode(body).map_err(|_| NotAKey)?;
        let (random, check) = bytes.split_at_checked(32).ok_or(NotAKey)?;
        if checksum(mode, random) != check {
            return Err(NotAKey);
        }
        Ok(Self { text: text.to_owned().into(), mode })
    }

    /// The key itself, to be shown once.
    #[must_use]
    pub fn text(&self) -> &SecretString {
        &self.text
    }

    /// What it is for.
    #[must_use]
    pub fn mode(&self) -> KeyMode {
        self.mode
    }

    /// What the database stores.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.text.expose_secret().as_bytes()).into()
    }

    /// Enough to recognise it in a list: the prefix and 4 of its characters (24 of 256 bits).
    #[must_use]
    pub fn hint(&self) -> String {
        let shown = self.mode.prefix().len() + 4;
        format!("{}…", self.text.expose_secret().chars().take(shown).collect::<String>())
    }
}

fn checksum(mode: KeyMode, random: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(mode.prefix().as_bytes());
    hasher.update(random);
    hasher.finalize().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::dice::Os;

    #[test]
    fn a_generated_key_is_read_back_with_the_same_hash() {
        for mode in [KeyMode::Live, KeyMode::Test] {
            let key = ApiKey::generate_for(mode, &Os);
            let text = key.text().expose_secret().to_owned();
            assert_eq!(text.len(), 56);
            let read = ApiKey::parse(&text).unwrap();
            assert_eq!((read.mode(), read.hash()), (mode, key.hash()));
        }
        assert_ne!(ApiKey::generate(&Os).hash(), ApiKey::generate(&Os).hash());
    }

    #[test]
    fn any_changed_character_fails_the_checksum() {
        let text = ApiKey::generate(&Os).text().expose_secret().to_owned();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(ApiKey::parse(&String::from_utf8(bytes).unwrap()).err(), Some(NotAKey), "at {at}");
        }
    }

    #[test]
    fn other_texts_are_not_keys() {
        let text = ApiKey::generate(&Os).text().expose_secret().to_owned();
        let other_mode = text.replace("pk_live_", "pk_test_");
        for bad in
            ["", "pk_live_", &text[..55], &format!("{text}="), &format!(" {text}"), &other_mode, &text[8..]]
        {
            assert!(ApiKey::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn neither_debug_nor_the_hint_shows_the_key() {
        let key = ApiKey::generate(&Os);
        let secret = &key.text().expose_secret()[12..];
        assert!(!format!("{key:?}").contains(secret));
        assert!(!key.hint().contains(secret) && key.hint().starts_with("pk_live_"));
    }
}

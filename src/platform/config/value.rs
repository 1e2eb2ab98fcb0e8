//! How one value reads and shows: text in, text out, the same text both ways.

use crate::domain::window::Window;
use ipnet::IpNet;
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::time::Duration;

/// A kind of setting.
pub trait Value: Sized {
    /// The kind in words, for errors and the README.
    const KIND: &'static str;
    /// Never printed.
    const SECRET: bool = false;

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence that begins with the setting's name.
    fn read(text: &str) -> Result<Self, String>;

    /// Writes it in the form that [`Value::read`] takes; `***` for a secret that is set.
    fn show(&self) -> String;
}

/// A text that is never printed: no `Display`, and `Debug` says `***`. Wiped when dropped.
///
/// It derefs to `str`, so drivers can be handed `&secret`; formatting one does not compile.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Deref for Secret {
    type Target = str;
    fn deref(&self) -> &str {
        self.0.expose_secret()
    }
}

impl Default for Secret {
    fn default() -> Self {
        Self::from("")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(SecretString::from(text))
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(SecretString::from(text))
    }
}

impl From<Secret> for SecretString {
    fn from(secret: Secret) -> Self {
        secret.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "\"\"" } else { "***" })
    }
}

impl Value for Secret {
    const KIND: &'static str = "secret text";
    const SECRET: bool = true;
    fn read(text: &str) -> Result<Self, String> {
        Ok(Self::from(text))
    }
    fn show(&self) -> String {
        if self.is_empty() { String::new() } else { "***".to_owned() }
    }
}

impl Value for String {
    const KIND: &'static str = "text";
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
    /// Of an address without the user and password, which it should not have and are nobody's to read.
    fn show(&self) -> String {
        without_user(self)
    }
}

/// An address with `***` for the user and password in it; any other text as it is.
pub fn without_user(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let authority = rest.find(['/', '?', '#']).map_or(rest, |end| &rest[..end]);
    // Behind its last colon stands a port; anything else is a password that has one of those characters in it.
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_cut = !authority.contains('@')
        && !authority.ends_with(']')
        && authority.rsplit_once(':').is_some_and(|(_, behind)| !is_port(behind));
    match (if is_cut { rest } else { authority }).rfind('@') {
        Some(at) => format!("{scheme}://***{}", &rest[at..]),
        None => text.to_owned(),
    }
}

impl Value for bool {
    const KIND: &'static str = "true or false";
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(format!("`{other}` is neither true nor false")),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

macro_rules! integers {
    ($( $kind:ty ),*) => { $(
        impl Value for $kind {
            const KIND: &'static str = "whole number";
            fn read(text: &str) -> Result<Self, String> {
                text.replace('_', "").parse().map_err(|_| {
                    format!("`{text}` is not a whole number from {} to {}", <$kind>::MIN, <$kind>::MAX)
                })
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )* };
}
integers!(i16, i32, i64, u32, u64, usize);

impl Value for Duration {
    const KIND: &'static str = "duration";
    fn read(text: &str) -> Result<Self, String> {
        // humantime takes a bare 0; a habit of leaving units out is the thing to refuse.
        if text.chars().all(|c| c.is_ascii_digit()) {
            return Err(format!("`{text}` has no unit; write for example 500ms, 30s, 5m, 2h or 1d"));
        }
        humantime::parse_duration(text)
            .map_err(|_| format!("`{text}` is not a duration; write for example 500ms, 30s, 5m, 2h or 1d"))
    }
    fn show(&self) -> String {
        const UNITS: [(u128, &str); 7] = [
            (86_400_000_000_000, "d"),
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        let nanos = self.as_nanos();
        // The largest unit that holds it exactly; the last one holds everything. 90s stays 90s.
        let unit = UNITS.iter().find(|(length, _)| nanos > 0 && nanos.is_multiple_of(*length));
        unit.map_or_else(|| "0s".to_owned(), |(length, name)| format!("{}{name}", nanos / length))
    }
}

impl Value for Option<Window> {
    const KIND: &'static str = "duration";
    fn read(text: &str) -> Result<Self, String> {
        let length = Duration::read(text)?;
        if length.is_zero() {
            return Ok(None);
        }
        let whole = i64::try_from(length.as_secs()).ok().filter(|_| length.subsec_nanos() == 0);
        let window = whole.and_then(Window::of_seconds);
        window.map(Some).ok_or_else(|| format!("`{text}` is not whole seconds, at most 1d"))
    }
    fn show(&self) -> String {
        Duration::from_secs(self.map_or(0, |window| window.seconds().unsigned_abs().into())).show()
    }
}

impl Value for Vec<Duration> {
    const KIND: &'static str = "list of durations";
    fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::new());
        }
        text.split(',').map(|part| Duration::read(part.trim())).collect()
    }
    fn show(&self) -> String {
        self.iter().map(Value::show).collect::<Vec<_>>().join(",")
    }
}

impl Value for Vec<IpNet> {
    const KIND: &'static str = "list of networks";
    fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::new());
        }
        let network = |part: &str| {
            let whole = part.parse::<IpNet>().or_else(|_| part.parse::<IpAddr>().map(IpNet::from));
            whole.map_err(|_| format!("`{part}` is not a network; write for example 10.0.0.0/8 or fd00::/8"))
        };
        text.split(',').map(|part| network(part.trim())).collect()
    }
    fn show(&self) -> String {
        self.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_single_addresses_are_read() {
        let read = Vec::<IpNet>::read("10.0.0.0/8, fd00::/8,192.0.2.1").unwrap();
        assert_eq!(read.show(), "10.0.0.0/8,fd00::/8,192.0.2.1/32");
        assert_eq!(Vec::<IpNet>::read("").unwrap().show(), "");
        for text in ["10.0.0.0/33", "proxy", "10.0.0.0/8,", "10.0.0.0-10.0.0.9"] {
            assert!(Vec::<IpNet>::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_shows_in_the_form_it_is_read() {
        for (text, length) in [
            ("365d", Duration::from_secs(365 * 86_400)),
            ("90s", Duration::from_secs(90)),
            ("2h", Duration::from_secs(7_200)),
            ("1500ms", Duration::from_millis(1_500)),
            ("7ns", Duration::from_nanos(7)),
            ("0s", Duration::ZERO),
        ] {
            assert_eq!(Duration::read(text), Ok(length));
            assert_eq!(length.show(), text);
        }
        assert_eq!(Duration::read("1m 30s"), Ok(Duration::from_secs(90)));
    }

    #[test]
    fn a_window_is_whole_seconds_up_to_a_day_or_none() {
        for (text, seconds) in [("0s", None), ("1s", Some(1)), ("10m", Some(600)), ("1d", Some(86_400))] {
            let window: Option<Window> = Value::read(text).unwrap();
            assert_eq!(window.map(Window::seconds), seconds);
            assert_eq!(window.show(), text);
        }
        for text in ["1500ms", "25h", "-1s", "60"] {
            assert!(Option::<Window>::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_without_a_unit_is_refused() {
        for text in ["30", "0", "", "-5s", "1.5", "30 parsecs"] {
            assert!(Duration::read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_number_outside_its_type_is_refused_with_the_range() {
        assert_eq!(i16::read("12"), Ok(12));
        assert_eq!(i64::read("1_000_000"), Ok(1_000_000));
        assert!(i16::read("40000").is_err_and(|why| why.contains("32767")));
        assert!(u32::read("1e3").is_err());
        assert!(usize::read("-1").is_err());
    }

    #[test]
    fn a_secret_has_no_printed_form() {
        let secret = Secret::from("hunter2");
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(secret.show(), "***");
        assert_eq!(&*secret, "hunter2");
    }

    #[test]
    fn an_address_shows_no_password() {
        for (text, shown) in [
            ("https://ann:hush@h:1/a@b", "https://***@h:1/a@b"),
            ("https://ann:hu/sh@h", "https://***@h"),
            ("https://ann:#hu?sh@h/x", "https://***@h/x"),
            ("http://h/a@b", "http://h/a@b"),
            ("http://h:1/a@b", "http://h:1/a@b"),
            ("http://[::1]/a@b", "http://[::1]/a@b"),
            ("ann@example", "ann@example"),
        ] {
            assert_eq!(text.to_owned().show(), shown);
        }
    }
}

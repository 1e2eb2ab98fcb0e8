//! Amounts: integers in minor units with an ISO 4217 currency whose exponent we know (rule R13).

use std::fmt;

/// Minor units, > 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor(i64);

impl Minor {
    /// `None` unless `amount_minor > 0`.
    #[must_use]
    pub fn new(amount_minor: i64) -> Option<Self> {
        (amount_minor > 0).then_some(Self(amount_minor))
    }

    /// The count of minor units.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

/// An ISO 4217 alpha-3 code from the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

/// An amount of one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Money {
    /// How much.
    pub minor: Minor,
    /// Of what.
    pub currency: Currency,
}

impl Currency {
    /// The code as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Only ASCII letters ever enter (see `from_code`).
        std::str::from_utf8(&self.0).unwrap_or("???")
    }

    /// Looks the code up in the table, whatever its days of validity.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        let bytes: [u8; 3] = code.as_bytes().try_into().ok()?;
        bytes.iter().all(u8::is_ascii_uppercase).then_some(Self(bytes))
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

//! What a gateway promises, as far as the rules need it: plain values, so that `outcome` decides
//! without knowing any gateway.

use super::declines::DeclineCaps;
use std::time::Duration;

/// The part of a gateway's profile that decides money questions.
///
/// Whether a stored 5xx is replayed is not among them: a 5xx is never an answer, and before
/// anything is sent again the key is looked up, which settles the matter either way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The account's identity; a key is unique only within it (rule R4).
    pub account: String,
    /// The version of the request format (rule R4).
    pub renderer: i16,
    /// How long the gateway remembers a key (rule R6).
    pub key_ttl: Duration,
    /// Safety distance kept from `key_ttl`.
    pub key_margin: Duration,
    /// What the gateway does with a decline under its key.
    pub declines: Declines,
    /// Whether the gateway can be asked about a key.
    pub lookup: LookupSupport,
    /// Whether the gateway can be told that a key shall never charge.
    pub voids: VoidSupport,
    /// A pending charge is decided by then, counted from the key's first send.
    pub async_final_within: Option<Duration>,
    /// How many declines of one destination are enough.
    pub caps: DeclineCaps,
}

/// What a gateway does when a key is used again that it declined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Declines {
    /// It answers the stored decline: one decline answers for every send under the key.
    Replayed,
    /// It executes again: a decline answers for one send alone. Assumed unless proven otherwise.
    Forgotten,
}

/// Whether the gateway can be asked about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LookupSupport {
    /// It can.
    ByKey,
    /// It cannot; a resend under the same key is the only question there is.
    None,
}

/// Whether the gateway voids by key.
///
/// A void is a tombstone: once it is answered "voided", no charge can happen under that key, ever, not
/// even after the gateway has forgotten everything else about it. A key that was decided before the void
/// came is answered with what became of it, and one that is being charged with "in use".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VoidSupport {
    /// It does.
    ByKey,
    /// It does not, or nobody has proven that it does.
    None,
}

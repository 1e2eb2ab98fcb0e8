//! Which addresses we call when somebody else names them: the rule against requests that are forged through us.
//!
//! **Promise.** [`may_be_called`] lets nothing through but addresses of the public internet, and what the
//! installation lists as its own. An IPv6 address outside 2000::/3 is refused without a look: what is not
//! given out yet is not public. An address that carries an IPv4 one inside is judged by that one where
//! packets really go there (mapped, NAT64), and refused where only a tunnel would take it (compatible, 6to4,
//! Teredo, ISATAP). **Relies on** its callers to ask for every address that a name has, at the moment of the
//! call: an answer about a name is worth nothing a second later.
//!
//! **Why a table of our own.** The ranges are IANA's registries of special-purpose addresses; `std` has most of
//! them behind a feature that is not stable. Clouds keep services at a few addresses that look public; those
//! are listed by hand.
//!
//! **Why spellings are read here.** A resolver of the system takes `2130706433`, `0x7f.1` and `0177.0.0.1` for
//! 127.0.0.1. [`literal`] reads a host as the most generous of them does, so that nothing is a name to us and an
//! address to somebody below us. Pure: if this dies, its caller does.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address that we do not call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{address} is not called: {range}")]
pub struct Forbidden {
    /// The address, as it was asked about.
    pub address: IpAddr,
    /// What it is one of, for people.
    pub range: &'static str,
}

/// A host that is neither a name nor an address in a spelling that everybody reads alike.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a host name nor an address")]
pub struct NotAHost(pub String);

/// First address, length of the prefix, what it is. IANA, "IPv4 Special-Purpose Address Registry".
const CLOSED_V4: &[(Ipv4Addr, u32, &str)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this network"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private network"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared by a carrier's customers"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "this machine"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "a cloud's own service"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "this link"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private network"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved for protocols"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documentation"),
    (Ipv4Addr::new(192, 31, 196, 0), 24, "a sink for reverse look-ups"),
    (Ipv4Addr::new(192, 52, 193, 0), 24, "a relay of multicast"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a relay of 6to4"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private network"),
    (Ipv4Addr::new(192, 175, 48, 0), 24, "a sink for reverse look-ups"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

/// What of 2000::/3 is not public. IANA, "IPv6 Special-Purpose Address Registry".
const CLOSED_V6: &[(Ipv6Addr, u32, &str)] = &[
    // Teredo, benchmarks, ORCHID and whatever comes next to them.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "reserved for protocols"),
    (Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 0), 32, "for documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "a tunnel to an IPv4 address (6to4)"),
    (Ipv6Addr::new(0x2620, 0x004f, 0x8000, 0, 0, 0, 0, 0), 48, "a sink for reverse look-ups"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "for documentation"),
];

/// May we send a request to this address, given the networks that the installation itself allows?
///
/// # Errors
/// [`Forbidden`], with what the address is.
pub fn may_be_called(address: IpAddr, allowed: &[IpNet]) -> Result<(), Forbidden> {
    // The kernel sends what is mapped to the IPv4 address itself.
    let real = address.to_canonical();
    if allowed.iter().any(|network| network.contains(&real)) {
        return Ok(());
    }
    let closed = match real {
        IpAddr::V4(real) => closed_v4(real),
        IpAddr::V6(real) => closed_v6(real),
    };
    closed.map_or(Ok(()), |range| Err(Forbidden { address, range }))
}

fn closed_v4(address: Ipv4Addr) -> Option<&'static str> {
    let begins = |first: Ipv4Addr, length: u32| {
        let shift = 32 - length;
        address.to_bits() >> shift == first.to_bits() >> shift
    };
    CLOSED_V4.iter().find(|(first, length, _)| begins(*first, *length)).map(|(_, _, range)| *range)
}

fn closed_v6(address: Ipv6Addr) -> Option<&'static str> {
    let begins = |first: Ipv6Addr, length: u32| {
        let shift = 128 - length;
        address.to_bits() >> shift == first.to_bits() >> shift
    };
    let [a, b, c, d, e, f, high, low] = address.segments();
    // Where a network has IPv6 only, its resolver gives every IPv4 address in this form (RFC 6052).
    if [a, b, c, d, e, f] == [0x64, 0xff9b, 0, 0, 0, 0] {
        return closed_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    }
    if a >> 13 != 1 {
        return Some("not of the public internet");
    }
    if matches!([e, f], [0x0000 | 0x0200, 0x5efe]) {
        return Some("a tunnel to an IPv4 address (ISATAP)");
    }
    CLOSED_V6.iter().find(|(first, length, _)| begins(*first, *length)).map(|(_, _, range)| *range)
}

/// The address that a host is, in whichever spelling; `None`: it is a name.
///
/// # Errors
/// [`NotAHost`]: it looks like an address and is none, or carries what no host of a URL may.
pub fn literal(host: &str) -> Result<Option<IpAddr>, NotAHost> {
    let not = || NotAHost(host.to_owned());
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if bracketed.is_some() || host.contains(':') {
        // With a zone (`%eth0`) it does not parse: a zone is a link of this machine.
        return bracketed.unwrap_or(host).parse().map(|v6: Ipv6Addr| Some(v6.into())).map_err(|_| not());
    }
    let bare = host.strip_suffix('.').unwrap_or(host);
    let fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    // What is not ASCII may turn into digits and dots on its way to an address; it comes as punycode.
    if bare.len() > 253 || !bare.split('.').all(fits) {
        return Err(not());
    }
    let last = bare.rsplit('.').next().unwrap_or(bare);
    if !is_number(last) {
        return Ok(None);
    }
    parts_v4(bare).map(|v4| Some(v4.into())).ok_or_else(not)
}

fn is_number(label: &str) -> bool {
    let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    label.bytes().all(|byte| byte.is_ascii_digit()) || hex.is_some_and(is_hex)
}

/// As `inet_aton` reads it: one to four numbers in base 8, 10 or 16, the last filling what is left.
fn parts_v4(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u32> = text.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    if first.len() > 3 || first.iter().any(|part| *part > 255) {
        return None;
    }
    let room = 32 - 8 * u32::try_from(first.len()).ok()?;
    if room < 32 && *last >> room != 0 {
        return None;
    }
    let head = first.iter().fold(0_u32, |bits, part| bits << 8 | part);
    Some(Ipv4Addr::from_bits(head.checked_shl(room).unwrap_or(0) | last))
}

fn number(text: &str) -> Option<u32> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match (hex, text.strip_prefix('0')) {
        (Some(""), _) | (None, Some("")) => Some(0),
        (Some(digits), _) => u32::from_str_radix(digits, 16).ok(),
        (None, Some(digits)) => u32::from_str_radix(digits, 8).ok(),
        (None, None) => text.parse().ok(),
    }
}

#[cfg(test)]
#[path = "addresses_tests.rs"]
mod tests;

//! Where a request comes from: the address that its limits count for.
//!
//! The peer's, unless the peer is a proxy that `api.trusted_proxies` lists. Only such a one is believed what
//! it says in `X-Forwarded-For`, and of that only what it wrote itself: the list is read from its end, past
//! trusted proxies, to the first address that is none. What stands before that came with the request, and
//! anybody can write it.
//!
//! An IPv6 address counts as its /64, which is what one customer is given; otherwise one machine has as many
//! limits as it likes.

use axum::http::HeaderMap;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The other end of the connection, put into the request where it was accepted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Whom a request counts for: an IPv4 address, or the first half of an IPv6 one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Origin(IpAddr);

/// The origin of a request that came from this peer; without one, all are of one origin.
pub(super) fn origin(peer: Option<Peer>, headers: &HeaderMap, trusted: &[IpNet]) -> Origin {
    let Some(Peer(peer)) = peer else { return Origin::of(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) };
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
    let mut nearest = peer.ip().to_canonical();
    if !is_trusted(nearest) {
        return Origin::of(nearest);
    }
    // Several headers are one list, in their order (RFC 9110 §5.3).
    let said = headers.get_all("x-forwarded-for").iter();
    let said: Vec<&[u8]> = said.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).collect();
    for text in said.into_iter().rev() {
        let Ok(text) = std::str::from_utf8(text) else { break };
        // What is no address hides whatever stands before it: the proxy that said so counts.
        let Some(address) = address(text.trim()) else { break };
        nearest = address;
        if !is_trusted(address) {
            break;
        }
    }
    Origin::of(nearest)
}

/// An address, with a port or without, as proxies write it.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let read = bare.parse().ok().or_else(|| text.parse().ok().map(|with_port: SocketAddr| with_port.ip()));
    read.map(|address: IpAddr| address.to_canonical())
}

impl Origin {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self(address),
            IpAddr::V6(whole) => Self(IpAddr::V6(Ipv6Addr::from_bits(whole.to_bits() & (u128::MAX << 64)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn found(peer: &str, forwarded: &[&str]) -> String {
        let trusted: Vec<IpNet> =
            ["10.0.0.0/8", "fd00::/8"].iter().map(|network| network.parse().unwrap()).collect();
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        origin(Some(Peer(peer.parse().unwrap())), &headers, &trusted).0.to_string()
    }

    #[test]
    fn a_peer_that_is_no_proxy_of_ours_is_believed_nothing() {
        assert_eq!(found("192.0.2.1:5", &[]), "192.0.2.1");
        assert_eq!(found("192.0.2.1:5", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(found("[::ffff:192.0.2.1]:5", &["10.0.0.1"]), "192.0.2.1");
    }

    #[test]
    fn behind_trusted_proxies_the_last_stranger_counts() {
        for (forwarded, origin) in [
            (vec!["198.51.100.7"], "198.51.100.7"),
            (vec!["203.0.113.9, 198.51.100.7"], "198.51.100.7"),
            (vec!["203.0.113.9, 198.51.100.7, 10.1.1.1"], "198.51.100.7"),
            (vec!["203.0.113.9", "198.51.100.7"], "198.51.100.7"),
            (vec!["198.51.100.7:4711"], "198.51.100.7"),
            (vec!["::ffff:198.51.100.7"], "198.51.100.7"),
            (vec!["[2001:db8::1]:443"], "2001:db8::"),
            // What cannot be read hides what a client wrote before it.
            (vec!["203.0.113.9", "\u{e9}, 198.51.100.7"], "198.51.100.7"),
            (vec!["203.0.113.9", "\u{e9}"], "10.0.0.1"),
            // Nobody but proxies: the farthest of them.
            (vec!["10.9.9.9, 10.1.1.1"], "10.9.9.9"),
            (vec![], "10.0.0.1"),
            // Nonsense hides what stands before it.
            (vec!["198.51.100.7, unknown"], "10.0.0.1"),
            (vec!["198.51.100.7, unknown, 10.1.1.1"], "10.1.1.1"),
            (vec![""], "10.0.0.1"),
        ] {
            assert_eq!(found("10.0.0.1:5", &forwarded), origin, "{forwarded:?}");
        }
        assert_eq!(found("[fd00::1]:5", &["198.51.100.7"]), "198.51.100.7");
    }

    #[test]
    fn an_ipv6_network_is_one_origin() {
        assert_eq!(found("[2001:db8:1:2:3:4:5:6]:5", &[]), "2001:db8:1:2::");
        assert_eq!(found("[2001:db8:1:2::9]:5", &[]), "2001:db8:1:2::");
        assert_ne!(found("[2001:db8:1:3::9]:5", &[]), "2001:db8:1:2::");
    }
}

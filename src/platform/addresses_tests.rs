//! Every range and every spelling, one row each.

use super::*;

/// What a URL's host is to us: `name`, `called`, `refused` or `nonsense`.
fn judged(host: &str) -> &'static str {
    match literal(host) {
        Err(_) => "nonsense",
        Ok(None) => "name",
        Ok(Some(address)) => match may_be_called(address, &[]) {
            Ok(()) => "called",
            Err(_) => "refused",
        },
    }
}

/// Every way to write an address that is not outside.
const INNER: &[&str] = &[
    // 127.0.0.1 as resolvers take it.
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0X7F000001",
    "0x7f.0x0.0x0.0x1",
    "0x7f.1",
    "017700000001",
    "0177.0.0.1",
    "0177.0x0.1",
    "127.0.0.1.",
    "127.255.255.254",
    "0",
    "0x",
    "0.0.0.0",
    "0.1.2.3",
    // Private, shared and link-local, with the metadata services of clouds.
    "10.0.0.1",
    "167772161",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "0xc0a80101",
    "100.64.0.1",
    "100.100.100.200",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "168.63.129.16",
    "192.0.0.192",
    // Reserved for something else.
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "4294967295",
    // IPv6.
    "[::]",
    "[::1]",
    "::1",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:10.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::127.0.0.1]",
    "[::8.8.8.8]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b::10.1.2.3]",
    "[64:ff9b:1::8.8.8.8]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2002:808:808::1]",
    "[2001::1]",
    "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
    "[2001:2::1]",
    "[2001:10::1]",
    "[2001:20::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[5f00::1]",
    "[100::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[fe80::5efe:7f00:1]",
    "[2a00:1450:4001:81b::5efe:a00:1]",
    "[2a00:1450:4001:81b:200:5efe:a00:1]",
    "[fec0::1]",
    "[ff02::1]",
    "[4000::1]",
];

#[test]
fn no_spelling_of_an_inner_address_gets_through() {
    for host in INNER {
        assert_eq!(judged(host), "refused", "{host}");
    }
}

#[test]
fn what_is_read_in_two_ways_is_no_host() {
    for host in [
        "",
        ".",
        "a..b",
        ".example.com",
        "[fe80::1%eth0]",
        "fe80::1%25eth0",
        "[::1",
        "[127.0.0.1]",
        "127.0.0.1:80",
        "[::1]:80",
        "256.1.1.1",
        "1.2.3.4.5",
        "127.0.0.08",
        "1.2.3.256",
        "1.16777216",
        "4294967296",
        "name.0x7f",
        "foo.1",
        "127.0.0.1..",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "①②⑦.0.0.1",
        "127。0。0。1",
        "exa mple.com",
        "a\0.example.com",
        "user@127.0.0.1",
        "example.com/",
        "example.com\\",
    ] {
        assert_eq!(judged(host), "nonsense", "{host:?}");
    }
    assert_eq!(judged(&"a".repeat(64)), "nonsense");
    assert_eq!(judged(&"a.".repeat(127)), "name");
    assert_eq!(judged(&"a.".repeat(128)), "nonsense");
}

#[test]
fn public_addresses_and_names_get_through() {
    for host in [
        "8.8.8.8",
        "1.1.1.1",
        "134744072",
        "0x08080808",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "168.63.129.15",
        "169.253.255.255",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "[2606:4700::1111]",
        "[2001:4860:4860::8888]",
        "[2001:200::1]",
        "[::ffff:8.8.8.8]",
        "[64:ff9b::808:808]",
    ] {
        assert_eq!(judged(host), "called", "{host}");
    }
    for host in [
        "example.com",
        "example.com.",
        "xn--bcher-kva.example",
        "localhost",
        "a_b.example",
        "1.example",
        "0x7g",
    ] {
        assert_eq!(judged(host), "name", "{host}");
    }
}

#[test]
fn an_installation_opens_its_own_networks_and_nothing_that_only_looks_like_them() {
    let allowed: Vec<IpNet> = ["127.0.0.0/8", "fd00:1::/32"].iter().map(|net| net.parse().unwrap()).collect();
    let is_called = |text: &str| may_be_called(text.parse().unwrap(), &allowed).is_ok();
    assert!(is_called("127.0.0.1"));
    assert!(is_called("::ffff:127.0.0.1"), "the same address");
    assert!(is_called("fd00:1::5"));
    assert!(is_called("8.8.8.8"));
    for other in ["::1", "::127.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:1::", "10.0.0.1", "fd00:2::5"] {
        assert!(!is_called(other), "{other}");
    }
}

#[test]
fn a_refusal_names_the_address_and_what_it_is() {
    let refused = may_be_called("::ffff:169.254.169.254".parse().unwrap(), &[]).unwrap_err();
    assert_eq!(refused.to_string(), "::ffff:169.254.169.254 is not called: this link");
}

#[test]
fn no_range_of_the_table_has_bits_behind_its_prefix() {
    for (first, length, range) in CLOSED_V4 {
        assert_eq!(first.to_bits() & u32::MAX.checked_shr(*length).unwrap_or(0), 0, "{first} {range}");
    }
    for (first, length, range) in CLOSED_V6 {
        assert_eq!(first.to_bits() & (u128::MAX >> *length), 0, "{first} {range}");
    }
}

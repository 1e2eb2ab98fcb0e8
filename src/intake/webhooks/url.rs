//! Which address an endpoint may have, as far as can be said before anybody looks its name up.
//!
//! **Promises.** What passes is https (or http, where the installation lists networks of its own), has no user, no
//! password and no fragment, a port on which such things are served, and a host that is a public name or an address
//! that may be called. **Relies on** the sender asking again about every address that the name has, at every call:
//! what a name says today is not what it will say then. **Why the same parser as the sender's client**: two parsers
//! that read one text differently are a way around every rule here. Pure.

use crate::intake::card::key_holds_card_number;
use crate::intake::problem::{Code, Problem};
use crate::platform::addresses::{literal, may_be_called};
use ipnet::IpNet;
use std::net::IpAddr;
use url::Url;

/// Most characters.
pub(super) const LONGEST: usize = 1_000;

/// Names that no public name server answers for; with a dot before them.
const LOCAL: [&str; 8] =
    ["localhost", "local", "localdomain", "internal", "intranet", "home.arpa", "invalid", "onion"];

/// The address in its one form, in which addresses are compared and stored.
///
/// # Errors
/// 422, at `/url`.
pub(super) fn judge(text: &str, allowed: &[IpNet]) -> Result<String, Problem> {
    let refused = |why: &'static str| Problem::at(Code::InvalidWebhookUrl, "/url", why);
    if text.len() > LONGEST {
        return Err(Problem::at(Code::TooLong, "/url", "At most 1000 characters."));
    }
    // A parser would drop tabs and line ends, and take a backslash for a slash: nobody means that.
    if !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
        return Err(refused("Visible ASCII characters without backslashes only; other hosts as punycode."));
    }
    if key_holds_card_number(text) {
        return Err(Problem::at(Code::RawCardNumber, "/url", "Digits that may be a card number."));
    }
    let url =
        Url::parse(text).map_err(|_| refused("Expected an absolute URL, like https://shop.example/hook."))?;
    match url.scheme() {
        "https" => {}
        "http" if !allowed.is_empty() => {}
        _ => return Err(refused("Only https is called.")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("No user and no password: requests are signed instead."));
    }
    if url.fragment().is_some() {
        return Err(refused("No fragment: it would not be sent."));
    }
    let host = url.host_str().ok_or_else(|| refused("A host is needed."))?;
    let address = literal(host).map_err(|_| refused("The host is neither a name nor an address."))?;
    let inside = |address: &IpAddr| allowed.iter().any(|network| network.contains(&address.to_canonical()));
    let is_ours = match &address {
        Some(address) => {
            let forbidden =
                |_| Problem::at(Code::ForbiddenWebhookAddress, "/url", Code::ForbiddenWebhookAddress.doc());
            may_be_called(*address, allowed).map_err(forbidden)?;
            inside(address)
        }
        None => {
            public_name(host, allowed)?;
            !allowed.is_empty()
        }
    };
    if url.scheme() == "http" && !is_ours {
        return Err(refused("Only https is called; http within networks of webhooks.allow."));
    }
    let port = url.port_or_known_default().unwrap_or(0);
    if port < 1_024 && ![80, 443].contains(&port) && address.as_ref().is_none_or(|address| !inside(address)) {
        return Err(refused("Port 443, or 1024 and above."));
    }
    let whole = String::from(url);
    if whole.len() > LONGEST {
        return Err(Problem::at(Code::TooLong, "/url", "At most 1000 characters."));
    }
    Ok(whole)
}

/// A name that can be looked up anywhere, or any name where the installation has networks of its own.
fn public_name(host: &str, allowed: &[IpNet]) -> Result<(), Problem> {
    let refused = |why: &'static str| Problem::at(Code::ForbiddenWebhookAddress, "/url", why);
    if host.ends_with('.') {
        return Err(Problem::at(Code::InvalidWebhookUrl, "/url", "The host ends with a dot."));
    }
    if !allowed.is_empty() {
        return Ok(());
    }
    let name = host.to_ascii_lowercase();
    let is_local = LOCAL.iter().any(|local| {
        name.strip_suffix(local).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    });
    if is_local || !name.contains('.') {
        return Err(refused("This name is of a private network."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &[&str] = &["127.0.0.0/8", "fd00::/8"];

    fn refusal(text: &str, allowed: &[&str]) -> Option<Code> {
        let allowed: Vec<IpNet> = allowed.iter().map(|net| net.parse().expect("a network")).collect();
        judge(text, &allowed).err().map(|problem| problem.code)
    }

    #[test]
    fn public_names_and_addresses_pass_in_their_one_form() {
        for (text, form) in [
            ("https://shop.example/hook", "https://shop.example/hook"),
            ("HTTPS://Shop.Example", "https://shop.example/"),
            ("https://shop.example:443/a/../b?k=v%20w", "https://shop.example/b?k=v%20w"),
            ("https://shop.example:8443/", "https://shop.example:8443/"),
            ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
            ("https://1.1.1.1/", "https://1.1.1.1/"),
            ("https://[2606:4700::1111]:8443/x", "https://[2606:4700::1111]:8443/x"),
            ("https://a.internal.example/", "https://a.internal.example/"),
        ] {
            assert_eq!(judge(text, &[]).expect(text), form);
        }
    }

    #[test]
    fn what_is_no_address_for_a_webhook_is_refused() {
        let long = format!("https://shop.example/{}", "x".repeat(1_000));
        for (text, code) in [
            ("", Code::InvalidWebhookUrl),
            ("shop.example/hook", Code::InvalidWebhookUrl),
            ("//shop.example/hook", Code::InvalidWebhookUrl),
            ("http://shop.example/hook", Code::InvalidWebhookUrl),
            ("ftp://shop.example/", Code::InvalidWebhookUrl),
            ("file:///etc/passwd", Code::InvalidWebhookUrl),
            ("gopher://shop.example/", Code::InvalidWebhookUrl),
            ("unix:/var/run/docker.sock", Code::InvalidWebhookUrl),
            ("https://user@shop.example/", Code::InvalidWebhookUrl),
            ("https://:secret@shop.example/", Code::InvalidWebhookUrl),
            ("https://shop.example/#part", Code::InvalidWebhookUrl),
            ("https://shop.example/#", Code::InvalidWebhookUrl),
            ("https://shop.example:22/", Code::InvalidWebhookUrl),
            ("https://shop.example:25/", Code::InvalidWebhookUrl),
            ("https://shop.example:0/", Code::InvalidWebhookUrl),
            ("https://shop.example:99999/", Code::InvalidWebhookUrl),
            ("https://shop.example./", Code::InvalidWebhookUrl),
            ("https://shop.example/a b", Code::InvalidWebhookUrl),
            ("https://shop.example\\@10.0.0.1/", Code::InvalidWebhookUrl),
            ("https://shop.exa\tmple/", Code::InvalidWebhookUrl),
            ("https://bücher.example/", Code::InvalidWebhookUrl),
            ("https://shop.example/4111111111111111", Code::RawCardNumber),
            (&long, Code::TooLong),
        ] {
            assert_eq!(refusal(text, &[]), Some(code), "{text}");
        }
    }

    #[test]
    fn hosts_inside_are_refused_in_every_spelling() {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "017700000001",
            "0",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0xa9fea9fe",
            "2852039166",
            "100.64.0.1",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::ffff:a9fe:a9fe]",
            "[::127.0.0.1]",
            "[fe80::1]",
            "[fd00::1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "[2001::1]",
            "[ff02::1]",
            "224.0.0.1",
            "255.255.255.255",
            "localhost",
            "LOCALHOST",
            "a.localhost",
            "printer.local",
            "vault.internal",
            "metadata",
            "router.home.arpa",
        ] {
            let code = refusal(&format!("https://{host}/"), &[]);
            assert_eq!(code, Some(Code::ForbiddenWebhookAddress), "{host}");
        }
    }

    #[test]
    fn networks_of_the_installation_open_themselves_and_nothing_else() {
        for text in [
            "http://127.0.0.1:80/",
            "http://127.0.0.1:81/hook",
            "https://127.1:8080/hook",
            "http://[fd00::1]:9000/",
            "http://receiver:9000/",
            "https://vault.internal/",
        ] {
            assert_eq!(refusal(text, OURS), None, "{text}");
        }
        assert_eq!(refusal("https://10.0.0.1/", OURS), Some(Code::ForbiddenWebhookAddress));
        assert_eq!(refusal("http://1.1.1.1/", OURS), Some(Code::InvalidWebhookUrl));
        assert_eq!(refusal("https://receiver:22/", OURS), Some(Code::InvalidWebhookUrl));
    }
}

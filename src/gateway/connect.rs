//! From settings to a gateway, or to everything that is wrong with them.
//!
//! **Promises**: settings that are legal alone and dangerous together are refused before the first
//! payment, all at once. **Relies on** the caller for the one rule that needs the worker's lease
//! (`total_timeout` < lease − margin, rule R14).

use super::http::{HttpGateway, Places, RENDERER};
use super::port::{Pacing, Profile};
use super::settlement::Source;
use crate::domain::declines::DeclineCaps;
use crate::domain::ids::GatewayName;
use crate::platform::clock::SharedClock;
use crate::platform::config::Gateway as Settings;
use reqwest::{Url, header, redirect, retry};
use std::time::Duration;

/// A pooled connection idle for longer is not used again: gateways close idle ones, and a request
/// written into a closing connection is an unknown outcome for nothing.
const POOL_IDLE: Duration = Duration::from_secs(15);

/// Why no gateway can be made; nothing was contacted.
#[derive(Debug, thiserror::Error)]
pub enum GatewayConfigError {
    /// Correct these settings; each names itself and what it must be.
    #[error("gateway settings: {}", .0.join("; "))]
    Settings(Vec<String>),
    /// The machine's TLS library could not be set up.
    #[error("the HTTP client could not be made: {0}")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Makes the gateway that `settings` describe. Contacts nobody.
///
/// # Errors
/// See [`GatewayConfigError`].
pub fn connect(settings: &Settings, clock: SharedClock) -> Result<HttpGateway, GatewayConfigError> {
    let mut wrong = complaints(settings);
    let charges = url_of(&settings.url, "charges");
    let bearer = header::HeaderValue::from_str(&format!("Bearer {}", &*settings.secret));
    if settings.secret.is_empty() || bearer.is_err() {
        wrong.push("gateway.secret must be 1 or more visible ASCII characters".into());
    }
    let (Ok(charges), Ok(voids), Ok(refunds), Ok(reports), Ok(mut bearer), true) = (
        charges.map_err(|why| wrong.push(why)),
        url_of(&settings.url, "voids"),
        url_of(&settings.url, "refunds"),
        source(settings).map_err(|why| wrong.push(why)),
        bearer,
        wrong.is_empty(),
    ) else {
        return Err(GatewayConfigError::Settings(wrong));
    };
    bearer.set_sensitive(true);
    let client = client(settings, bearer).map_err(|error| GatewayConfigError::Client(error.into()))?;
    let places = Places { charges, voids, refunds, reports };
    Ok(HttpGateway::new(profile(settings), client, places, clock))
}

fn complaints(settings: &Settings) -> Vec<String> {
    let name_fits = (1..=64).contains(&settings.name.len())
        && settings.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b));
    let checks = [
        (name_fits, "gateway.name must be 1–64 of a–z, 0–9, _ and -"),
        (
            (1..=128).contains(&settings.account.len())
                && settings.account.bytes().all(|b| b.is_ascii_graphic()),
            "gateway.account must be 1–128 visible ASCII characters",
        ),
        (
            !settings.replays_5xx || settings.lookup,
            "gateway.replays_5xx needs gateway.lookup: a stored 5xx would hide the outcome for ever",
        ),
        (settings.key_margin < settings.key_ttl, "gateway.key_margin must be less than gateway.key_ttl"),
        (
            settings.total_timeout < settings.key_ttl.saturating_sub(settings.key_margin),
            "gateway.total_timeout must be less than gateway.key_ttl − gateway.key_margin",
        ),
        (!settings.connect_timeout.is_zero(), "gateway.connect_timeout must be more than 0"),
        (
            settings.connect_timeout <= settings.total_timeout,
            "gateway.connect_timeout must not exceed gateway.total_timeout",
        ),
        (settings.max_in_flight > 0, "gateway.max_in_flight must be at least 1"),
        (!settings.settlement_within.is_zero(), "gateway.settlement_within must be more than 0"),
        (settings.settlement_max_bytes > 0, "gateway.settlement_max_bytes must be at least 1"),
    ];
    checks.into_iter().filter(|(holds, _)| !holds).map(|(_, why)| why.to_owned()).collect()
}

/// Where reports are fetched; a text that is no URL is a path after the gateway's own.
fn source(settings: &Settings) -> Result<Option<Source>, String> {
    let text = settings.settlement_url.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let url = if text.contains("://") {
        address("gateway.settlement_url", text)?
    } else {
        url_of(&settings.url, text.trim_matches('/'))?
    };
    if url.query_pairs().any(|(name, _)| name == "day") {
        return Err("gateway.settlement_url must not name a day; it is added".into());
    }
    Ok(Some(Source {
        url,
        format: settings.settlement_format.clone(),
        within: settings.settlement_within,
        most_bytes: settings.settlement_max_bytes,
    }))
}

/// An address that requests may be sent to.
fn address(setting: &str, text: &str) -> Result<Url, String> {
    let bad = |why: &str| Err(format!("{setting} {why}"));
    let Ok(url) = Url::parse(text) else {
        return bad("must be an absolute http or https URL");
    };
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return bad("must be an absolute http or https URL");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return bad("must not carry a user or password; use gateway.secret");
    }
    if url.fragment().is_some() {
        return bad("must not carry a fragment");
    }
    Ok(url)
}

/// Host and port of the configured gateway, for who only wants to know whether it can be reached; `None` where no
/// request could be sent to it either.
#[must_use]
pub fn host_and_port(settings: &Settings) -> Option<(String, u16)> {
    let url = address("gateway.url", &settings.url).ok()?;
    // In brackets a resolver would take it for a name.
    let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
    Some((host, url.port_or_known_default()?))
}

/// Where requests of this kind go.
fn url_of(base: &str, kind: &str) -> Result<Url, String> {
    let mut url = address("gateway.url", base)?;
    if url.query().is_some() {
        return Err("gateway.url must not carry a query".into());
    }
    let path = format!("{}/{kind}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

/// Rule R15: one call is at most one physical request. SO_LINGER 0 is the one part that reqwest
/// 0.13 has no way to set (its connector hands out an opaque connection); what stands in for it is
/// `TCP_USER_TIMEOUT`, which bounds how long the kernel may still deliver a request given up on,
/// and rules R6 and R7, which never take silence for a non-charge.
fn client(settings: &Settings, bearer: header::HeaderValue) -> Result<reqwest::Client, reqwest::Error> {
    let mut headers = header::HeaderMap::new();
    headers.insert(header::AUTHORIZATION, bearer);
    headers.insert(header::ACCEPT, header::HeaderValue::from_static("application/json"));
    reqwest::Client::builder()
        .retry(retry::never())
        .redirect(redirect::Policy::none())
        .no_proxy()
        .http1_only()
        .referer(false)
        .tcp_nodelay(true)
        .tcp_user_timeout(settings.total_timeout)
        .connect_timeout(settings.connect_timeout)
        .timeout(settings.total_timeout)
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(settings.max_in_flight)
        .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .build()
}

fn profile(settings: &Settings) -> Profile {
    Profile {
        name: GatewayName(settings.name.clone()),
        account: settings.account.clone(),
        renderer: RENDERER,
        key_ttl: settings.key_ttl,
        key_margin: settings.key_margin,
        replays_declines: settings.replays_declines,
        replays_5xx: settings.replays_5xx,
        compares_body: settings.compares_body,
        lookup: settings.lookup,
        not_found_horizon: settings.not_found_horizon,
        voids_by_key: settings.voids_by_key,
        refunds: settings.refunds,
        async_final_within: Some(settings.async_final_within),
        caps: DeclineCaps { per_day: settings.declines_per_day, per_30_days: settings.declines_per_30_days },
        connect_timeout: settings.connect_timeout,
        total_timeout: settings.total_timeout,
        renews_lease: settings.renew_lease,
        max_in_flight: settings.max_in_flight,
        pacing: Pacing {
            rate: settings.rate,
            lookup_share: settings.lookup_share,
            in_flight: settings.max_in_flight_total,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::clock::Host;
    use std::sync::Arc;

    fn legal() -> Settings {
        Settings { url: "http://127.0.0.1:1/base/".into(), ..Settings::default() }
    }

    fn refusal(settings: &Settings) -> String {
        connect(settings, Arc::new(Host)).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_defaults_with_a_url_are_legal_and_the_path_is_kept() {
        assert_eq!(refusal(&legal()), "");
        for kind in ["charges", "voids", "refunds"] {
            let wanted = format!("http://127.0.0.1:1/base/{kind}");
            assert_eq!(url_of(&legal().url, kind).map(String::from), Ok(wanted));
        }
    }

    #[test]
    fn reports_come_from_a_path_of_the_gateway_or_from_elsewhere_or_from_nowhere() {
        let of = |text: &str| {
            let settings = Settings { settlement_url: text.into(), ..legal() };
            source(&settings).map(|source| source.map(|source| String::from(source.url)))
        };
        assert_eq!(of(""), Ok(None));
        assert_eq!(of("settlement"), Ok(Some("http://127.0.0.1:1/base/settlement".into())));
        assert_eq!(of("/v2/reports/"), Ok(Some("http://127.0.0.1:1/base/v2/reports".into())));
        let elsewhere = "https://reports.example/daily?account=7";
        assert_eq!(of(elsewhere), Ok(Some(elsewhere.into())));
    }

    #[test]
    fn each_illegal_setting_is_named_in_its_refusal() {
        type Spoil = fn(&mut Settings);
        let cases: &[(&str, Spoil)] = &[
            ("gateway.url", |s| s.url.clear()),
            ("gateway.url", |s| s.url = "ftp://host/".into()),
            ("gateway.url", |s| s.url = "http://user:hunter2@host/".into()),
            ("gateway.url", |s| s.url = "http://host/?a=b".into()),
            ("gateway.secret", |s| s.secret = "".into()),
            ("gateway.secret", |s| s.secret = "line\nbreak".into()),
            ("gateway.name", |s| s.name = "Upper".into()),
            ("gateway.account", |s| s.account.clear()),
            ("gateway.replays_5xx", |s| (s.replays_5xx, s.lookup) = (true, false)),
            ("gateway.key_margin", |s| s.key_margin = s.key_ttl),
            ("gateway.total_timeout", |s| s.total_timeout = s.key_ttl),
            ("gateway.connect_timeout", |s| s.connect_timeout = Duration::ZERO),
            ("gateway.connect_timeout", |s| s.connect_timeout = s.total_timeout * 2),
            ("gateway.max_in_flight", |s| s.max_in_flight = 0),
            ("gateway.settlement_url", |s| s.settlement_url = "ftp://host/reports".into()),
            ("gateway.settlement_url", |s| s.settlement_url = "https://user:hunter2@host/".into()),
            ("gateway.settlement_url", |s| s.settlement_url = "https://host/reports?day=today".into()),
            ("gateway.settlement_within", |s| s.settlement_within = Duration::ZERO),
            ("gateway.settlement_max_bytes", |s| s.settlement_max_bytes = 0),
        ];
        for (name, spoil) in cases {
            let mut settings = legal();
            spoil(&mut settings);
            let said = refusal(&settings);
            assert!(said.contains(name), "{name}: {said:?}");
            assert!(!said.contains("hunter2"), "a secret was printed: {said}");
        }
    }

    #[test]
    fn all_complaints_come_at_once() {
        let settings = Settings { url: "nonsense".into(), max_in_flight: 0, ..Settings::default() };
        let said = refusal(&settings);
        assert!(said.contains("gateway.url") && said.contains("gateway.max_in_flight"), "{said}");
    }
}

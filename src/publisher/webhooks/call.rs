//! One request to one endpoint, and what it met.
//!
//! **Promises.** One call is one physical request: nothing is repeated, no redirect is followed, no proxy, cookie or
//! variable of the environment takes part. It ends in time, and reads no more of an answer than people are shown.
//! **Relies on** `guard` for where it goes. **Why two clients**: http without TLS has a rule of its own about
//! addresses. If this dies, the receiver may have the event; it is sent again under the same id.

use super::decide::{Fault, Met, printable, retry_after};
use super::guard::{Guard, Names, NotCalled, Reach};
use super::sign::Signed;
use crate::platform::clock::SharedClock;
use crate::platform::config::Webhooks;
use ipnet::IpNet;
use reqwest::{Client, Response, Url, header, redirect, retry};
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Most of an answer that is read, in bytes; a longer one closes its connection.
const READ_MAX: usize = 4 * 1024;
/// Most of it that is shown, in characters.
const SHOWN_MAX: usize = 1_000;
/// A connection idle for longer is closed: receivers close theirs, and a request into a closing one is lost.
const POOL_IDLE: Duration = Duration::from_secs(15);
/// Longest url.
const URL_MAX: usize = 1_000;

/// What is sent.
#[derive(Debug, Clone)]
pub struct Request {
    pub(super) url: String,
    pub(super) signed: Signed,
    pub(super) body: Vec<u8>,
    pub(super) content_type: &'static str,
    /// Of this try, where it is traced: the receiver may go on from there.
    pub(super) traceparent: Option<String>,
}

/// Makes requests.
pub struct Caller {
    tls: (Guard, Client),
    plain: (Guard, Client),
    clock: SharedClock,
}

impl Caller {
    /// With these settings, names as `names` has them.
    ///
    /// # Errors
    /// The machine's TLS library could not be set up.
    pub fn new(
        settings: &Webhooks,
        names: Arc<dyn Names>,
        clock: SharedClock,
    ) -> Result<Self, reqwest::Error> {
        let allowed: Arc<[IpNet]> = settings.allow.clone().into();
        let made = |reach| {
            let guard = Guard::new(reach, Arc::clone(&allowed), Arc::clone(&names));
            let client = client(settings, guard.clone())?;
            Ok::<_, reqwest::Error>((guard, client))
        };
        Ok(Self { tls: made(Reach::Public)?, plain: made(Reach::Own)?, clock })
    }

    /// Sends it, once.
    pub async fn call(&self, request: Request) -> Met {
        let (client, url) = match self.way(&request.url) {
            Ok(way) => way,
            Err(fault) => return Met::Fault(fault),
        };
        let post = client
            .post(url)
            .header(header::CONTENT_TYPE, request.content_type)
            .header("webhook-id", request.signed.webhook_id)
            .header("webhook-timestamp", request.signed.timestamp)
            .header("webhook-signature", request.signed.signature)
            .body(request.body);
        let post = match request.traceparent {
            Some(own) => post.header("traceparent", own),
            None => post,
        };
        match post.send().await {
            Ok(answer) => self.hear(answer).await,
            Err(error) => Met::Fault(fault(&error)),
        }
    }

    /// Which client goes there, if one does. The url was judged when it was given; it is judged again, because rules
    /// and networks change.
    fn way(&self, text: &str) -> Result<(&Client, Url), Fault> {
        let url = Url::parse(text).map_err(|_| Fault::Url)?;
        let is_plain = url.scheme() == "http";
        let bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        if !(is_plain || url.scheme() == "https") || !bare || text.len() > URL_MAX {
            return Err(Fault::Url);
        }
        let (guard, client) = if is_plain { &self.plain } else { &self.tls };
        guard.judge_host(&url)?;
        Ok((client, url))
    }

    async fn hear(&self, mut answer: Response) -> Met {
        let advice = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = advice.and_then(|text| retry_after(text, self.clock.wall()));
        let status = answer.status().as_u16();
        let mut read = Vec::new();
        // What the status says is said; a body that stalls or breaks off changes nothing of it.
        while let Ok(Some(chunk)) = answer.chunk().await {
            let room = READ_MAX.saturating_sub(read.len());
            read.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() >= room {
                break;
            }
        }
        Met::Answer { status, retry_after, excerpt: printable(&read, SHOWN_MAX) }
    }
}

fn client(settings: &Webhooks, guard: Guard) -> Result<Client, reqwest::Error> {
    Client::builder()
        .dns_resolver(Arc::new(guard))
        .retry(retry::never())
        .redirect(redirect::Policy::none())
        .no_proxy()
        .http1_only()
        .referer(false)
        .tcp_nodelay(true)
        .tcp_user_timeout(settings.timeout)
        .connect_timeout(settings.connect_timeout)
        .timeout(settings.timeout)
        .pool_idle_timeout(POOL_IDLE)
        // Endpoints are many and mostly quiet: a few connections each are kept.
        .pool_max_idle_per_host(4)
        .user_agent(concat!("punctual-webhooks/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Why there was no answer. Of what the client keeps to itself only the text is to be had; a changed text can only
/// mislabel.
fn fault(error: &reqwest::Error) -> Fault {
    let mut source: Option<&(dyn Error + 'static)> = error.source();
    let mut texts = Vec::new();
    while let Some(inner) = source {
        match inner.downcast_ref::<NotCalled>() {
            Some(NotCalled::Forbidden(_)) => return Fault::Forbidden,
            Some(NotCalled::NoAddress) => return Fault::Name,
            None => {}
        }
        if inner.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::TimedOut) {
            return Fault::TimedOut;
        }
        texts.push(inner.to_string());
        source = inner.source();
    }
    let says = |text: &str| texts.iter().any(|part| part.contains(text));
    if says("dns error") {
        Fault::Name
    } else if error.is_timeout() {
        Fault::TimedOut
    } else if error.is_connect() && says("tcp connect error") {
        Fault::Connect
    } else if error.is_connect() && error.url().is_some_and(|url| url.scheme() == "https") {
        Fault::Tls
    } else if error.is_connect() {
        Fault::Connect
    } else {
        Fault::Broken
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;

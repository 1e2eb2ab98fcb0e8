//! A client of our own REST interface, as a caller would write it: the commands of people are made of it,
//! and `punctual dev` seeds its payments with it.
//!
//! It promises nothing that the API does not: an answer that was lost is asked for again under the
//! same idempotency key, by the caller. It repeats nothing by itself, follows no redirect (the key would
//! travel along) and asks no proxy.

use crate::platform::config::without_user;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::time::Duration;

/// Longest wait for one answer, where nobody says otherwise.
const USUAL_TIMEOUT: Duration = Duration::from_secs(15);
/// Most characters of an answer that is not ours which an error repeats.
const MOST_REPEATED: usize = 300;

/// One API at one address with one key.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: reqwest::Url,
    key: SecretString,
}

/// What the API answered with success.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status, 200 to 299.
    pub status: u16,
    /// The document; null for an empty body.
    pub body: Value,
    /// A request before this one, under the same key, had done it.
    pub is_replay: bool,
}

/// Why there is no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No answer: it may or may not have happened; repeat under the same key.
    #[error("no answer from the API: {}", with_causes(.0))]
    NoAnswer(#[from] reqwest::Error),
    /// The API refused, in its own words.
    #[error("the API answered {status}: {problem}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The problem document, or the text that came instead.
        problem: Value,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// Something answered that is not the API; nobody knows what became of the request.
    #[error("{status} from the address of the API, and no JSON: {text}")]
    NotTheApi {
        /// HTTP status.
        status: u16,
        /// How the body begins.
        text: String,
    },
    /// The address cannot be used: set another.
    #[error(
        "{0} is no address of an API; write for example http://127.0.0.1:8080, without a user or password"
    )]
    BadAddress(String),
}

/// reqwest keeps the reason (refused, reset, timed out) in the sources of its error.
fn with_causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

/// Asks `/livez` or `/readyz` of a process and gives its answer; for container health checks, where
/// no other client is at hand.
///
/// # Errors
/// No answer within 3 s, or one that says that it is not well.
pub async fn health(url: &str) -> Result<String, ClientError> {
    let http = reqwest::Client::builder().timeout(Duration::from_secs(3)).no_proxy().build()?;
    let answer = http.get(url).send().await?;
    let status = answer.status();
    let text = answer.text().await?;
    if status.is_success() {
        Ok(text)
    } else {
        let problem = Value::String(text);
        Err(ClientError::Refused { status: status.as_u16(), problem, retry_after: None })
    }
}

/// Hands each line of what this address answers to `each`, as it comes; `false` ends the reading.
///
/// # Errors
/// No answer, one that breaks off, or one that is no success.
pub async fn lines_at(url: &str, mut each: impl FnMut(&[u8]) -> bool) -> Result<(), ClientError> {
    let http = reqwest::Client::builder().connect_timeout(Duration::from_secs(15)).no_proxy().build()?;
    let mut answer = http.get(url).send().await?;
    let status = answer.status();
    if !status.is_success() {
        let problem = Value::String(answer.text().await?);
        return Err(ClientError::Refused { status: status.as_u16(), problem, retry_after: None });
    }
    let mut rest = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        rest.extend_from_slice(&chunk);
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
        let after = rest.split_off(end + 1);
        if !rest.split(|byte| *byte == b'\n').all(&mut each) {
            return Ok(());
        }
        rest = after;
    }
    each(&rest);
    Ok(())
}

/// One request, put together by its caller.
#[derive(Debug)]
#[must_use = "a call that is not sent does nothing"]
pub struct Call<'a> {
    client: &'a Client,
    method: reqwest::Method,
    url: reqwest::Url,
    idempotency_key: Option<String>,
    body: Option<Vec<u8>>,
}

impl Call<'_> {
    /// With these parameters in its query, in order.
    pub fn query(mut self, pairs: &[(&str, String)]) -> Self {
        if !pairs.is_empty() {
            self.url.query_pairs_mut().extend_pairs(pairs);
        }
        self
    }

    /// Under this key.
    pub fn under(mut self, idempotency_key: &str) -> Self {
        self.idempotency_key = Some(idempotency_key.to_owned());
        self
    }

    /// With this body.
    pub fn json(mut self, body: &Value) -> Self {
        self.body = Some(body.to_string().into_bytes());
        self
    }

    /// Sends it, once.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn send(self) -> Result<Answer, ClientError> {
        let mut request = self.client.http.request(self.method, self.url);
        request = request.bearer_auth(self.client.key.expose_secret()).header("Accept", "application/json");
        if let Some(key) = self.idempotency_key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(body) = self.body {
            request = request.header("Content-Type", "application/json").body(body);
        }
        read(request.send().await?).await
    }
}

async fn read(answer: reqwest::Response) -> Result<Answer, ClientError> {
    let status = answer.status();
    let header = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
    let is_replay = header("idempotent-replayed").is_some_and(|value| value == "true");
    // The API writes whole seconds; a proxy's date is left to the caller's own patience.
    let retry_after = header("retry-after").and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let text = answer.text().await?;
    let document = match text.as_str() {
        "" => Some(Value::Null),
        text => serde_json::from_str(text).ok(),
    };
    let status_code = status.as_u16();
    match document {
        Some(body) if status.is_success() => Ok(Answer { status: status_code, body, is_replay }),
        Some(problem) if !status.is_redirection() => {
            Err(ClientError::Refused { status: status_code, problem, retry_after })
        }
        Some(_) | None => {
            let text = text.chars().take(MOST_REPEATED).collect();
            Err(ClientError::NotTheApi { status: status_code, text })
        }
    }
}

impl Client {
    /// `base` is `http://host:port`, with or without a path before `/v1`.
    ///
    /// # Errors
    /// [`ClientError::BadAddress`], or no TLS back end is available.
    pub fn new(base: &str, key: &str) -> Result<Self, ClientError> {
        Self::patient(base, key, USUAL_TIMEOUT)
    }

    /// The same, waiting this long for an answer.
    ///
    /// # Errors
    /// The same.
    pub fn patient(base: &str, key: &str, timeout: Duration) -> Result<Self, ClientError> {
        let bad = || ClientError::BadAddress(without_user(base));
        let parsed = reqwest::Url::parse(base).map_err(|_| bad())?;
        if parsed.cannot_be_a_base() || !matches!(parsed.scheme(), "http" | "https") {
            return Err(bad());
        }
        // It would travel with every request and stand in messages; the key says who we are.
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(bad());
        }
        let http = reqwest::Client::builder()
            .timeout(timeout)
            .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()?;
        Ok(Self { http, base: parsed, key: SecretString::from(key) })
    }

    /// A request at `/v1` and these segments, each encoded, so that an id with a slash stays one.
    pub fn call(&self, method: &str, segments: &[&str]) -> Call<'_> {
        let mut url = self.base.clone();
        // Refused when the client was made, if it cannot be a base.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("v1").extend(segments);
        }
        // Every method is written here in this crate.
        let method = method.parse().unwrap_or(reqwest::Method::GET);
        Call { client: self, method, url, idempotency_key: None, body: None }
    }

    /// `POST /v1/scheduled-payments`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn create(&self, idempotency_key: &str, body: &Value) -> Result<Value, ClientError> {
        let call = self.call("POST", &["scheduled-payments"]).under(idempotency_key).json(body);
        Ok(call.send().await?.body)
    }

    /// `GET /v1/scheduled-payments/{id}`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get(&self, payment_id: &str) -> Result<Value, ClientError> {
        Ok(self.call("GET", &["scheduled-payments", payment_id]).send().await?.body)
    }

    /// Does `/readyz` say so?
    pub async fn is_ready(&self) -> bool {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("readyz");
        }
        let answer = self.http.get(url).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(base: &str, segments: &[&str]) -> String {
        let client = Client::new(base, "pk_test_x").unwrap();
        client.call("GET", segments).query(&[("status", "A,B".to_owned())]).url.to_string()
    }

    #[test]
    fn segments_and_parameters_are_encoded_below_the_base() {
        for base in ["http://h:1", "http://h:1/"] {
            assert_eq!(path_of(base, &["ops", "a/b c"]), "http://h:1/v1/ops/a%2Fb%20c?status=A%2CB");
        }
        assert_eq!(path_of("https://h/pay", &["x"]), "https://h/pay/v1/x?status=A%2CB");
    }

    #[test]
    fn an_address_that_is_none_is_refused_before_anything_is_sent() {
        for base in ["", "h:1", "127.0.0.1:8080", "ftp://h", "mailto:a@b"] {
            assert!(matches!(Client::new(base, "k"), Err(ClientError::BadAddress(_))), "{base}");
        }
    }

    #[test]
    fn an_address_with_a_password_is_refused_without_repeating_it() {
        for base in ["http://ann:hush@h:1", "https://:hush@h/pay"] {
            let refused = Client::new(base, "k").unwrap_err().to_string();
            assert!(refused.contains("://***@h") && !refused.contains("hush"), "{refused}");
        }
    }

    #[test]
    fn the_key_is_not_printed() {
        assert!(!format!("{:?}", Client::new("http://h", "pk_test_secret").unwrap()).contains("pk_test"));
    }
}

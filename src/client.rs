//! A small client of our own REST interface, as a caller would write it: `punctual dev` seeds its
//! payments with it.
//!
//! It promises nothing that the API does not: an answer that was lost is asked for again under the
//! same idempotency key, by the caller.

use serde_json::Value;
use std::time::Duration;

/// One API at one address with one key.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    key: String,
}

/// Why there is no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No answer: it may or may not have happened; repeat under the same key.
    #[error("no answer from the API: {0}")]
    NoAnswer(#[from] reqwest::Error),
    /// The API refused, in its own words.
    #[error("the API answered {status}: {problem}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The problem document, or the text that came instead.
        problem: Value,
    },
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
        Err(ClientError::Refused { status: status.as_u16(), problem: Value::String(text) })
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
        return Err(ClientError::Refused { status: status.as_u16(), problem });
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

impl Client {
    /// `base` is `http://host:port` without a trailing slash.
    ///
    /// # Errors
    /// When no TLS back end is available.
    pub fn new(base: &str, key: &str) -> Result<Self, ClientError> {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(15)).no_proxy().build()?;
        Ok(Self { http, base: base.to_owned(), key: key.to_owned() })
    }

    /// `POST /v1/scheduled-payments`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn create(&self, idempotency_key: &str, body: &Value) -> Result<Value, ClientError> {
        let url = format!("{}/v1/scheduled-payments", self.base);
        let request = self.http.post(url).header("Idempotency-Key", idempotency_key);
        self.answer(request.header("Content-Type", "application/json").body(body.to_string())).await
    }

    /// `GET /v1/scheduled-payments/{id}`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get(&self, payment_id: &str) -> Result<Value, ClientError> {
        self.answer(self.http.get(format!("{}/v1/scheduled-payments/{payment_id}", self.base))).await
    }

    /// Does `/readyz` say so?
    pub async fn is_ready(&self) -> bool {
        let answer = self.http.get(format!("{}/readyz", self.base)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<Value, ClientError> {
        let answer = request.bearer_auth(&self.key).send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if status.is_success() {
            Ok(value)
        } else {
            Err(ClientError::Refused { status: status.as_u16(), problem: value })
        }
    }
}

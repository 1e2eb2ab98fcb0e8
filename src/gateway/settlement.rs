//! A day's settlement report, fetched from the gateway into a file that nobody else sees.
//!
//! **Promises**: a [`Fetched`] report came whole as far as HTTP can tell; one that was cut, grew too large or stood
//! still is no report. It lies in a file without a name: memory does not grow with it, and it is gone with
//! whoever holds it. **Relies on** the reader of the format for everything else: an answer without a length that
//! just ends looks whole here, and its missing end is the reader's to miss. **Why fetched first and read then**:
//! nothing of a report may be used before all of it is known to be well, and a slow gateway must not hold a
//! transaction open. **If this dies**, nothing was loaded; the next try fetches anew.
//!
//! ```text
//! GET <gateway.settlement_url>?day=2026-11-28     Authorization: Bearer <secret>
//! 200   the report, in the format gateway.settlement_format
//! 404   none for that day, or none yet            429 503 Retry-After: s or date
//! ```

use super::classify;
use super::http::HttpGateway;
use super::port::Profile;
use crate::platform::clock::SharedClock;
use crate::platform::metrics;
use chrono::{DateTime, NaiveDate, Utc};
use futures_util::future::BoxFuture;
use reqwest::{Response, StatusCode, Url, header};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufReader, Seek};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// Bytes of a report read at once from its file.
const BLOCK: usize = 64 * 1024;

/// One gateway account that reports what it moved. A trait of its own, as for refunds: whoever charges need not
/// know it.
pub trait Settlements: Send + Sync + 'static {
    /// Its description.
    fn profile(&self) -> &Profile;

    /// The format of its reports, as it is configured; `None` where nothing can be fetched.
    fn settlement_format(&self) -> Option<&str>;

    /// Fetches the report of a day (UTC).
    ///
    /// # Errors
    /// See [`NotFetched`]; of a report that was not fetched whole nothing is kept.
    fn settlement(&self, day: NaiveDate) -> BoxFuture<'_, Result<Fetched, NotFetched>>;
}

/// Where reports are fetched, and how much of them.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) url: Url,
    /// As configured; whoever reads it knows the formats.
    pub(super) format: String,
    /// From the request to the last byte.
    pub(super) within: Duration,
    pub(super) most_bytes: u64,
}

/// A report that came whole.
#[derive(Debug)]
pub struct Fetched {
    file: File,
    /// When it was asked for, by the host's clock: what happened later cannot be in it.
    pub asked_at: DateTime<Utc>,
    /// Its length.
    pub size_bytes: u64,
    /// SHA-256 of all of it.
    pub sha256: [u8; 32],
}

impl Fetched {
    /// The report from its first byte. The file ends with the reader.
    #[must_use]
    pub fn into_reader(self) -> BufReader<File> {
        BufReader::with_capacity(BLOCK, self.file)
    }
}

/// Why there is no report; the variants say what to do.
#[derive(Debug, thiserror::Error)]
pub enum NotFetched {
    /// Configure where reports come from, or bring them as files.
    #[error("gateway.settlement_url is not set; bring the report as a file")]
    NoSource,
    /// Ask again: there is none for this day, or not yet. Where it stays so, the address is wrong.
    #[error("the gateway has no report of this day, or not yet")]
    NotThere,
    /// Ask again, not before `retry_after` where it says so: it cannot be reached, or does not answer now.
    #[error("the gateway cannot give a report now: {why}")]
    Away {
        /// What happened.
        why: String,
        /// How long it asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// Ask again: the answer broke off in the middle.
    #[error("the report was cut after {size_bytes} bytes")]
    Cut {
        /// What had come.
        size_bytes: u64,
    },
    /// Ask again: nothing came for as long as a whole call may take, or it took longer than a report may.
    #[error("the report did not come in time: {size_bytes} bytes in {} s", .took.as_secs())]
    TooSlow {
        /// What had come,
        size_bytes: u64,
        /// and in what time.
        took: Duration,
    },
    /// Correct the settings: asking again changes nothing.
    #[error("the gateway answers {status} where a report was asked for")]
    Refused {
        /// What it answered.
        status: u16,
    },
    /// Allow for larger reports, or find out why this one is.
    #[error("the report is larger than gateway.settlement_max_bytes, {most_bytes} bytes")]
    TooLarge {
        /// What is allowed.
        most_bytes: u64,
    },
    /// Look after this machine's folder of temporary files.
    #[error("the report cannot be kept in a temporary file: {0}")]
    Unkept(#[from] io::Error),
}

impl HttpGateway {
    async fn fetch(&self, source: &Source, day: NaiveDate) -> Result<Fetched, NotFetched> {
        let asked_at = self.clock.wall();
        let mut url = source.url.clone();
        url.query_pairs_mut().append_pair("day", &day.to_string());
        // The client's own time-out is that of a charge.
        let request = self.client.get(url).timeout(source.within).header(header::ACCEPT, "*/*");
        let response = request
            .send()
            .await
            .map_err(|error| NotFetched::Away { why: error.without_url().to_string(), retry_after: None })?;
        refuse_what_is_no_report(&response, self.clock.wall())?;
        if response.content_length().is_some_and(|length| length > source.most_bytes) {
            return Err(NotFetched::TooLarge { most_bytes: source.most_bytes });
        }
        let (file, size_bytes, sha256) = self.keep(source, response).await?;
        Ok(Fetched { file, asked_at, size_bytes, sha256 })
    }

    /// Writes the body down as it comes.
    async fn keep(
        &self,
        source: &Source,
        mut response: Response,
    ) -> Result<(File, u64, [u8; 32]), NotFetched> {
        let started = self.clock.mono();
        let mut file = tokio::fs::File::from_std(tempfile::tempfile()?);
        let (mut size_bytes, mut hash) = (0_u64, Sha256::new());
        let took = |clock: &SharedClock| clock.mono().0.saturating_sub(started.0);
        loop {
            let chunk = tokio::select! {
                biased;
                chunk = response.chunk() => chunk,
                // A gateway that stands still is given up on long before one that is merely slow.
                () = self.clock.sleep(self.profile.total_timeout) => {
                    return Err(NotFetched::TooSlow { size_bytes, took: took(&self.clock) });
                }
            };
            let chunk = match chunk {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(error) if error.is_timeout() => {
                    return Err(NotFetched::TooSlow { size_bytes, took: took(&self.clock) });
                }
                Err(_) => return Err(NotFetched::Cut { size_bytes }),
            };
            size_bytes = size_bytes.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
            if size_bytes > source.most_bytes {
                return Err(NotFetched::TooLarge { most_bytes: source.most_bytes });
            }
            hash.update(&chunk);
            file.write_all(&chunk).await?;
        }
        file.flush().await?;
        let mut file = file.into_std().await;
        file.rewind()?;
        Ok((file, size_bytes, hash.finalize().into()))
    }
}

/// Only a plain 200 is a report; one in an encoding that was not asked for is not read as if it were plain.
fn refuse_what_is_no_report(response: &Response, now: DateTime<Utc>) -> Result<(), NotFetched> {
    let status = response.status();
    let retry_after = || {
        let text = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
        classify::retry_after(text, now)
    };
    let is_encoded = response.headers().get(header::CONTENT_ENCODING).is_some_and(|it| it != "identity");
    match status {
        StatusCode::OK if is_encoded => Err(NotFetched::Away {
            why: "it answers in an encoding that was not asked for".into(),
            retry_after: None,
        }),
        StatusCode::OK => Ok(()),
        StatusCode::NOT_FOUND => Err(NotFetched::NotThere),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            Err(NotFetched::Away { why: format!("HTTP {}", status.as_u16()), retry_after: retry_after() })
        }
        status if status.is_server_error() => {
            Err(NotFetched::Away { why: format!("HTTP {}", status.as_u16()), retry_after: retry_after() })
        }
        status => Err(NotFetched::Refused { status: status.as_u16() }),
    }
}

impl Settlements for HttpGateway {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn settlement_format(&self) -> Option<&str> {
        self.source.as_ref().map(|source| source.format.as_str())
    }

    fn settlement(&self, day: NaiveDate) -> BoxFuture<'_, Result<Fetched, NotFetched>> {
        Box::pin(async move {
            let source = self.source.as_ref().ok_or(NotFetched::NoSource)?;
            let started = self.clock.mono();
            let fetched = self.fetch(source, day).await;
            let took = self.clock.mono().0.saturating_sub(started.0);
            metrics::GATEWAY_REQUEST.record(took, [&self.profile.name.0, "settlement"]);
            fetched
        })
    }
}

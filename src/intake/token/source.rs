//! Where the issuer's public keys come from: a file, or an address that is asked with little patience.
//!
//! Nothing is followed, nothing is large, nothing takes long: no redirects, no proxy, at most [`MOST_BYTES`] and
//! [`PATIENCE`]. Over the network only TLS, or this machine itself.

use reqwest::redirect::Policy;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// Largest document of keys, in bytes; a hundred keys fit.
pub(super) const MOST_BYTES: usize = 256 * 1024;
/// For the whole of one question.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why an address is refused.
const NOT_ASKED: &str = "only https is asked, and http on this machine";

/// Where keys are.
#[derive(Debug)]
pub(super) enum Source {
    File(PathBuf),
    Address(reqwest::Client, reqwest::Url),
}

/// Why there is no document.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    #[error("the file cannot be read: {0}")]
    File(#[from] std::io::Error),
    #[error("the issuer cannot be asked: {0}")]
    Asked(#[from] reqwest::Error),
    #[error("the issuer answered {0}")]
    Status(u16),
    #[error("the document has more than {MOST_BYTES} bytes")]
    TooLarge,
}

impl Source {
    /// An address with a scheme, or else a file.
    pub(super) fn of(text: &str) -> Result<Self, String> {
        if !text.contains("://") {
            return Ok(Self::File(text.into()));
        }
        let url = reqwest::Url::parse(text).map_err(|error| error.to_string())?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(NOT_ASKED.to_owned());
        }
        // Judged as it was read: of a text, `http://localhost.example` begins like this machine too.
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_here = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        if url.scheme() == "http" && !is_here {
            return Err(NOT_ASKED.to_owned());
        }
        let client = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .timeout(PATIENCE)
            .https_only(url.scheme() == "https")
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self::Address(client, url))
    }

    /// The document.
    pub(super) async fn read(&self) -> Result<Vec<u8>, Unread> {
        match self {
            Self::File(path) => {
                let mut bytes = Vec::new();
                let limit = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX).saturating_add(1);
                tokio::fs::File::open(path).await?.take(limit).read_to_end(&mut bytes).await?;
                if bytes.len() > MOST_BYTES { Err(Unread::TooLarge) } else { Ok(bytes) }
            }
            Self::Address(client, url) => {
                let request =
                    client.get(url.clone()).header("Accept", "application/json, application/jwk-set+json");
                let mut answer = request.send().await?;
                if answer.status() != reqwest::StatusCode::OK {
                    return Err(Unread::Status(answer.status().as_u16()));
                }
                let mut bytes = Vec::new();
                while let Some(chunk) = answer.chunk().await? {
                    if bytes.len() + chunk.len() > MOST_BYTES {
                        return Err(Unread::TooLarge);
                    }
                    bytes.extend_from_slice(&chunk);
                }
                Ok(bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    /// Answers one question with these bytes.
    async fn read_from(answer: Vec<u8>) -> Result<Vec<u8>, Unread> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4_096];
            let _ = stream.read(&mut head).await.unwrap();
            // The reader may have had enough before the end.
            let _ = stream.write_all(&answer).await;
        });
        let read = Source::of(&url).unwrap().read().await;
        server.await.unwrap();
        read
    }

    fn ok(body: &[u8]) -> Vec<u8> {
        [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", body].concat()
    }

    #[tokio::test]
    async fn a_document_is_read_and_a_large_one_is_not() {
        assert_eq!(read_from(ok(b"{}")).await.unwrap(), b"{}");
        let large = read_from(ok(&vec![b' '; MOST_BYTES + 1])).await;
        assert!(matches!(large, Err(Unread::TooLarge)), "{large:?}");
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let moved = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n";
        let answer = read_from(moved.to_vec()).await;
        assert!(matches!(answer, Err(Unread::Status(302))), "{answer:?}");
    }

    #[tokio::test]
    async fn a_file_is_read_within_the_same_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        for (length, fits) in [(0, true), (MOST_BYTES, true), (MOST_BYTES + 1, false)] {
            std::fs::write(&path, vec![b' '; length]).unwrap();
            let source = Source::of(path.to_str().unwrap()).unwrap();
            assert_eq!(source.read().await.is_ok(), fits, "{length}");
        }
        let nowhere = Source::of(folder.path().join("none").to_str().unwrap()).unwrap();
        assert!(matches!(nowhere.read().await, Err(Unread::File(_))));
    }

    #[test]
    fn only_web_addresses_are_asked() {
        assert!(matches!(Source::of("https://id.example/keys"), Ok(Source::Address(..))));
        for bad in ["ftp://id.example/keys", "https://", "file:///etc/keys"] {
            assert!(Source::of(bad).is_err(), "{bad}");
        }
        for far in ["HTTP://id.example/", "http://127.0.0.1.example/", "http://localhost.example/"] {
            assert!(Source::of(far).is_err(), "{far}");
        }
        for here in ["http://127.0.0.1:1/", "http://localhost/", "http://[::1]:1/"] {
            assert!(matches!(Source::of(here), Ok(Source::Address(..))), "{here}");
        }
    }
}

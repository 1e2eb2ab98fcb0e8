//! A receiver of webhooks that answers exactly what a test wants, and remembers what it got.

use standardwebhooks::Webhook;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What it does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// This status.
    Status(u16),
    /// This status, and to come back after so many seconds.
    After(u16, u64),
    /// This status, so many milliseconds later.
    Late(u16, u64),
    /// Nothing, until the sender goes away.
    Nothing,
    /// Closes without an answer, with the request unread: a reset.
    Reset,
    /// Something that is not HTTP.
    Garbage,
}

impl Says {
    /// Would a sender that keeps its word take it for a success?
    pub fn is_success(self) -> bool {
        matches!(self, Self::Status(status) | Self::Late(status, _) if (200..300).contains(&status))
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Got {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    pub said: Says,
}

impl Got {
    pub fn id(&self) -> &str {
        self.headers.get("webhook-id").map_or("", String::as_str)
    }

    pub fn event(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// Does the specification's own library take its signature, under this secret?
    pub fn is_signed(&self, secret: &str) -> bool {
        let headers = self.headers.iter();
        let headers = headers.filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?)));
        Webhook::new(secret).expect("a secret").verify(&self.body, &headers.collect()).is_ok()
    }
}

#[derive(Default)]
struct Seen {
    got: Vec<Got>,
    open: usize,
    most_open: usize,
}

/// The receiver; it ends with the value.
pub struct Hook {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    serving: JoinHandle<()>,
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Answers a request; `usize`: how many of the same id came before it.
type Answers = dyn Fn(&Got, usize) -> Says + Send + Sync;

impl Hook {
    /// One that answers like this.
    pub async fn new(answers: impl Fn(&Got, usize) -> Says + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let answers: Arc<Answers> = Arc::new(answers);
        let shared = Arc::clone(&seen);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answers) = (Arc::clone(&shared), Arc::clone(&answers));
                tokio::spawn(async move { serve(stream, &seen, &*answers).await });
            }
        });
        Self { address, seen, serving }
    }

    /// One that always answers this.
    pub async fn always(says: Says) -> Self {
        Self::new(move |_, _| says).await
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Everything that came, in the order in which it came.
    pub fn got(&self) -> Vec<Got> {
        self.seen.lock().expect("no panic").got.clone()
    }

    pub fn count(&self) -> usize {
        self.seen.lock().expect("no panic").got.len()
    }

    /// Most requests that were open at one time.
    pub fn most_open(&self) -> usize {
        self.seen.lock().expect("no panic").most_open
    }

    /// Ids that were taken, each with how often it came in all.
    pub fn taken(&self) -> BTreeMap<String, usize> {
        let seen = self.seen.lock().expect("no panic");
        let mut ids: BTreeMap<String, usize> = BTreeMap::new();
        for got in seen.got.iter().filter(|got| got.said.is_success()) {
            ids.insert(got.id().to_owned(), seen.got.iter().filter(|other| other.id() == got.id()).count());
        }
        ids
    }
}

async fn serve(stream: TcpStream, seen: &Mutex<Seen>, answers: &Answers) {
    // Looked at and not taken: what closes with something unread is reset.
    let mut bytes = vec![0; 65_536];
    let mut got = loop {
        let Ok(read) = stream.peek(&mut bytes).await else { return };
        if read == 0 {
            return;
        }
        if let Some(got) = parsed(&bytes[..read]) {
            break got;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let said = {
        let mut seen = seen.lock().expect("no panic");
        let before = seen.got.iter().filter(|other| other.id() == got.id()).count();
        got.said = answers(&got, before);
        seen.open += 1;
        seen.most_open = seen.most_open.max(seen.open);
        seen.got.push(got.clone());
        got.said
    };
    answer(stream, said, bytes).await;
    seen.lock().expect("no panic").open -= 1;
}

async fn answer(mut stream: TcpStream, said: Says, mut bytes: Vec<u8>) {
    let line = match said {
        Says::Reset => return,
        Says::Status(status) => format!("HTTP/1.1 {status} Said\r\n"),
        Says::After(status, seconds) => format!("HTTP/1.1 {status} Said\r\nRetry-After: {seconds}\r\n"),
        Says::Late(status, ms) => {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            format!("HTTP/1.1 {status} Said\r\n")
        }
        Says::Garbage => "220 mail.example ESMTP\r\n".to_owned(),
        Says::Nothing => {
            while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
            return;
        }
    };
    // The rest of the request must be read, or its end looks like a reset.
    let _ = stream.read(&mut bytes).await;
    let text = format!("{line}Connection: close\r\nContent-Length: 4\r\n\r\nsaid");
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// A whole request, or none yet.
fn parsed(bytes: &[u8]) -> Option<Got> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length")?.parse().ok()?;
    let body = bytes.get(end + 4..end + 4 + length)?.to_vec();
    Some(Got { path, headers, body, said: Says::Nothing })
}

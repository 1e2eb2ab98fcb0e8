//! What one request meets, at a receiver that says exactly what a test wants.

use super::*;
use crate::domain::webhook::WebhookSecret;
use crate::platform::clock::Host;
use crate::publisher::webhooks::sign::sign;
use chrono::DateTime;
use futures_util::future::BoxFuture;
use std::net::IpAddr;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// What the receiver does with a connection.
#[derive(Clone)]
enum Does {
    /// Says these bytes and closes.
    Says(Vec<u8>),
    /// Says them and then nothing, for ever.
    Stalls(Vec<u8>),
    /// Says them again and again.
    Repeats(Vec<u8>, Vec<u8>),
}

/// A receiver on loopback, and the requests that it got.
struct Receiver {
    port: u16,
    got: mpsc::UnboundedReceiver<String>,
}

impl Receiver {
    async fn new(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, got) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (does, tell) = (does.clone(), tell.clone());
                tokio::spawn(async move {
                    let mut bytes = vec![0; 65_536];
                    let mut read = 0;
                    while !bytes[..read].ends_with(b"}") {
                        match stream.read(&mut bytes[read..]).await {
                            Ok(n) if n > 0 => read += n,
                            _ => break,
                        }
                        // The greeting of TLS is answered too, by whoever does not speak it.
                        if bytes[0] == 22 {
                            break;
                        }
                    }
                    tell.send(String::from_utf8_lossy(&bytes[..read]).into_owned()).unwrap();
                    let (first, again) = match does {
                        Does::Says(bytes) => (bytes, None),
                        Does::Stalls(bytes) => (bytes, Some(Vec::new())),
                        Does::Repeats(first, again) => (first, Some(again)),
                    };
                    stream.write_all(&first).await.unwrap();
                    match again {
                        None => {}
                        Some(again) if again.is_empty() => std::future::pending().await,
                        Some(again) => while stream.write_all(&again).await.is_ok() {},
                    }
                });
            }
        });
        Self { port, got }
    }

    async fn says(text: &str) -> Self {
        Self::new(Does::Says(text.into())).await
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?a=b", self.port)
    }

    /// How many requests it got.
    fn count(&mut self) -> usize {
        let mut count = 0;
        while self.got.try_recv().is_ok() {
            count += 1;
        }
        count
    }
}

/// Every name has these addresses, and how often it was asked.
struct All(Vec<IpAddr>, Mutex<usize>);

impl Names for All {
    fn look_up(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        *self.1.lock().unwrap() += 1;
        let found = self.0.clone();
        Box::pin(async move { Ok(found) })
    }
}

fn settings() -> Webhooks {
    Webhooks {
        allow: vec!["127.0.0.1/32".parse().unwrap()],
        timeout: Duration::from_millis(700),
        connect_timeout: Duration::from_millis(500),
        ..Webhooks::default()
    }
}

fn named(addresses: &[&str]) -> (Caller, Arc<All>) {
    let names = Arc::new(All(addresses.iter().map(|text| text.parse().unwrap()).collect(), Mutex::new(0)));
    (Caller::new(&settings(), names.clone(), Arc::new(Host)).unwrap(), names)
}

fn request(url: &str) -> Request {
    let body = br#"{"id":"p/1"}"#.to_vec();
    let at = DateTime::from_timestamp(1_795_960_020, 0).unwrap();
    let signed = sign("p/1".into(), at, &body, &[WebhookSecret::new([7; 32])]);
    Request { url: url.to_owned(), signed, body, content_type: "application/json", traceparent: None }
}

async fn called(url: &str) -> Met {
    named(&[]).0.call(request(url)).await
}

fn answer(status: u16, excerpt: &str) -> Met {
    Met::Answer { status, retry_after: None, excerpt: excerpt.to_owned() }
}

#[tokio::test]
async fn a_request_is_a_signed_post_and_carries_nothing_else() {
    let mut receiver = Receiver::says("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(called(&receiver.url()).await, answer(204, ""));
    let got = receiver.got.recv().await.unwrap();
    let (head, body) = got.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook?a=b HTTP/1.1\r\n"), "{head}");
    assert_eq!(body, r#"{"id":"p/1"}"#);
    let mut names: Vec<String> =
        head.lines().skip(1).map(|line| line.split(':').next().unwrap().to_ascii_lowercase()).collect();
    names.sort_unstable();
    let wanted = [
        "accept",
        "content-length",
        "content-type",
        "host",
        "user-agent",
        "webhook-id",
        "webhook-signature",
        "webhook-timestamp",
    ];
    assert_eq!(names, wanted);
    assert!(
        head.contains("webhook-id: p/1\r\n") && head.contains("webhook-timestamp: 1795960020\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let mut other = Receiver::says("HTTP/1.1 200 OK\r\n\r\n").await;
    for status in [301, 302, 303, 307, 308] {
        let mut receiver = Receiver::says(&format!(
            "HTTP/1.1 {status} Elsewhere\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n",
            other.url()
        ))
        .await;
        assert_eq!(called(&receiver.url()).await, answer(status, ""));
        assert_eq!(receiver.count(), 1, "{status}");
    }
    assert_eq!(other.count(), 0);
}

#[tokio::test]
async fn what_is_no_answer_says_what_it_was_and_is_asked_once() {
    for (does, met) in [
        (Does::Says(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()), Fault::Broken),
        (Does::Says(Vec::new()), Fault::Broken),
        (Does::Says(b"HTTP/1.1 20".to_vec()), Fault::Broken),
        (Does::Stalls(Vec::new()), Fault::TimedOut),
        (Does::Stalls(b"HTTP/1.1 200 OK\r\nX: y".to_vec()), Fault::TimedOut),
    ] {
        let mut receiver = Receiver::new(does).await;
        assert_eq!(called(&receiver.url()).await, Met::Fault(met));
        assert_eq!(receiver.count(), 1, "{met:?}");
    }
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_eq!(called(&format!("http://{gone}/")).await, Met::Fault(Fault::Connect));
}

#[tokio::test]
async fn of_an_answer_only_the_beginning_is_read_and_its_status_counts() {
    let endless = Does::Repeats(b"HTTP/1.1 500 Oh\r\n\r\n".to_vec(), vec![b'x'; 10_000]);
    assert_eq!(called(&Receiver::new(endless).await.url()).await, answer(500, &"x".repeat(1_000)));
    let stalled = Does::Stalls(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nreceived\n".to_vec());
    assert_eq!(called(&Receiver::new(stalled).await.url()).await, answer(200, "received·"));
    let cut = "HTTP/1.1 202 OK\r\nContent-Length: 100\r\n\r\nrec";
    assert_eq!(called(&Receiver::says(cut).await.url()).await, answer(202, "rec"));
    let busy = "HTTP/1.1 503 Busy\r\nRetry-After: 17\r\nContent-Length: 0\r\n\r\n";
    let met = called(&Receiver::says(busy).await.url()).await;
    let seconds = Some(Duration::from_secs(17));
    assert_eq!(met, Met::Answer { status: 503, retry_after: seconds, excerpt: String::new() });
}

#[tokio::test]
async fn a_name_leads_to_the_addresses_that_were_judged_and_to_no_others() {
    let mut receiver = Receiver::says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let url = format!("http://receiver.example:{}/", receiver.port);
    let (caller, names) = named(&["127.0.0.1"]);
    assert_eq!(caller.call(request(&url)).await, answer(200, ""));
    assert_eq!(*names.1.lock().unwrap(), 1, "asked once, and connected to that answer");
    assert_eq!(receiver.count(), 1);
    for addresses in [&["127.0.0.2"][..], &["127.0.0.1", "127.0.0.2"], &["127.0.0.1", "::1"], &["8.8.8.8"]] {
        let (caller, _) = named(addresses);
        assert_eq!(caller.call(request(&url)).await, Met::Fault(Fault::Forbidden), "{addresses:?}");
    }
    assert_eq!(named(&[]).0.call(request(&url)).await, Met::Fault(Fault::Name));
    assert_eq!(receiver.count(), 0);
}

#[tokio::test]
async fn a_url_that_no_rule_takes_reaches_nobody() {
    let mut receiver = Receiver::says("HTTP/1.1 200 OK\r\n\r\n").await;
    let port = receiver.port;
    for (url, met) in [
        (format!("http://127.0.0.2:{port}/"), Fault::Forbidden),
        (format!("http://[::ffff:127.0.0.2]:{port}/"), Fault::Forbidden),
        ("http://8.8.8.8/".to_owned(), Fault::Forbidden),
        (format!("https://0x7f.2:{port}/"), Fault::Forbidden),
        (format!("http://user@127.0.0.1:{port}/"), Fault::Url),
        (format!("http://user:word@127.0.0.1:{port}/"), Fault::Url),
        (format!("http://127.0.0.1:{port}/#part"), Fault::Url),
        (format!("ftp://127.0.0.1:{port}/"), Fault::Url),
        ("file:///etc/passwd".to_owned(), Fault::Url),
        ("no url".to_owned(), Fault::Url),
        (format!("http://127.0.0.1:{port}/{}", "a".repeat(1_000)), Fault::Url),
    ] {
        assert_eq!(called(&url).await, Met::Fault(met), "{url}");
    }
    assert_eq!(receiver.count(), 0);
    assert_eq!(called(&format!("https://127.0.0.1:{port}/")).await, Met::Fault(Fault::Tls));
}

//! Servers that are not the gateway, or not quite: each way to end a call badly.

use super::rig::{charge, gateway_at, hasty, open_gate, payment, unsent};
use crate::support::installation::free_address;
use punctual::domain::verdict::{Doubt, Lookup, NotSent, Verdict};
use punctual::gateway::Gateway;
use punctual::platform::clock::{Clock, Host};
use punctual::platform::config;
use punctual::schedule::How;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// A server that does one thing to every connection; it ends with this value.
pub(super) struct Wild {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    accepting: AbortHandle,
}

impl Drop for Wild {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Wild {
    pub(super) async fn start<F, Fut>(treat: F) -> Self
    where
        F: Fn(TcpStream) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("accepted");
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(treat(stream));
            }
        })
        .abort_handle();
        Self { address, connections, accepting }
    }

    /// Reads the whole request, writes `answer`, closes.
    pub(super) async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Arc<Vec<u8>> = Arc::new(answer.into());
        Self::start(move |mut stream| {
            let answer = Arc::clone(&answer);
            async move {
                read_request(&mut stream).await;
                // A client that stops reading early closes first; that is its right.
                let _ = stream.write_all(&answer).await;
            }
        })
        .await
    }

    async fn verdict(&self) -> Verdict {
        self.verdict_over("http", |_| {}).await
    }

    async fn verdict_over(&self, scheme: &str, change: fn(&mut config::Gateway)) -> Verdict {
        let gateway = gateway_at(&format!("{scheme}://{}", self.address), Arc::new(Host), change);
        let answered = charge(&gateway, &payment(1), "sim_ok", open_gate()).await;
        assert!(self.connections.load(Ordering::SeqCst) <= 1, "one attempt is at most one connection");
        answered.answer().verdict.clone()
    }

    async fn lookup(&self) -> Lookup {
        let gateway = gateway_at(&format!("http://{}", self.address), Arc::new(Host), |_| {});
        gateway.lookup(&payment(1)).await
    }
}

/// Head and body of one request, as sent.
pub(super) async fn read_request(stream: &mut TcpStream) -> String {
    let mut seen = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&seen).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().expect("a length")) {
                return text;
            }
        }
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return text,
            Ok(length) => seen.extend_from_slice(&part[..length]),
        }
    }
}

fn http(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

fn good_answer() -> String {
    let id = payment(1).id;
    format!(
        r#"{{"id":"ch_9","status":"charged","key":"{id}","paymentId":"{id}","amount":1000,"currency":"EUR"}}"#
    )
}

#[tokio::test]
async fn the_request_on_the_wire_is_the_documented_one_and_there_is_only_one() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let server = Wild::start(move |mut stream| {
        let sink = Arc::clone(&sink);
        async move {
            let request = read_request(&mut stream).await;
            sink.lock().expect("not poisoned").push(request);
            stream.write_all(http("200 OK", "", &good_answer()).as_bytes()).await.expect("written");
        }
    })
    .await;
    assert_eq!(server.verdict().await, super::rig::charged("ch_9"));
    let seen = seen.lock().expect("not poisoned");
    let [request] = seen.as_slice() else { panic!("{} requests", seen.len()) };
    let (head, body) = request.split_once("\r\n\r\n").expect("a head");
    let id = payment(1).id;
    assert_eq!(body, format!(r#"{{"paymentId":"{id}","amount":1000,"currency":"EUR","payee":"sim_ok"}}"#));
    assert!(head.starts_with("POST /charges HTTP/1.1\r\n"), "{head}");
    for line in [
        format!("idempotency-key: {id}"),
        format!("content-length: {}", body.len()),
        "content-type: application/json".into(),
        "authorization: Bearer sandbox-secret".into(),
        format!("punctual-claim: {}/1", super::rig::claimed(&payment(1), "sim_ok").claim_id().0),
    ] {
        assert!(head.lines().any(|given| given == line), "{line} is not in {head}");
    }
    assert!(head.contains("\r\npunctual-due: 20") && !head.contains("transfer-encoding"), "{head}");
}

#[tokio::test]
async fn an_answer_that_is_not_the_gateways_contract_is_unknown() {
    let page = "<html><h1>403 Forbidden</h1></html>";
    let whole = good_answer();
    let half = &whole[..whole.len() / 2];
    let huge = format!("{whole}{}", " ".repeat(100 * 1024));
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", " ".repeat(100 * 1024));
    let cases = [
        (http("403 Forbidden", "content-type: text/html\r\n", page), Doubt::NotTheGateway),
        (http("429 Too Many Requests", "retry-after: 5\r\n", page), Doubt::NotTheGateway),
        (http("404 Not Found", "", ""), Doubt::NotTheGateway),
        (http("304 Not Modified", "", ""), Doubt::NotTheGateway),
        (http("502 Bad Gateway", "", page), Doubt::ServerError),
        (http("408 Request Timeout", "", ""), Doubt::ServerError),
        (http("200 OK", "", half), Doubt::Unreadable),
        (http("200 OK", "", &huge), Doubt::Unreadable),
        (endless, Doubt::Unreadable),
        (format!("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{half}"), Doubt::Unreadable),
        (format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{half}"), Doubt::Unreadable),
        ("SSH-2.0-OpenSSH_9.9\r\n".into(), Doubt::ConnectionLost),
        ("HTTP/1.1 200 O".into(), Doubt::ConnectionLost),
        (String::new(), Doubt::ConnectionLost),
    ];
    for (answer, doubt) in cases {
        let server = Wild::answering(answer.clone()).await;
        let shown: String = answer.chars().take(60).collect();
        assert_eq!(server.verdict().await, Verdict::Unknown(doubt), "{shown}");
        let lookup = server.lookup().await;
        assert!(matches!(lookup, Lookup::Unavailable { .. }), "{shown}: {lookup:?}");
    }
}

#[tokio::test]
async fn a_connection_closed_with_the_request_unread_is_unknown() {
    let server = Wild::start(|stream| async move {
        // Bytes have arrived; closing with them unread makes the kernel reset the connection.
        stream.peek(&mut [0]).await.expect("a byte");
        drop(stream);
    })
    .await;
    assert_eq!(server.verdict().await, Verdict::Unknown(Doubt::ConnectionLost));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = Wild::answering(http("200 OK", "", &good_answer())).await;
    for status in ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect"] {
        let to = format!("location: http://{}/charges\r\n", target.address);
        let server = Wild::answering(http(status, &to, "")).await;
        assert_eq!(server.verdict().await, Verdict::Unknown(Doubt::NotTheGateway), "{status}");
        assert!(matches!(server.lookup().await, Lookup::Unavailable { .. }), "{status}");
    }
    assert_eq!(target.connections.load(Ordering::SeqCst), 0);
}

/// Sends `text` one byte at a time, slower than the whole call may take.
async fn drip(mut stream: TcpStream, at_once: String, text: String) {
    read_request(&mut stream).await;
    stream.write_all(at_once.as_bytes()).await.expect("written");
    for byte in text.into_bytes() {
        Host.sleep(Duration::from_millis(100)).await;
        if stream.write_all(&[byte]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn headers_or_a_body_that_drip_past_the_total_time_are_a_time_out() {
    let answer = http("200 OK", "", &good_answer());
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    for (at_once, slowly) in [
        (String::new(), format!("{head}{}", "x-more: y\r\n".repeat(10))),
        (format!("{head}\r\n\r\n"), body.to_owned()),
    ] {
        let server = Wild::start(move |stream| drip(stream, at_once.clone(), slowly.clone())).await;
        let verdict = server.verdict_over("http", hasty).await;
        assert_eq!(verdict, Verdict::Unknown(Doubt::TimedOut));
    }
}

#[tokio::test]
async fn what_fails_before_the_write_is_not_sent() {
    let free = free_address();
    let refused = gateway_at(&format!("http://{free}"), Arc::new(Host), |_| {});
    let unresolved = gateway_at("http://nobody.invalid", Arc::new(Host), |_| {});
    for (gateway, why) in [(refused, NotSent::Refused), (unresolved, NotSent::Dns)] {
        let answered = charge(&gateway, &payment(1), "sim_ok", open_gate()).await;
        assert_eq!(answered.answer().verdict, unsent(why));
        assert_eq!((answered.answer().how, answered.answer().http_status), (How::NotStarted, None));
    }
}

#[tokio::test]
async fn a_tls_handshake_that_fails_or_hangs_is_not_sent() {
    let plain = Wild::start(|mut stream| async move {
        assert!(stream.read(&mut [0; 512]).await.expect("a hello") > 0);
        stream.write_all(http("400 Bad Request", "", "speak plainly").as_bytes()).await.expect("written");
    })
    .await;
    assert_eq!(plain.verdict_over("https", |_| {}).await, unsent(NotSent::Tls));
    let closing = Wild::start(|stream| async move { drop(stream) }).await;
    assert_eq!(closing.verdict_over("https", |_| {}).await, unsent(NotSent::Tls));
    let silent = Wild::start(|mut stream| async move {
        let mut sink = Vec::new();
        // Ends when the client gives up.
        let _ = stream.read_to_end(&mut sink).await;
    })
    .await;
    assert_eq!(silent.verdict_over("https", hasty).await, unsent(NotSent::Refused));
}

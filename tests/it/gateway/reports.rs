//! Settlement reports as they are fetched: whole, or none at all.

use super::rig::{Rig, gateway_at, payment};
use super::wild::{Wild, read_request};
use crate::support::stub::{Reply, Stub};
use chrono::{NaiveDate, Utc};
use punctual::gateway::{Fetched, HttpGateway, NotFetched, Settlements};
use punctual::platform::clock::Host;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

fn day() -> NaiveDate {
    "2026-11-28".parse().expect("a day")
}

/// One whose reports come from there, a small one at most, within a second's silence.
fn fetching(url: &str) -> HttpGateway {
    gateway_at(url, Arc::new(Host), |settings| {
        settings.settlement_url = "settlement".into();
        settings.settlement_max_bytes = 1_000;
        settings.connect_timeout = Duration::from_secs(1);
        settings.total_timeout = Duration::from_secs(1);
    })
}

fn text(fetched: Fetched) -> String {
    let mut text = String::new();
    fetched.into_reader().read_to_string(&mut text).expect("read");
    text
}

#[tokio::test]
async fn the_sandbox_s_report_of_a_day_comes_whole_with_its_length_and_hash() {
    let rig = Rig::start().await;
    for n in 1..=30 {
        rig.verdict(&payment(n), "sim_ok").await;
    }
    let gateway = rig.gateway_with(|settings| settings.settlement_url = "settlement".into());
    assert_eq!(gateway.settlement_format(), Some("sandbox"));
    let (before, today) = (Utc::now(), Utc::now().date_naive());
    let fetched = gateway.settlement(today).await.expect("a report");
    assert!(before <= fetched.asked_at && fetched.asked_at <= Utc::now());
    let (size, hash) = (fetched.size_bytes, fetched.sha256);
    let report = text(fetched);
    assert_eq!(report, rig.get(&format!("/settlement?day={today}")).await);
    assert_eq!((size, report.lines().count()), (report.len() as u64, 31));
    assert_eq!(hash, <[u8; 32]>::from(Sha256::digest(report.as_bytes())));
    rig.stop().await;
}

#[tokio::test]
async fn a_report_is_asked_for_by_day_with_the_secret_and_where_the_settings_say() {
    let stub = Stub::start(|_, _| Reply { status: 200, headers: Vec::new(), body: "{}".into() }).await;
    assert_eq!(text(fetching(&stub.url).settlement(day()).await.expect("a report")), "{}");
    let elsewhere = gateway_at("http://127.0.0.1:1", Arc::new(Host), |settings| {
        settings.settlement_url = format!("{}/daily?account=7", stub.url);
        settings.settlement_format = "stripe".into();
    });
    assert_eq!(elsewhere.settlement_format(), Some("stripe"));
    elsewhere.settlement(day()).await.expect("a report");
    let seen = stub.seen();
    let paths: Vec<_> = seen.iter().map(|seen| (seen.method.as_str(), seen.path.as_str())).collect();
    assert_eq!(paths, [("GET", "/settlement?day=2026-11-28"), ("GET", "/daily?account=7&day=2026-11-28"),]);
    assert!(seen.iter().all(|seen| seen.authorization.as_deref() == Some("Bearer sandbox-secret")));
}

#[tokio::test]
async fn what_is_no_report_says_what_to_do_about_it() {
    let none = gateway_at("http://127.0.0.1:1", Arc::new(Host), |_| {});
    assert_eq!(none.settlement_format(), None);
    assert!(matches!(none.settlement(day()).await, Err(NotFetched::NoSource)));
    let closed = fetching("http://127.0.0.1:1").settlement(day()).await;
    assert!(matches!(&closed, Err(NotFetched::Away { retry_after: None, .. })), "{closed:?}");
    for (status, wanted) in [
        (404, "no report of this day"),
        (503, "cannot give a report now: HTTP 503"),
        (429, "cannot give a report now: HTTP 429"),
        (401, "answers 401"),
        (400, "answers 400"),
        // Not followed: nobody else gets the secret.
        (302, "answers 302"),
        (204, "answers 204"),
    ] {
        let stub = Stub::start(move |_, _| {
            let reply = Reply { status, headers: Vec::new(), body: String::new() };
            reply.with("retry-after", "7").with("location", "/settlement")
        })
        .await;
        let refused = fetching(&stub.url).settlement(day()).await.expect_err("no report");
        assert!(refused.to_string().contains(wanted), "{status}: {refused}");
        if let NotFetched::Away { retry_after, .. } = refused {
            assert_eq!(retry_after, Some(Duration::from_secs(7)), "{status}");
        }
        assert_eq!(stub.seen().len(), 1, "{status}: asked once");
    }
    let squeezed = Stub::start(|_, _| {
        Reply { status: 200, headers: Vec::new(), body: "{}".into() }.with("content-encoding", "gzip")
    })
    .await;
    let refused = fetching(&squeezed.url).settlement(day()).await.expect_err("no report");
    assert!(refused.to_string().contains("encoding"), "{refused}");
}

#[tokio::test]
async fn a_report_that_is_cut_is_no_report() {
    let cut = [
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"key\":1}\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\na\r\n{\"key\":1}\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{\"key\":1}\n",
    ];
    for answer in cut {
        let wild = Wild::answering(answer).await;
        let refused = fetching(&format!("http://{}", wild.address)).settlement(day()).await;
        assert!(matches!(refused, Err(NotFetched::Cut { size_bytes: 10 })), "{answer:?}: {refused:?}");
    }
    // Without a length nobody can tell here: the reader of the format misses its end.
    let wild = Wild::answering("HTTP/1.1 200 OK\r\n\r\n{\"key\":1}\n").await;
    let fetched = fetching(&format!("http://{}", wild.address)).settlement(day()).await.expect("an answer");
    assert_eq!(text(fetched), "{\"key\":1}\n");
}

#[tokio::test]
async fn a_report_that_is_too_large_or_stands_still_is_given_up() {
    let long = "x".repeat(1_001);
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\n\r\n{long}"),
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3e9\r\n{long}\r\n0\r\n\r\n"),
    ] {
        let wild = Wild::answering(answer.clone()).await;
        let refused = fetching(&format!("http://{}", wild.address)).settlement(day()).await;
        assert!(
            matches!(refused, Err(NotFetched::TooLarge { most_bytes: 1_000 })),
            "{answer:.60}: {refused:?}"
        );
    }
    let wild = Wild::start(|mut stream| async move {
        read_request(&mut stream).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome";
        stream.write_all(head.as_bytes()).await.expect("written");
        // Says nothing more for as long as the test lives.
        std::future::pending::<()>().await;
    })
    .await;
    let refused = fetching(&format!("http://{}", wild.address)).settlement(day()).await;
    assert!(matches!(refused, Err(NotFetched::TooSlow { size_bytes: 4, .. })), "{refused:?}");
}

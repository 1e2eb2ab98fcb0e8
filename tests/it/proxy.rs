//! The proxy does what it says, against an echo server and against Postgres.

use crate::support::database;
use crate::support::proxy::{Fault, Proxy, Way};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection, Executor};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Long enough for loopback, short enough to wait for nothing.
const SOON: Duration = Duration::from_millis(300);

async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await
            });
        }
    });
    address
}

async fn says(stream: &mut TcpStream, text: &str) -> std::io::Result<String> {
    stream.write_all(text.as_bytes()).await?;
    let mut answer = vec![0; text.len()];
    match tokio::time::timeout(SOON, stream.read_exact(&mut answer)).await {
        Ok(read) => read.map(|_| String::from_utf8_lossy(&answer).into_owned()),
        Err(_) => Err(ErrorKind::TimedOut.into()),
    }
}

#[tokio::test]
async fn faults_are_switched_while_connections_are_open() {
    let proxy = Proxy::start(echo().await).await;
    let mut open = TcpStream::connect(proxy.address).await.expect("a connection");
    assert_eq!(says(&mut open, "one").await.expect("an echo"), "one");

    proxy.set(Fault::BlackHole(Way::ToClient)).await;
    assert_eq!(says(&mut open, "lost").await.expect_err("no echo").kind(), ErrorKind::TimedOut);
    proxy.set(Fault::Pass).await;
    assert_eq!(says(&mut open, "two").await.expect("an echo"), "two");

    proxy.set(Fault::Delay(Duration::from_millis(50))).await;
    let start = Instant::now();
    assert_eq!(says(&mut open, "three").await.expect("an echo"), "three");
    assert!(start.elapsed() >= Duration::from_millis(100), "a delay each way");

    proxy.set(Fault::Refuse).await;
    let refused = TcpStream::connect(proxy.address).await.expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);

    proxy.set(Fault::Pass).await;
    TcpStream::connect(proxy.address).await.expect("listening again");
    proxy.set(Fault::Reset).await;
    assert_eq!(says(&mut open, "four").await.expect_err("reset").kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_commit_whose_answer_is_cut_has_happened() {
    let database = database::database().await;
    let real: PgConnectOptions = database.url.parse().expect("a URL");
    let upstream = SocketAddr::from(([127, 0, 0, 1], real.get_port()));
    let proxy = Proxy::start(upstream).await;
    let through = real.clone().host("127.0.0.1").port(proxy.address.port());

    let mut cut: PgConnection = through.connect().await.expect("a connection through the proxy");
    cut.execute("CREATE TABLE paid (id int)").await.expect("a table");
    let mut transaction = cut.begin().await.expect("a transaction");
    transaction.execute("INSERT INTO paid VALUES (1)").await.expect("a row");
    proxy.set(Fault::CutAfter(b"COMMIT".to_vec())).await;
    transaction.commit().await.expect_err("the answer was cut");
    assert_eq!(proxy.cuts(), 1);

    let mut direct: PgConnection = real.connect().await.expect("a connection");
    let paid: i64 =
        sqlx::query_scalar("SELECT count(*) FROM paid").fetch_one(&mut direct).await.expect("a count");
    assert_eq!(paid, 1);
    // The cut happens once: the same proxy passes again.
    let mut again: PgConnection = through.connect().await.expect("a connection through the proxy");
    again.ping().await.expect("an answer");
}

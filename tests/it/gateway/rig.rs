//! A sandbox in this process on a free port, a gateway that talks to it, and claims without a
//! database.

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use punctual::domain::ids::{ActorId, ClaimId, Fence, GatewayName, PaymentId};
use punctual::domain::lease::{Mono, SendGate};
use punctual::domain::money::{Currency, Minor, Money};
use punctual::domain::payment::Payment;
use punctual::domain::state::Status;
use punctual::domain::verdict::{Decline, DeclineClass, NotSent, Verdict};
use punctual::gateway::{FrozenRequest, Gateway, HttpGateway, connect};
use punctual::platform::clock::{Clock, Host, SharedClock};
use punctual::platform::config;
use punctual::sandbox::{Sandbox, SandboxError};
use punctual::schedule::{Answered, Claimed};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// A running sandbox and a gateway for it.
pub struct Rig {
    pub gateway: HttpGateway,
    address: SocketAddr,
    settings: config::Sandbox,
    clock: SharedClock,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), SandboxError>>,
    folder: TempDir,
}

impl Rig {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut config::Sandbox)) -> Self {
        Self::start_on(Arc::new(Host), change).await
    }

    /// A sandbox with a clock of its own; its gateway has the host's.
    pub async fn start_on(clock: SharedClock, change: impl FnOnce(&mut config::Sandbox)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = config::Sandbox {
            listen: "127.0.0.1:0".into(),
            ledger: folder.path().join("ledger.ndjson").display().to_string(),
            latency: config::Latency::Fixed(Duration::ZERO),
            ..config::Sandbox::default()
        };
        change(&mut settings);
        Self::run(settings, clock, folder).await
    }

    async fn run(settings: config::Sandbox, clock: SharedClock, folder: TempDir) -> Self {
        let sandbox = Sandbox::bind(&settings, clock.clone()).await.expect("a sandbox");
        let address = sandbox.local_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(sandbox.run(async {
            let _ = stopped.await;
        }));
        let gateway = gateway_at(&format!("http://{address}"), Arc::new(Host), |_| {});
        Self { gateway, address, settings, clock, stop, running, folder }
    }

    /// Ends it; fails if it did not end well or answered what it does not remember.
    pub async fn stop(self) {
        self.end().await;
    }

    async fn end(self) -> (config::Sandbox, SharedClock, TempDir) {
        let Self { gateway, settings, clock, stop, running, folder, .. } = self;
        drop(gateway);
        stop.send(()).expect("still running");
        running.await.expect("no panic").expect("a good end");
        (settings, clock, folder)
    }

    pub async fn restart(self) -> Self {
        let (settings, clock, folder) = self.end().await;
        Self::run(settings, clock, folder).await
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn gateway_with(&self, change: impl FnOnce(&mut config::Gateway)) -> HttpGateway {
        self.gateway_on(Arc::new(Host), change)
    }

    pub fn gateway_on(&self, clock: SharedClock, change: impl FnOnce(&mut config::Gateway)) -> HttpGateway {
        gateway_at(&self.url(), clock, change)
    }

    pub async fn charge(&self, payment: &Payment, payee: &str) -> Answered {
        charge(&self.gateway, payment, payee, open_gate()).await
    }

    pub async fn verdict(&self, payment: &Payment, payee: &str) -> Verdict {
        self.charge(payment, payee).await.answer().verdict.clone()
    }

    /// As [`Rig::verdict`], by a client that soon gives up where no answer is to come; the line is
    /// durable afterwards.
    pub async fn first_verdict(&self, payment: &Payment, payee: &str) -> Verdict {
        if !payee.starts_with("sim_timeout") {
            return self.verdict(payment, payee).await;
        }
        let hasty = self.gateway_with(hasty);
        let answered = charge(&hasty, payment, payee, open_gate()).await;
        let within = Duration::from_secs(20);
        crate::support::eventually("the line", within, || async {
            (self.ledger().await.len() == 1).then_some(())
        })
        .await;
        answered.answer().verdict.clone()
    }

    pub async fn ledger(&self) -> Vec<Value> {
        let text = self.get("/ledger").await;
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    pub async fn summary(&self) -> Value {
        serde_json::from_str(&self.get("/ledger/summary").await).expect("JSON")
    }

    pub async fn get(&self, path: &str) -> String {
        let (status, body) = self.ask("GET", path, "sandbox-secret", "").await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// HTTP/1.0, so that the answer is neither chunked nor kept open. Status and body.
    pub async fn ask(&self, method: &str, path: &str, secret: &str, body: &str) -> (u16, String) {
        let mut stream = self.dial().await.expect("connected");
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nAuthorization: Bearer {secret}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("read");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        (status, body.to_owned())
    }

    pub async fn dial(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(self.address).await
    }

    /// Goes away, for that long by the sandbox's clock or until it is told otherwise.
    pub async fn go_away(&self, kind: &str, length: Option<Duration>) {
        let switch = match length {
            Some(length) => json!({ "kind": kind, "forMs": length.as_millis() }),
            None => json!({ "kind": kind }),
        };
        let (status, body) = self.ask("PUT", "/outage", "sandbox-secret", &switch.to_string()).await;
        assert_eq!((status, body), (200, json!({ "kind": kind }).to_string()));
    }

    pub async fn come_back(&self) {
        assert_eq!(self.ask("DELETE", "/outage", "sandbox-secret", "").await.0, 200);
    }
}

/// Time-outs of a second, for calls that are expected to run into them.
pub fn hasty(settings: &mut config::Gateway) {
    settings.connect_timeout = Duration::from_secs(1);
    settings.total_timeout = Duration::from_secs(1);
}

/// With time-outs that only a call without an answer reaches, even on a busy machine.
pub fn gateway_at(url: &str, clock: SharedClock, change: impl FnOnce(&mut config::Gateway)) -> HttpGateway {
    let mut settings = config::Gateway {
        url: url.into(),
        connect_timeout: Duration::from_secs(20),
        total_timeout: Duration::from_secs(20),
        ..config::Gateway::default()
    };
    change(&mut settings);
    connect(&settings, clock).expect("legal settings")
}

/// Payment number `n`, long due, 10.00 EUR.
pub fn payment(n: u8) -> Payment {
    let due_at = DateTime::from_timestamp(1_760_000_000, 0).expect("in range");
    let id = PaymentId::new(due_at, [n; 10]).expect("in range");
    let (actor, gateway) = (ActorId(Uuid::nil()), GatewayName("sandbox".into()));
    let currency = Currency::from_code("EUR").expect("a code");
    let amount = Money { minor: Minor::new(1_000).expect("positive"), currency };
    Payment {
        status: Status::Processing,
        attempt: 1,
        sends: 1,
        unanswered: 1,
        fence: Fence(1),
        history_seq: 2,
        ..Payment::created(id, actor, gateway, amount, due_at, due_at)
    }
}

pub fn claimed(payment: &Payment, payee: &str) -> Claimed {
    let claim_id = ClaimId(Uuid::from_u128(u128::from(payment.attempt.unsigned_abs()) + 77));
    let payee = SecretString::from(payee.to_owned());
    Claimed::for_tests(payment.clone(), payee, claim_id, Status::Pending, host_mono(), None)
}

pub async fn charge(gateway: &HttpGateway, payment: &Payment, payee: &str, gate: SendGate) -> Answered {
    let claimed = claimed(payment, payee);
    let request = gateway.prepare(&claimed).expect("renderable");
    gateway.charge(claimed, request, gate).await
}

pub fn text(request: &FrozenRequest) -> &str {
    request.body.expose_secret()
}

pub fn host_mono() -> Mono {
    Host.mono()
}

pub fn gate_until(from: Mono, window: Duration) -> SendGate {
    SendGate {
        send_before: Mono(from.0 + window),
        not_before: Host.wall() - TimeDelta::days(1),
        key_usable_until: None,
        key_usable_until_mono: None,
        execute_before: None,
        switches: None,
    }
}

pub fn open_gate() -> SendGate {
    gate_until(host_mono(), Duration::from_secs(3_600))
}

/// Each reason that the gate itself can give.
pub fn closed_gates() -> Vec<(NotSent, SendGate)> {
    let now = Host.wall();
    vec![
        (NotSent::LeaseTooShort, SendGate { send_before: host_mono(), ..open_gate() }),
        (NotSent::HostClockEarly, SendGate { not_before: now + TimeDelta::days(1), ..open_gate() }),
        (NotSent::KeyExpired, SendGate { key_usable_until: Some(now), ..open_gate() }),
        (NotSent::KeyExpired, SendGate { key_usable_until_mono: Some(host_mono()), ..open_gate() }),
        (NotSent::DeadlinePassed, SendGate { execute_before: Some(now), ..open_gate() }),
    ]
}

/// A monotonic clock that jumps forward by `length` after it was read once: a stall between the
/// start of a call and its write.
pub fn jumping_clock(length: Duration) -> SharedClock {
    Arc::new(Jumping { length, read: AtomicBool::new(false) })
}

struct Jumping {
    length: Duration,
    read: AtomicBool,
}

impl Clock for Jumping {
    fn wall(&self) -> DateTime<Utc> {
        Host.wall()
    }
    fn mono(&self) -> Mono {
        let jumped = self.read.swap(true, Ordering::SeqCst);
        Mono(Host.mono().0 + if jumped { self.length } else { Duration::ZERO })
    }
    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        Host.sleep(length)
    }
}

/// A clock that stands still until it is moved, and with it everything that sleeps on it.
#[derive(Clone)]
pub struct Still {
    from: DateTime<Utc>,
    moved: watch::Sender<Duration>,
}

impl Still {
    pub fn at(from: &str) -> Self {
        Self { from: from.parse().expect("an instant"), moved: watch::Sender::new(Duration::ZERO) }
    }

    pub fn advance(&self, length: Duration) {
        self.moved.send_modify(|moved| *moved += length);
    }
}

impl Clock for Still {
    fn wall(&self) -> DateTime<Utc> {
        self.from + *self.moved.borrow()
    }
    fn mono(&self) -> Mono {
        Mono(Duration::from_secs(1_000) + *self.moved.borrow())
    }
    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        let until = *self.moved.borrow() + length;
        let mut moved = self.moved.subscribe();
        Box::pin(async move {
            if moved.wait_for(|moved| *moved >= until).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

pub fn charged(reference: &str) -> Verdict {
    Verdict::Charged { reference: reference.into(), amount: payment(1).amount }
}

pub fn unsent(why: NotSent) -> Verdict {
    Verdict::NotSent { why, retry_after: None }
}

pub fn declined(class: DeclineClass, code: &str, reference: &str) -> Verdict {
    Verdict::Declined(Decline {
        class,
        code: code.into(),
        network_code: None,
        reference: Some(reference.into()),
        retry_after: None,
    })
}

#[track_caller]
pub fn violates(what: &str, verdict: &Verdict) {
    assert!(matches!(verdict, Verdict::ContractViolation { .. }), "{what}: {verdict:?}");
}

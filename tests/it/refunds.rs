//! Refunds on real Postgres and against the sandbox: asked for, allowed, carried out, never above the charge.

mod asking;
mod carrying_out;
mod reported;
mod resolving;
mod second;
mod whole;

use crate::schedule::world::{World, decision};
use chrono::{DateTime, Utc};
use punctual::domain::decision::Decision;
use punctual::domain::facts::VoidSupport;
use punctual::domain::ids::{ActorId, GatewayName, Operator, PaymentId, WorkerName};
use punctual::domain::lease::{Mono, SendGate};
use punctual::domain::money::Minor;
use punctual::domain::reason::Reason;
use punctual::domain::refund::{RefundId, RefundStatus};
use punctual::domain::retry::Ladders;
use punctual::domain::state::Status;
use punctual::domain::verdict::Verdict;
use punctual::gateway::{Gateway, HttpGateway, connect};
use punctual::platform::clock::Host;
use punctual::platform::config;
use punctual::platform::dice::{Dice, Os};
use punctual::sandbox::Sandbox;
use punctual::schedule::{
    ActTerms, ApprovalVerdict, CarriedOut, Decided, NewRefund, Refund, RefundAsked, Schedule,
};
use punctual::worker::{Brake, Pacer, RefundParts, Refunder};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::oneshot;
use uuid::Uuid;

/// The actor of the person who asks.
const ASKER: ActorId = ActorId(Uuid::from_u128(0xA5));
/// What every payment of these tests charges.
const CHARGE: i64 = 12_345;

fn alice() -> Operator {
    Operator::of_key("alice")
}

fn bob() -> Operator {
    Operator::of_key("bob")
}

fn sandbox_name() -> GatewayName {
    GatewayName("sandbox".into())
}

/// One database, one sandbox.
struct Site {
    world: World,
    url: String,
    gateway: Arc<HttpGateway>,
    _stop: oneshot::Sender<()>,
    _folder: TempDir,
}

impl Site {
    async fn start() -> Self {
        Self::patient(Duration::from_millis(700)).await
    }

    /// A gateway that may take so long for a call.
    async fn patient(total_timeout: Duration) -> Self {
        let world = World::new().await;
        let folder = tempfile::tempdir().expect("a folder");
        let settings = config::Sandbox {
            listen: "127.0.0.1:0".into(),
            ledger: folder.path().join("ledger.ndjson").display().to_string(),
            latency: config::Latency::Fixed(Duration::ZERO),
            ..config::Sandbox::default()
        };
        let sandbox = Sandbox::bind(&settings, Arc::new(Host)).await.expect("a sandbox");
        let url = format!("http://{}", sandbox.local_addr());
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(sandbox.run(async {
            let _ = stopped.await;
        }));
        let settings = config::Gateway {
            url: url.clone(),
            refunds: true,
            total_timeout,
            connect_timeout: Duration::from_millis(500),
            ..config::Gateway::default()
        };
        let gateway = Arc::new(connect(&settings, Arc::new(Host)).expect("legal settings"));
        let name = sandbox_name();
        world.worker.register_gateway(&name, "sandbox-1", VoidSupport::None).await.expect("registered");
        world.worker.register_refunds(&name, true).await.expect("registered");
        Self { world, url, gateway, _stop: stop, _folder: folder }
    }

    /// A payment that the sandbox charged, as this decision leaves it; and the charge's name.
    async fn charged(&self, key: &str, payee: &str, became: Decision) -> (PaymentId, String) {
        let mut new = self.world.payment(key, self.world.now().await - chrono::TimeDelta::seconds(1));
        new.payee = payee.into();
        let notice = self.world.create(&new).await;
        let claimed = self.world.claim_one(&notice).await;
        let request = self.gateway.prepare(&claimed).expect("rendered");
        let gate = SendGate {
            send_before: Mono(Duration::MAX),
            not_before: DateTime::UNIX_EPOCH,
            key_usable_until: None,
            key_usable_until_mono: None,
            execute_before: None,
            switches: None,
        };
        let answered = self.gateway.charge(claimed, request, gate).await;
        let Verdict::Charged { reference, .. } = answered.answer().verdict.clone() else {
            panic!("{:?}", answered.answer())
        };
        let became = Decision { gateway_ref: Some(reference.clone()), ..became };
        let settled = self.world.worker.settle(vec![(answered, became)]).await;
        settled.map_err(|failed| failed.error).expect("settled");
        (notice.payment, reference)
    }

    async fn completed(&self, key: &str, payee: &str) -> (PaymentId, String) {
        self.charged(key, payee, decision(Status::Completed)).await
    }

    async fn parked(&self, key: &str) -> (PaymentId, String) {
        let reason = Some(Reason::ContractViolation);
        self.charged(key, "sim_ok", Decision { reason, ..decision(Status::Parked) }).await
    }

    async fn ask(&self, key: &str, of: &(PaymentId, String), amount: Option<i64>) -> RefundAsked {
        self.world.api.ask_refund(&self.order(key, of, amount)).await.expect("an answer")
    }

    fn order(&self, key: &str, (payment, reference): &(PaymentId, String), amount: Option<i64>) -> NewRefund {
        NewRefund {
            id: RefundId::of(self.world.api.installation_secret(), ASKER, key),
            actor: ASKER,
            idempotency_key: key.into(),
            request_hash: [u8::try_from(amount.unwrap_or(0) % 251).expect("small"); 32],
            payment: *payment,
            reference: reference.clone(),
            amount: amount.map(|minor| Minor::new(minor).expect("positive")),
            by: alice(),
            reason: "the customer sent it back".into(),
            approval: uuid::Builder::from_random_bytes(Os.bits().to_be_bytes()).into_uuid(),
        }
    }

    /// Asked for by one person and allowed by another.
    async fn allowed(&self, key: &str, of: &(PaymentId, String), amount: Option<i64>) -> Refund {
        let refund = match self.ask(key, of, amount).await {
            RefundAsked::Asked(refund) => refund,
            other => panic!("{other:?}"),
        };
        match self.decide(&refund, &bob(), ApprovalVerdict::Approve).await {
            Decided::Approved(_, CarriedOut::RefundAllowed(id)) => assert_eq!(id, refund.id),
            other => panic!("{other:?}"),
        }
        refund
    }

    async fn decide(&self, refund: &Refund, by: &Operator, verdict: ApprovalVerdict) -> Decided {
        let terms = ActTerms::default();
        let decided = self.world.api.decide_approval(refund.approval, by, verdict, "seen", &terms);
        decided.await.expect("an answer")
    }

    fn refunder(&self, name: &str) -> Refunder {
        self.paced(name, Arc::new(Pacer::unlimited()))
    }

    fn paced(&self, name: &str, pacer: Arc<Pacer>) -> Refunder {
        let soon = vec![Duration::from_millis(1)];
        Refunder::new(RefundParts {
            schedule: self.world.worker.clone(),
            gateway: self.gateway.clone(),
            pacer,
            brake: Arc::new(Brake::default()),
            ladders: Ladders {
                reask: soon.clone(),
                held_back: soon.clone(),
                pending: soon,
                ..Ladders::default()
            },
            margin: Duration::from_secs(1),
            at_once: 256,
            name: WorkerName(name.into()),
            clock: Arc::new(Host),
            dice: Arc::new(Os),
        })
    }

    /// Turns until it stands so.
    async fn turns_until(&self, refund: &Refund, status: RefundStatus) -> Refund {
        let refunder = self.refunder("w1/1");
        for _ in 0..40 {
            refunder.turn().await.expect("a turn");
            let now = self.stands(refund).await;
            if now.status == status {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("never {status:?}: {:?}", self.stands(refund).await)
    }

    async fn stands(&self, refund: &Refund) -> Refund {
        self.world.api.refund(refund.id).await.expect("an answer").expect("it exists")
    }

    /// The sandbox's lines about refunds.
    async fn refund_lines(&self) -> Vec<Value> {
        let text = reqwest::get(format!("{}/ledger", self.url)).await.expect("answered").text().await;
        let lines = text.expect("a text");
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line"));
        lines.filter(|line| line["request"] == "refund").collect()
    }

    /// What the gateway gave back, in sum.
    async fn given_back(&self) -> i64 {
        let lines = self.refund_lines().await;
        let given = lines.iter().filter(|line| line["verdict"] == "refunded");
        given.map(|line| line["amount"].as_i64().expect("an amount")).sum()
    }

    /// Reserved and given back of this charge.
    async fn sums(&self, reference: &str) -> (i64, i64) {
        let sum = |column: &str| {
            format!(
                "SELECT coalesce(sum({column}), 0)::bigint FROM refunded_charges WHERE reference = '{reference}'"
            )
        };
        (self.world.one(&sum("reserved_minor")).await, self.world.one(&sum("refunded_minor")).await)
    }

    async fn causes(&self, payment: PaymentId) -> String {
        let causes = format!(
            "SELECT string_agg(cause, ' ' ORDER BY seq) FROM payment_history WHERE payment_id = '{payment}'"
        );
        self.world.one(&causes).await
    }

    async fn now(&self) -> DateTime<Utc> {
        self.world.now().await
    }
}

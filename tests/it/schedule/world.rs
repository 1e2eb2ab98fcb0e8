//! One database with the schedule as the API, as a worker, and as its owner sees it.

use crate::support::database::{TestDatabase, database};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use punctual::domain::decision::{Budget, Decision, EpochChange, SendsAnswered};
use punctual::domain::ids::{ActorId, ClaimId, GatewayName, PaymentId, WorkerName};
use punctual::domain::intent::intent;
use punctual::domain::lease::{Lease, Mono};
use punctual::domain::money::{Currency, Minor, Money};
use punctual::domain::notice::Notice;
use punctual::domain::payment::{Payment, RetryPolicy};
use punctual::domain::reason::Reason;
use punctual::domain::state::{Cause, Status};
use punctual::domain::verdict::{Decline, DeclineClass, Doubt, Verdict};
use punctual::platform::config;
use punctual::schedule::{
    Access, Answer, Answered, ClaimAnswer, ClaimTerms, Claimed, CreateAnswer, How, NewPayment, Postgres,
    Schedule, connect,
};
use secrecy::SecretString;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

pub const ACTOR: ActorId = ActorId(Uuid::from_u128(0xA1));

pub struct World {
    pub api: Postgres,
    pub worker: Postgres,
    pub database: TestDatabase,
}

pub fn settings(url: &str) -> config::Database {
    config::Database { url: url.into(), pool: 6, partition_days_ahead: 10, ..Default::default() }
}

impl World {
    pub async fn new() -> Self {
        let database = database().await;
        let api = connect(&settings(&database.url), Access::Api).await.expect("the API connects");
        let worker = connect(&settings(&database.url), Access::Worker).await.expect("a worker connects");
        Self { api, worker, database }
    }

    /// A superuser's connection, behind the rules' back.
    pub async fn sql(&self) -> PgConnection {
        PgConnection::connect(&self.database.url).await.expect("a connection")
    }

    /// Runs one statement behind the rules' back; answers rows changed.
    pub async fn run(&self, statement: &str) -> u64 {
        let mut sql = self.sql().await;
        let done = sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&mut sql).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}")).rows_affected()
    }

    /// One value.
    pub async fn one<T>(&self, query: &str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin + 'static,
    {
        let mut sql = self.sql().await;
        let value = sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(&mut sql).await;
        value.unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    pub async fn now(&self) -> DateTime<Utc> {
        self.worker.database_now().await.expect("a clock").trunc_subsecs(3)
    }

    /// A payment that is due already, created through the verb; and its first notice.
    pub async fn due(&self, key: &str) -> Notice {
        let due_at = self.now().await - TimeDelta::seconds(1);
        self.create(&self.payment(key, due_at)).await
    }

    pub async fn create(&self, new: &NewPayment) -> Notice {
        match self.api.create(new).await.expect("created") {
            CreateAnswer::Created(view) => notice(&view.payment),
            other => panic!("{other:?}"),
        }
    }

    pub fn payment(&self, key: &str, due_at: DateTime<Utc>) -> NewPayment {
        new_payment(self.api.installation_secret(), key, due_at)
    }

    pub async fn row(&self, id: PaymentId) -> Payment {
        self.api.find(ACTOR, id).await.expect("found").expect("exists").payment
    }

    /// Claims all; every one must be won.
    pub async fn claim(&self, notices: &[Notice]) -> Vec<Claimed> {
        let answers = self.worker.claim(&terms(), notices, &fresh(notices.len())).await.expect("claimed");
        answers
            .into_iter()
            .map(|answer| match answer {
                ClaimAnswer::Claimed(claimed) => *claimed,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    pub async fn claim_one(&self, notice: &Notice) -> Claimed {
        self.claim(std::slice::from_ref(notice)).await.remove(0)
    }

    /// Ends the lease of a claimed payment and lets the reaper come.
    pub async fn reap(&self, id: PaymentId) {
        self.run(&format!("UPDATE payments SET lease_until = now() - interval '1 hour' WHERE id = '{id}'"))
            .await;
        let reaped = self.worker.reap(Duration::from_secs(5), 100).await.expect("reaped");
        assert_eq!(reaped.expired, 1);
    }
}

pub fn new_payment(secret: &[u8; 32], key: &str, due_at: DateTime<Utc>) -> NewPayment {
    let digests = [("/amount", "d1"), ("/dueAt", "d2")];
    NewPayment {
        id: PaymentId::new(due_at, intent(secret, ACTOR, key)).expect("in range"),
        actor: ACTOR,
        idempotency_key: key.to_owned(),
        request_hash: [7; 32],
        field_digests: digests.map(|(pointer, digest)| (pointer.to_owned(), digest.to_owned())).into(),
        payee: SecretString::from("payee-token"),
        amount: money(),
        due_at,
        execute_before: None,
        execute_within: None,
        gateway: gateway(),
        external_id: None,
        description: Some("rent".into()),
        metadata: BTreeMap::from([("order".to_owned(), "1".to_owned())]),
        retry: RetryPolicy::default(),
        lane: 7,
        traceparent: None,
    }
}

pub fn money() -> Money {
    Money {
        minor: Minor::new(12_345).expect("positive"),
        currency: Currency::from_code("EUR").expect("in the table"),
    }
}

pub fn gateway() -> GatewayName {
    GatewayName("sandbox".into())
}

pub fn notice(payment: &Payment) -> Notice {
    Notice {
        payment: payment.id,
        gateway: payment.gateway.clone(),
        lane: payment.lane,
        due_at: payment.due_at,
        not_before: payment.next_attempt_at,
        attempt: payment.attempt,
    }
}

pub fn terms() -> ClaimTerms {
    let seconds = Duration::from_secs;
    ClaimTerms {
        gateway: gateway(),
        account: "sandbox-1".into(),
        renderer: 1,
        worker: WorkerName("w1/1".into()),
        lease: Lease { length: seconds(30), margin: seconds(5), gateway_total: seconds(20) },
        asked_at: Mono(seconds(100)),
    }
}

/// Fresh claim ids.
pub fn fresh(count: usize) -> Vec<ClaimId> {
    use punctual::platform::dice::{Dice, Os};
    (0..count).map(|_| Os.claim_id()).collect()
}

pub fn answer(verdict: Verdict) -> Answer {
    Answer {
        request_hash: Some([9; 32]),
        http_status: Some(200),
        took: Some(Duration::from_millis(20)),
        note: Some("a note".into()),
        ..Answer::silent(verdict, How::Sent)
    }
}

pub fn charged(reference: &str) -> Verdict {
    Verdict::Charged { reference: reference.into(), amount: money() }
}

pub fn declined(class: DeclineClass) -> Verdict {
    Verdict::Declined(Decline {
        class,
        code: "insufficient_funds".into(),
        network_code: None,
        reference: None,
        retry_after: None,
    })
}

pub fn decision(to: Status) -> Decision {
    Decision {
        to,
        cause: Cause::Settled,
        reason: None,
        next_attempt_at: None,
        answered: SendsAnswered::Own,
        budget: Budget::Keep,
        epoch: EpochChange::Same,
        gateway_ref: None,
    }
}

/// A claim that is parked, with an answer that leaves its own send open.
pub fn parks(claimed: Claimed, reason: Reason) -> (Answered, Decision) {
    let decision =
        Decision { reason: Some(reason), answered: SendsAnswered::None, ..decision(Status::Parked) };
    (claimed.answered(answer(Verdict::Unknown(Doubt::TimedOut))), decision)
}

/// A charge that went well.
pub fn completed(claimed: Claimed, reference: &str) -> (Answered, Decision) {
    let gateway_ref = Some(reference.to_owned());
    let decision = Decision { answered: SendsAnswered::All, gateway_ref, ..decision(Status::Completed) };
    (claimed.answered(answer(charged(reference))), decision)
}

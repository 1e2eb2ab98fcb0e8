//! From the history to the endpoints that clients named: what is owed, who sends it, what becomes of it.

mod owed;
mod plans;
mod sending;
mod taking;

use crate::schedule::world::{ACTOR, World};
use crate::support::eventually;
use crate::support::hooks::Hook;
use punctual::domain::ids::{ActorId, Operator};
use punctual::domain::webhook::WebhookSecret;
use punctual::platform::clock::Host;
use punctual::platform::config;
use punctual::platform::dice::Os;
use punctual::platform::shutdown::{Shutdown, Trigger};
use punctual::publisher::webhooks::{Caller, Deliverer, SystemNames, run};
use punctual::schedule::{EndpointAnswer, NewWebhookEndpoint, PublisherLease, ScheduleError};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use uuid::Uuid;

const SOON: Duration = Duration::from_secs(20);
const LENGTH: Duration = Duration::from_secs(10);

/// The schedule, with an actor who has endpoints.
struct Site {
    world: World,
}

/// An endpoint to be made.
struct Wanted<'a> {
    url: &'a str,
    types: &'a [&'a str],
    most: i16,
}

impl<'a> Wanted<'a> {
    fn all(url: &'a str) -> Self {
        Self { url, types: &[], most: 10 }
    }
}

fn secret(endpoint: Uuid) -> WebhookSecret {
    let mut bytes = [1; 32];
    bytes[..16].copy_from_slice(endpoint.as_bytes());
    WebhookSecret::new(bytes)
}

impl Site {
    async fn new() -> Self {
        let world = World::new().await;
        let site = Self { world };
        site.actor(ACTOR, "tester").await;
        site
    }

    async fn actor(&self, actor: ActorId, name: &str) {
        let made =
            format!("INSERT INTO actors (id, name) VALUES ('{}', '{name}') ON CONFLICT DO NOTHING", actor.0);
        self.world.run(&made).await;
    }

    async fn endpoint_of(&self, actor: ActorId, wanted: Wanted<'_>) -> Uuid {
        let id = Uuid::new_v8(rand_bytes());
        let new = NewWebhookEndpoint {
            id,
            actor,
            url: wanted.url.to_owned(),
            description: String::new(),
            event_types: wanted.types.iter().map(|kind| (*kind).to_owned()).collect(),
            max_concurrency: wanted.most,
            secret: secret(id),
            most: 1_000,
            by: Operator("tester".to_owned()),
        };
        assert_eq!(self.world.api.make_webhook_endpoint(new).await.expect("an answer"), EndpointAnswer::Done);
        id
    }

    async fn endpoint(&self, wanted: Wanted<'_>) -> Uuid {
        self.endpoint_of(ACTOR, wanted).await
    }

    /// So many events of the actor, each of a payment of its own.
    async fn events(&self, name: &str, count: usize) {
        let due_at = self.world.now().await + chrono::TimeDelta::hours(1);
        for n in 0..count {
            self.world.create(&self.world.payment(&format!("{name}-{n}"), due_at)).await;
        }
    }

    async fn lead(&self) -> PublisherLease {
        self.world.worker.acquire_fan_out("p1", LENGTH).await.expect("an answer").expect("nobody leads")
    }

    /// Fans out until so many deliveries are owed in all.
    async fn owe(&self, lease: &PublisherLease, count: i64) {
        eventually("all of it is owed", SOON, || async {
            // A transaction of another test in the cluster can hold rows back for a moment.
            self.world.worker.fan_out(lease, 1_000).await.expect("an answer").expect("we lead");
            (self.count("true").await == count).then_some(())
        })
        .await;
    }

    async fn count(&self, condition: &str) -> i64 {
        self.world.one(&format!("SELECT count(*) FROM webhook_deliveries WHERE {condition}")).await
    }

    /// A process that delivers, until the trigger is dropped.
    fn deliver(&self, name: &str, settings: config::Webhooks) -> Delivering {
        let clock = Arc::new(Host);
        let caller = Caller::new(&settings, Arc::new(SystemNames), clock.clone()).expect("a client");
        let deliverer = Arc::new(Deliverer {
            holder: name.to_owned(),
            lane_lease: Duration::from_secs(3),
            settings,
            clock,
            dice: Arc::new(Os),
            caller,
        });
        let (trigger, shutdown) = Shutdown::manual();
        let schedule = self.world.worker.clone();
        Delivering { trigger, task: tokio::spawn(async move { run(deliverer, &schedule, &shutdown).await }) }
    }
}

struct Delivering {
    trigger: Trigger,
    task: JoinHandle<Result<(), ScheduleError>>,
}

impl Delivering {
    async fn stop(self) {
        self.trigger.stop();
        self.task.await.expect("no panic").expect("it ends well");
    }
}

/// Fast enough for a test.
fn settings() -> config::Webhooks {
    config::Webhooks {
        allow: vec!["127.0.0.0/8".parse().expect("a network")],
        timeout: Duration::from_secs(1),
        connect_timeout: Duration::from_millis(500),
        poll: Duration::from_millis(50),
        ladder: vec![Duration::from_millis(100); 30],
        jitter_percent: 0,
        ..Default::default()
    }
}

fn rand_bytes() -> [u8; 16] {
    use punctual::platform::dice::Dice;
    Os.bits().to_be_bytes()
}

async fn until_taken(hook: &Hook, count: usize) {
    eventually("the receiver has taken everything", SOON, || async {
        (hook.taken().len() >= count).then_some(())
    })
    .await;
}

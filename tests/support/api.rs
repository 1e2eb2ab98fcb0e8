//! One REST interface on a database of its own, in this process: no broker, no sandbox, no binary.
//! The database is reached through a proxy, so that it can be taken away.

use super::contract::hold_if_told;
use super::database::{TestDatabase, database};
use super::proxy::Proxy;
use chrono::{DateTime, Utc};
use punctual::dashboard::Ui;
use punctual::domain::ids::{GatewayName, Operator};
use punctual::intake::{ApiKey, Intake, Limits, Tokens, listen, serve};
use punctual::operations::Desk;
use punctual::platform::clock::Host;
use punctual::platform::config;
use punctual::platform::dice::{Dice, Os};
use punctual::platform::health::{Readiness, routes};
use punctual::platform::metrics::{Exposition, recorder};
use punctual::platform::shutdown::{Shutdown, Trigger};
use punctual::schedule::{Access, By, NewApiKey, Postgres, connect};
use secrecy::ExposeSecret;
use serde_json::Value;
use sqlx::Connection;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// A running interface; it ends with the value.
#[derive(Debug)]
pub struct Api {
    /// `http://host:port`
    pub url: String,
    /// Between the interface and its database.
    pub proxy: Proxy,
    /// A key of the actor `tester` with both scopes.
    pub key: String,
    /// The schedule as the owner reaches it, without the proxy.
    pub owner: Postgres,
    /// The database.
    pub database: TestDatabase,
    http: reqwest::Client,
    process: Process,
}

/// What serves; it ends with the value.
#[derive(Debug)]
pub struct Process {
    /// `http://host:port`
    pub url: String,
    stop: watch::Sender<bool>,
    _trigger: Trigger,
}

fn settings(url: &str) -> config::Database {
    config::Database {
        url: url.into(),
        pool: 6,
        acquire_timeout: Duration::from_secs(2),
        ..Default::default()
    }
}

/// Settings of the pages: looked at over plain http, and as many attempts to log in as a test likes.
pub fn pages() -> config::Config {
    let mut config = config::Config::default();
    config.dashboard.secure_cookie = false;
    config.dashboard.logins_per_address = 0;
    config.dashboard.environment = "tests".into();
    config
}

impl Process {
    async fn start(
        url: &str,
        oidc: &config::Oidc,
        mut pages: config::Config,
        settle: impl FnOnce(&mut config::Api),
    ) -> Self {
        let schedule = connect(&settings(url), Access::Api).await.expect("the API connects");
        // A week of the ten days that a test's database has partitions for.
        let horizon = Duration::from_secs(7 * 86_400);
        let mut api = config::Api { horizon, ..Default::default() };
        settle(&mut api);
        let (trigger, shutdown) = Shutdown::manual();
        let pinged = schedule.clone();
        let readiness = Readiness::new(shutdown).with("postgres", move || {
            let schedule = pinged.clone();
            async move { schedule.ping().await.map_err(|_| "not reachable".to_owned()) }
        });
        let beside = routes(readiness, Exposition::of(&recorder().expect("a recorder")));
        let gateways = vec![GatewayName("sandbox".into())];
        let tokens = Tokens::new(oidc, Arc::new(Host)).expect("sound settings").map(Arc::new);
        if let Some(tokens) = &tokens {
            tokens.read_keys().await;
        }
        let (stop, stopped) = watch::channel(false);
        let intake = Intake::new(schedule, Arc::new(Host), Arc::new(Os), &api, gateways)
            .with_tokens(tokens)
            .ending_streams_at(stopped.clone());
        pages.database.partition_days_ahead = 3;
        let desk =
            Desk::new(intake.clone(), &config::Operations::default()).examining(&pages, Arc::new(Host));
        let desk = desk.routes();
        let pages = Ui::new(
            intake.clone(),
            desk.clone(),
            (Arc::new(Host), Arc::new(Os)),
            &pages,
            Some(stopped.clone()),
        );
        let beside = beside.merge(desk).merge(pages.routes());
        let listener = listen("127.0.0.1:0").await.expect("a free port");
        let address: SocketAddr = listener.local_addr().expect("an address");
        tokio::spawn(serve(listener, intake.router(beside), Limits::from(&api), Arc::new(Host), stopped));
        Self { url: format!("http://{address}"), stop, _trigger: trigger }
    }
}

/// One answer, in full.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Its headers.
    pub headers: reqwest::header::HeaderMap,
    /// Its body.
    pub text: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// A header's text, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a text"))
    }

    /// `(status, code)` of a refusal.
    pub fn refusal(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text);
        let document = self.json();
        assert_eq!(document["requestId"], self.header("request-id"));
        assert_eq!(document["status"], self.status);
        (self.status, document["code"].as_str().expect("a code").to_owned())
    }
}

impl Api {
    /// Starts one; `settle` changes its settings.
    pub async fn start(settle: impl FnOnce(&mut config::Api)) -> Self {
        Self::start_taking(&config::Oidc::default(), settle).await
    }

    /// The same, taking tokens of this issuer.
    pub async fn start_taking(oidc: &config::Oidc, settle: impl FnOnce(&mut config::Api)) -> Self {
        Self::start_with(oidc, pages(), settle).await
    }

    /// The same, with pages as these settings have them.
    pub async fn start_showing(pages: config::Config) -> Self {
        Self::start_with(&config::Oidc::default(), pages, |_| {}).await
    }

    async fn start_with(
        oidc: &config::Oidc,
        pages: config::Config,
        settle: impl FnOnce(&mut config::Api),
    ) -> Self {
        let database = database().await;
        let mut url = reqwest::Url::parse(&database.url).expect("a URL");
        let host = url.host_str().expect("a host").trim_matches(['[', ']']).to_owned();
        let port = url.port().unwrap_or(5432);
        let mut upstream = tokio::net::lookup_host((host, port)).await.expect("an address");
        let proxy = Proxy::start(upstream.next().expect("an address")).await;
        url.set_host(Some("127.0.0.1")).expect("a host can be set");
        url.set_port(Some(proxy.address.port())).expect("a port can be set");
        let owner = connect(&settings(&database.url), Access::Owner).await.expect("the owner connects");
        let process = Process::start(url.as_str(), oidc, pages, settle).await;
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let url = process.url.clone();
        let mut site = Self { url, proxy, key: String::new(), owner, database, http, process };
        site.key = site.new_key("tester", &["payments:read", "payments:write"]).await;
        site
    }

    /// Asks it to stop.
    pub fn stop(&self) {
        self.process.stop.send_replace(true);
    }

    /// Another process on the same database; it ends with the value.
    pub async fn another(&self, settle: impl FnOnce(&mut config::Api)) -> Process {
        Process::start(&self.database.url, &config::Oidc::default(), pages(), settle).await
    }

    /// A key of this actor with these scopes.
    pub async fn new_key(&self, actor: &str, scopes: &[&str]) -> String {
        self.new_key_until(actor, scopes, None).await.1
    }

    /// A key with an end, and its id.
    pub async fn new_key_until(
        &self,
        actor: &str,
        scopes: &[&str],
        expires_at: Option<DateTime<Utc>>,
    ) -> (Uuid, String) {
        let key = ApiKey::generate(&Os);
        let uuid = || uuid::Builder::from_random_bytes(Os.bits().to_be_bytes()).into_uuid();
        let new = NewApiKey {
            id: uuid(),
            new_actor: uuid(),
            actor_name: actor.to_owned(),
            name: None,
            hash: key.hash(),
            hint: key.hint(),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            expires_at,
            by: By { operator: Operator("test".into()), reason: "a test".into() },
        };
        let id = new.id;
        self.owner.make_api_key(new).await.expect("the key is stored");
        (id, key.text().expose_secret().to_owned())
    }

    /// One value, read behind the interface's back.
    pub async fn one<T>(&self, query: &str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin + 'static,
    {
        let mut sql = sqlx::PgConnection::connect(&self.database.url).await.expect("a connection");
        let value = sqlx::query_scalar(sqlx::AssertSqlSafe(query.to_owned())).fetch_one(&mut sql).await;
        value.unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// A request with the tester's key.
    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        self.anonymous(method, path).bearer_auth(&self.key)
    }

    /// A request without a key.
    pub fn anonymous(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = method.parse().expect("a method");
        self.http.request(method, format!("{}{path}", self.url))
    }

    /// POSTs a payment.
    pub async fn post(&self, idempotency_key: &str, body: &Value) -> Answer {
        let request = self.request("POST", "/v1/scheduled-payments");
        send(request.header("Idempotency-Key", idempotency_key), Some(body)).await
    }

    /// GETs or DELETEs a payment.
    pub async fn payment(&self, method: &str, id: &str) -> Answer {
        send(self.request(method, &format!("/v1/scheduled-payments/{id}")), None).await
    }
}

/// Sends it, with this JSON body if there is one, and holds the answer against the interface's document.
pub async fn send(request: reqwest::RequestBuilder, body: Option<&Value>) -> Answer {
    let request = match body {
        Some(body) => request.header("Content-Type", "application/json").body(body.to_string()),
        None => request,
    };
    let (client, request) = request.build_split();
    let request = request.expect("a request");
    let (method, path) = (request.method().to_string(), request.url().path().to_owned());
    let answer = client.execute(request).await.expect("the API answers");
    let was_led_on = answer.url().path() != path;
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let answer = Answer { status, headers, text: answer.text().await.expect("a body") };
    if !was_led_on {
        hold_if_told(&method, &path, &answer);
    }
    answer
}

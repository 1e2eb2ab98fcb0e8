//! One API process on a database of its own, for tests of the REST interface alone: no broker, no
//! sandbox. The database is reached through a proxy, so that it can be taken away.

use super::database::{TestDatabase, database};
use super::eventually;
use super::proxy::Proxy;
use serde_json::Value;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running API; it ends with the value.
#[derive(Debug)]
pub struct Api {
    child: Child,
    /// `http://host:port`
    pub url: String,
    /// Between the API and its database.
    pub proxy: Proxy,
    /// A key of the actor `tester` with both scopes.
    pub key: String,
    /// The database, without the proxy.
    pub database: TestDatabase,
    http: reqwest::Client,
    environment: Vec<(String, String)>,
    folder: tempfile::TempDir,
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
    /// Starts one; `settings` are `("api.due_grace", "5s")` and so on.
    pub async fn start(settings: &[(&str, &str)]) -> Self {
        let database = database().await;
        let mut url = reqwest::Url::parse(&database.url).expect("a URL");
        let host = url.host_str().expect("a host").trim_matches(['[', ']']).to_owned();
        let upstream: Vec<SocketAddr> =
            tokio::net::lookup_host((host, url.port().unwrap_or(5432))).await.expect("an address").collect();
        let proxy = Proxy::start(upstream[0]).await;
        url.set_host(Some("127.0.0.1")).expect("a host can be set");
        url.set_port(Some(proxy.address.port())).expect("a port can be set");
        let address = format!("127.0.0.1:{}", punctual::dev::ports::free());
        let own = [
            ("database.url", url.as_str()),
            ("database.acquire_timeout", "2s"),
            ("database.partition_days_ahead", "10"),
            ("api.horizon", "7days"),
            ("api.listen", address.as_str()),
        ];
        let environment: Vec<(String, String)> = own
            .iter()
            .chain(settings)
            .map(|(name, value)| {
                (format!("PUNCTUAL_{}", name.replace('.', "__").to_uppercase()), (*value).to_owned())
            })
            .collect();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let log = std::fs::File::create(folder.path().join("log")).expect("a log file");
        let child = command(&environment)
            .arg("api")
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("the binary runs");
        let url = format!("http://{address}");
        let mut api = Self { child, url, proxy, key: String::new(), database, http, environment, folder };
        api.key = api.new_key("tester", &["payments:read", "payments:write"]);
        let live = format!("{}/livez", api.url);
        eventually("the API is alive", Duration::from_secs(30), || {
            let asked = api.http.get(&live).send();
            async move { asked.await.is_ok_and(|answer| answer.status().is_success()).then_some(()) }
        })
        .await;
        api
    }

    /// A key of this actor with these scopes.
    pub fn new_key(&self, actor: &str, scopes: &[&str]) -> String {
        let mut command = command(&self.environment);
        command.args(["keys", "create", "--actor", actor, "-o", "json"]);
        for scope in scopes {
            command.args(["--scope", scope]);
        }
        let output = command.output().expect("the binary runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let made: Value = serde_json::from_slice(&output.stdout).expect("JSON of the key");
        made["apiKey"].as_str().expect("the key's text").to_owned()
    }

    /// A second process with the same settings, and what it said when it gave up.
    pub fn run_another(&self) -> (i32, String) {
        let output = command(&self.environment).arg("api").output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap_or(-1), said)
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

    /// All that the process logged.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).expect("the log")
    }
}

/// Sends it, with this JSON body if there is one.
pub async fn send(request: reqwest::RequestBuilder, body: Option<&Value>) -> Answer {
    let request = match body {
        Some(body) => request.header("Content-Type", "application/json").body(body.to_string()),
        None => request,
    };
    let answer = request.send().await.expect("the API answers");
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    Answer { status, headers, text: answer.text().await.expect("a body") }
}

fn command(environment: &[(String, String)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    for name in ["DATABASE_URL", "KAFKA_BOOTSTRAP_SERVERS", "SANDBOX_URL"] {
        command.env_remove(name);
    }
    command.envs(environment.iter().map(|(name, value)| (name, value))).env("RUST_LOG", "trace");
    command.stdin(Stdio::null());
    command
}

impl Drop for Api {
    fn drop(&mut self) {
        // One that has already ended is no error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

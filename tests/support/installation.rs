//! A whole installation as processes: a fresh database, a leased ring, a sandbox, and any number of
//! APIs, relays, workers and keepers, each a real `punctual` process that can be killed, frozen and
//! thawed. Everything ends with the value.

use super::database::{TestDatabase, database};
use super::eventually;
use super::ring::{RingLease, lease};
use super::services::services;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The binary under test.
pub const PUNCTUAL: &str = env!("CARGO_BIN_EXE_punctual");

/// One running process.
#[derive(Debug)]
pub struct Role {
    name: String,
    child: Child,
    /// `http://host:port` of its API, sandbox or health server.
    pub url: String,
    log: PathBuf,
}

impl Role {
    fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status();
        assert!(status.is_ok_and(|status| status.success()), "{signal} to {}", self.name);
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: no chance to tidy up.
    pub fn kill(&mut self) {
        self.signal("-KILL");
        self.child.wait().expect("a killed child can be waited for");
    }

    /// SIGSTOP.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    /// SIGTERM.
    pub fn ask_to_stop(&self) {
        self.signal("-TERM");
    }

    /// SIGTERM, and its exit code once it ends within `within`.
    pub async fn drain(&mut self, within: Duration) -> i32 {
        self.ask_to_stop();
        self.ended(within).await
    }

    /// Its exit code once it ends within `within`.
    pub async fn ended(&mut self, within: Duration) -> i32 {
        let child = &mut self.child;
        eventually("the process ends", within, || {
            let code =
                child.try_wait().expect("a child can be asked").map(|status| status.code().unwrap_or(-1));
            async move { code }
        })
        .await
    }

    /// Its exit code, if it has ended.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().expect("a child can be asked").map(|status| status.code().unwrap_or(-1))
    }

    /// What it logged so far.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // One that has already ended is no error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The APIs of an installation as a client sees them, whatever becomes of its other processes.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    api_key: String,
    apis: Vec<String>,
}

impl Client {
    fn payments(&self, turn: usize) -> String {
        format!("{}/v1/scheduled-payments", self.apis[turn % self.apis.len()])
    }

    /// POSTs a payment to the API whose turn it is.
    pub async fn post(&self, turn: usize, key: &str, body: &Value) -> reqwest::Result<(u16, Value)> {
        let request = self.http.post(self.payments(turn)).bearer_auth(&self.api_key);
        let request = request.header("Idempotency-Key", key).header("Content-Type", "application/json");
        answer(request.body(body.to_string())).await
    }

    /// POSTs a payment to the API at this URL.
    pub async fn post_to(&self, api: &str, key: &str, body: &Value) -> reqwest::Result<(u16, Value)> {
        let request = self.http.post(format!("{api}/v1/scheduled-payments")).bearer_auth(&self.api_key);
        let request = request.header("Idempotency-Key", key).header("Content-Type", "application/json");
        answer(request.body(body.to_string())).await
    }

    /// The same APIs with another key.
    pub fn with_key(&self, api_key: &str) -> Self {
        Self { api_key: api_key.to_owned(), ..self.clone() }
    }

    /// Reads a payment at the API whose turn it is.
    pub async fn get(&self, turn: usize, id: &str) -> reqwest::Result<(u16, Value)> {
        let url = format!("{}/{id}", self.payments(turn));
        answer(self.http.get(url).bearer_auth(&self.api_key)).await
    }

    /// Cancels a payment at the API whose turn it is.
    pub async fn cancel(&self, turn: usize, id: &str) -> reqwest::Result<(u16, Value)> {
        let url = format!("{}/{id}", self.payments(turn));
        answer(self.http.delete(url).bearer_auth(&self.api_key)).await
    }
}

/// Everything that shares one database, one ring and one sandbox.
#[derive(Debug)]
pub struct Installation {
    /// Running processes by name. First, so that they end before what they use.
    pub roles: BTreeMap<String, Role>,
    /// Settings of every process, as environment.
    pub environment: BTreeMap<String, String>,
    /// A key with every scope.
    pub api_key: String,
    /// For the test's own requests.
    pub http: reqwest::Client,
    /// The database.
    pub database: TestDatabase,
    /// The ring.
    pub ring: RingLease,
    folder: tempfile::TempDir,
}

impl Drop for Installation {
    /// A failed test shows the last words of every process.
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (name, role) in &self.roles {
                let text = role.log_text();
                let lines: Vec<&str> = text.lines().collect();
                let last = lines[lines.len().saturating_sub(25)..].join("\n");
                eprintln!("---- {name}\n{last}");
            }
        }
    }
}

impl Installation {
    /// A database, a ring with its topics, a sandbox and an API key; no other role yet. `settings`
    /// are `("worker.lease", "3s")` and so on.
    pub async fn new(settings: &[(&str, &str)]) -> Self {
        let ring = lease().await;
        let database = database().await;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut environment = BTreeMap::new();
        let group = format!("g-{}-{}", std::process::id(), database.url.rsplit('/').next().unwrap_or("x"));
        let ledger = folder.path().join("ledger.ndjson").display().to_string();
        let prefix = format!("{}payments.", ring.prefix);
        let own = [
            ("database.url", database.url.as_str()),
            ("database.partition_days_ahead", "10"),
            ("api.horizon", "7days"),
            ("kafka.bootstrap_servers", &services().kafka_bootstrap_servers),
            ("kafka.topic_prefix", &prefix),
            ("kafka.group", &group),
            ("kafka.partitions", "2"),
            ("kafka.replication", "1"),
            ("kafka.min_insync_replicas", "1"),
            ("sandbox.ledger", &ledger),
            // Who tests the grace period asks for it.
            ("api.drain_grace", "0s"),
            // All payments of a kind share one destination.
            ("gateway.declines_per_day", "0"),
            ("gateway.declines_per_30_days", "0"),
        ];
        for (name, value) in own.iter().chain(settings) {
            environment.insert(variable(name), (*value).to_owned());
        }
        let mut site = Self {
            roles: BTreeMap::new(),
            environment,
            api_key: String::new(),
            http: reqwest::Client::builder().no_proxy().build().expect("a client"),
            database,
            ring,
            folder,
        };
        site.run(&["topics", "apply"]);
        site.api_key = site.new_api_key("tester");
        site.start("sandbox", "sandbox-1", &[]).await;
        let sandbox = site.url("sandbox-1").to_owned();
        site.environment.insert(variable("gateway.url"), sandbox);
        site
    }

    /// A key with every scope for an actor of this name.
    pub fn new_api_key(&self, actor: &str) -> String {
        let made = self.run(&["keys", "create", "--actor", actor, "-o", "json"]);
        let made: Value = serde_json::from_str(&made).expect("JSON of the key");
        made["apiKey"].as_str().expect("the key's text").to_owned()
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PUNCTUAL);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        for name in ["DATABASE_URL", "KAFKA_BOOTSTRAP_SERVERS", "SANDBOX_URL"] {
            command.env_remove(name);
        }
        command.envs(&self.environment);
        command
    }

    /// Runs a one-shot command and gives what it printed.
    ///
    /// # Panics
    /// Unless it exits 0.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("the binary runs");
        assert!(
            output.status.success(),
            "{arguments:?}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a one-shot command and gives its exit code and what it printed and said.
    pub fn tell(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.command(arguments).output().expect("the binary runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Runs a one-shot command, whatever comes of it.
    pub fn output(&self, arguments: &[&str]) -> std::process::Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// The same with the process's wall clock this many seconds ahead of the machine's.
    pub fn output_shifted(&self, arguments: &[&str], shift_s: i64) -> std::process::Output {
        self.shift_clock("command", shift_s);
        let mut command = self.command(arguments);
        command.env("LD_PRELOAD", self.shifted_clock()).env("WALL_CLOCK_SHIFT", self.shift_file("command"));
        command.output().expect("the binary runs")
    }

    /// Starts a role under a name (also its slot) and waits until it has started, ready or not.
    pub async fn start(&mut self, role: &str, name: &str, settings: &[(&str, &str)]) {
        self.spawn(role, name, settings);
        self.started(name).await;
    }

    /// The same with its wall clock this many seconds ahead of the machine's (negative: behind). Its
    /// other clocks are true.
    pub async fn start_shifted(&mut self, role: &str, name: &str, shift_s: i64) {
        self.shift_clock(name, shift_s);
        let (library, shift) = (self.shifted_clock(), self.shift_file(name).display().to_string());
        let shifted = [("LD_PRELOAD", library.as_str()), ("WALL_CLOCK_SHIFT", &shift)];
        self.spawn_in(role, name, &[], &shifted);
        self.started(name).await;
    }

    /// The same, told to freeze itself once, at this place ([`punctual::platform::failpoints`]); with one
    /// thread, so that what it does after it wakes has an order.
    pub async fn start_armed(&mut self, role: &str, name: &str, place: &str) {
        self.spawn_armed(role, name, place);
        self.started(name).await;
    }

    /// The same without waiting: for one that may come to its place before it can say that it is alive.
    pub fn spawn_armed(&mut self, role: &str, name: &str, place: &str) {
        let armed = format!("{place}:{}", self.frozen_file(name).display());
        self.spawn_in(
            role,
            name,
            &[],
            &[("PUNCTUAL_FREEZE_AT", armed.as_str()), ("TOKIO_WORKER_THREADS", "1")],
        );
    }

    /// Whether a role that was started with [`Installation::start_armed`] came to its place.
    pub fn is_frozen(&self, name: &str) -> bool {
        self.frozen_file(name).exists()
    }

    fn frozen_file(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.frozen"))
    }

    /// Steps the wall clock of a role that was started with [`Installation::start_shifted`].
    pub fn shift_clock(&self, name: &str, shift_s: i64) {
        let (file, next) = (self.shift_file(name), self.folder.path().join("next_shift"));
        std::fs::write(&next, shift_s.to_string()).expect("a file");
        // At once, so that nobody reads half a number.
        std::fs::rename(next, file).expect("the same folder");
    }

    fn shift_file(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.shift"))
    }

    /// Where the compiled `shifted_clock.c` is. The C compiler that links Rust programs makes it.
    fn shifted_clock(&self) -> String {
        let library = self.folder.path().join("shifted_clock.so");
        if !library.exists() {
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/shifted_clock.c");
            let arguments = ["-Wall", "-Werror", "-O2", "-shared", "-fPIC", source, "-o"];
            let made = Command::new("cc").args(arguments).arg(&library).status();
            assert!(made.is_ok_and(|status| status.success()), "cc makes {}", library.display());
        }
        library.display().to_string()
    }

    async fn started(&self, name: &str) {
        let url = format!("{}/readyz", self.url(name));
        let http = self.http.clone();
        let what = format!("{name} has started");
        let waited = eventually(&what, Duration::from_secs(30), || {
            let asked = http.get(&url).send();
            // The sandbox has no such path, and nothing to wait for.
            async move { (!asked.await.ok()?.text().await.ok()?.contains(r#""start":"#)).then_some(()) }
        });
        waited.await;
    }

    /// Starts a role without waiting.
    pub fn spawn(&mut self, role: &str, name: &str, settings: &[(&str, &str)]) {
        self.spawn_in(role, name, settings, &[]);
    }

    fn spawn_in(&mut self, role: &str, name: &str, settings: &[(&str, &str)], environment: &[(&str, &str)]) {
        let listen = match role {
            "api" => "api.listen",
            "sandbox" => "sandbox.listen",
            _ => "metrics.listen",
        };
        let chosen = settings.iter().find(|(setting, _)| *setting == listen);
        let address = chosen.map_or_else(free_address, |(_, address)| (*address).to_owned());
        let log = self.folder.path().join(format!("{name}.log"));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log).expect("a log file");
        let mut command = self.command(&[role]);
        command
            .env(variable(listen), &address)
            .env(variable("worker.slot"), name)
            .env(variable("relay.name"), name)
            .env(variable("publisher.name"), name);
        for (setting, value) in settings {
            command.env(variable(setting), value);
        }
        command.envs(environment.iter().copied());
        command.stdout(file.try_clone().expect("a second handle")).stderr(file);
        let child = command.spawn().expect("the binary runs");
        let role = Role { name: name.to_owned(), child, url: format!("http://{address}"), log };
        self.roles.insert(name.to_owned(), role);
    }

    /// Where a role serves.
    pub fn url(&self, name: &str) -> &str {
        &self.roles.get(name).unwrap_or_else(|| panic!("no role {name}")).url
    }

    /// A running role.
    pub fn role(&mut self, name: &str) -> &mut Role {
        self.roles.get_mut(name).unwrap_or_else(|| panic!("no role {name}"))
    }

    /// Where its Kafka is.
    pub fn kafka(&self) -> &str {
        self.setting("kafka.bootstrap_servers")
    }

    /// A setting that every process has from here.
    pub fn setting(&self, name: &str) -> &str {
        self.environment.get(&variable(name)).unwrap_or_else(|| panic!("{name} is set for every process"))
    }

    /// A client of all running APIs.
    pub fn client(&self) -> Client {
        let apis = self.roles.iter().filter(|(name, _)| name.starts_with("api-"));
        let apis = apis.map(|(_, role)| role.url.clone()).collect();
        Client { http: self.http.clone(), api_key: self.api_key.clone(), apis }
    }

    /// A client of this API alone.
    pub fn client_of(&self, api: &str) -> Client {
        Client {
            http: self.http.clone(),
            api_key: self.api_key.clone(),
            apis: vec![self.url(api).to_owned()],
        }
    }

    /// What a process says at a path of its own, as `/metrics`; whatever the status.
    pub async fn text(&self, role: &str, path: &str) -> reqwest::Result<String> {
        self.http.get(format!("{}{path}", self.url(role))).send().await?.text().await
    }

    /// POSTs a payment to `api-1`.
    pub async fn post(&self, key: &str, body: &Value) -> reqwest::Result<(u16, Value)> {
        let url = format!("{}/v1/scheduled-payments", self.url("api-1"));
        let request = self.http.post(url).bearer_auth(&self.api_key).header("Idempotency-Key", key);
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        answer(request).await
    }

    /// Reads a payment at `api-1`.
    pub async fn get(&self, id: &str) -> reqwest::Result<(u16, Value)> {
        let url = format!("{}/v1/scheduled-payments/{id}", self.url("api-1"));
        answer(self.http.get(url).bearer_auth(&self.api_key)).await
    }

    /// Cancels a payment at `api-1`.
    pub async fn cancel(&self, id: &str) -> reqwest::Result<(u16, Value)> {
        let url = format!("{}/v1/scheduled-payments/{id}", self.url("api-1"));
        answer(self.http.delete(url).bearer_auth(&self.api_key)).await
    }

    /// Creates a payment and gives its id.
    ///
    /// # Panics
    /// Unless it is created.
    pub async fn create(&self, key: &str, payee: &str, due_at: chrono::DateTime<chrono::Utc>) -> String {
        let due_at = due_at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
        let body = json!({"payee": payee, "amount": 1_250, "currency": "EUR", "dueAt": due_at});
        let (status, created) = self.post(key, &body).await.expect("the API answers");
        assert_eq!(status, 201, "{created}");
        created["paymentId"].as_str().expect("an id").to_owned()
    }

    /// The sandbox's ledger: one value per physical charge request.
    pub async fn ledger(&self) -> Vec<Value> {
        let answer = self.http.get(format!("{}/ledger", self.url("sandbox-1"))).send().await;
        let text = answer.expect("the sandbox answers").text().await.expect("a body");
        text.lines().map(|line| serde_json::from_str(line).expect("a ledger line")).collect()
    }

    /// Waits until this payment is in one of `states` and gives it.
    pub async fn settled(&self, id: &str, states: &[&str], within: Duration) -> Value {
        eventually(&format!("{id} is one of {states:?}"), within, || async move {
            let (status, payment) = self.get(id).await.ok()?;
            let state = payment["status"].as_str()?;
            (status == 200 && states.contains(&state)).then_some(payment)
        })
        .await
    }
}

async fn answer(request: reqwest::RequestBuilder) -> reqwest::Result<(u16, Value)> {
    let answer = request.send().await?;
    let status = answer.status().as_u16();
    let text = answer.text().await?;
    Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
}

/// `worker.lease` → `PUNCTUAL_WORKER__LEASE`.
pub fn variable(setting: &str) -> String {
    format!("PUNCTUAL_{}", setting.replace('.', "__").to_uppercase())
}

/// An address to listen on that nobody has and that no outgoing connection can be given.
pub fn free_address() -> String {
    format!("127.0.0.1:{}", punctual::dev::ports::free())
}

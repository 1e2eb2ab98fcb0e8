//! An hour on duty as a machine can have it, on `punctual dev`: payments are made, the gateway is broken, the problem
//! is found where the person on duty looks, the alert comes from a real Prometheus that reads the real metrics, and
//! what the runbook says is done, until every payment has ended.

use super::visitor::Visitor;
use crate::dev::Dev;
use crate::figures::{Figures, Holds, Verdict};
use crate::support::eventually;
use crate::support::installation::PUNCTUAL;
use chrono::{SecondsFormat, TimeDelta, Utc};
use punctual::platform::alerts::rules_yaml;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

/// Longest from breaking the gateway until the pages and the interface say so.
const SEEN_WITHIN: Duration = Duration::from_secs(30);
/// Longest until somebody would be woken: the breaker, and the minute that the alert waits.
const WOKEN_WITHIN: Duration = Duration::from_secs(150);
/// Longest from the end of the outage until every payment has ended.
const ENDED_WITHIN: Duration = Duration::from_secs(120);
const PAYMENTS: usize = 60;

/// What runs.
struct Night {
    dev: Dev,
    http: reqwest::Client,
}

impl Night {
    async fn start() -> Self {
        let dev = Dev::start(&["--no-seed"]).await;
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { dev, http }
    }

    fn url(&self) -> &str {
        self.dev.value("PUNCTUAL_URL")
    }

    fn key(&self) -> &str {
        self.dev.value("PUNCTUAL_API_KEY")
    }

    async fn get(&self, path: &str) -> Value {
        let asked = self.http.get(format!("{}{path}", self.url())).bearer_auth(self.key()).send().await;
        let text = asked.expect("the API answers").text().await.expect("a body");
        serde_json::from_str(&text).unwrap_or_default()
    }

    async fn create(&self, count: usize, kind: &str, over: TimeDelta) -> Vec<String> {
        let mut ids = Vec::new();
        for number in 0..count {
            let share = over * i32::try_from(number).expect("few") / i32::try_from(count).expect("few");
            let due_at = Utc::now() + TimeDelta::seconds(2) + share;
            let due_at = due_at.to_rfc3339_opts(SecondsFormat::Millis, true);
            let body =
                json!({"payee": "sim_ok", "amount": 1_250, "currency": "EUR", "dueAt": due_at}).to_string();
            let asked =
                self.http.post(format!("{}/v1/scheduled-payments", self.url())).bearer_auth(self.key());
            let asked = asked.header("Idempotency-Key", format!("{kind}-{number}"));
            let answer =
                asked.header("Content-Type", "application/json").body(body).send().await.expect("an answer");
            let text = answer.text().await.expect("a body");
            let made: Value = serde_json::from_str(&text).unwrap_or_default();
            ids.push(made["paymentId"].as_str().unwrap_or_else(|| panic!("not created: {text}")).to_owned());
        }
        ids
    }

    /// Once all of them have ended: how many were paid.
    async fn ended(&self, ids: &[String], within: Duration) -> usize {
        eventually("every payment has ended", within, || async {
            let mut paid = 0;
            for id in ids {
                let payment = self.get(&format!("/v1/scheduled-payments/{id}")).await;
                match payment["status"].as_str() {
                    Some("COMPLETED") => paid += 1,
                    Some("FAILED" | "CANCELLED" | "PARKED") => {}
                    _ => return None,
                }
            }
            Some(paid)
        })
        .await
    }

    async fn outage(&self, begins: bool) {
        let url = format!("{}/outage", self.dev.value("SANDBOX_URL"));
        let asked = if begins {
            self.http.put(url).body(json!({"kind": "unavailable", "forMs": 3_600_000}).to_string())
        } else {
            self.http.delete(url)
        };
        let answer = asked.bearer_auth("sandbox-secret").send().await.expect("the sandbox answers");
        assert!(answer.status().is_success(), "{}", answer.status());
    }

    /// A command of a person in a second shell.
    async fn command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(PUNCTUAL);
        command.args(arguments).stdin(Stdio::null());
        for (name, _) in std::env::vars() {
            if name.starts_with("PUNCTUAL_") {
                command.env_remove(name);
            }
        }
        for line in self.dev.names.lines() {
            let (name, value) = line.split_once('=').expect("a name");
            command.env(name, value);
        }
        command.output().await.expect("the binary runs")
    }
}

/// Prometheus on the metrics and rules of this version; it ends with the value.
struct Prometheus {
    _child: Child,
    _folder: tempfile::TempDir,
    url: String,
    http: reqwest::Client,
}

impl Prometheus {
    /// `None` where it is not installed.
    fn start(night: &Night) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("a file");
        };
        let target = night.url().trim_start_matches("http://");
        file("alerts.yml", &rules_yaml());
        file(
            "prometheus.yml",
            &format!(
                "global: {{scrape_interval: 2s, evaluation_interval: 2s}}\nrule_files: [alerts.yml]\n\
                 scrape_configs:\n  - job_name: punctual\n    static_configs:\n      - targets: [\"{target}\"]\n"
            ),
        );
        let address = format!("127.0.0.1:{}", punctual::dev::ports::free());
        let within = |name: &str| Path::new(folder.path()).join(name).display().to_string();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", within("prometheus.yml")));
        command.arg(format!("--storage.tsdb.path={}", within("data")));
        command.arg(format!("--web.listen-address={address}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().ok()?;
        let url = format!("http://{address}");
        Some(Self { _child: child, _folder: folder, url, http: night.http.clone() })
    }

    /// The states of the alerts that are not silent.
    async fn alerts(&self) -> Option<Vec<(String, String)>> {
        let answer = self.http.get(format!("{}/api/v1/alerts", self.url)).send().await.ok()?;
        let answer: Value = serde_json::from_str(&answer.text().await.ok()?).ok()?;
        let of = |alert: &Value| {
            let name = alert["labels"]["alertname"].as_str()?.to_owned();
            Some((name, alert["state"].as_str()?.to_owned()))
        };
        answer["data"]["alerts"].as_array()?.iter().map(of).collect()
    }

    async fn is_firing(&self, name: &str) -> bool {
        let alerts = self.alerts().await.unwrap_or_default();
        alerts.iter().any(|(alert, state)| alert == name && state == "firing")
    }
}

fn seconds(figures: &mut Figures, name: &str, took: Duration, bound: Duration) {
    let shown = format!("{}.{} s", took.as_secs(), took.subsec_millis() / 100);
    figures.holds(name, shown, &format!("≤ {} s", bound.as_secs()), Holds(took <= bound));
}

/// From the first payment to the last.
pub(super) async fn the_gateway_breaks_at_night_and_is_found_and_mended(figures: &mut Figures) {
    figures.part("A night on duty: punctual dev, a gateway that breaks, a person who follows the runbook");
    let night = Night::start().await;
    let prometheus = Prometheus::start(&night);
    let mut visitor = Visitor::enter(night.url(), night.key()).await;
    let before = night.create(10, "before", TimeDelta::zero()).await;
    let paid = night.ended(&before, ENDED_WITHIN).await;
    figures.holds("paid while all is well", paid, "10", Holds(paid == 10));
    let quiet = visitor.open("/ui").await.problems().iter().all(|(check, _)| check != "gateways");
    figures.holds("the banner knows of no gateway", quiet, "true", Holds(quiet));

    let broken_at = Instant::now();
    night.outage(true).await;
    let during = night.create(PAYMENTS, "during", TimeDelta::seconds(20)).await;
    found(figures, &night, &mut visitor, broken_at).await;
    woken(figures, prometheus.as_ref(), broken_at).await;
    runbook(figures, &night, &mut visitor).await;

    night.outage(false).await;
    let mended_at = Instant::now();
    let paid = night.ended(&during, ENDED_WITHIN).await;
    seconds(figures, "from the end of the outage until all have ended", mended_at.elapsed(), ENDED_WITHIN);
    figures.holds("paid of those due in the outage", paid, &PAYMENTS.to_string(), Holds(paid == PAYMENTS));
    once_each(figures, &night, before.len() + PAYMENTS).await;
    // Nobody waits for it longer than for the payments.
    while visitor.open("/ui").await.problems().iter().any(|(check, _)| check == "gateways")
        && mended_at.elapsed() < ENDED_WITHIN
    {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    seconds(
        figures,
        "from the end of the outage until the banner is silent",
        mended_at.elapsed(),
        ENDED_WITHIN,
    );
    let ended = night.dev.end().await;
    figures.holds("punctual dev ends", format!("{ended:?}"), "Some(0)", Holds(ended == Some(0)));
}

/// In the pages, in the interface and by the doctor.
async fn found(figures: &mut Figures, night: &Night, visitor: &mut Visitor, broken_at: Instant) {
    let (mut open, mut waiting, mut banner) = (None, None, None);
    while broken_at.elapsed() < SEEN_WITHIN * 2 && (open.is_none() || waiting.is_none() || banner.is_none()) {
        let gateways = night.get("/v1/ops/gateways").await;
        if open.is_none() && gateways["data"][0]["breaker"]["state"] == "open" {
            open = Some(broken_at.elapsed());
        }
        let overview = night.get("/v1/ops/overview").await;
        if waiting.is_none() && overview["waiting"]["due"].as_i64().unwrap_or(0) > 0 {
            waiting = Some(broken_at.elapsed());
        }
        let page = visitor.open("/ui").await;
        let is_named =
            page.problems().iter().any(|(check, saw)| check == "gateways" && saw.contains("sandbox"));
        if banner.is_none() && is_named && page.text.contains("href=\"/ui/runbooks/BreakerOpen\"") {
            banner = Some(broken_at.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    for (name, took) in [
        ("until /v1/ops/gateways says that the breaker is open", open),
        ("until /v1/ops/overview shows what waits", waiting),
        ("until the banner names it, with its runbook", banner),
    ] {
        match took {
            Some(took) => seconds(figures, name, took, SEEN_WITHIN),
            None => figures.line(name, "never", "within 30 s", Verdict::FallsShort),
        }
    }
}

/// By the alert that would call somebody.
async fn woken(figures: &mut Figures, prometheus: Option<&Prometheus>, broken_at: Instant) {
    let Some(prometheus) = prometheus else {
        let hint = "no Prometheus; apt-get install prometheus";
        return figures.line("the alert BreakerOpen", hint, "it fires", Verdict::Unknown);
    };
    while broken_at.elapsed() < WOKEN_WITHIN && !prometheus.is_firing("BreakerOpen").await {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let woken = prometheus.is_firing("BreakerOpen").await;
    println!("      alerts: {:?}", prometheus.alerts().await.unwrap_or_default());
    let shown = format!("{} s after the gateway broke", broken_at.elapsed().as_secs());
    let shown = if woken { shown } else { "it did not fire".to_owned() };
    figures.holds("the alert BreakerOpen, by Prometheus on real metrics", shown, "≤ 150 s", Holds(woken));
}

/// What its page says, and its commands.
async fn runbook(figures: &mut Figures, night: &Night, visitor: &mut Visitor) {
    let page = visitor.open("/ui/runbooks/BreakerOpen").await;
    let says = page.status == 200 && page.text.contains("<code>punctual gateway list</code>");
    figures.holds("the runbook's page names its command", says, "true", Holds(says));
    let listed = night.command(&["gateway", "list"]).await;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let shown = text.lines().find(|line| line.contains("sandbox")).unwrap_or("nothing").trim().to_owned();
    let holds = Holds(listed.status.success() && text.contains("open"));
    figures.holds("punctual gateway list", shown, "the breaker is open", holds);
    let examined = night.command(&["doctor", "-o", "json"]).await;
    let findings: Value = serde_json::from_slice(&examined.stdout).unwrap_or_default();
    let named = findings.as_array().into_iter().flatten().find(|finding| finding["runbook"] == "BreakerOpen");
    let shown = named.map_or_else(|| "not named".to_owned(), |finding| finding["saw"].to_string());
    figures.holds("punctual doctor", shown, "it names the breaker", Holds(named.is_some()));
}

/// By the gateway's own ledger.
async fn once_each(figures: &mut Figures, night: &Night, payments: usize) {
    let asked = night.http.get(format!("{}/ledger/summary", night.dev.value("SANDBOX_URL"))).send().await;
    let text = asked.expect("the sandbox answers").text().await.expect("a body");
    let summary: Value = serde_json::from_str(&text).unwrap_or_default();
    let (charges, twice) = (summary["charges"].as_u64(), summary["paymentsChargedMoreThanOnce"].as_u64());
    let shown = format!("{} charges, {} payments twice", charges.unwrap_or(0), twice.unwrap_or(u64::MAX));
    let holds = charges == u64::try_from(payments).ok() && twice == Some(0);
    figures.holds("the gateway's own ledger", shown, &format!("{payments}, none twice"), Holds(holds));
}

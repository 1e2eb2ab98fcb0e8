//! A real browser: Chromium, asked through its own driver as the WebDriver specification has it, with the few
//! commands of its DevTools that the specification does not know.
//!
//! The driver and its browsers end with the value, also where a test breaks off. No name is looked up but this machine's number, and what the
//! browser would do of its own accord is switched off.

use super::eventually;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// By the name that systems give it; `CHROMEDRIVER` names another.
const NAME: &str = "chromedriver";
/// Longest for one command; scripts that wait have less.
const PATIENCE: Duration = Duration::from_secs(60);
/// How the specification names an element in JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The keys without a character, as the specification numbers them.
pub const ENTER: &str = "\u{e007}";
/// See [`ENTER`].
pub const TAB: &str = "\u{e004}";
/// See [`ENTER`].
pub const ESCAPE: &str = "\u{e00c}";
/// Held with the next key.
pub const SHIFT: &str = "\u{e008}";

/// The running driver.
#[derive(Debug)]
pub struct Driver {
    child: Child,
    url: String,
    http: reqwest::Client,
}

impl Drop for Driver {
    /// Its browsers are of its group, and would outlive it.
    fn drop(&mut self) {
        let group = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group {
            let _gone = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Driver {
    /// Starts it; `None` where there is none.
    pub async fn start() -> Option<Self> {
        let name = std::env::var("CHROMEDRIVER").unwrap_or_else(|_| NAME.to_owned());
        let port = punctual::dev::ports::free();
        let mut command = Command::new(name);
        command
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.process_group(0).spawn().ok()?;
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
        let driver = Self { child, url: format!("http://127.0.0.1:{port}"), http };
        let status = format!("{}/status", driver.url);
        eventually("the driver is ready", Duration::from_secs(20), || async {
            let answer = driver.http.get(&status).send().await.ok()?;
            let said: Value = serde_json::from_str(&answer.text().await.ok()?).ok()?;
            (said["value"]["ready"] == true).then_some(())
        })
        .await;
        Some(driver)
    }

    /// A browser that knows nothing yet, with this size of its pages.
    pub async fn open(&self, width: u32, height: u32) -> Window {
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-extensions",
            "--disable-sync",
            "--no-first-run",
            "--no-proxy-server",
            "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ];
        let asked = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "timeouts": {"script": 50_000},
        }}});
        let made = ask(&self.http, "POST", &format!("{}/session", self.url), &asked).await;
        let id = made["sessionId"].as_str().expect("a session").to_owned();
        let version = made["capabilities"]["browserVersion"].as_str().unwrap_or("?").to_owned();
        let window = Window { http: self.http.clone(), url: format!("{}/session/{id}", self.url), version };
        window.size(width, height).await;
        window
    }
}

async fn ask(http: &reqwest::Client, method: &str, url: &str, body: &Value) -> Value {
    let request = http.request(method.parse().expect("a method"), url);
    let request =
        if method == "GET" || method == "DELETE" { request } else { request.body(body.to_string()) };
    let answer = request.header("Content-Type", "application/json").send().await.expect("the driver answers");
    let (status, text) = (answer.status(), answer.text().await.expect("a body"));
    assert!(status.is_success(), "{method} {url} {body:.200}: {text:.600}");
    let said: Value = serde_json::from_str(&text).expect("JSON");
    said["value"].clone()
}

/// One browser with one page.
#[derive(Debug)]
pub struct Window {
    http: reqwest::Client,
    url: String,
    /// Of the browser.
    pub version: String,
}

/// A request that a page made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Whole.
    pub url: String,
    /// `Document`, `XHR`, `EventSource`, …
    pub kind: String,
}

impl Window {
    async fn post(&self, what: &str, body: &Value) -> Value {
        ask(&self.http, "POST", &format!("{}/{what}", self.url), body).await
    }

    async fn get(&self, what: &str) -> Value {
        ask(&self.http, "GET", &format!("{}/{what}", self.url), &Value::Null).await
    }

    /// Opens a page and waits until it is loaded.
    pub async fn go(&self, url: &str) {
        self.post("url", &json!({ "url": url })).await;
    }

    /// Where it is.
    pub async fn at(&self) -> String {
        self.get("url").await.as_str().unwrap_or_default().to_owned()
    }

    /// Runs a script's body and gives what it returns; also where pages run none.
    pub async fn run(&self, script: &str, args: &[Value]) -> Value {
        self.post("execute/sync", &json!({ "script": script, "args": args })).await
    }

    /// The same of one that calls its last argument with its answer.
    pub async fn run_until_told(&self, script: &str) -> Value {
        self.post("execute/async", &json!({ "script": script, "args": [] })).await
    }

    /// A text that a script gives.
    pub async fn text(&self, script: &str) -> String {
        self.run(script, &[]).await.as_str().unwrap_or_default().to_owned()
    }

    /// Whether a script gives true.
    pub async fn is(&self, script: &str) -> bool {
        self.run(script, &[]).await == true
    }

    /// Waits until a script gives true.
    pub async fn until(&self, what: &str, within: Duration, script: &str) {
        eventually(what, within, || async { self.is(script).await.then_some(()) }).await;
    }

    /// A command of the browser's own.
    pub async fn command(&self, name: &str, parameters: Value) -> Value {
        self.post("goog/cdp/execute", &json!({ "cmd": name, "params": parameters })).await
    }

    /// Presses keys on the keyboard, one after the other, wherever the focus is.
    pub async fn press(&self, keys: &str) {
        let mut actions = Vec::new();
        let mut held = false;
        for key in keys.chars() {
            let key = key.to_string();
            actions.push(json!({ "type": "keyDown", "value": key }));
            if key == SHIFT {
                held = true;
                continue;
            }
            actions.push(json!({ "type": "keyUp", "value": key }));
            if std::mem::take(&mut held) {
                actions.push(json!({ "type": "keyUp", "value": SHIFT }));
            }
        }
        let keyboard = json!([{ "type": "key", "id": "keyboard", "actions": actions }]);
        self.post("actions", &json!({ "actions": keyboard })).await;
    }

    /// Does as a hand with a mouse would: clicks what a selector finds first.
    ///
    /// # Panics
    /// It finds nothing.
    pub async fn click(&self, selector: &str) {
        let element = self.find(selector).await;
        self.post(&format!("element/{element}/click"), &json!({})).await;
    }

    /// Clicks what leads to another page, and waits until that is there.
    pub async fn follow(&self, selector: &str) {
        self.run("window.left = true", &[]).await;
        self.click(selector).await;
        let there = "return window.left === undefined && document.readyState === 'complete'";
        self.until("the next page is there", Duration::from_secs(15), there).await;
    }

    /// Types into the field that a selector finds first, in place of what is there.
    ///
    /// # Panics
    /// It finds none.
    pub async fn fill(&self, selector: &str, text: &str) {
        let element = self.find(selector).await;
        self.post(&format!("element/{element}/clear"), &json!({})).await;
        self.post(&format!("element/{element}/value"), &json!({ "text": text })).await;
    }

    async fn find(&self, selector: &str) -> String {
        let found = self.post("element", &json!({ "using": "css selector", "value": selector })).await;
        found[ELEMENT].as_str().expect("an element").to_owned()
    }

    /// Lines of its console since they were asked for last; what is only a hint is none.
    pub async fn console(&self) -> Vec<String> {
        let lines = self.post("se/log", &json!({ "type": "browser" })).await;
        let lines = lines.as_array().cloned().unwrap_or_default();
        let is_meant = |line: &&Value| !matches!(line["level"].as_str(), Some("DEBUG" | "INFO"));
        lines.iter().filter(is_meant).map(|line| line["message"].to_string()).collect()
    }

    /// Requests that its pages made since they were asked for last.
    pub async fn asked(&self) -> Vec<Asked> {
        let lines = self.post("se/log", &json!({ "type": "performance" })).await;
        let events = lines.as_array().cloned().unwrap_or_default();
        let events = events.iter().filter_map(|line| {
            serde_json::from_str::<Value>(line["message"].as_str()?)
                .ok()
                .map(|event| event["message"].clone())
        });
        let sent = events.filter(|event| event["method"] == "Network.requestWillBeSent");
        let asked = sent.map(|event| Asked {
            url: event["params"]["request"]["url"].as_str().unwrap_or_default().to_owned(),
            kind: event["params"]["type"].as_str().unwrap_or_default().to_owned(),
        });
        asked.filter(|asked| !asked.url.starts_with("data:")).collect()
    }

    /// The size of its pages, whatever the window's own frame takes.
    pub async fn size(&self, width: u32, height: u32) {
        let screen =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.command("Emulation.setDeviceMetricsOverride", screen).await;
    }

    /// What is seen of the page, as PNG.
    pub async fn picture(&self) -> Vec<u8> {
        let picture = self.get("screenshot").await;
        STANDARD.decode(picture.as_str().unwrap_or_default()).expect("base64")
    }

    /// Hides the page, as a tab behind others is.
    pub async fn hide(&self) {
        self.post("window/minimize", &json!({})).await;
        self.until("the page is hidden", Duration::from_secs(10), "return document.hidden").await;
    }

    /// Shows it again.
    pub async fn show(&self) {
        self.post("window/rect", &json!({ "width": 1440, "height": 900 })).await;
        self.until("the page is seen", Duration::from_secs(10), "return !document.hidden").await;
    }

    /// Whether pages may run scripts of their own, from the next page on.
    pub async fn scripts(&self, may: Scripts) {
        let off = may == Scripts::Off;
        self.command("Emulation.setScriptExecutionDisabled", json!({ "value": off })).await;
    }

    /// A cookie of the page's host.
    pub async fn cookie(&self, name: &str, value: &str, path: &str) {
        let cookie = json!({ "name": name, "value": value, "path": path });
        self.post("cookie", &json!({ "cookie": cookie })).await;
    }

    /// Ends the browser.
    pub async fn close(self) {
        ask(&self.http, "DELETE", &self.url, &Value::Null).await;
    }
}

/// Do pages run scripts?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripts {
    /// As in most browsers.
    On,
    /// Switched off.
    Off,
}

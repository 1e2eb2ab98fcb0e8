//! `/docs` in a browser without a network: every operation of the document is shown, nothing is loaded from
//! elsewhere, nothing is complained of.
//!
//! The browser is Chromium by its command line: what the page became (`--dump-dom`), how it looks
//! (`--screenshot`), what it asked whom for (`--log-net-log`) and what it wrote to its console. Another page,
//! which loads from elsewhere and complains, shows that both would be seen.

use crate::figures::{Figures, Holds, Verdict};
use crate::support::api::Api;
use crate::support::installation::PUNCTUAL;
use crate::support::stub::{Reply, Stub};
use punctual::intake::operations;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// By the names that systems give it; `CHROMIUM` names another.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// No name is looked up but this machine's number.
const NOWHERE: &str = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1";
/// What the browser would do of its own accord is switched off.
const QUIET: [&str; 13] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
    "--no-proxy-server",
    "--hide-scrollbars",
];
const LONGEST: Duration = Duration::from_secs(90);

/// What a page did.
#[derive(Debug)]
struct Seen {
    /// What it became.
    dom: String,
    /// Lines of its console.
    console: Vec<String>,
    /// Addresses that it asked this machine for.
    here: Vec<String>,
    /// Addresses that it asked anybody else for.
    elsewhere: Vec<String>,
}

/// Shows the page, and one that is not as it should be.
pub async fn every_operation_is_shown_and_nothing_comes_from_elsewhere(figures: &mut Figures) {
    figures.part("/docs in Chromium, with the network off");
    let Some((chromium, version)) = browser().await else {
        let hint = "no Chromium; apt-get install chromium";
        return figures.line("the browser", hint, "it shows the page", Verdict::Unknown);
    };
    println!("  {version}");
    let api = Api::start(|_| {}).await;
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("docs.png");
    let seen = shown(&chromium, folder.path(), &format!("{}/docs/", api.url), Some(&picture)).await;
    let all = operations();
    let opened = |id: &str, tag: &str| seen.dom.contains(&format!("id=\"operations-{tag}-{id}\""));
    let missing: Vec<&str> = all.iter().filter(|it| !opened(it.id, it.tag)).map(|it| it.id).collect();
    let blocks = seen.dom.matches("class=\"opblock opblock-").count();
    let shown_are = format!("{blocks} shown, {} of the document missing", missing.len());
    let holds = blocks == all.len() && missing.is_empty();
    figures.holds("operations", shown_are, &format!("{} of the document", all.len()), Holds(holds));
    for id in missing {
        println!("      missing: {id}");
    }
    figures.met("requests to this process", seen.here.len());
    let witnesses = &seen.elsewhere[..seen.elsewhere.len().min(5)];
    let asked = seen.here.len() + seen.elsewhere.len();
    figures.violations("requests to anybody else", asked, seen.elsewhere.len(), witnesses);
    let lines = seen.console.len();
    figures.holds("lines in the console", lines, "0", Holds(lines == 0));
    for line in &seen.console {
        println!("      {line}");
    }
    match kept(&picture) {
        Some((path, bytes)) => {
            let holds = bytes > 20_000;
            figures.holds("its picture", format!("{bytes} bytes"), "more than 20,000", Holds(holds));
            println!("      {}", path.display());
        }
        None => figures.line("its picture", "none", "one", Verdict::FallsShort),
    }
    a_bad_page_is_seen(figures, &chromium).await;
}

/// The same look at a page that loads from elsewhere and complains.
async fn a_bad_page_is_seen(figures: &mut Figures, chromium: &Path) {
    let page = Stub::start(|_, _| Reply {
        status: 200,
        headers: vec![("content-type", "text/html".to_owned())],
        body: "<body><script src=\"http://elsewhere.invalid/x.js\"></script>\
               <script>console.error(\"as it should not\")</script></body>"
            .to_owned(),
    })
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    let seen = shown(chromium, folder.path(), &format!("{}/", page.url), None).await;
    let elsewhere = seen.elsewhere.iter().filter(|it| it.contains("elsewhere.invalid")).count();
    let complaints = seen.console.iter().filter(|line| line.contains("as it should not")).count();
    figures.met("of a page that asks elsewhere, this is seen", elsewhere);
    figures.met("of a page that complains, this is seen", complaints);
}

async fn browser() -> Option<(PathBuf, String)> {
    let named = std::env::var("CHROMIUM").ok();
    for name in named.iter().map(String::as_str).chain(NAMES) {
        if let Ok(output) = Command::new(name).arg("--version").output().await
            && output.status.success()
        {
            return Some((name.into(), String::from_utf8_lossy(&output.stdout).trim().to_owned()));
        }
    }
    None
}

/// Opens a page in a browser that knows nothing yet, and looks at it when it has settled.
async fn shown(chromium: &Path, folder: &Path, url: &str, picture: Option<&Path>) -> Seen {
    let log = folder.join("net.json");
    let dom = look(chromium, folder, url, &["--dump-dom", &format!("--log-net-log={}", log.display())]).await;
    if let Some(picture) = picture {
        look(chromium, folder, url, &[&format!("--screenshot={}", picture.display())]).await;
    }
    let written = std::fs::read_to_string(&log).unwrap_or_default();
    let (here, elsewhere) = asked(&written, url);
    let console = dom.1.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    Seen { dom: dom.0, console, here, elsewhere }
}

/// What it printed and said.
async fn look(chromium: &Path, folder: &Path, url: &str, what: &[&str]) -> (String, String) {
    let mut command = Command::new(chromium);
    command.args(QUIET).arg(NOWHERE).arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command.args(["--enable-logging=stderr", "--virtual-time-budget=20000", "--window-size=1400,4200"]);
    command.args(what).arg(url).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(LONGEST, command.output()).await.expect("the browser ends");
    let output = output.expect("the browser runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The addresses that a page asked for, this machine's and others': requests that name their initiator are a
/// page's. One event stands on each line, and a log that broke off has no end.
fn asked(log: &str, page: &str) -> (Vec<String>, Vec<String>) {
    let origin = page.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
    for line in log.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line.trim().trim_end_matches(',')) else { continue };
        let of = |name: &str| event["params"][name].as_str().unwrap_or_default().to_owned();
        let (url, initiator) = (of("url"), of("initiator"));
        if url.is_empty() || initiator != origin {
            continue;
        }
        let ours = url.starts_with(&format!("{origin}/"));
        let places = if ours { &mut here } else { &mut elsewhere };
        if !places.contains(&url) {
            places.push(url);
        }
    }
    (here, elsewhere)
}

/// Puts the picture beside the builds, where it stays.
fn kept(picture: &Path) -> Option<(PathBuf, u64)> {
    let target = Path::new(PUNCTUAL).parent().and_then(Path::parent)?;
    let path = target.join("evidence").join("docs.png");
    std::fs::create_dir_all(path.parent()?).ok()?;
    let bytes = std::fs::copy(picture, &path).ok()?;
    Some((path, bytes))
}

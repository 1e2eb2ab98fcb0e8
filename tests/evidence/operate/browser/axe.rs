//! Every page in both themes, with everything opened that can be: axe-core finds nothing, the console is silent, the
//! policy of the pages is not broken, nobody else is asked for anything; and a picture of each is kept.
//!
//! axe-core is fetched with npm in one pinned version, held against its checksum, and kept beside the builds. It is
//! put into the page by the driver, whom the page's policy does not bind: the pages are looked at as they are served.
//! A page made worse on purpose shows that it would be seen.

use super::lively::Lively;
use super::{DESK, PHONE, log_in, picture};
use crate::figures::{Figures, Holds, Verdict};
use crate::support::installation::PUNCTUAL;
use crate::support::webdriver::Window;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha512};
use std::path::Path;
use std::process::Command;

const PACKAGE: &str = "axe-core@4.10.3";
const ARCHIVE: &str = "axe-core-4.10.3.tgz";
/// As the registry names it, of exactly that version.
const SHA512: &str =
    "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg==";
const SCRIPT: &str = "package/axe.min.js";

const THEMES: [&str; 2] = ["light", "dark"];
/// Everything that its rules know, best practices included.
const LOOK: &str = "const told = arguments[arguments.length - 1];
    axe.run(document, { resultTypes: ['violations'] }).then(
        (seen) => told(seen.violations.flatMap((it) => it.nodes.map((node) =>
            `${it.id} (${it.impact}): ${node.target.join(' ')}: ${node.failureSummary || ''}`.slice(0, 400)))),
        (error) => told([`axe broke off: ${error}`]));";
const OPEN_ALL: &str = "document.querySelectorAll('details').forEach((it) => { it.open = true; })";

/// The engine's text, or why there is none.
pub(super) fn fetched() -> Result<String, String> {
    let folder =
        Path::new(PUNCTUAL).parent().and_then(Path::parent).ok_or("no folder of builds")?.join("evidence");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let run = |program: &str, arguments: &[&str]| {
        let ran = Command::new(program).args(arguments).current_dir(&folder).output();
        let ran = ran.map_err(|error| format!("{program}: {error}"))?;
        let said = String::from_utf8_lossy(&ran.stderr).lines().last().unwrap_or_default().to_owned();
        if ran.status.success() { Ok(ran.stdout) } else { Err(format!("{program}: {said}")) }
    };
    let archive = folder.join(ARCHIVE);
    if !archive.exists() {
        run("npm", &["pack", "--silent", PACKAGE])?;
    }
    let bytes = std::fs::read(&archive).map_err(|error| format!("{ARCHIVE}: {error}"))?;
    let found = STANDARD.encode(Sha512::digest(&bytes));
    if found != SHA512 {
        return Err(format!("{ARCHIVE} is not what it was: sha512-{found}"));
    }
    let script = run("tar", &["xzOf", ARCHIVE, SCRIPT])?;
    String::from_utf8(script).map_err(|error| error.to_string())
}

/// What was seen on the way.
#[derive(Debug, Default)]
struct Seen {
    looks: usize,
    violations: Vec<String>,
    console: Vec<String>,
    here: usize,
    elsewhere: Vec<String>,
    pictures: usize,
    empty: Vec<String>,
}

impl Seen {
    /// A page that is open: as it came, and with everything opened.
    async fn look(&mut self, window: &Window, axe: &str, what: &str) {
        window.run(axe, &[]).await;
        for stage in ["", " with everything opened"] {
            let found = window.run_until_told(LOOK).await;
            let found = found.as_array().cloned().unwrap_or_default();
            self.violations
                .extend(found.iter().map(|it| format!("{what}{stage}: {}", it.as_str().unwrap_or("?"))));
            self.looks += 1;
            window.run(OPEN_ALL, &[]).await;
        }
    }

    async fn keep(&mut self, window: &Window, name: &str, size: (u32, u32)) {
        match picture(window, name, size).await {
            Holds(true) => self.pictures += 1,
            Holds(false) => self.empty.push(name.to_owned()),
        }
    }

    /// What the browser says of the page that is open.
    async fn heard(&mut self, window: &Window, what: &str, ours: &str) {
        self.console.extend(window.console().await.into_iter().map(|line| format!("{what}: {line}")));
        for asked in window.asked().await {
            if asked.url.starts_with(&format!("{ours}/")) {
                self.here += 1;
            } else {
                self.elsewhere.push(format!("{what}: {}", asked.url));
            }
        }
    }

    fn told(self, figures: &mut Figures, pages: usize) {
        let first = |all: &[String]| all[..all.len().min(12)].to_vec();
        figures.met("pages opened, each in both themes", pages);
        figures.violations(
            "what axe-core finds (everything opened, too)",
            self.looks,
            self.violations.len(),
            &first(&self.violations),
        );
        let lines = self.console.len();
        figures.holds("lines in the console, breaches of the policy included", lines, "0", Holds(lines == 0));
        first(&self.console).iter().for_each(|line| println!("      {line}"));
        let asked = self.here + self.elsewhere.len();
        figures.violations("requests to anybody else", asked, self.elsewhere.len(), &first(&self.elsewhere));
        let all = self.pictures + self.empty.len();
        figures.violations("pictures that show nothing", all, self.empty.len(), &first(&self.empty));
    }
}

/// Opens each page in each theme and looks.
pub(super) async fn every_page_in_both_themes(
    figures: &mut Figures,
    site: &Lively,
    window: &Window,
    pages: &[(String, String)],
    axe: Result<&str, &String>,
) {
    let axe = match axe {
        Ok(axe) => axe,
        Err(why) => return figures.line("axe-core", why, "fetched with npm", Verdict::Unknown),
    };
    let mut seen = Seen::default();
    for theme in THEMES {
        window.go(&format!("{}/ui/login", site.url())).await;
        window.cookie("punctual_theme", theme, "/ui").await;
        window.go(&format!("{}/ui/login", site.url())).await;
        seen.keep(window, &format!("login-{theme}"), DESK).await;
        seen.look(window, axe, &format!("login {theme}")).await;
        seen.heard(window, "login", site.url()).await;
        log_in(window, site.url(), site.key()).await;
        for (name, path) in pages {
            let what = format!("{name} {theme}");
            window.go(&format!("{}{path}", site.url())).await;
            settled(window).await;
            seen.keep(window, &format!("{name}-{theme}"), DESK).await;
            if theme == "light" {
                window.size(PHONE.0, PHONE.1).await;
                seen.keep(window, &format!("{name}-phone"), PHONE).await;
                window.size(DESK.0, DESK.1).await;
            }
            seen.look(window, axe, &what).await;
            seen.heard(window, &what, site.url()).await;
        }
        help(window).await;
        seen.look(window, axe, &format!("help {theme}")).await;
        window.run("document.querySelector('#help').close()", &[]).await;
    }
    seen.told(figures, pages.len());
    a_bad_page_is_seen(figures, window, site, axe).await;
}

/// The pages while claims are held: the way out, and the banner on every page.
pub(super) async fn in_quarantine(
    figures: &mut Figures,
    site: &Lively,
    window: &Window,
    axe: Result<&str, &String>,
) {
    let Ok(axe) = axe else { return };
    site.quarantine().await;
    let mut seen = Seen::default();
    log_in(window, site.url(), site.key()).await;
    for theme in THEMES {
        window.cookie("punctual_theme", theme, "/ui").await;
        for (name, path) in [("quarantined", "/ui/quarantine"), ("overview-quarantined", "/ui")] {
            window.go(&format!("{}{path}", site.url())).await;
            settled(window).await;
            seen.keep(window, &format!("{name}-{theme}"), DESK).await;
            seen.look(window, axe, &format!("{name} {theme}")).await;
            seen.heard(window, name, site.url()).await;
        }
    }
    figures.part("The same while claims are held");
    seen.told(figures, 2);
}

/// Charts are drawn and the stream is heard.
async fn settled(window: &Window) {
    let script =
        "return document.readyState === 'complete' && document.getElementById('live').textContent === 'live'";
    window.until("the page is live", super::SOON, script).await;
}

async fn help(window: &Window) {
    window.run("document.activeElement.blur()", &[]).await;
    window.press("?").await;
    window.until("the help is open", super::SOON, "return document.getElementById('help').open").await;
}

/// Texts without contrast, a field without a name, a script of the page's own making, somebody else's picture.
async fn a_bad_page_is_seen(figures: &mut Figures, window: &Window, site: &Lively, axe: &str) {
    window.go(&format!("{}/ui/payments", site.url())).await;
    window.console().await;
    window.asked().await;
    let worse = "const page = document.getElementById('page');
        const head = page.querySelector('h1').style;
        head.color = 'rgb(130, 130, 130)'; head.backgroundColor = 'rgb(120, 120, 120)';
        const field = document.createElement('input'); page.append(field);
        const picture = document.createElement('img'); picture.src = 'http://127.0.0.1:9/x.png'; page.append(picture);
        const script = document.createElement('script'); script.textContent = 'window.own = 1'; page.append(script);";
    window.run(worse, &[]).await;
    let mut seen = Seen::default();
    seen.look(window, axe, "a bad page").await;
    seen.heard(window, "a bad page", site.url()).await;
    let found = |rule: &str| seen.violations.iter().filter(|it| it.contains(rule)).count();
    figures.met("of a page with bad contrast, this is seen", found("color-contrast"));
    figures.met("of a field without a name, this is seen", found("label"));
    figures.met("of breaches of the policy, this is seen", seen.console.len());
}

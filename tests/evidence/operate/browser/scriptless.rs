//! Without scripts: every page is read, and every act that the routes know is a plain form somewhere; a round of them
//! is carried out, with what each comes to.

use super::DESK;
use super::lively::Lively;
use crate::figures::{Figures, Holds};
use crate::support::webdriver::{Driver, Scripts, Window};
use std::collections::BTreeSet;

/// Forms of the page that is open: where each posts to.
const FORMS: &str = "return [...document.querySelectorAll('form[method=post]')].filter((form) =>
    form.querySelector('button')).map((form) => form.getAttribute('action'))";

/// A walk that collects forms.
struct Walk<'a> {
    site: &'a Lively,
    window: Window,
    forms: BTreeSet<String>,
    unread: Vec<String>,
    pages: usize,
}

impl Walk<'_> {
    /// Opens a page and reads it.
    async fn open(&mut self, path: &str) {
        self.window.go(&format!("{}{path}", self.site.url())).await;
        self.read(path).await;
    }

    async fn read(&mut self, path: &str) {
        let ran = self.window.is("return document.documentElement.classList.contains('script')").await;
        let reads = "const page = document.getElementById('page');
            return !!page && !!page.querySelector('h1') && page.innerText.trim().length > 60";
        self.pages += 1;
        if ran || !self.window.is(reads).await {
            self.unread.push(path.to_owned());
        }
        let found = self.window.run(FORMS, &[]).await;
        let found = found.as_array().cloned().unwrap_or_default();
        self.forms.extend(found.iter().filter_map(|way| way.as_str()).map(pattern));
    }

    /// Opens the form that posts there, gives a reason and sends it; what the next page says.
    async fn act(&mut self, action: &str) -> String {
        let form = format!("form[action=\"{action}\"]");
        self.window.click(&format!("details.act:has({form}) > summary")).await;
        self.window.fill(&format!("{form} input[name=reason]"), "a round without scripts").await;
        self.send(&form).await
    }

    async fn send(&mut self, form: &str) -> String {
        self.window.follow(&format!("{form} button")).await;
        self.read(form).await;
        let said = "const said = document.querySelector('.said');
            return said ? said.className.replace('said ', '') + ': ' + said.querySelector('strong').textContent : 'nothing'";
        self.window.text(said).await
    }
}

/// `/ui/payments/01a2…/cancel` is of `/ui/payments/{id}/cancel`.
fn pattern(way: &str) -> String {
    let parts: Vec<&str> = way.split('/').collect();
    let named = |(place, part): (usize, &&str)| {
        let before = place.checked_sub(1).and_then(|at| parts.get(at)).copied().unwrap_or_default();
        let is_one = matches!(before, "payments" | "approvals" | "bulks" | "gateways" | "items");
        if is_one { "{id}".to_owned() } else { (*part).to_owned() }
    };
    parts.iter().enumerate().map(named).collect::<Vec<_>>().join("/")
}

/// The whole round.
pub(super) async fn everything_without_scripts(figures: &mut Figures, site: &Lively, driver: &Driver) {
    figures.part("Without scripts");
    let window = driver.open(DESK.0, DESK.1).await;
    window.scripts(Scripts::Off).await;
    let mut walk = Walk { site, window, forms: BTreeSet::new(), unread: Vec::new(), pages: 0 };
    walk.window.go(&format!("{}/ui/login", site.url())).await;
    let found = walk.window.run(FORMS, &[]).await;
    walk.forms.extend(found.as_array().into_iter().flatten().filter_map(|way| way.as_str()).map(pattern));
    walk.window.fill("#key", site.key()).await;
    walk.window.follow("form[action='/ui/login'] button").await;
    for (_, path) in site.pages().await {
        walk.open(&path).await;
    }
    let mut said = Vec::new();
    for act in ["pause", "resume"] {
        walk.open("/ui/gateways").await;
        said.push(walk.act(&format!("/ui/gateways/sandbox/{act}")).await);
    }
    let id = site.releasable().await;
    walk.open(&format!("/ui/payments/{id}")).await;
    said.push(walk.act(&format!("/ui/payments/{id}/payee")).await);
    walk.open(&format!("/ui/payments/{id}")).await;
    said.push(walk.act(&format!("/ui/payments/{id}/redrive")).await);
    said.extend(many(&mut walk).await);
    let approval = approval(&walk).await;
    walk.open(&approval).await;
    said.push(walk.act(&format!("{approval}/reject")).await);
    walk.open("/ui/quarantine").await;
    said.push(walk.act("/ui/quarantine").await);
    walk.open("/ui/quarantine").await;
    said.push(walk.act("/ui/quarantine/release").await);
    let theme = walk.window.text("return document.documentElement.dataset.theme").await;
    walk.window.follow("#theme button:not(.in-dark)").await;
    let other = walk.window.text("return document.documentElement.dataset.theme").await;
    walk.window.follow("form[action='/ui/logout'] button").await;
    let left = walk.window.at().await.ends_with("/ui/login");

    figures.violations("pages that cannot be read", walk.pages, walk.unread.len(), &walk.unread);
    let expected = [
        ("pause a gateway", "done"),
        ("resume it", "done"),
        ("show a payee", "nothing"),
        ("release a payment", "done"),
        ("make a bulk action of a row that was ticked", "done"),
        ("start one", "done"),
        ("stop it", "done"),
        ("reject what somebody asked for", "done"),
        ("quarantine", "done"),
        ("release it while reports are missing", "answer"),
    ];
    for ((act, tone), said) in expected.into_iter().zip(&said) {
        figures.holds(act, said, tone, Holds(said.starts_with(tone)));
    }
    figures.holds("the other theme", format!("{theme}, then {other}"), "another", Holds(theme != other));
    figures.holds("log out", if left { "yes" } else { "no" }, "yes", Holds(left));
    routes(figures, &walk.forms);
    walk.window.close().await;
}

/// Ticks a row and makes a bulk action of it; starts and stops the one that takes a while.
async fn many(walk: &mut Walk<'_>) -> [String; 3] {
    walk.open("/ui/parked").await;
    walk.window.click("#page tbody input[type=checkbox]").await;
    walk.window.fill("form[action='/ui/bulks'] input[name=reason]", "one by one").await;
    let made = walk.send("form[action='/ui/bulks'] .fields").await;
    let path = format!("/ui/bulks/{}", walk.site.slow_bulk().await);
    walk.open(&path).await;
    let started = walk.act(&format!("{path}/start")).await;
    let stopped = walk.act(&format!("{path}/stop")).await;
    [made, started, stopped]
}

/// The page of one that somebody else asked for.
async fn approval(walk: &Walk<'_>) -> String {
    walk.window.go(&format!("{}/ui/approvals", walk.site.url())).await;
    walk.window
        .text("return document.querySelector('#page table a[href*=\"/ui/approvals/\"]').getAttribute('href')")
        .await
}

/// Every act of the list of routes was met as a form.
fn routes(figures: &mut Figures, forms: &BTreeSet<String>) {
    let posts: Vec<&str> = punctual::dashboard::ROUTES
        .iter()
        .filter(|route| route.method == "post")
        .map(|route| route.path)
        .collect();
    let missing: Vec<String> =
        posts.iter().filter(|path| !forms.contains(**path)).map(|path| (*path).to_owned()).collect();
    figures.violations("acts of which no page had a plain form", posts.len(), missing.len(), &missing);
}

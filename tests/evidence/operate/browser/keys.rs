//! From the log-in to the log-out by keyboard alone: looked for, opened, decided about with a reason, helped, shown
//! anew. The page itself counts what a mouse would do: nothing.

use super::lively::Lively;
use super::{DESK, SOON};
use crate::figures::{Figures, Holds};
use crate::support::webdriver::{Driver, ENTER, ESCAPE, SHIFT, TAB, Window};
use serde_json::json;

/// From the content's beginning to the first payment of a list, at most so many presses.
const NEAR: usize = 14;
/// Nobody presses more often than that.
const FAR: usize = 60;
const COUNT: &str = "for (const kind of ['pointerdown', 'mousedown', 'mousemove', 'touchstart', 'wheel'])
    addEventListener(kind, () => sessionStorage.setItem('mouse', 1 + Number(sessionStorage.getItem('mouse'))), true)";

/// The whole way.
pub(super) async fn the_way_by_keyboard(figures: &mut Figures, site: &Lively, driver: &Driver) {
    figures.part("By keyboard alone");
    let window = driver.open(DESK.0, DESK.1).await;
    window.command("Page.addScriptToEvaluateOnNewDocument", json!({ "source": COUNT })).await;
    let id = site.releasable().await;
    window.go(&format!("{}/ui/payments?q=status:PARKED", site.url())).await;
    let is_ready = window.is("return document.activeElement.id === 'key'").await;
    figures.holds("the log-in has the focus in its field", word(is_ready), "yes", Holds(is_ready));
    window.press(&format!("{}{ENTER}", site.key())).await;
    let there = "return location.pathname === '/ui/payments' && location.search.includes('PARKED')";
    window.until("the log-in leads on to what was asked for", SOON, there).await;

    window.press("/").await;
    let found = window.is("return document.activeElement.id === 'search'").await;
    figures.holds("/ goes to the search", word(found), "yes", Holds(found));
    window.press(&format!("status:PARKED id:{id}{ENTER}")).await;
    let listed = format!(
        "return document.querySelectorAll('#page table a.id').length === 1 && !!document.querySelector('a[href$=\"{id}\"]')"
    );
    window.until("the search finds it", SOON, &listed).await;

    // Past the navigation, and on to the first payment.
    window.press(TAB).await;
    let skips = window.is("return document.activeElement.matches('a.skip')").await;
    figures.holds("the first stop skips to the content", word(skips), "yes", Holds(skips));
    window.press(ENTER).await;
    let on_it = "return document.activeElement.matches('#page table a.id')";
    let pressed = tabs(&window, TAB, on_it).await;
    figures.holds(
        "presses from there to the first payment",
        pressed,
        &format!("≤ {NEAR}"),
        Holds(pressed <= NEAR),
    );
    window.press(ENTER).await;
    let opened = format!("return location.pathname === '/ui/payments/{id}'");
    window.until("the payment is open", SOON, &opened).await;

    released(figures, site, &window, &id).await;
    shown_anew(figures, &window).await;
    let on_leave = "return document.activeElement.textContent.trim() === 'Log out'";
    // The header stands before the content.
    window.run("document.getElementById('page').focus()", &[]).await;
    let pressed = tabs(&window, &format!("{SHIFT}{TAB}"), on_leave).await;
    window.press(ENTER).await;
    window.until("nobody is logged in", SOON, "return location.pathname === '/ui/login'").await;
    figures.holds(
        "presses back to the log-out, which ends it",
        pressed,
        &format!("≤ {FAR}"),
        Holds(pressed <= FAR),
    );
    let mouse = window.text("return sessionStorage.getItem('mouse') || '0'").await;
    figures.holds("events of a mouse on all of these pages", &mouse, "0", Holds(mouse == "0"));
    window.close().await;
}

/// On the page of a payment: to the release, its reason, and what comes of it.
async fn released(figures: &mut Figures, site: &Lively, window: &Window, id: &str) {
    let on_release = "return document.activeElement.matches('summary') && document.activeElement.textContent.startsWith('Release')";
    let pressed = tabs(window, TAB, on_release).await;
    figures.holds("presses on its page to the release", pressed, &format!("≤ {FAR}"), Holds(pressed <= FAR));
    window.press(ENTER).await;
    let in_reason = "return document.activeElement.name === 'reason'";
    tabs(window, TAB, in_reason).await;
    window.press(&format!("the card works again, ticket PAY-1{ENTER}")).await;
    window.until("it says what came of it", SOON, "return !!document.querySelector('#page .said')").await;
    let said = window.text("return document.querySelector('#page .said strong').textContent").await;
    let state = site.status(id).await;
    let is_released = state != "PARKED" && window.is("return !!document.querySelector('.said.done')").await;
    figures.holds(
        "a release with a reason",
        format!("{said} {state}"),
        "not PARKED any more",
        Holds(is_released),
    );
    let told = window.is("return document.getElementById('page').textContent.includes('ticket PAY-1')").await;
    figures.holds("the reason stands in its own history", word(told), "yes", Holds(told));
}

/// `?` and `r`.
async fn shown_anew(figures: &mut Figures, window: &Window) {
    window.press("?").await;
    let is_open = window.is("return document.getElementById('help').open && document.getElementById('help').contains(document.activeElement)").await;
    window.press(ESCAPE).await;
    let is_shut = window.is("return !document.getElementById('help').open").await;
    figures.holds(
        "? opens the help with the focus in it, Esc shuts it",
        word(is_open && is_shut),
        "yes",
        Holds(is_open && is_shut),
    );
    window.run("window.before = document.getElementById('page'); document.querySelector('#page summary').focus()", &[]).await;
    window.press("r").await;
    let is_new = "return document.getElementById('page') !== window.before";
    window.until("r shows the page anew", SOON, is_new).await;
    let kept = window.is("return document.activeElement.matches('#page summary')").await;
    figures.holds("r shows the page anew and the focus stays", word(kept), "yes", Holds(kept));
}

/// Presses until the focus is there; how often.
async fn tabs(window: &Window, key: &str, is_there: &str) -> usize {
    for pressed in 0..=FAR * 2 {
        if window.is(is_there).await {
            return pressed;
        }
        window.press(key).await;
    }
    usize::MAX
}

fn word(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

//! When a page shows itself anew, and when it must not: in a tab that nobody sees, under a hand that is at work, and
//! over a connection that broke. What a page asks for is read in the browser's own record.

use super::lively::Lively;
use super::{DESK, SOON, log_in};
use crate::figures::{Figures, Holds};
use crate::support::proxy::{Fault, Proxy};
use crate::support::webdriver::{Driver, ESCAPE, Window};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Longer than the page of gateways waits before it shows itself anew (5 s).
const WATCHED: Duration = Duration::from_secs(8);
/// The same for the list of what is parked (15 s).
const PICKED: Duration = Duration::from_secs(17);
/// A page that was cut off is live again so soon after the way is free.
const RESUMES: Duration = Duration::from_secs(15);

/// Requests in a while.
async fn asked(window: &Window, a_while: Duration) -> usize {
    window.asked().await;
    sleep(a_while).await;
    window.asked().await.len()
}

async fn live(window: &Window) {
    let script = "return document.getElementById('live').textContent === 'live'";
    window.until("the page is live", SOON, script).await;
}

/// Nothing while hidden; at once when it is seen again.
pub(super) async fn a_hidden_tab_asks_for_nothing(figures: &mut Figures, site: &Lively, driver: &Driver) {
    figures.part("A tab that nobody sees");
    let window = driver.open(DESK.0, DESK.1).await;
    log_in(&window, site.url(), site.key()).await;
    window.go(&format!("{}/ui/gateways", site.url())).await;
    live(&window).await;
    let seen = asked(&window, WATCHED).await;
    figures.met("requests in 8 s while it is seen", seen);
    window.hide().await;
    let hidden = asked(&window, WATCHED).await;
    figures.holds("requests in 8 s while it is hidden", hidden, "0", Holds(hidden == 0));
    window.asked().await;
    let began = Instant::now();
    window.show().await;
    live(&window).await;
    let took = began.elapsed();
    figures.holds(
        "seen again, it is live after",
        format!("{} ms", took.as_millis()),
        "≤ 5000 ms",
        Holds(took < Duration::from_secs(5)),
    );
    sleep(Duration::from_secs(2)).await;
    let kinds: Vec<String> = window.asked().await.into_iter().map(|asked| asked.kind).collect();
    let both = kinds.iter().any(|kind| kind == "EventSource") && kinds.iter().any(|kind| kind == "XHR");
    figures.holds(
        "and it asks for its stream and for itself",
        kinds.join(", "),
        "EventSource and XHR",
        Holds(both),
    );
    window.close().await;
}

/// Rows are ticked, a dialog or a form is open: the page stays as it is.
pub(super) async fn nothing_changes_under_a_hand(figures: &mut Figures, site: &Lively, driver: &Driver) {
    figures.part("A page in which somebody is at work");
    let window = driver.open(DESK.0, DESK.1).await;
    log_in(&window, site.url(), site.key()).await;
    window.go(&format!("{}/ui/gateways", site.url())).await;
    live(&window).await;
    window.press("?").await;
    let with_dialog = pages(&window, WATCHED).await;
    figures.holds("shown anew in 8 s under an open dialog", with_dialog, "0", Holds(with_dialog == 0));
    window.press(ESCAPE).await;
    window.click("details.act summary").await;
    let with_form = pages(&window, WATCHED).await;
    figures.holds("shown anew in 8 s under an open form", with_form, "0", Holds(with_form == 0));
    window.click("details.act summary").await;
    window.run("document.activeElement.blur()", &[]).await;
    let after = pages(&window, WATCHED).await;
    figures.met("shown anew in 8 s when both are shut", after);

    window.go(&format!("{}/ui/parked", site.url())).await;
    live(&window).await;
    window.click("#page tbody input[type=checkbox]").await;
    window.run("document.activeElement.blur()", &[]).await;
    let with_rows = pages(&window, PICKED).await;
    let ticked =
        window.is("return document.querySelectorAll('#page tbody input:checked').length === 1").await;
    figures.holds(
        "shown anew in 17 s while a row is ticked",
        with_rows,
        "0, and it stays ticked",
        Holds(with_rows == 0 && ticked),
    );
    window.click("#page tbody input[type=checkbox]").await;
    window.run("document.activeElement.blur()", &[]).await;
    let after = pages(&window, PICKED).await;
    figures.met("shown anew in 17 s when none is ticked", after);
    window.close().await;
}

/// How often a page asked for itself in a while.
async fn pages(window: &Window, a_while: Duration) -> usize {
    window.asked().await;
    sleep(a_while).await;
    window.asked().await.iter().filter(|asked| asked.kind == "XHR").count()
}

/// The connection is cut: the page says since when it is old; the way is free again: it goes on.
pub(super) async fn a_stream_that_broke_goes_on(figures: &mut Figures, site: &Lively, driver: &Driver) {
    figures.part("A stream that broke");
    let (proxy, url) = Proxy::before(site.url()).await;
    let window = driver.open(DESK.0, DESK.1).await;
    log_in(&window, &url, site.key()).await;
    live(&window).await;
    proxy.set(Fault::Reset).await;
    let old = "return document.getElementById('live').textContent.startsWith('not live since')";
    window.until("the page says that it is old", SOON, old).await;
    let said = window.text("return document.getElementById('live').textContent").await;
    let is_seen = window.is("return !!document.querySelector('#live.old')").await;
    figures.holds("cut off, the page says", said, "not live since …", Holds(is_seen));
    window.run("window.stale = document.getElementById('now').innerHTML", &[]).await;
    window.asked().await;
    proxy.set(Fault::Pass).await;
    let began = Instant::now();
    live(&window).await;
    let took = began.elapsed();
    figures.holds(
        "the way free again, it is live after",
        format!("{} ms", took.as_millis()),
        "≤ 15000 ms",
        Holds(took <= RESUMES),
    );
    let loaded = window.asked().await.iter().filter(|asked| asked.kind == "Document").count();
    figures.holds("without loading the page", loaded, "0", Holds(loaded == 0));
    window.close().await;
}

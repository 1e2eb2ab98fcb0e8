//! The pages in a real browser: looked at by an engine that reports what people with other eyes and hands meet,
//! walked by keyboard alone, without scripts, in a hidden tab, over a connection that breaks, and pictured.
//!
//! One installation with everything on it that the pages can show (`lively`) serves all of it; what stops claims
//! comes last. Pictures stay below `target/evidence/pages`, where they are looked at.

mod axe;
mod fresh;
mod keys;
mod lively;
mod scriptless;

use crate::figures::{Figures, Holds, Verdict};
use crate::support::webdriver::{Driver, Window};
use lively::Lively;
use std::path::PathBuf;
use std::time::Duration;

/// What a page is waited for at most.
const SOON: Duration = Duration::from_secs(15);
/// A picture of a page is no smaller than this.
const LEAST_BYTES: u64 = 8_000;
/// Size of a desk's screen, and of a phone's.
const DESK: (u32, u32) = (1_440, 900);
const PHONE: (u32, u32) = (390, 844);

/// All of it.
pub async fn show(figures: &mut Figures) {
    figures.part("The pages in a browser");
    let Some(driver) = Driver::start().await else {
        let hint = "no driver; apt-get install chromium chromium-driver";
        return figures.line("the browser", hint, "it shows every page", Verdict::Unknown);
    };
    let axe = axe::fetched();
    let site = Lively::new(figures).await;
    let pages = site.pages().await;
    println!("  {} pages on {}", pages.len(), site.url());
    let window = driver.open(DESK.0, DESK.1).await;
    println!("  Chromium {}", window.version);
    axe::every_page_in_both_themes(figures, &site, &window, &pages, axe.as_deref()).await;
    window.close().await;
    keys::the_way_by_keyboard(figures, &site, &driver).await;
    fresh::a_hidden_tab_asks_for_nothing(figures, &site, &driver).await;
    fresh::nothing_changes_under_a_hand(figures, &site, &driver).await;
    fresh::a_stream_that_broke_goes_on(figures, &site, &driver).await;
    scriptless::everything_without_scripts(figures, &site, &driver).await;
    // The last: claims stop.
    let window = driver.open(DESK.0, DESK.1).await;
    axe::in_quarantine(figures, &site, &window, axe.as_deref()).await;
    window.close().await;
    println!("  the pictures are in {}", folder().display());
}

/// Where the pictures stay.
fn folder() -> PathBuf {
    let target = std::path::Path::new(crate::support::installation::PUNCTUAL)
        .parent()
        .and_then(std::path::Path::parent);
    let folder = target.expect("the binary lies below the builds").join("evidence").join("pages");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Logs in by the form, with the keyboard.
async fn log_in(window: &Window, url: &str, key: &str) {
    use crate::support::webdriver::ENTER;
    window.go(&format!("{url}/ui/login")).await;
    window.run("document.getElementById('key').focus()", &[]).await;
    window.press(&format!("{key}{ENTER}")).await;
    window.until("somebody is logged in", SOON, "return location.pathname === '/ui'").await;
}

/// Keeps what is seen of a page, all of its height; whether it is a picture of something.
async fn picture(window: &Window, name: &str, (width, height): (u32, u32)) -> Holds {
    let whole = window.run("return document.documentElement.scrollHeight", &[]).await.as_u64().unwrap_or(0);
    let tall = u32::try_from(whole.min(4_000)).unwrap_or(height).max(height);
    window.size(width, tall).await;
    let bytes = window.picture().await;
    window.size(width, height).await;
    let path = folder().join(format!("{name}.png"));
    std::fs::write(&path, &bytes).expect("a file");
    Holds(u64::try_from(bytes.len()).unwrap_or(0) > LEAST_BYTES)
}

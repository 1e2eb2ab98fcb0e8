//! Every route of the pages: who is let in, and which forms are taken.

use super::browser::Browser;
use crate::support::api::{Api, pages};
use crate::support::proxy::Fault;
use punctual::dashboard::ROUTES;
use punctual::intake::{Needs, Scope};

/// An address of this route that names nothing.
fn filled(path: &str) -> String {
    path.replace("{*rest}", "nothing").replace("{file}", "nothing.js").replace("{id}", "nothing")
}

#[tokio::test]
async fn every_page_and_every_act_asks_for_a_login_and_for_its_scope() {
    let api = Api::start(|_| {}).await;
    let mut stranger = Browser::new(&api);
    let mut viewer = Browser::of(&api, "ana", &["ops:read"]).await;
    let token = viewer.open("/ui/workers").await.token();
    let mut asked = 0;
    for route in ROUTES {
        let path = filled(route.path);
        let Needs::Scope(scope) = route.needs else { continue };
        // It does not end; `stream` has its own tests.
        if route.path == "/ui/stream" {
            assert_eq!(scope, Scope::Operate);
            assert!(stranger.get(&path).await.leads_to().starts_with("/ui/login"));
            continue;
        }
        asked += 1;
        let is_act = route.method == "post";
        let page = if is_act { stranger.post(&path, &[]).await } else { stranger.get(&path).await };
        assert!(page.leads_to().starts_with("/ui/login"), "{path}");
        let fields = [("csrf", token.as_str()), ("reason", "a test")];
        let page = if is_act { viewer.post(&path, &fields).await } else { viewer.get(&path).await };
        if scope == Scope::Operate {
            assert_ne!(page.status, 403, "{path}: {}", page.text);
        } else {
            assert_eq!(page.status, 403, "{path}: {}", page.text);
            assert!(page.says(&format!("needs a key with the scope {}", scope.as_str())), "{}", page.text);
        }
    }
    assert!(asked >= 3, "{asked} routes");
}

#[tokio::test]
async fn no_form_is_taken_without_its_token_or_from_elsewhere() {
    let api = Api::start(|_| {}).await;
    let mut browser = Browser::of(&api, "ana", &Scope::ALL.map(Scope::as_str)).await;
    let token = browser.open("/ui/workers").await.token();
    let other = Browser::of(&api, "bo", &["ops:read"]).await.open("/ui/workers").await.token();
    assert_ne!(token, other);
    for route in ROUTES.iter().filter(|route| route.method == "post") {
        let path = filled(route.path);
        for wrong in ["", "x", other.as_str()] {
            let page = browser.post(&path, &[("csrf", wrong), ("reason", "a test")]).await;
            assert_eq!(page.status, 400, "{path}: {}", page.text);
            assert!(page.says("This form is not of a page that you have open."), "{}", page.text);
        }
        let form = browser.http().post(browser.url(&path)).body(format!("csrf={token}&reason=x"));
        let page = browser.send(form.header("Origin", "https://evil.example")).await;
        assert_eq!(page.status, 400, "{path}");
    }
    // It is still logged in.
    browser.open("/ui/workers").await;
}

#[tokio::test]
async fn a_login_is_nobody_elses_and_cannot_be_changed() {
    let api = Api::start(|_| {}).await;
    let mut browser = Browser::of(&api, "ana", &["ops:read"]).await;
    let sealed = browser.cookies["punctual_session"].clone();
    let elsewhere = Api::start(|_| {}).await;
    let foreign = Browser::of(&elsewhere, "ana", &["ops:read"]).await.cookies["punctual_session"].clone();
    for wrong in [String::new(), "x".into(), sealed[1..].to_owned(), foreign] {
        browser.cookies.insert("punctual_session".into(), wrong);
        assert_eq!(browser.get("/ui/workers").await.status, 303);
    }
    browser.cookies.insert("punctual_session".into(), sealed);
    browser.open("/ui/workers").await;
}

#[tokio::test]
async fn a_read_only_dashboard_shows_and_refuses_every_act() {
    let mut config = pages();
    config.dashboard.read_only = true;
    let api = Api::start_showing(config).await;
    let mut browser = Browser::of(&api, "ana", &Scope::ALL.map(Scope::as_str)).await;
    let page = browser.open("/ui/workers").await;
    assert!(page.says("read-only"), "{}", page.text);
    let token = page.token();
    for route in ROUTES.iter().filter(|route| route.method == "post") {
        let Needs::Scope(_) = route.needs else { continue };
        let page = browser.post(&filled(route.path), &[("csrf", &token), ("reason", "a test")]).await;
        assert_eq!(page.status, 403, "{}: {}", route.path, page.text);
        assert!(page.says("dashboard.read_only is set"), "{}", page.text);
    }
}

#[tokio::test]
async fn what_is_not_there_and_a_database_that_is_away_are_pages_too() {
    let api = Api::start(|_| {}).await;
    let mut browser = Browser::of(&api, "ana", &["ops:read"]).await;
    let page = browser.get("/ui/nothing/here").await;
    assert_eq!(page.status, 404);
    assert!(page.says("No such resource") && page.says("Log out"), "{}", page.text);
    api.proxy.set(Fault::Reset).await;
    let page = browser.get("/ui/workers").await;
    assert_eq!(page.status, 503, "{}", page.text);
    assert!(page.says("<main id=\"page\"") && !page.says("relation"), "{}", page.text);
}

#[tokio::test]
async fn the_clock_of_a_page_has_the_digits_that_filters_take() {
    let api = Api::start(|_| {}).await;
    let mut browser = Browser::of(&api, "ana", &["ops:read"]).await;
    // The key is remembered by the second look, so its instant is one that the host counted on to.
    for _ in 0..2 {
        let page = browser.open("/ui/payments").await;
        assert!(!page.says("This filter cannot be read."), "{}", page.text);
    }
}

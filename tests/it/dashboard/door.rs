//! In and out.

use super::browser::Browser;
use crate::support::api::{Api, pages};
use crate::support::eventually;
use chrono::{TimeDelta, Utc};
use punctual::domain::ids::Operator;
use punctual::schedule::{By, KeyRevoked};
use std::time::Duration;

#[tokio::test]
async fn a_key_lets_its_person_in_and_logging_out_forgets_it() {
    let api = Api::start(|_| {}).await;
    let key = api.new_key("ana", &["ops:read"]).await;
    let mut browser = Browser::new(&api);
    assert_eq!(browser.get("/ui/workers?x=1").await.leads_to(), "/ui/login?next=%2Fui%2Fworkers%3Fx%3D1");
    let token = browser.open("/ui/login?next=/ui/workers").await.token();
    let fields = [("csrf", token.as_str()), ("key", key.as_str()), ("next", "/ui/workers")];
    let led = browser.post("/ui/login", &fields).await;
    assert_eq!(led.leads_to(), "/ui/workers");
    let cookies: Vec<&str> =
        led.headers.get_all("set-cookie").iter().map(|cookie| cookie.to_str().expect("a text")).collect();
    let login = cookies.iter().find(|cookie| cookie.starts_with("punctual_session=")).expect("a login");
    assert!(login.ends_with("Path=/; Max-Age=28800; HttpOnly; SameSite=Strict"), "{login}");
    assert!(!login.contains(&key["pk_live_".len()..]), "the key cannot be read in it");
    let page = browser.open("/ui/workers").await;
    assert!(page.says("key:ana") && page.says(">viewer<") && page.says("tests"), "{}", page.text);
    let token = page.token();
    let copy = browser.cookies.clone();
    assert_eq!(browser.post("/ui/logout", &[("csrf", &token)]).await.leads_to(), "/ui/login");
    assert_eq!(browser.get("/ui/workers").await.leads_to(), "/ui/login?next=%2Fui%2Fworkers");
    browser.cookies = copy;
    assert_eq!(browser.get("/ui/workers").await.status, 303, "a copied cookie opens nothing after its end");
    let other = Browser::of(&api, "ana", &["ops:read"]).await.open("/ui/workers").await;
    assert!(other.says("key:ana"), "another login of the same person goes on");
}

#[tokio::test]
async fn who_has_a_login_still_or_one_that_died_comes_in_again_by_the_form() {
    let api = Api::start(|_| {}).await;
    let (id, key) = api.new_key_until("ana", &["ops:read"], None).await;
    let other = api.new_key("bo", &["ops:read"]).await;
    let mut browser = Browser::new(&api);
    browser.log_in(&key).await;
    assert_eq!(browser.log_in(&other).await.leads_to(), "/ui", "as somebody else");
    assert!(browser.open("/ui/workers").await.says("key:bo"));
    browser.log_in(&key).await;
    let by = By { operator: Operator("test".into()), reason: "a test".into() };
    assert!(matches!(api.owner.revoke_api_key(id, by).await.expect("revoked"), KeyRevoked::Revoked(_)));
    let browser = tokio::sync::Mutex::new(browser);
    let refused = || async { (browser.lock().await.get("/ui/workers").await.status == 303).then_some(()) };
    eventually("the revoked key lets nobody in", Duration::from_secs(5), refused).await;
    let mut browser = browser.into_inner();
    assert_eq!(browser.log_in(&other).await.leads_to(), "/ui", "its cookie is in nobody's way");
    assert!(browser.open("/ui/workers").await.says("key:bo"));
}

#[tokio::test]
async fn what_is_no_key_is_refused_and_a_key_that_may_not_look_is_told_so() {
    let api = Api::start(|_| {}).await;
    let (_, expired) =
        api.new_key_until("ana", &["ops:read"], Some(Utc::now() - TimeDelta::seconds(1))).await;
    let unknown = Api::start(|_| {}).await.new_key("ana", &["ops:read"]).await;
    for key in ["no-key-at-all", "pk_live_x", expired.as_str(), unknown.as_str()] {
        let mut browser = Browser::new(&api);
        let page = browser.log_in(key).await;
        assert_eq!(page.status, 401, "{}", page.text);
        assert!(page.says("This is no key, or none any more.") && !page.says(key), "{}", page.text);
        assert!(!browser.cookies.contains_key("punctual_session"));
    }
    let client = api.new_key("shop", &["payments:read", "payments:write"]).await;
    let page = Browser::new(&api).log_in(&client).await;
    assert_eq!(page.status, 403);
    assert!(page.says("it lacks the scope ops:read"), "{}", page.text);
}

#[tokio::test]
async fn a_login_dies_with_its_key() {
    let api = Api::start(|_| {}).await;
    let (id, key) = api.new_key_until("ana", &["ops:read"], None).await;
    let mut browser = Browser::new(&api);
    browser.log_in(&key).await;
    browser.open("/ui/workers").await;
    let by = By { operator: Operator("test".into()), reason: "a test".into() };
    assert!(matches!(api.owner.revoke_api_key(id, by).await.expect("revoked"), KeyRevoked::Revoked(_)));
    let browser = tokio::sync::Mutex::new(browser);
    let refused = || async { (browser.lock().await.get("/ui/workers").await.status == 303).then_some(()) };
    eventually("the revoked key lets nobody in", Duration::from_secs(5), refused).await;
}

#[tokio::test]
async fn a_login_ends_after_its_time_by_the_databases_clock() {
    let mut config = pages();
    config.dashboard.session = Duration::from_secs(1);
    let api = Api::start_showing(config).await;
    let browser = tokio::sync::Mutex::new(Browser::of(&api, "ana", &["ops:read"]).await);
    // A browser would forget the cookie by itself; whoever kept it is refused.
    let refused = || async { (browser.lock().await.get("/ui/workers").await.status == 303).then_some(()) };
    eventually("the login is over", Duration::from_secs(5), refused).await;
}

#[tokio::test]
async fn cookies_need_https_unless_told_otherwise() {
    let mut config = pages();
    config.dashboard.secure_cookie = true;
    let api = Api::start_showing(config).await;
    let key = api.new_key("ana", &["ops:read"]).await;
    let led = Browser::new(&api).log_in(&key).await;
    let cookies = led.headers.get_all("set-cookie").iter();
    let login = cookies.map(|cookie| cookie.to_str().expect("a text")).find(|text| text.contains("session"));
    let login = login.expect("a login");
    assert!(login.starts_with("__Host-punctual_session=") && login.ends_with("; Secure"), "{login}");
}

#[tokio::test]
async fn attempts_are_counted_for_their_address() {
    let mut config = pages();
    config.dashboard.logins_per_address = 3;
    let api = Api::start_showing(config).await;
    let key = api.new_key("ana", &["ops:read"]).await;
    for _ in 0..3 {
        assert_eq!(Browser::new(&api).log_in("pk_live_x").await.status, 401);
    }
    let page = Browser::new(&api).log_in(&key).await;
    assert_eq!(page.status, 429, "{}", page.text);
    assert!(page.says("Too many attempts from here."), "{}", page.text);
}

#[tokio::test]
async fn nobody_is_led_elsewhere_after_the_log_in() {
    let api = Api::start(|_| {}).await;
    let key = api.new_key("ana", &["ops:read"]).await;
    for next in ["//evil.example", "/ui//evil.example", "/v1/forecast", "/ui/\\evil.example"] {
        let mut browser = Browser::new(&api);
        let token = browser.open("/ui/login").await.token();
        let led = browser.post("/ui/login", &[("csrf", &token), ("key", &key), ("next", next)]).await;
        assert_eq!(led.leads_to(), "/ui", "{next}");
    }
}

#[tokio::test]
async fn the_theme_is_kept_and_leads_back() {
    let api = Api::start(|_| {}).await;
    let mut browser = Browser::of(&api, "ana", &["ops:read"]).await;
    assert!(browser.open("/ui/workers").await.says("data-theme=\"auto\""));
    let page = browser.act("/ui/workers", "/ui/theme", &[("theme", "dark"), ("back", "/ui/workers")]).await;
    assert!(page.says("data-theme=\"dark\"") && page.says("<h1>Workers</h1>"), "{}", page.text);
    assert!(browser.open("/ui/login").await.says("data-theme=\"dark\""));
}

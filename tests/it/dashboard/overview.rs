//! The first page: the last hour and the next, made of the last look of the process.

use super::browser::Browser;
use crate::support::api::{Api, pages};
use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::json;

#[tokio::test]
async fn it_shows_the_hour_and_what_waits_with_tables_for_those_without_scripts() {
    let api = Api::start(|_| {}).await;
    let due = (Utc::now() + TimeDelta::minutes(5)).to_rfc3339_opts(SecondsFormat::Secs, true);
    let body = json!({"payee": "a-secret-payee", "amount": 1, "currency": "EUR", "dueAt": due});
    assert_eq!(api.post("one", &body).await.status, 201);
    let mut browser = Browser::of(&api, "ana", &["ops:read"]).await;
    let page = browser.open("/ui").await;
    for text in [
        "aria-current=\"page\">Overview<",
        "Lateness p50 / p99",
        "Outcome unknown",
        "every outcome is known",
        "nobody is waited for",
        "What became of payments in the last hour",
        "<caption>The last hour, minute by minute (UTC)</caption>",
        "<caption>What falls due in the next hour (UTC), retries included</caption>",
    ] {
        assert!(page.says(text), "{text}: {}", page.text);
    }
    assert_eq!(page.text.matches("data-p50=").count(), 61, "the last sixty minutes and the one that runs");
    let minute = &due[11..16];
    assert!(page.says(&format!("data-due=\"1\"><th scope=\"row\">{minute}</th>")), "{minute}: {}", page.text);
    assert!(!page.says("a-secret-payee"));
}

#[tokio::test]
async fn what_a_page_loads_comes_from_here_and_is_kept_for_a_year() {
    let api = Api::start(|_| {}).await;
    let mut browser = Browser::of(&api, "ana", &["ops:read"]).await;
    let page = browser.open("/ui").await;
    let mut loaded = 0;
    for way in page.text.split("=\"/ui/assets/").skip(1).filter_map(|rest| rest.split('"').next()) {
        let file = browser.open(&format!("/ui/assets/{way}")).await;
        assert_eq!(file.header("cache-control"), "public, max-age=31536000, immutable", "{way}");
        loaded += 1;
    }
    assert!(loaded >= 6, "{loaded} files");
    assert_eq!(browser.get("/ui/assets/punctual.0000000000000000.css").await.status, 404);
}

#[tokio::test]
async fn what_is_on_purpose_where_things_are_tried_out_is_said_quietly() {
    // The tests' own server does not wait for its disk, unless it was asked to.
    let is_durable = std::env::var("PUNCTUAL_DURABLE").is_ok_and(|is| is == "1");
    for (environment, shouts) in [("tests", !is_durable), ("development", false)] {
        let mut config = pages();
        config.dashboard.environment = environment.into();
        let api = Api::start_showing(config).await;
        let mut browser = Browser::of(&api, "ana", &["ops:read"]).await;
        let page = browser.open("/ui").await;
        assert_eq!(page.says("<strong>durability</strong>"), shouts, "{environment}: {}", page.text);
        assert_eq!(page.says("not safe from a crash"), environment == "development", "{}", page.text);
        assert!(page.says("no relay is at work"), "the rest is said as loudly: {}", page.text);
    }
}

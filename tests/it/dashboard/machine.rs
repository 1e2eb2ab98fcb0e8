//! The pages of the machine: what they say where nothing is, and what their acts come to.

use super::browser::Browser;
use crate::support::api::Api;

/// Puts a gateway on record, as its first worker does.
async fn with_gateway(api: &Api) {
    let made = "INSERT INTO gateways (name, account) VALUES ('sandbox', 'a') RETURNING name";
    assert_eq!(api.one::<String>(made).await, "sandbox");
}

#[tokio::test]
async fn each_says_so_where_nothing_is_and_offers_a_viewer_no_act() {
    let api = Api::start(|_| {}).await;
    with_gateway(&api).await;
    let mut browser = Browser::of(&api, "ana", &["ops:read"]).await;
    for (path, texts) in [
        ("/ui/buckets", ["<h1>Buckets</h1>", "class=\"strip\""]),
        ("/ui/forecast", ["<h1>Forecast</h1>", "Overdue now</span><span class=\"value\">0</span>"]),
        ("/ui/gateways", ["<h1>Gateways</h1>", "Nothing is switched off."]),
        ("/ui/reconciliation", ["<h1>Reconciliation</h1>", "No report was ever compared."]),
        ("/ui/webhooks", ["<h1>Webhooks</h1>", "No client has an endpoint."]),
        ("/ui/quarantine", ["<h1>Quarantine</h1>", "Claims go on"]),
    ] {
        let page = browser.open(path).await;
        for text in texts {
            assert!(page.says(text), "{path}: {text}: {}", page.text);
        }
        assert!(!page.says("<details class=\"act\">"), "{path} offers an act: {}", page.text);
    }
    assert_eq!(browser.get("/ui/reconciliation/items/1").await.status, 404);
    let nowhere = browser.get("/ui/runbooks/NoSuchAlert").await;
    assert_eq!(nowhere.status, 404);
    assert!(!nowhere.says("Try again") && nowhere.says("Go to <a href=\"/ui\">"), "{}", nowhere.text);
}

#[tokio::test]
async fn a_day_s_books_are_added_up_only_for_whoever_asks() {
    let api = Api::start(|_| {}).await;
    let mut browser = Browser::of(&api, "ana", &["ops:read"]).await;
    let page = browser.open("/ui/reconciliation").await;
    assert!(page.says("It reads the whole day.") && !page.says("add up to in every book"), "{}", page.text);
    let page = browser.open("/ui/reconciliation?books=2026-11-29").await;
    assert!(page.says("the payments due on 2026-11-29 add up to in every book"), "{}", page.text);
    assert!(page.says("Nothing that was due on it was charged or settled."), "{}", page.text);
    assert_eq!(browser.get("/ui/reconciliation?books=yesterday").await.status, 400);
}

#[tokio::test]
async fn a_problem_leads_to_its_runbook_and_every_alert_has_one() {
    let api = Api::start(|_| {}).await;
    let mut browser = Browser::of(&api, "ana", &["ops:read"]).await;
    // Nobody relays here, and every page says so.
    let page = browser.open("/ui/runbooks").await;
    assert!(
        page.says("no relay is at work") && page.says("href=\"/ui/runbooks/RelayStalled\""),
        "{}",
        page.text
    );
    for alert in punctual::platform::alerts::alerts() {
        assert!(page.says(&format!("<a href=\"/ui/runbooks/{0}\">{0}</a>", alert.name)), "{}", alert.name);
        let its = browser.open(&format!("/ui/runbooks/{}", alert.name)).await;
        assert!(its.says(&format!("<h1>{}</h1>", alert.name)), "{}", its.text);
    }
    let page = browser.open("/ui/runbooks/BreakerOpen").await;
    let first = "<li><code>punctual gateway list</code> or <a href=\"/ui/gateways\"><code>/ui/gateways</code></a>: why";
    assert!(page.says(first), "{}", page.text);
    let unknown = "<a href=\"/ui/payments?q=status:UNKNOWN\">";
    assert!(page.says(unknown), "{}", page.text);
}

#[tokio::test]
async fn a_gateway_is_paused_and_resumed_with_a_reason_that_everybody_sees() {
    let api = Api::start(|_| {}).await;
    with_gateway(&api).await;
    let mut browser = Browser::of(&api, "bo", &["ops:read", "gateways:write"]).await;
    let page = "/ui/gateways";
    let shown = browser.act(page, "/ui/gateways/sandbox/pause", &[("reason", "they are down")]).await;
    for text in
        ["The gateway is paused.", "paused by a person", "they are down", "/ui/gateways/sandbox/resume"]
    {
        assert!(shown.says(text), "{text}: {}", shown.text);
    }
    let shown = browser.act(page, "/ui/gateways/sandbox/resume", &[("reason", "they are back")]).await;
    assert!(shown.says("The gateway is called again.") && !shown.says("they are down"), "{}", shown.text);
    // An open breaker is bad and an open gateway would be good: nobody is left to guess.
    assert!(shown.says("takes charges") && shown.says("closed: calls go through"), "{}", shown.text);
    let acts: i64 = api.one("SELECT count(*) FROM operator_acts WHERE act LIKE '%_gateway'").await;
    assert_eq!(acts, 2);
    let broken = "INSERT INTO gateway_pace (gateway, charges_free_at, lookups_free_at, throttle, breaker, breaker_until,
            breaker_cause, trips, newest_second, calls, failed, lanes, heard_at, demands, slots)
        VALUES ('sandbox', now(), now(), 1000, 'open', now() + interval '1 min', 'our credentials were refused (HTTP 401)',
            3, 0, array_fill(0, ARRAY[10]), array_fill(0, ARRAY[10]), '{}', '{}', '{}', '{}')
        RETURNING gateway";
    assert_eq!(api.one::<String>(broken).await, "sandbox");
    let shown = browser.open(page).await;
    assert!(
        shown.says("Because of") && shown.says("our credentials were refused (HTTP 401)"),
        "{}",
        shown.text
    );
    // Without a reason nothing happens, and one that is not there is said not to be.
    let shown = browser.act(page, "/ui/gateways/sandbox/pause", &[]).await;
    assert!(!shown.says("paused by a person"), "{}", shown.text);
    let shown = browser.act(page, "/ui/gateways/none/pause", &[("reason", "a test")]).await;
    assert!(shown.says("said refused"), "{}", shown.text);
}

#[tokio::test]
async fn a_kill_switch_is_thrown_and_released_and_everything_needs_an_administrator() {
    let api = Api::start(|_| {}).await;
    with_gateway(&api).await;
    let mut browser = Browser::of(&api, "bo", &["ops:read", "gateways:write"]).await;
    let (page, act) = ("/ui/gateways", "/ui/switches");
    let thrown = [("kind", "currency"), ("value", "EUR"), ("on", "true"), ("reason", "a wrong exponent")];
    let shown = browser.act(page, act, &thrown).await;
    assert!(shown.says("a wrong exponent") && shown.says("Let it go on"), "{}", shown.text);
    let global = [("kind", "global"), ("on", "true"), ("reason", "a test")];
    let shown = browser.act(page, act, &global).await;
    assert!(shown.says("said refused"), "{}", shown.text);
    assert_eq!(api.one::<i64>("SELECT count(*) FROM kill_switches").await, 1);
    let silent = [("kind", "currency"), ("value", "EUR"), ("reason", "x")];
    let shown = browser.act(page, act, &silent).await;
    assert!(shown.says("No switch was touched.") && shown.says("Let it go on"), "{}", shown.text);
    let released = [("kind", "currency"), ("value", "EUR"), ("on", "false"), ("reason", "mended")];
    let shown = browser.act(page, act, &released).await;
    assert!(shown.says("It is charged again.") && shown.says("Nothing is switched off."), "{}", shown.text);
}

#[tokio::test]
async fn a_quarantine_is_entered_and_one_person_alone_does_not_release_it() {
    let api = Api::start(|_| {}).await;
    let mut browser = Browser::of(&api, "bo", &["ops:read", "ops:approve"]).await;
    let page = "/ui/quarantine";
    let shown = browser.act(page, page, &[("reason", "a disk was lost")]).await;
    for text in ["The database is quarantined", "Nothing is claimed", "a disk was lost"] {
        assert!(shown.says(text), "{text}: {}", shown.text);
    }
    let release = [("reason", "it was compared"), ("anyway", "true")];
    let shown = browser.act(page, "/ui/quarantine/release", &release).await;
    assert!(shown.says("asked for the release"), "{}", shown.text);
    let shown = browser.act(page, "/ui/quarantine/release", &release).await;
    assert!(shown.says("Nothing is claimed"), "one person is not two: {}", shown.text);
    let mut other = Browser::of(&api, "cy", &["ops:read", "ops:approve"]).await;
    let shown = other.act(page, "/ui/quarantine/release", &release).await;
    assert!(shown.says("Claims go on") && shown.says("whatever was missing"), "{}", shown.text);
}

#[tokio::test]
async fn the_way_out_of_a_quarantine_is_shown_step_by_step_and_its_instant_can_be_changed() {
    let api = Api::start(|_| {}).await;
    with_gateway(&api).await;
    let mut bo = Browser::of(&api, "bo", &["ops:read", "ops:approve"]).await;
    let page = "/ui/quarantine";
    assert!(bo.open(page).await.says("Claims are made; nothing has to be done."));
    let shown = bo.act(page, page, &[("reason", "a disk was lost")]).await;
    for text in [
        "The way out",
        "Know since when commits are missing",
        "as computed from the last sign of life",
        "Reports that are still to be compared",
        "<code>punctual reconcile run --gateway sandbox --day ",
        "The last of them can be had from",
        "Nobody has asked yet.",
        "<code>punctual quarantine release --anyway --reason …</code>",
    ] {
        assert!(shown.says(text), "{text}: {}", shown.text);
    }
    let days = shown.text.matches("<td class=\"whole\"").count();
    // Another instant asks for other days, and takes the first word back.
    let asked = [("reason", "nothing is left to wait for"), ("anyway", "true")];
    assert!(bo.act(page, "/ui/quarantine/release", &asked).await.says("The word is void from"));
    let earlier = (chrono::Utc::now() - chrono::TimeDelta::days(3)).to_rfc3339();
    let fields = [("alters", "true"), ("lostFrom", earlier.as_str()), ("reason", "the backup is older")];
    let shown = bo.act(page, page, &fields).await;
    assert!(shown.says("The instant is changed.") && shown.says("as key:bo says"), "{}", shown.text);
    assert!(shown.says(&earlier[..10]) && shown.says("Nobody has asked yet."), "{}", shown.text);
    assert!(shown.text.matches("<td class=\"whole\"").count() > days, "more days: {}", shown.text);
    let later = (chrono::Utc::now() + chrono::TimeDelta::hours(1)).to_rfc3339();
    let fields = [("alters", "true"), ("lostFrom", later.as_str()), ("reason", "a mistake")];
    assert!(bo.act(page, page, &fields).await.says("said refused"));
    let mut viewer = Browser::of(&api, "ana", &["ops:read"]).await;
    let shown = viewer.open(page).await;
    assert!(shown.says("The way out") && !shown.says("<details class=\"act\">"), "{}", shown.text);
}

#[tokio::test]
async fn an_operator_sees_whose_endpoint_does_not_hear_and_only_its_host() {
    let api = Api::start(|_| {}).await;
    let made =
        "INSERT INTO webhook_endpoints (id, actor_id, url, description, event_types, secret, max_concurrency,
                    created_at, changed_at, version, failing_since)
                SELECT gen_random_uuid(), a.id, 'https://shop.example/hook/s3cret?token=x', 'orders', '{}',
                    decode(repeat('00', 32), 'hex'), 1, now(), now(), 1, now() - interval '2 hours'
                FROM actors a WHERE a.name = 'tester' RETURNING description";
    assert_eq!(api.one::<String>(made).await, "orders");
    let mut browser = Browser::of(&api, "ana", &["ops:read"]).await;
    let page = browser.open("/ui/webhooks").await;
    for text in ["tester", "shop.example", "orders", "failing", "2 h ago"] {
        assert!(page.says(text), "{text}: {}", page.text);
    }
    assert!(!page.says("s3cret") && !page.says("token"), "{}", page.text);
}

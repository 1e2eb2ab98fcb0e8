//! The pages of payments as people use them: found, looked at, decided about, many at once, and by a second person.

use super::browser::Browser;
use crate::operations::http::Site;
use crate::operations::reconciliations::line;
use punctual::schedule::BulkTerms;

const OPERATES: [&str; 3] = ["ops:read", "ops:redrive", "ops:refund"];

/// What stands behind `before` in a page, up to a quote.
fn quoted<'a>(page: &'a str, before: &str) -> &'a str {
    let (_, rest) = page.split_once(before).unwrap_or_else(|| panic!("no {before} in {page}"));
    rest.split('"').next().expect("a quote")
}

#[tokio::test]
async fn payments_are_found_by_the_filter_and_a_mistake_is_told_on_the_page() {
    let site = Site::new().await;
    let parked = site.parked("k1", 123_450).await;
    let mut browser = Browser::of(&site.api, "ana", &["ops:read"]).await;
    for path in
        ["/ui/payments", "/ui/payments?q=status:PARKED", "/ui/payments?q=actor:tester&order=due_first"]
    {
        let page = browser.open(path).await;
        for text in [parked.as_str(), "1,234.50 EUR", "PARKED", "outcome_unknown", "1 payment"] {
            assert!(page.says(text), "{path}: {text}: {}", page.text);
        }
        assert!(!page.says("secret-payee"), "{}", page.text);
    }
    let none = browser.open("/ui/payments?q=status:FAILED").await;
    assert!(none.says("None passes.") && !none.says(&parked), "{}", none.text);
    let wrong = browser.open("/ui/payments?q=stauts:PARKED").await;
    assert!(wrong.says("This filter cannot be read.") && wrong.says("At character 1: no such name"));
    assert!(wrong.says("value=\"stauts:PARKED\""), "what was typed stays: {}", wrong.text);
    for said in ["None passes.", "At least", "<caption>", "0 payments"] {
        assert!(!wrong.says(said), "nothing was looked for: {said}: {}", wrong.text);
    }
    assert_eq!(browser.get("/ui/payments?nonsense=1").await.status, 400);
    let led = browser.get(&format!("/ui/payments?q={parked}")).await;
    assert_eq!(led.leads_to(), format!("/ui/payments/{parked}"), "an id alone leads to its page");
}

#[tokio::test]
async fn one_payment_is_shown_whole_and_its_payee_by_an_act_that_is_on_record() {
    let site = Site::new().await;
    let parked = site.parked("k1", 1_250).await;
    let way = format!("/ui/payments/{parked}");
    let mut viewer = Browser::of(&site.api, "ana", &["ops:read"]).await;
    let page = viewer.open(&way).await;
    for text in [
        "<title id=\"life-title\">It stands at PARKED</title>",
        "It went: PENDING, PROCESSING, PARKED.",
        "12.50 EUR",
        ", 1 may still move money, key epoch",
        "Nothing by itself: it waits for an operator",
        "payment.parked",
        "&#34;payee&#34;: &#34;***&#34;",
        "payments.due",
    ] {
        assert!(page.says(text), "{text}: {}", page.text);
    }
    assert!(!page.says("secret-payee") && !page.says("/redrive"), "a viewer acts on nothing: {}", page.text);
    let heading =
        page.text.split_once("<h1>").and_then(|(_, rest)| rest.split_once("</h1>")).expect("a heading").0;
    assert!(heading.contains("12.50 EUR") && heading.contains("PARKED"), "{heading}");
    // Each thing once: what it is, what happens next, why not, and the commands out of the way.
    let (before, _) = page.text.split_once("<caption>Everything that happened").expect("its history");
    assert_eq!(before.matches(&format!("<code class=\"id\">{parked}</code>")).count(), 1, "{before}");
    assert_eq!(before.matches("class=\"chip parked\"").count(), 1, "{before}");
    assert!(
        before.contains("In words, with the commands") && before.contains("<code>punctual parked "),
        "{before}"
    );
    assert!(before.contains("<dt>Not Release under a new key"), "{before}");
    let mut operator = Browser::of(&site.api, "bo", &OPERATES).await;
    let page = operator.open(&way).await;
    assert!(page.says(&format!("action=\"{way}/redrive\"")) && !page.says("secret-payee"), "{}", page.text);
    let fields = [("csrf", page.token()), ("reason", "the bank asks".to_owned())];
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let shown = operator.post(&format!("{way}/payee"), &fields).await;
    assert!(shown.status == 200 && shown.says("secret-payee") && shown.says("show_payee"), "{}", shown.text);
    // Shown anew it is the payment's page, which shows no payee.
    assert!(shown.says(&format!("hx-get=\"{way}\"")), "{}", shown.text);
    assert!(shown.says(&format!("name=\"back\" value=\"{way}\"")), "{}", shown.text);
    let again = operator.open(&way).await;
    assert!(!again.says("secret-payee"), "it was shown once: {}", again.text);
    let acts = operator.open(&format!("/ui/acts?subject={parked}")).await;
    assert!(acts.says("show_payee") && acts.says("the bank asks") && acts.says("key:bo"), "{}", acts.text);
    assert_eq!(viewer.get("/ui/payments/01a2283e-8820-8aaa-9bbb-0123456789ab").await.status, 404);
}

#[tokio::test]
async fn a_release_is_done_and_a_second_one_is_answered_with_how_things_stand() {
    let site = Site::new().await;
    let parked = site.parked("k1", 1_250).await;
    let way = format!("/ui/payments/{parked}");
    let mut bo = Browser::of(&site.api, "bo", &OPERATES).await;
    let seen = quoted(&bo.open(&way).await.text, "name=\"version\" value=\"").to_owned();
    let version = ("version", seen.as_str());
    let empty = bo.act(&way, &format!("{way}/redrive"), &[version]).await;
    assert!(empty.says("said refused"), "an act has a reason: {}", empty.text);
    for lacks in [&[("reason", "x")][..], &[("reason", "x"), ("version", "abc")]] {
        let refused = bo.act(&way, &format!("{way}/redrive"), lacks).await;
        assert!(refused.says("said refused"), "what was looked at is not said: {}", refused.text);
        assert_eq!(site.status(&parked).await, "PARKED");
    }
    let done = bo.act(&way, &format!("{way}/redrive"), &[("reason", "the gateway is back"), version]).await;
    assert!(done.says("said done") && done.says("It is released"), "{}", done.text);
    assert!(done.says("the gateway is back"), "the page shows who did it and why: {}", done.text);
    let again = bo.act(&way, &format!("{way}/redrive"), &[("reason", "once more"), version]).await;
    assert!(again.says("said answer") && again.says("The payment is not parked"), "{}", again.text);
    // Its outcome is unknown and this gateway voids nothing: a cancel is answered, too.
    let cancelled = bo.act(&way, &format!("{way}/cancel"), &[("reason", "the shop called")]).await;
    assert!(cancelled.says("said answer"), "{}", cancelled.text);
}

#[tokio::test]
async fn a_large_one_waits_for_a_second_person_who_decides_on_a_page_of_its_own() {
    let site = Site::new().await;
    let parked = site.parked("k1", 100_001).await;
    let way = format!("/ui/payments/{parked}");
    let scopes = ["ops:read", "ops:redrive", "ops:approve"];
    let mut bo = Browser::of(&site.api, "bo", &scopes).await;
    let seen = quoted(&bo.open(&way).await.text, "name=\"version\" value=\"").to_owned();
    let fields = [("reason", "back"), ("version", seen.as_str())];
    let asked = bo.act(&way, &format!("{way}/redrive"), &fields).await;
    assert!(asked.says("said waits"), "{}", asked.text);
    let approval = format!("/ui/approvals/{}", quoted(&asked.text, "href=\"/ui/approvals/"));
    let own = bo.open(&approval).await;
    assert!(own.says("You asked for it") && !own.says("/approve\""), "{}", own.text);
    let refused = bo.act(&approval, &format!("{approval}/approve"), &[("reason", "mine")]).await;
    assert!(refused.says("said refused"), "{}", refused.text);
    let mut ana = Browser::of(&site.api, "ana", &scopes).await;
    assert!(ana.open("/ui/approvals").await.says(&approval));
    let done = ana.act(&approval, &format!("{approval}/approve"), &[("reason", "I looked")]).await;
    assert!(done.says("said done") && done.says("approved") && done.says("key:ana"), "{}", done.text);
    let twice = ana.act(&approval, &format!("{approval}/reject"), &[("reason", "no")]).await;
    assert!(twice.says("said answer"), "{}", twice.text);
    assert!(ana.open("/ui/approvals").await.says("None is pending."));
}

#[tokio::test]
async fn what_is_ticked_becomes_a_bulk_action_that_is_started_stopped_and_counted() {
    let site = Site::new().await;
    let mut ids = Vec::new();
    for key in ["k1", "k2", "k3"] {
        ids.push(site.parked(key, 1_250).await);
    }
    let mut bo = Browser::of(&site.api, "bo", &OPERATES).await;
    let page = bo.open("/ui/parked").await;
    assert!(page.says("3 held for people") && ids.iter().all(|id| page.says(id)), "{}", page.text);
    let none = bo
        .act(
            "/ui/parked",
            "/ui/bulks",
            &[("which", "ticked"), ("q", "actor:tester"), ("ratePerS", "5"), ("reason", "the bank is back")],
        )
        .await;
    assert!(none.says("<strong>Nothing was ticked, so nothing was made.</strong>"), "{}", none.text);
    for typed in ["value=\"actor:tester\"", "value=\"the bank is back\"", "value=\"5\""] {
        assert!(none.says(typed), "what was typed stays: {typed}: {}", none.text);
    }
    let id = ("id", ids[0].as_str());
    for which in [&[("which", "x")][..], &[], &[("which", "all"), ("which", "ticked")], &[("which", "all")]] {
        let fields = [which, &[id, ("q", ""), ("ratePerS", "5"), ("reason", "back")]].concat();
        let refused = bo.act("/ui/parked", "/ui/bulks", &fields).await;
        assert!(refused.says("Nothing was made."), "{which:?}: {}", refused.text);
    }
    assert_eq!(site.api.one::<i64>("SELECT count(*) FROM bulk_redrives").await, 0);
    let fields = [
        ("which", "ticked"),
        ("id", ids[0].as_str()),
        ("id", ids[2].as_str()),
        ("ratePerS", "5"),
        ("reason", "back"),
    ];
    let made = bo.act("/ui/parked", "/ui/bulks", &fields).await;
    assert!(made.says("said done") && made.says("How far it is: stopped"), "{}", made.text);
    assert!(made.says("0 of 2") && made.says("25.00 EUR"), "the preview is exact: {}", made.text);
    let bulk = quoted(&made.text, "action=\"/ui/bulks/").trim_end_matches("/start").to_owned();
    let bulk = format!("/ui/bulks/{bulk}");
    let started = bo.act(&bulk, &format!("{bulk}/start"), &[("reason", "go")]).await;
    assert!(started.says("How far it is: running"), "{}", started.text);
    let stopped = bo.act(&bulk, &format!("{bulk}/stop"), &[("reason", "wait")]).await;
    assert!(stopped.says("How far it is: stopped") && stopped.says("0 of 2"), "{}", stopped.text);
    bo.act(&bulk, &format!("{bulk}/start"), &[("reason", "go on")]).await;
    let terms = BulkTerms { retryable_codes: Vec::new(), approve_above_minor: 100_000 };
    site.worker.step_bulk(&terms).await.expect("a step");
    let done = bo.open(&bulk).await;
    assert!(
        done.says("How far it is: done") && done.says("2 of 2") && done.says("redriven"),
        "{}",
        done.text
    );
    let late = bo.act(&bulk, &format!("{bulk}/stop"), &[("reason", "too late")]).await;
    assert!(late.says("said answer"), "{}", late.text);
    assert!(bo.open("/ui/bulks").await.says(&bulk));
    let left = bo.open("/ui/parked").await;
    assert!(left.says("1 held for people") && left.says(&ids[1]) && !left.says(&ids[0]), "{}", left.text);
    let fields = [("which", "all"), ("q", "ref:x"), ("ratePerS", "5"), ("reason", "x")];
    let refused = bo.act("/ui/parked", "/ui/bulks", &fields).await;
    assert!(refused.says("said refused"), "{}", refused.text);
}

#[tokio::test]
async fn a_refund_that_cannot_be_is_answered_and_what_is_no_amount_is_not_all_of_it() {
    let site = Site::new().await;
    let parked = site.parked("k1", 1_250).await;
    let way = format!("/ui/payments/{parked}");
    let mut bo = Browser::of(&site.api, "bo", &OPERATES).await;
    let fields = [("amount", ""), ("key", "ui-1"), ("gatewayReference", "ch_1"), ("reason", "it was wrong")];
    let refused = bo.act(&way, &format!("{way}/refund"), &fields).await;
    assert!(refused.says("said answer"), "nothing was charged: {}", refused.text);
    let half = [("amount", "12.50"), ("key", "ui-2"), ("gatewayReference", "ch_1"), ("reason", "x")];
    let refused = bo.act(&way, &format!("{way}/refund"), &half).await;
    assert!(refused.says("said refused"), "an amount that is no number is not all of it: {}", refused.text);
    let none = [("key", "ui-3"), ("gatewayReference", "ch_1"), ("reason", "x")];
    let refused = bo.act(&way, &format!("{way}/refund"), &none).await;
    assert!(refused.says("said refused"), "nor is a form without one: {}", refused.text);
}

#[tokio::test]
async fn a_refund_is_offered_where_the_gateway_has_it_and_is_not_called_done_before_it_is_sent() {
    let site = Site::new().await;
    let payment = site.parked("k1", 1_250).await;
    site.reported(vec![line(1, &format!("{payment}:0"), "ch_7", 1_250)]).await;
    let item = format!("/ui/reconciliation/items/{}", site.item_of(&payment).await["itemId"]);
    let way = format!("/ui/payments/{payment}");
    let mut bo = Browser::of(&site.api, "bo", &OPERATES).await;
    bo.act(&item, &format!("{item}/repair"), &[("reason", "line 2 of the report")]).await;
    let form = format!("action=\"{way}/refund\"");
    let page = bo.open(&way).await;
    assert!(
        page.says("ch_7") && !page.says(&form) && page.says("<code>gateway.refunds</code>"),
        "{}",
        page.text
    );
    let fields = [("amount", ""), ("key", "ui-1"), ("gatewayReference", "ch_7"), ("reason", "sent back")];
    let refused = bo.act(&way, &format!("{way}/refund"), &fields).await;
    assert!(refused.says("said answer") && refused.says("gateway.refunds"), "{}", refused.text);
    let offers = "INSERT INTO gateways (name, account, offers_refunds) VALUES ('sandbox', 'a', true)
                  ON CONFLICT (name) DO UPDATE SET offers_refunds = true RETURNING name";
    site.api.one::<String>(offers).await;
    assert!(bo.open(&way).await.says(&form));
    let asked = bo.act(&way, &format!("{way}/refund"), &fields).await;
    assert!(asked.says("said waits"), "{}", asked.text);
    let approval = format!("/ui/approvals/{}", quoted(&asked.text, "href=\"/ui/approvals/"));
    let mut ana = Browser::of(&site.api, "ana", &["ops:read", "ops:refund", "ops:approve"]).await;
    let done = ana.act(&approval, &format!("{approval}/approve"), &[("reason", "I looked")]).await;
    for text in ["It is approved: a worker sends it.", "A second person allowed it; a worker sends it."] {
        assert!(done.says(text), "{text}: {}", done.text);
    }
    assert!(done.says(&format!("href=\"{way}\">Show the payment")), "{}", done.text);
    assert!(!done.says("carried out") && !done.says("Refunds of its gateway wait"), "{}", done.text);
}

//! What differs from a gateway's report, and what people do about it by the forms of its page.

use super::browser::{Browser, Page};
use crate::operations::http::Site;
use crate::operations::reconciliations::line;

const DECIDES: [&str; 3] = ["ops:read", "ops:redrive", "ops:approve"];

/// Does this page offer the form of this act?
fn offers(page: &Page, way: &str, act: &str) -> bool {
    page.says(&format!("action=\"{way}/{act}\""))
}

/// The page of the only difference of this payment.
async fn way_of(site: &Site, payment: &str) -> String {
    format!("/ui/reconciliation/items/{}", site.item_of(payment).await["itemId"])
}

#[tokio::test]
async fn a_charge_that_a_report_shows_is_repaired_from_its_page_though_its_day_goes_on() {
    let site = Site::new().await;
    let payment = site.parked("k1", 1_250).await;
    site.reported(vec![line(1, &format!("{payment}:0"), "ch_7", 1_250)]).await;
    let way = way_of(&site, &payment).await;
    let looks = Browser::of(&site.api, "ana", &["ops:read"]).await.open(&way).await;
    assert!(looks.says("ch_7") && looks.says("12.50") && looks.says("PARKED"), "{}", looks.text);
    assert!(
        !offers(&looks, &way, "repair") && !offers(&looks, &way, "dismiss"),
        "who only looks has no form"
    );
    let mut bo = Browser::of(&site.api, "bo", &DECIDES).await;
    let page = bo.open(&way).await;
    assert!(page.says("waiting") && offers(&page, &way, "repair"), "{}", page.text);
    let empty = bo.act(&way, &format!("{way}/repair"), &[]).await;
    assert!(empty.says("said refused") && offers(&empty, &way, "repair"), "{}", empty.text);
    let done = bo.act(&way, &format!("{way}/repair"), &[("reason", "line 2 of the report")]).await;
    assert!(
        done.says("said done") && done.says("by key:bo") && done.says("line 2 of the report"),
        "{}",
        done.text
    );
    assert!(!offers(&done, &way, "repair") && !offers(&done, &way, "dismiss"), "{}", done.text);
    assert_eq!(site.status(&payment).await, "COMPLETED");
    let again = bo.act(&way, &format!("{way}/repair"), &[("reason", "once more")]).await;
    assert!(again.says("said answer"), "how it stands is an answer: {}", again.text);
}

#[tokio::test]
async fn what_its_client_was_told_had_failed_waits_for_a_second_person_on_the_approvals_page() {
    let site = Site::new().await;
    let payment = site.failed("k1", 1_250).await;
    site.reported(vec![line(1, &format!("{payment}:0"), "ch_7", 1_250)]).await;
    let way = way_of(&site, &payment).await;
    let mut bo = Browser::of(&site.api, "bo", &DECIDES).await;
    let asked = bo.act(&way, &format!("{way}/repair"), &[("reason", "line 2 of the report")]).await;
    assert!(asked.says("said waits"), "{}", asked.text);
    assert_eq!(site.status(&payment).await, "FAILED", "one person is not enough");
    let (_, rest) = asked.text.split_once("/ui/approvals/").expect("a way to the approval");
    let approval = format!("/ui/approvals/{}", rest.split('"').next().expect("an end"));
    let mut ana = Browser::of(&site.api, "ana", &DECIDES).await;
    let seen = ana.open(&approval).await;
    assert!(seen.says("key:bo") && seen.says("line 2 of the report"), "{}", seen.text);
    let done = ana.act(&approval, &format!("{approval}/approve"), &[("reason", "seen it too")]).await;
    assert!(done.says("said done"), "{}", done.text);
    assert_eq!(site.status(&payment).await, "COMPLETED");
    assert!(ana.open(&way).await.says("repaired"));
}

#[tokio::test]
async fn a_difference_of_nobodys_payment_is_dismissed_with_its_reason_and_stays_in_the_list() {
    let site = Site::new().await;
    site.reported(vec![line(1, "another-system-7", "ch_8", 500)]).await;
    let mut bo = Browser::of(&site.api, "bo", &DECIDES).await;
    let list = bo.open("/ui/reconciliation?status=waiting").await;
    let (_, rest) = list.text.split_once("/ui/reconciliation/items/").expect("a way to it");
    let way = format!("/ui/reconciliation/items/{}", rest.split('"').next().expect("an end"));
    let page = bo.open(&way).await;
    assert!(page.says("none of ours") && page.says("foreign"), "{}", page.text);
    assert!(!offers(&page, &way, "repair") && offers(&page, &way, "dismiss"), "{}", page.text);
    let refused = bo.act(&way, &format!("{way}/repair"), &[("reason", "try")]).await;
    assert!(refused.says("said answer") && offers(&refused, &way, "dismiss"), "{}", refused.text);
    let reason = [("reason", "the old system, case 7")];
    let done = bo.act(&way, &format!("{way}/dismiss"), &reason).await;
    assert!(done.says("said done") && done.says("the old system, case 7"), "{}", done.text);
    assert!(bo.open("/ui/reconciliation?status=dismissed").await.says(&way));
    assert!(!bo.open("/ui/reconciliation?status=waiting").await.says(&way));
}

#[tokio::test]
async fn a_difference_says_both_amounts_why_it_was_not_repaired_and_what_is_left_to_do() {
    let site = Site::new().await;
    let payment = site.parked("k1", 1_250).await;
    site.reported(vec![line(1, &format!("{payment}:0"), "ch_7", 1_250)]).await;
    let way = way_of(&site, &payment).await;
    let mut bo = Browser::of(&site.api, "bo", &DECIDES).await;
    let page = bo.open(&way).await;
    assert!(
        offers(&page, &way, "repair") && page.says("/ui/runbooks/ReconciliationDiffers"),
        "{}",
        page.text
    );
    assert!(
        page.says(&format!("<a href=\"/ui/payments/{payment}\">Look at the payment</a>")),
        "{}",
        page.text
    );
    let told = "UPDATE reconciliation_items SET field = 'amount', ours = '1250', theirs = '130000',
                not_repaired = 'on_record' RETURNING field";
    site.api.one::<String>(told).await;
    let page = bo.open(&way).await;
    for text in ["12.50 EUR", "1,300.00 EUR", "The charge is on record by its name; it can be refunded"] {
        assert!(page.says(text), "{text}: {}", page.text);
    }
    assert!(page.says("Give it back from the payment's page"), "{}", page.text);
    assert!(!page.says("130000") && !page.says("on_record"), "{}", page.text);
    assert!(!offers(&page, &way, "repair") && offers(&page, &way, "dismiss"), "{}", page.text);
}

//! Workers: the pattern of a page that shows what a verb of the schedule answers.

use super::browser::Browser;
use crate::support::api::Api;

#[tokio::test]
async fn it_shows_who_is_at_work_and_says_so_where_nobody_is() {
    let api = Api::start(|_| {}).await;
    let mut browser = Browser::of(&api, "ana", &["ops:read"]).await;
    let page = browser.open("/ui/workers").await;
    for text in ["<h1>Workers</h1>", "No worker is at work", "No relay is at work", "No publisher is at work"]
    {
        assert!(page.says(text), "{text}: {}", page.text);
    }
    assert!(page.says("aria-current=\"page\">Workers<"), "{}", page.text);
    // The banner knows it too.
    assert!(page.says("no relay is at work"), "{}", page.text);
}

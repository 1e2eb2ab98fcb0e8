//! What is new, as server-sent events.

use super::browser::Browser;
use crate::support::api::Api;
use punctual::domain::ids::Operator;
use punctual::schedule::{By, KeyRevoked};
use std::time::Duration;

/// A stream that is read event by event.
struct Stream {
    answer: reqwest::Response,
    rest: String,
}

impl Stream {
    async fn open(browser: &Browser<'_>, path: &str, last: Option<&str>) -> Self {
        let request = browser.http().get(browser.url(path)).header("Cookie", browser.cookie_line());
        let request = match last {
            Some(last) => request.header("Last-Event-ID", last),
            None => request,
        };
        let answer = request.send().await.expect("it answers");
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self { answer, rest: String::new() }
    }

    async fn is_told_to_go(&mut self) {
        while let Some(event) = self.event().await {
            if event.contains("event: gone") {
                assert_eq!(self.event().await, None, "its place is free then");
                return;
            }
        }
        panic!("the stream ended without a word");
    }

    /// The next event of a name, past comments; `None` at the end of the stream.
    async fn event(&mut self) -> Option<String> {
        let reading = async {
            loop {
                while let Some((event, rest)) = self.rest.split_once("\n\n") {
                    let (event, rest) = (event.to_owned(), rest.to_owned());
                    self.rest = rest;
                    if event.contains("event: ") {
                        return Some(event);
                    }
                }
                let chunk = self.answer.chunk().await.expect("it goes on")?;
                self.rest.push_str(std::str::from_utf8(&chunk).expect("a text"));
            }
        };
        tokio::time::timeout(Duration::from_secs(20), reading).await.expect("an event within twenty seconds")
    }
}

fn id(event: &str) -> String {
    event.strip_prefix("id: ").expect("an id").lines().next().expect("a line").to_owned()
}

#[tokio::test]
async fn every_viewer_is_sent_the_same_look_and_the_next_one_has_another_number() {
    let api = Api::start(|_| {}).await;
    let browser = Browser::of(&api, "ana", &["ops:read"]).await;
    let mut one = Stream::open(&browser, "/ui/stream", None).await;
    let first = one.event().await.expect("a look");
    assert!(first.contains("event: look\ndata: {\"minutes\":\""), "{first}");
    let mut two = Stream::open(&browser, "/ui/stream", None).await;
    let beside = two.event().await.expect("a look");
    let next = one.event().await.expect("another look");
    assert_ne!(id(&first), id(&next));
    assert!([&first, &next].contains(&&beside), "the newest one, byte by byte");
}

#[tokio::test]
async fn a_stream_that_comes_again_is_sent_nothing_that_its_page_has() {
    let api = Api::start(|_| {}).await;
    let browser = Browser::of(&api, "ana", &["ops:read"]).await;
    let mut watching = Stream::open(&browser, "/ui/stream", None).await;
    for (path, by_header) in [("/ui/stream", true), ("/ui/stream?after=", false)] {
        let has = id(&watching.event().await.expect("a look"));
        let path = if by_header { path.to_owned() } else { format!("{path}{has}") };
        let mut again = Stream::open(&browser, &path, by_header.then_some(has.as_str())).await;
        assert_ne!(id(&again.event().await.expect("a look")), has, "{path}");
    }
    // Of another life of the process: the newest look at once.
    let mut lost = Stream::open(&browser, "/ui/stream", Some("0000000000000000-7")).await;
    assert!(lost.event().await.expect("a look").contains("event: look"));
}

#[tokio::test]
async fn a_stream_ends_with_its_key_with_its_login_and_with_the_process() {
    let api = Api::start(|_| {}).await;
    let (key_id, key) = api.new_key_until("ana", &["ops:read"], None).await;
    let mut browser = Browser::new(&api);
    browser.log_in(&key).await;
    let mut stream = Stream::open(&browser, "/ui/stream", None).await;
    assert!(stream.event().await.expect("a look").contains("event: look"));
    let by = By { operator: Operator("test".into()), reason: "a test".into() };
    assert!(matches!(api.owner.revoke_api_key(key_id, by).await.expect("revoked"), KeyRevoked::Revoked(_)));
    stream.is_told_to_go().await;
    let mut leaving = Browser::of(&api, "cy", &["ops:read"]).await;
    let mut stream = Stream::open(&leaving, "/ui/stream", None).await;
    let token = leaving.open("/ui/workers").await.token();
    assert_eq!(leaving.post("/ui/logout", &[("csrf", &token)]).await.leads_to(), "/ui/login");
    stream.is_told_to_go().await;
    let other = Browser::of(&api, "bo", &["ops:read"]).await;
    let mut stream = Stream::open(&other, "/ui/stream", None).await;
    assert!(stream.event().await.is_some());
    api.stop();
    while stream.event().await.is_some() {}
}

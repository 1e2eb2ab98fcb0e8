//! Rates of requests, as clients meet them.

use crate::support::api::{Answer, Api, send};
use crate::support::eventually;
use futures_util::future::join_all;
use std::time::Duration;

async fn list(api: &Api, key: &str, from: Option<&str>) -> Answer {
    let request = api.anonymous("GET", "/v1/scheduled-payments").bearer_auth(key);
    let request = if let Some(from) = from { request.header("X-Forwarded-For", from) } else { request };
    send(request, None).await
}

/// Many requests at once, until one of them is refused.
async fn until_refused(api: &Api, key: &str, from: Option<&str>) -> Answer {
    for _ in 0..100 {
        let answers = join_all((0..100).map(|_| list(api, key, from))).await;
        if let Some(refused) = answers.into_iter().find(|answer| answer.status != 200) {
            return refused;
        }
    }
    panic!("ten thousand requests were taken");
}

#[tokio::test]
async fn an_actor_beyond_its_rate_is_told_when_to_come_back_and_others_are_not_disturbed() {
    let api = Api::start(|api| api.rate_per_actor = 20).await;
    let other = api.new_key("another", &["payments:read"]).await;
    let same = api.new_key("tester", &["payments:read"]).await;
    let first = list(&api, &api.key, None).await;
    assert_eq!(first.header("ratelimit-policy"), "\"actor\";q=20;w=1");
    assert_eq!(first.header("ratelimit"), "\"actor\";r=19;t=1");
    let refused = until_refused(&api, &api.key, None).await;
    assert_eq!(refused.refusal(), (429, "rate_limited".into()));
    assert_eq!(refused.json()["retryable"], true);
    assert_eq!((refused.header("retry-after"), refused.header("ratelimit")), ("1", "\"actor\";r=0;t=1"));
    assert_eq!(list(&api, &other, None).await.status, 200);
    eventually("it may come back", Duration::from_secs(20), || async {
        (list(&api, &api.key, None).await.status == 200).then_some(())
    })
    .await;
    until_refused(&api, &same, None).await;
}

#[tokio::test]
async fn an_address_beyond_its_rate_is_refused_before_its_key_is_looked_at() {
    let api = Api::start(|api| {
        api.rate_per_address = 20;
        api.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
    })
    .await;
    let first = list(&api, &api.key, Some("198.51.100.1")).await;
    assert_eq!(first.header("ratelimit-policy"), "\"address\";q=20;w=1");
    let refused = until_refused(&api, &api.key, Some("198.51.100.1")).await;
    assert_eq!(refused.refusal(), (429, "rate_limited".into()));
    assert_eq!(list(&api, &api.key, Some("198.51.100.2")).await.status, 200, "another address");
    // What a client writes itself before the proxy's word does not count.
    until_refused(&api, &api.key, Some("203.0.113.5, 198.51.100.1")).await;
    let health = send(api.anonymous("GET", "/livez").header("X-Forwarded-For", "198.51.100.1"), None).await;
    assert_eq!(health.status, 200, "health is no route of clients");
}

#[tokio::test]
async fn without_a_trusted_proxy_what_is_forwarded_is_believed_nothing() {
    let api = Api::start(|api| api.rate_per_address = 20).await;
    for _ in 0..100 {
        let froms: Vec<String> = (0..100).map(|number| format!("198.51.100.{number}")).collect();
        let answers = join_all(froms.iter().map(|from| list(&api, &api.key, Some(from)))).await;
        if answers.iter().any(|answer| answer.status == 429) {
            return;
        }
    }
    panic!("every request came from the same peer and all were taken");
}

#[tokio::test]
async fn wrong_keys_are_limited_for_their_address_and_a_client_at_work_is_not() {
    let api = Api::start(|api| {
        api.failed_auth_per_address = 30;
        api.key_cache = Duration::ZERO;
    })
    .await;
    assert_eq!(list(&api, &api.key, None).await.status, 200);
    let elsewhere = Api::start(|_| {}).await;
    let mut refused = None;
    for _ in 0..100 {
        let answers = join_all((0..100).map(|_| list(&api, &elsewhere.key, None))).await;
        refused = answers.into_iter().find(|answer| answer.status != 401);
        if refused.is_some() {
            break;
        }
    }
    let refused = refused.expect("a limit");
    assert_eq!(refused.refusal(), (429, "rate_limited".into()), "{}", refused.text);
    assert!(refused.header("retry-after").parse::<u32>().is_ok_and(|seconds| (1..=60).contains(&seconds)));
    assert_eq!(list(&api, &api.key, None).await.status, 200, "confirmed before, from the same address");
    let anonymous = send(api.anonymous("GET", "/v1/scheduled-payments"), None).await;
    assert!(matches!(anonymous.status, 401 | 429), "{}", anonymous.text);
}

#[tokio::test]
async fn as_it_comes_there_is_no_limit_and_no_header_about_one() {
    let api = Api::start(|_| {}).await;
    for _ in 0..200 {
        let answer = list(&api, &api.key, None).await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, ""));
    }
}

//! Keys through the interface: made, rotated, revoked, and who did it.

use crate::support::api::{Answer, Api, send};
use crate::support::eventually;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// An interface with the key of an administrator.
async fn site() -> (Api, String) {
    let api = Api::start(|_| {}).await;
    let admin = api.new_key("chief", &["admin"]).await;
    (api, admin)
}

async fn act(api: &Api, admin: &str, path: &str, body: Value) -> Answer {
    send(api.anonymous("POST", &format!("/v1/ops/api-keys{path}")).bearer_auth(admin), Some(&body)).await
}

async fn make(api: &Api, admin: &str, name: &str) -> (String, String) {
    let body = json!({"actor": "shop", "name": name, "scopes": ["payments:read"], "reason": "a new shop"});
    let made = act(api, admin, "", body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    (field(&made, "keyId"), field(&made, "apiKey"))
}

fn field(answer: &Answer, name: &str) -> String {
    let document = answer.json();
    document[name].as_str().unwrap_or_else(|| panic!("{name}: {document}")).to_owned()
}

fn instant(value: &Value) -> DateTime<Utc> {
    value.as_str().expect("a time").parse().expect("RFC 3339")
}

/// What this key is answered where it may read.
async fn status(http: &reqwest::Client, url: &str, key: &str) -> u16 {
    let request = http.get(format!("{url}/v1/scheduled-payments")).bearer_auth(key);
    request.send().await.expect("an answer").status().as_u16()
}

async fn listed(api: &Api, admin: &str, query: &str) -> Value {
    let request = api.anonymous("GET", &format!("/v1/ops/api-keys{query}")).bearer_auth(admin);
    let answer = send(request, None).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

#[tokio::test]
async fn a_key_is_shown_once_works_at_once_and_its_making_is_on_record() {
    let (api, admin) = site().await;
    let ends = (Utc::now() + TimeDelta::hours(1)).to_rfc3339();
    let made = act(
        &api,
        &admin,
        "",
        json!({"actor": "shop", "name": "till", "scopes": ["payments:write", "payments:read", "payments:read"],
            "expiresAt": ends, "reason": "a new till"}),
    )
    .await;
    assert_eq!((made.status, made.header("cache-control")), (201, "no-store"), "{}", made.text);
    assert_eq!(made.json()["scopes"], json!(["payments:read", "payments:write"]));
    let (id, text) = (field(&made, "keyId"), field(&made, "apiKey"));
    assert_eq!(status(&reqwest::Client::new(), &api.url, &text).await, 200);

    let list = listed(&api, &admin, "?actor=shop").await;
    assert_eq!(list["data"].as_array().expect("keys").len(), 1, "{list}");
    let shown = &list["data"][0];
    assert_eq!(
        (&shown["keyId"], &shown["name"], &shown["actor"]),
        (&json!(id), &json!("till"), &json!("shop"))
    );
    assert!(!list.to_string().contains(&text), "{list}");
    let act: Value = api
        .one("SELECT to_jsonb(o) - 'id' - 'at' FROM operator_acts o WHERE act = 'api_key_made' AND detail ->> 'name' = 'till'")
        .await;
    assert_eq!(
        (&act["operator"], &act["subject"], &act["reason"], &act["detail"]["actor"]),
        (&json!("key:chief"), &json!(format!("api_key:{id}")), &json!("a new till"), &json!("shop"))
    );
    assert!(!act.to_string().contains(&text), "{act}");
}

#[tokio::test]
async fn what_is_wrong_with_a_new_key_is_named() {
    let (api, admin) = site().await;
    make(&api, &admin, "till").await;
    let good = json!({"actor": "shop", "scopes": ["payments:read"], "reason": "r"});
    for (name, value, status, code) in [
        ("reason", Value::Null, 400, "wrong_type"),
        ("reason", json!(""), 422, "empty"),
        ("reason", json!(" \n"), 422, "empty"),
        ("reason", json!("x".repeat(501)), 422, "too_long"),
        ("reason", json!("a\u{0}b"), 422, "invalid_character"),
        ("reason", json!("card 4111 1111 1111 1111"), 422, "raw_card_number"),
        ("actor", json!(" shop"), 422, "invalid_name"),
        ("actor", json!("4111111111111111"), 422, "invalid_name"),
        ("name", json!(""), 422, "invalid_name"),
        ("name", json!("till"), 409, "api_key_name_taken"),
        ("scopes", json!([]), 422, "empty"),
        ("scopes", json!(["payments:raed"]), 422, "unknown_scope"),
        ("scopes", json!("payments:read"), 400, "wrong_type"),
        ("expiresAt", json!("2020-01-01T00:00:00Z"), 422, "end_in_past"),
        ("expiresAt", json!("2030-01-01"), 400, "invalid_time"),
        ("admin", json!(true), 400, "unknown_field"),
    ] {
        let mut body = good.clone();
        body[name] = value.clone();
        let answer = act(&api, &admin, "", body).await;
        assert_eq!(answer.refusal(), (status, code.into()), "{name}: {value}: {}", answer.text);
        assert!(!answer.text.contains("4111"), "{}", answer.text);
    }
    let made: i64 = api.one("SELECT count(*) FROM operator_acts WHERE operator = 'key:chief'").await;
    assert_eq!(made, 1, "what was refused is no act");
    assert_eq!(act(&api, &admin, "", good).await.status, 201, "the good one itself");
}

#[tokio::test]
async fn a_rotated_key_lives_beside_its_successor_until_the_overlap_ends() {
    let api = Api::start(|api| api.key_cache = Duration::from_millis(100)).await;
    let admin = api.new_key("chief", &["admin"]).await;
    let (old, old_text) = make(&api, &admin, "till").await;
    let path = format!("/{old}/rotate");
    let next = act(&api, &admin, &path, json!({"reason": "a year has passed", "overlapSeconds": 6})).await;
    assert_eq!(next.status, 201, "{}", next.text);
    let next_json = next.json();
    assert_eq!(
        (&next_json["name"], &next_json["scopes"], &next_json["replaces"]["keyId"]),
        (&json!("till"), &json!(["payments:read"]), &json!(old))
    );
    let ends = instant(&next_json["replaces"]["endsAt"]);
    let ahead = ends - api.owner.database_now().await.expect("a clock");
    assert!(ahead > TimeDelta::zero() && ahead <= TimeDelta::seconds(6), "{ahead}");
    let (http, new_text) = (reqwest::Client::new(), field(&next, "apiKey"));
    assert_eq!(status(&http, &api.url, &new_text).await, 200);
    assert_eq!(status(&http, &api.url, &old_text).await, 200, "both work meanwhile");

    // Two are live: neither has a third beside it, and no key is made with their name.
    for id in [&old, &field(&next, "keyId")] {
        let third = act(&api, &admin, &format!("/{id}/rotate"), json!({"reason": "again"})).await;
        assert_eq!(third.refusal(), (409, "rotation_under_way".into()), "{}", third.text);
    }
    let body = json!({"actor": "shop", "name": "till", "scopes": ["payments:read"], "reason": "r"});
    assert_eq!(act(&api, &admin, "", body).await.refusal(), (409, "api_key_name_taken".into()));

    eventually("the old one has ended", Duration::from_secs(20), || async {
        (status(&http, &api.url, &old_text).await == 401).then_some(())
    })
    .await;
    assert_eq!(status(&http, &api.url, &new_text).await, 200);
    let ended = act(&api, &admin, &path, json!({"reason": "late"})).await;
    assert_eq!(ended.refusal(), (409, "api_key_not_live".into()));
    let again =
        act(&api, &admin, &format!("/{}/rotate", field(&next, "keyId")), json!({"reason": "again"})).await;
    assert_eq!(again.status, 201, "{}", again.text);
    for overlap in [json!(2_592_001), json!(-1), json!("1d")] {
        let odd = act(&api, &admin, &path, json!({"reason": "r", "overlapSeconds": overlap})).await;
        assert!(matches!(odd.status, 400 | 422), "{}", odd.text);
    }
}

#[tokio::test]
async fn a_successor_lives_as_long_as_its_predecessor_was_made_for() {
    let (api, admin) = site().await;
    let ends = (Utc::now() + TimeDelta::hours(10)).to_rfc3339_opts(SecondsFormat::Millis, true);
    let body = json!({"actor": "shop", "scopes": ["payments:read"], "expiresAt": ends, "reason": "r"});
    let made = act(&api, &admin, "", body).await;
    let id = field(&made, "keyId");
    let next =
        act(&api, &admin, &format!("/{id}/rotate"), json!({"reason": "r", "overlapSeconds": 2_592_000}))
            .await;
    assert_eq!(next.status, 201, "{}", next.text);
    let left = instant(&next.json()["expiresAt"]) - Utc::now();
    assert!((left - TimeDelta::hours(10)).abs() < TimeDelta::minutes(5), "{left}");
    let old_ends = instant(&next.json()["replaces"]["endsAt"]);
    assert_eq!(Some(old_ends), ends.parse::<DateTime<Utc>>().ok(), "no overlap makes a key live longer");
}

#[tokio::test]
async fn of_many_rotations_at_once_one_makes_a_key() {
    let (api, admin) = site().await;
    let (id, _) = make(&api, &admin, "till").await;
    let path = format!("/{id}/rotate");
    let answers = join_all((0..8).map(|_| act(&api, &admin, &path, json!({"reason": "r"})))).await;
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
    let live = "SELECT count(*) FROM api_keys WHERE name = 'till' AND revoked_at IS NULL";
    assert_eq!(api.one::<i64>(live).await, 2);
    let acts = "SELECT count(*) FROM operator_acts WHERE act = 'api_key_rotated'";
    assert_eq!(api.one::<i64>(acts).await, 1);
    let makes = join_all((0..8).map(|_| {
        let body = json!({"actor": "new", "name": "only", "scopes": ["payments:read"], "reason": "r"});
        act(&api, &admin, "", body)
    }))
    .await;
    assert_eq!(makes.iter().filter(|answer| answer.status == 201).count(), 1);
}

#[tokio::test]
async fn a_revoked_key_is_refused_at_once_here_and_within_five_seconds_elsewhere() {
    let (api, admin) = site().await;
    let other = api.another(|_| {}).await;
    let (id, text) = make(&api, &admin, "till").await;
    let http = reqwest::Client::new();
    assert_eq!(status(&http, &api.url, &text).await, 200);
    assert_eq!(status(&http, &other.url, &text).await, 200);
    let revoked = act(&api, &admin, &format!("/{id}/revoke"), json!({"reason": "it leaked"})).await;
    let revoked_at = Instant::now();
    assert_eq!(revoked.status, 200, "{}", revoked.text);
    assert_eq!(status(&http, &api.url, &text).await, 401, "no cache of this process believes it");
    eventually("the other process has forgotten it", Duration::from_secs(5), || async {
        (status(&http, &other.url, &text).await == 401).then_some(())
    })
    .await;
    assert!(revoked_at.elapsed() < Duration::from_secs(5));
    let again = act(&api, &admin, &format!("/{id}/revoke"), json!({"reason": "again"})).await;
    assert_eq!((again.status, again.text), (200, revoked.text), "the first time counts");
    let acts = "SELECT count(*) FROM operator_acts WHERE act = 'api_key_revoked'";
    assert_eq!(api.one::<i64>(acts).await, 1);
    for path in ["/01a2283e-8820-4aaa-9bbb-0123456789ab/revoke", "/nonsense/rotate"] {
        let answer = act(&api, &admin, path, json!({"reason": "r"})).await;
        assert_eq!(answer.refusal(), (404, "api_key_not_found".into()), "{path}");
    }
}

#[tokio::test]
async fn the_last_use_is_written_once_a_minute_by_all_processes_together() {
    let (api, admin) = site().await;
    let other = api.another(|_| {}).await;
    let (id, text) = make(&api, &admin, "till").await;
    let used = format!("SELECT last_used_at FROM api_keys WHERE id = '{id}'");
    assert_eq!(api.one::<Option<DateTime<Utc>>>(&used).await, None);
    let http = reqwest::Client::new();
    assert_eq!(status(&http, &api.url, &text).await, 200);
    let first = eventually("the use is written", Duration::from_secs(20), || async {
        api.one::<Option<DateTime<Utc>>>(&used).await
    })
    .await;
    for _ in 0..20 {
        assert_eq!(status(&http, &api.url, &text).await, 200);
        assert_eq!(status(&http, &other.url, &text).await, 200);
    }
    assert!(listed(&api, &admin, "?actor=shop").await["data"][0]["lastUsedAt"].is_string());
    // The administrator's own first use is written behind those of this key, if any were.
    let admins =
        "SELECT max(last_used_at) FROM api_keys k JOIN actors a ON a.id = k.actor_id WHERE a.name = 'chief'";
    eventually("the later use is written", Duration::from_secs(20), || async {
        api.one::<Option<DateTime<Utc>>>(admins).await
    })
    .await;
    assert_eq!(api.one::<Option<DateTime<Utc>>>(&used).await, Some(first), "a minute has not passed");
    let aged = format!(
        "UPDATE api_keys SET last_used_at = last_used_at - interval '2 min' WHERE id = '{id}' RETURNING true"
    );
    assert!(api.one::<bool>(&aged).await);
    let third = api.another(|_| {}).await;
    assert_eq!(status(&http, &third.url, &text).await, 200);
    eventually("the next minute's use is written", Duration::from_secs(20), || async {
        api.one::<Option<DateTime<Utc>>>(&used).await.filter(|at| *at >= first)
    })
    .await;
}

#[tokio::test]
async fn a_list_is_walked_in_pages_that_share_nothing() {
    let (api, admin) = site().await;
    for name in ["a", "b", "c", "d", "e"] {
        make(&api, &admin, name).await;
    }
    let (mut seen, mut query) = (Vec::new(), "?actor=shop&limit=2".to_owned());
    loop {
        let page = listed(&api, &admin, &query).await;
        let names = page["data"].as_array().expect("keys").iter().map(|key| key["name"].clone());
        seen.extend(names);
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        query = format!("?actor=shop&limit=2&cursor={cursor}");
    }
    assert_eq!(json!(seen), json!(["a", "b", "c", "d", "e"]));
    assert_eq!(listed(&api, &admin, "?actor=nobody").await, json!({"data": [], "nextCursor": null}));
    let bad = api.anonymous("GET", "/v1/ops/api-keys?cursor=x").bearer_auth(&admin);
    assert_eq!(send(bad, None).await.refusal(), (400, "invalid_cursor".into()));
}

//! API keys from the command line: made, listed, ended, and refused before the database sees them.

use crate::support::eventually;
use crate::support::installation::Installation;
use serde_json::Value;
use std::time::Duration;

fn keys(site: &Installation, rest: &[&str]) -> Vec<Value> {
    let told = site.run(&[&["keys", "list", "-o", "json"], rest].concat());
    let told: Value = serde_json::from_str(&told).expect("JSON of the keys");
    told["keys"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn a_key_is_listed_without_its_text_and_ends_when_it_is_revoked() {
    let mut site = Installation::new(&[]).await;
    site.start("api", "api-1", &[("api.key_cache", "100ms")]).await;
    let made = site.run(&["keys", "create", "--actor", "shop", "--scope", "payments:read", "-o", "json"]);
    let made: Value = serde_json::from_str(&made).expect("JSON of the key");
    let (id, text) = (made["keyId"].as_str().expect("an id"), made["apiKey"].as_str().expect("a text"));

    let listed = keys(&site, &["--actor", "shop"]);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((&listed[0]["keyId"], &listed[0]["revokedAt"]), (&made["keyId"], &Value::Null));
    assert_eq!(listed[0]["scopes"], serde_json::json!(["payments:read"]));
    assert_eq!(keys(&site, &[]).len(), 2, "the tester's as well");
    for shown in [site.run(&["keys", "list"]), site.run(&["keys", "list", "-o", "json"])] {
        assert!(shown.contains(id) && shown.contains("shop") && !shown.contains(text), "{shown}");
    }

    let status = || async {
        let url = format!("{}/v1/scheduled-payments", site.url("api-1"));
        site.http.get(url).bearer_auth(text).send().await.expect("the API answers").status().as_u16()
    };
    assert_eq!(status().await, 200);
    assert!(site.run(&["keys", "revoke", id]).contains("revoked"));
    eventually("the key is forgotten", Duration::from_secs(10), || async {
        (status().await == 401).then_some(())
    })
    .await;
    assert!(keys(&site, &["--actor", "shop"])[0]["revokedAt"].is_string());
    let (code, said) = site.tell(&["keys", "revoke", id]);
    assert!(code == Some(5) && said.contains("keys list"), "{code:?}: {said}");
}

#[tokio::test]
async fn an_unknown_scope_and_an_odd_name_are_refused_without_a_database() {
    let site = Installation::new(&[]).await;
    let nowhere = ["--set", "database.url=postgres://nobody@127.0.0.1:1/none"];
    for (rest, told) in [
        (["--actor", "shop", "--scope", "payments:raed"], "payments:read, payments:write"),
        (["--actor", " shop", "--scope", "payments:read"], "1 to 100 characters"),
    ] {
        let (code, said) = site.tell(&[&nowhere[..], &["keys", "create"], &rest].concat());
        assert!(code == Some(2) && said.contains(told), "{code:?}: {said}");
    }
}

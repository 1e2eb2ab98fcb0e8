//! API keys from the command line: made, listed, ended, and refused before the database sees them.

use crate::support::eventually;
use crate::support::installation::Installation;
use serde_json::Value;
use std::time::Duration;

fn keys(site: &Installation, rest: &[&str]) -> Vec<Value> {
    let told = site.run(&[&["keys", "list", "-o", "json"], rest].concat());
    let told: Value = serde_json::from_str(&told).expect("JSON of the keys");
    told.as_array().expect("a list").clone()
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

#[tokio::test]
async fn a_named_key_with_an_end_is_rotated_and_has_one_successor() {
    let site = Installation::new(&[]).await;
    let create = ["keys", "create", "--actor", "shop", "--name", "till", "--expires", "90d", "-o", "json"];
    let made: Value = serde_json::from_str(&site.run(&create)).expect("JSON of the key");
    let id = made["keyId"].as_str().expect("an id");
    assert!(made["expiresAt"].is_string(), "{made}");
    let (code, said) = site.tell(&create);
    assert!(code == Some(6) && said.contains("keys rotate"), "{code:?}: {said}");

    let rotate =
        |id: &str, overlap: &str| site.tell(&["keys", "rotate", id, "--overlap", overlap, "-o", "json"]);
    let next: Value =
        serde_json::from_str(&site.run(&["keys", "rotate", id, "--overlap", "1h", "-o", "json"]))
            .expect("JSON of the key");
    assert_ne!((&next["keyId"], &next["apiKey"]), (&made["keyId"], &made["apiKey"]));
    assert_eq!((&next["scopes"], &next["actorId"]), (&made["scopes"], &made["actorId"]));
    let listed = keys(&site, &["--actor", "shop"]);
    assert!(listed.len() == 2 && listed.iter().all(|key| key["name"] == "till"), "{listed:?}");
    assert!(
        listed.iter().all(|key| key["expiresAt"].is_string() && key["lastUsedAt"].is_null()),
        "{listed:?}"
    );
    for (id, overlap, exit, told) in [
        (id, "1h", 6, "are live"),
        (next["keyId"].as_str().expect("an id"), "0s", 6, "are live"),
        ("01a2283e-8820-4aaa-9bbb-0123456789ab", "1h", 5, "keys list"),
        (id, "31d", 2, "30d"),
    ] {
        let (code, said) = rotate(id, overlap);
        assert!(code == Some(exit) && said.contains(told), "{code:?}: {said}");
    }
}

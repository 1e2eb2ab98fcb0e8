//! Tokens of an identity provider as clients use them; what is refused of them is a table beside the code.

use crate::support::api::{Answer, Api, send};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{SecondsFormat, TimeDelta, Utc};
use openssl::pkey::{PKey, Private};
use openssl::sign::Signer;
use punctual::platform::config::Oidc;
use serde_json::{Value, json};
use std::path::PathBuf;

/// An issuer whose keys lie in a file.
struct Issuer {
    folder: tempfile::TempDir,
    keys: Vec<(String, PKey<Private>)>,
}

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Issuer {
    fn new() -> Self {
        let mut issuer = Self { folder: tempfile::tempdir().expect("a folder"), keys: Vec::new() };
        issuer.publish("first");
        issuer
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("keys.json")
    }

    /// Adds a key and writes all of them.
    fn publish(&mut self, kid: &str) {
        self.keys.push((kid.to_owned(), PKey::generate_ed25519().expect("a key")));
        self.write();
    }

    fn write(&self) {
        let jwk = |(kid, key): &(String, PKey<Private>)| {
            let x = b64(key.raw_public_key().expect("a point"));
            json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": kid, "x": x})
        };
        let document = json!({"keys": self.keys.iter().map(jwk).collect::<Vec<_>>()});
        std::fs::write(self.path(), document.to_string()).expect("written");
    }

    fn settings(&self) -> Oidc {
        Oidc {
            issuer: "https://id.example".into(),
            audience: "punctual".into(),
            jwks: self.path().display().to_string(),
            actor_claim: "client_id".into(),
            ..Oidc::default()
        }
    }

    /// A token of the newest key that holds from `from` to `to` seconds from now.
    fn token(&self, client: &str, scope: &str, from: i64, to: i64) -> String {
        let (kid, key) = self.keys.last().expect("a key");
        let now = Utc::now().timestamp();
        let claims = json!({"iss": "https://id.example", "aud": "punctual", "sub": format!("{client}-1"),
            "client_id": client, "scope": scope, "nbf": now + from, "exp": now + to});
        let head = json!({"alg": "EdDSA", "typ": "JWT", "kid": kid});
        let message = format!("{}.{}", b64(head.to_string()), b64(claims.to_string()));
        let mut signer = Signer::new_without_digest(key).expect("a signer");
        let signature = signer.sign_oneshot_to_vec(message.as_bytes()).expect("signed");
        format!("{message}.{}", b64(signature))
    }
}

async fn create(api: &Api, key: &str, idempotency_key: &str) -> Answer {
    let due = (Utc::now() + TimeDelta::hours(1)).to_rfc3339_opts(SecondsFormat::Secs, true);
    let body = json!({"payee": "p", "amount": 1, "currency": "EUR", "dueAt": due});
    let request = api.anonymous("POST", "/v1/scheduled-payments").bearer_auth(key);
    send(request.header("Idempotency-Key", idempotency_key), Some(&body)).await
}

async fn list(api: &Api, key: &str) -> Answer {
    send(api.anonymous("GET", "/v1/scheduled-payments").bearer_auth(key), None).await
}

#[tokio::test]
async fn a_token_is_a_client_of_its_own_and_shares_an_actor_with_keys_of_its_name() {
    let issuer = Issuer::new();
    let api = Api::start_taking(&issuer.settings(), |_| {}).await;
    let token = issuer.token("shop", "payments:read payments:write nonsense", -10, 600);
    let made = create(&api, &token, "k").await;
    assert_eq!(made.status, 201, "{}", made.text);
    let id = made.json()["paymentId"].as_str().expect("an id").to_owned();
    let key_of_shop = api.new_key("shop", &["payments:read"]).await;
    for (key, sees) in [(&token, true), (&key_of_shop, true), (&api.key, false)] {
        assert_eq!(list(&api, key).await.text.contains(&id), sees);
    }
    let other = issuer.token("another", "payments:read", -10, 600);
    let path = format!("/v1/scheduled-payments/{id}");
    let foreign = send(api.anonymous("GET", &path).bearer_auth(&other), None).await;
    assert_eq!(foreign.refusal(), (404, "payment_not_found".into()));
    let narrow = create(&api, &other, "k").await;
    assert_eq!(narrow.refusal(), (403, "missing_scope".into()));
    assert_eq!(api.one::<i64>("SELECT count(*) FROM actors WHERE name IN ('shop', 'another')").await, 2);
}

#[tokio::test]
async fn an_administrator_s_token_is_named_in_what_is_written_down() {
    let issuer = Issuer::new();
    let api = Api::start_taking(&issuer.settings(), |_| {}).await;
    let token = issuer.token("console", "admin", -10, 600);
    let request = api.anonymous("POST", "/v1/ops/api-keys").bearer_auth(&token);
    let body = json!({"actor": "till", "scopes": ["payments:read"], "reason": "a till"});
    assert_eq!(send(request, Some(&body)).await.status, 201);
    let operator: String = api.one("SELECT operator FROM operator_acts WHERE reason = 'a till'").await;
    assert_eq!(operator, "oidc:https://id.example#console-1");
}

#[tokio::test]
async fn a_token_holds_by_the_database_s_clock_with_thirty_seconds_of_leeway() {
    let issuer = Issuer::new();
    let api = Api::start_taking(&issuer.settings(), |_| {}).await;
    for (from, to, status) in [
        (-10, 600, 200),
        (-600, -2, 200),
        (-600, -60, 401),
        (15, 600, 200),
        (120, 600, 401),
        (-600, -599, 401),
    ] {
        let client = format!("client{from}{to}");
        let answer = list(&api, &issuer.token(&client, "payments:read", from, to)).await;
        assert_eq!(answer.status, status, "{from} to {to}: {}", answer.text);
        let made: i64 = api.one(&format!("SELECT count(*) FROM actors WHERE name = '{client}'")).await;
        assert_eq!(made, i64::from(status == 200), "no actor is made for a token that does not hold");
    }
}

#[tokio::test]
async fn a_new_key_of_the_issuer_is_found_when_its_first_token_comes_and_a_forged_one_is_not() {
    let mut issuer = Issuer::new();
    let api = Api::start_taking(&issuer.settings(), |_| {}).await;
    assert_eq!(list(&api, &issuer.token("shop", "payments:read", -10, 600)).await.status, 200);
    let forger = {
        let mut forger = Issuer::new();
        forger.publish("second");
        forger
    };
    issuer.publish("second");
    let forged = forger.token("shop", "admin payments:read", -10, 600);
    assert_eq!(list(&api, &forged).await.refusal(), (401, "unauthenticated".into()));
    let next = list(&api, &issuer.token("shop", "payments:read", -10, 600)).await;
    // The keys were read at the start, and are not read again within ten seconds.
    assert!(matches!(next.status, 200 | 401), "{}", next.text);
    crate::support::eventually("the new key is known", std::time::Duration::from_secs(60), || async {
        let token = issuer.token("shop", "payments:read", -10, 600);
        (list(&api, &token).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(list(&api, &forged).await.status, 401);
}

#[tokio::test]
async fn where_no_tokens_are_taken_a_good_one_is_no_better_than_any() {
    let issuer = Issuer::new();
    let api = Api::start(|_| {}).await;
    let answer = list(&api, &issuer.token("shop", "payments:read", -10, 600)).await;
    assert_eq!(answer.refusal(), (401, "unauthenticated".into()));
    let document: Value = answer.json();
    assert_eq!(document.get("detail"), Some(&json!(punctual::intake::Code::Unauthenticated.doc())));
}

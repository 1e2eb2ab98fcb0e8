//! Tokens that must be refused, one by one, beside the one that differs in nothing else and is taken.
//!
//! Keys are made here and the signatures by OpenSSL, so that what verifies does not also sign.

use super::claims::{Expected, Grants, Head, Refused};
use super::keys::{self, Key};
use super::*;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::sign::Signer;
use serde_json::{Value, json};
use sha2::Sha256;
use std::collections::HashMap;
use std::sync::LazyLock;

const ISSUER: &str = "https://id.example";

/// Making an RSA key takes a while; all tests share these.
static RSA: LazyLock<PKey<Private>> = LazyLock::new(|| rsa(2_048));
static OTHER_RSA: LazyLock<PKey<Private>> = LazyLock::new(|| rsa(2_048));
static ED: LazyLock<PKey<Private>> = LazyLock::new(|| PKey::generate_ed25519().unwrap());

fn rsa(bits: u32) -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(bits).unwrap()).unwrap()
}

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn rsa_jwk(kid: &str, key: &PKey<Private>) -> Value {
    let key = key.rsa().unwrap();
    json!({"kty": "RSA", "kid": kid, "n": b64(key.n().to_vec()), "e": b64(key.e().to_vec())})
}

fn ed_jwk(kid: &str, key: &PKey<Private>) -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": b64(key.raw_public_key().unwrap())})
}

fn with(mut jwk: Value, name: &str, value: Value) -> Value {
    jwk[name] = value;
    jwk
}

fn ring(jwks: &[Value]) -> Result<HashMap<String, Key>, String> {
    keys::usable(json!({"keys": jwks}).to_string().as_bytes())
}

fn signature(key: &PKey<Private>, message: &str) -> Vec<u8> {
    let mut signer = if key.rsa().is_ok() {
        Signer::new(MessageDigest::sha256(), key).unwrap()
    } else {
        Signer::new_without_digest(key).unwrap()
    };
    signer.sign_oneshot_to_vec(message.as_bytes()).unwrap()
}

fn message(head: &Value, claims: &Value) -> String {
    format!("{}.{}", b64(head.to_string()), b64(claims.to_string()))
}

fn signed(key: &PKey<Private>, head: &Value, claims: &Value) -> String {
    let message = message(head, claims);
    let signature = b64(signature(key, &message));
    format!("{message}.{signature}")
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "punctual", "sub": "user-1", "exp": 2_000_000_600, "nbf": 2_000_000_000,
        "client": "shop", "scope": "shop-clerk unknown"})
}

/// The claims with one of them changed; null takes it away.
fn changed(name: &str, value: Value) -> Value {
    let mut claims = claims();
    if value.is_null() {
        claims.as_object_mut().unwrap().remove(name);
    } else {
        claims[name] = value;
    }
    claims
}

fn expected() -> Expected {
    Expected {
        issuer: ISSUER.into(),
        audience: "punctual".into(),
        leeway: TimeDelta::seconds(30),
        actor_claim: "client".into(),
        scope_claim: "scope".into(),
        grants: Grants::read("shop-clerk=payments:read+payments:write,support=ops:read").unwrap(),
    }
}

/// As `Tokens::read` goes about it, with keys at hand.
fn judged(token: &str) -> Result<Told, Refused> {
    let ring = ring(&[rsa_jwk("rsa", &RSA), ed_jwk("ed", &ED)]).unwrap();
    let head = Head::read(token)?;
    let key = ring.get(&head.kid).ok_or(Refused::UnknownKey)?;
    expected().judge(token, &head, key)
}

fn rs256() -> Value {
    json!({"alg": "RS256", "typ": "JWT", "kid": "rsa"})
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap()
}

#[test]
fn a_good_token_of_either_kind_says_who_and_what() {
    let wanted = Told {
        actor: "shop".into(),
        operator: Operator("oidc:https://id.example#user-1".into()),
        scopes: vec!["payments:read".into(), "payments:write".into()],
        not_before: at(1_999_999_970),
        ends_at: at(2_000_000_630),
    };
    let ed = json!({"alg": "EdDSA", "typ": "at+jwt", "kid": "ed"});
    assert_eq!(judged(&signed(&RSA, &rs256(), &claims())).as_ref(), Ok(&wanted));
    assert_eq!(judged(&signed(&ED, &ed, &claims())).as_ref(), Ok(&wanted));
    for (name, value) in [
        ("aud", json!(["other", "punctual"])),
        ("scope", json!(["shop-clerk", 7, "nothing"])),
        ("jti", json!("x")),
    ] {
        assert_eq!(judged(&signed(&RSA, &rs256(), &changed(name, value))).as_ref(), Ok(&wanted), "{name}");
    }
    let bare = json!({"alg": "RS256", "kid": "rsa"});
    assert!(judged(&signed(&RSA, &bare, &claims())).is_ok());
}

#[test]
fn a_token_without_known_scopes_may_do_nothing() {
    for scope in [Value::Null, json!(""), json!("admin"), json!({"admin": true}), json!(7)] {
        let told = judged(&signed(&RSA, &rs256(), &changed("scope", scope.clone()))).unwrap();
        assert_eq!(told.scopes, Vec::<String>::new(), "{scope}");
    }
}

/// HS256 under a secret that everybody knows: the public key.
fn with_public_key_as_secret(head: &Value) -> String {
    let message = message(head, &claims());
    let mut mac = Hmac::<Sha256>::new_from_slice(&RSA.public_key_to_pem().unwrap()).unwrap();
    mac.update(message.as_bytes());
    format!("{message}.{}", b64(mac.finalize().into_bytes()))
}

#[test]
fn a_header_that_is_not_the_key_s_is_refused() {
    let head = |name: &str, value: Value| with(rs256(), name, value);
    let mut anonymous = rs256();
    anonymous.as_object_mut().unwrap().remove("kid");
    let none = head("alg", json!("none"));
    let embedded = head("jwk", rsa_jwk("rsa", &OTHER_RSA));
    for (what, token, refused) in [
        ("none, unsigned", format!("{}.", message(&none, &claims())), Refused::Algorithm),
        ("none, signed", signed(&RSA, &none, &claims()), Refused::Algorithm),
        ("HS256", with_public_key_as_secret(&head("alg", json!("HS256"))), Refused::Algorithm),
        ("HS256 called RS256", with_public_key_as_secret(&rs256()), Refused::Signature),
        ("RS512", signed(&RSA, &head("alg", json!("RS512")), &claims()), Refused::Algorithm),
        ("PS256", signed(&RSA, &head("alg", json!("PS256")), &claims()), Refused::Algorithm),
        ("rs256", signed(&RSA, &head("alg", json!("rs256")), &claims()), Refused::Algorithm),
        ("EdDSA of an RSA key", signed(&RSA, &head("alg", json!("EdDSA")), &claims()), Refused::Algorithm),
        ("RS256 of an Ed key", signed(&ED, &head("kid", json!("ed")), &claims()), Refused::Algorithm),
        ("another key's name", signed(&OTHER_RSA, &rs256(), &claims()), Refused::Signature),
        ("its own key", signed(&OTHER_RSA, &embedded, &claims()), Refused::Signature),
        ("an unknown key", signed(&RSA, &head("kid", json!("new")), &claims()), Refused::UnknownKey),
        ("no key", signed(&RSA, &anonymous, &claims()), Refused::Malformed),
        ("a number as key", signed(&RSA, &head("kid", json!(1)), &claims()), Refused::Malformed),
        ("a long key", signed(&RSA, &head("kid", json!("k".repeat(256))), &claims()), Refused::Malformed),
        ("crit", signed(&RSA, &head("crit", json!(["exp"])), &claims()), Refused::Malformed),
        ("a crit that is no list", signed(&RSA, &head("crit", json!("b64")), &claims()), Refused::Malformed),
        ("another type", signed(&RSA, &head("typ", json!("logout+jwt")), &claims()), Refused::Malformed),
    ] {
        assert_eq!(judged(&token).err(), Some(refused), "{what}");
    }
}

#[test]
fn claims_that_are_missing_wrong_or_for_others_are_refused() {
    let card = json!("4111 1111 1111 1111");
    for (name, value, refused) in [
        ("iss", Value::Null, Refused::Claims),
        ("iss", json!("https://id.example/"), Refused::Claims),
        ("iss", json!("https://evil.example"), Refused::Claims),
        ("iss", json!([ISSUER, "https://evil.example"]), Refused::Malformed),
        ("aud", Value::Null, Refused::Claims),
        ("aud", json!("other"), Refused::Claims),
        ("aud", json!(["other"]), Refused::Claims),
        ("aud", json!([]), Refused::Claims),
        ("exp", Value::Null, Refused::Malformed),
        ("exp", json!("2000000600"), Refused::Malformed),
        ("exp", json!(2_000_000_600.5), Refused::Malformed),
        ("exp", json!(i64::MAX), Refused::Malformed),
        ("exp", json!(-1), Refused::Claims),
        ("exp", json!(2_000_000_000), Refused::Claims),
        ("nbf", Value::Null, Refused::Malformed),
        ("nbf", json!(true), Refused::Malformed),
        ("sub", Value::Null, Refused::Malformed),
        ("sub", json!(""), Refused::Claims),
        ("sub", json!("a\nb"), Refused::Claims),
        ("sub", json!("x".repeat(256)), Refused::Claims),
        ("client", Value::Null, Refused::Claims),
        ("client", json!(7), Refused::Claims),
        ("client", json!(" shop"), Refused::Claims),
        ("client", card, Refused::Claims),
    ] {
        let found = judged(&signed(&RSA, &rs256(), &changed(name, value.clone()))).err();
        // Which of the two it is called when a claim is missing is the library's choice.
        let missing = value.is_null() && matches!(found, Some(Refused::Claims | Refused::Malformed));
        assert!(found == Some(refused) || missing, "{name}: {value}: {found:?}");
    }
}

#[test]
fn one_changed_character_is_noticed_wherever_it_stands() {
    let token = signed(&ED, &json!({"alg": "EdDSA", "kid": "ed"}), &claims());
    assert!(judged(&token).is_ok());
    for place in (0..token.len()).filter(|place| token.as_bytes()[*place] != b'.') {
        let mut bytes = token.clone().into_bytes();
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(judged(&changed).is_err(), "at {place}");
    }
}

#[test]
fn what_is_no_token_is_refused() {
    let good = signed(&RSA, &rs256(), &claims());
    let parts: Vec<&str> = good.split('.').collect();
    let doubled = b64(r#"{"alg":"RS256","kid":"rsa","kid":"ed"}"#);
    for text in [
        String::new(),
        "a.b.c".into(),
        format!("{}.{}", parts[0], parts[1]),
        format!("{good}.x"),
        format!("{}..{}", parts[0], parts[2]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}=.{}.{}", parts[0], parts[1], parts[2]),
        format!("{doubled}.{}.{}", parts[1], parts[2]),
        format!("{}.{}.{}", b64("[]"), parts[1], parts[2]),
    ] {
        assert!(judged(&text).is_err(), "{text}");
    }
    let huge = signed(&RSA, &rs256(), &changed("sub", json!("x".repeat(100_000))));
    assert!(judged(&huge).is_err());
}

#[test]
fn only_public_keys_for_signatures_are_used() {
    let good = rsa_jwk("rsa", &RSA);
    let small = rsa_jwk("small", &rsa(1_024));
    let even = with(good.clone(), "e", json!(b64([0, 0, 0, 2])));
    for (what, jwk) in [
        ("small", small),
        ("even exponent", even),
        ("exponent of one", with(good.clone(), "e", json!(b64([1])))),
        ("no modulus", with(good.clone(), "n", json!(""))),
        ("not base64url", with(good.clone(), "n", json!("?"))),
        ("no name", with(good.clone(), "kid", Value::Null)),
        ("for encryption", with(good.clone(), "use", json!("enc"))),
        ("for signing only", with(good.clone(), "key_ops", json!(["sign"]))),
        ("another algorithm", with(good.clone(), "alg", json!("PS256"))),
        ("private", with(good.clone(), "d", json!("AQAB"))),
        ("shared", json!({"kty": "oct", "kid": "oct", "k": b64([7; 32])})),
        ("another curve", with(ed_jwk("ed", &ED), "crv", json!("Ed448"))),
        ("a short point", with(ed_jwk("ed", &ED), "x", json!(b64([1; 31])))),
        ("no key", json!("key")),
    ] {
        assert!(ring(std::slice::from_ref(&jwk)).is_err(), "{what}");
        let beside = ring(&[jwk, rsa_jwk("another", &OTHER_RSA)]).expect(what);
        assert_eq!(beside.keys().collect::<Vec<_>>(), ["another"], "{what}");
    }
    let twice = ring(&[good.clone(), rsa_jwk("rsa", &OTHER_RSA), ed_jwk("ed", &ED)]).unwrap();
    assert_eq!(twice.keys().collect::<Vec<_>>(), ["ed"], "of two of one name neither is used");
    let full = [("use", json!("sig")), ("alg", json!("RS256")), ("key_ops", json!(["verify"]))];
    let full = full.into_iter().fold(good, |jwk, (name, value)| with(jwk, name, value));
    assert!(ring(&[full]).is_ok());
    for document in ["", "{}", "{\"keys\": []}", "{\"keys\": {}}", "[]"] {
        assert!(keys::usable(document.as_bytes()).is_err(), "{document}");
    }
    assert!(ring(&vec![json!({}); 101]).is_err());
}

#[test]
fn what_values_give_is_read_and_nothing_gives_an_unknown_scope() {
    let own = Grants::read(" ").unwrap();
    assert_eq!(own.of(&["admin".into(), "x".into(), "payments:read".into()]), ["payments:read", "admin"]);
    let given = Grants::read("a=ops:read+admin, b=ops:read").unwrap();
    assert_eq!(given.of(&["a".into(), "b".into(), "payments:read".into()]), ["ops:read", "admin"]);
    for bad in ["a", "=ops:read", "a=", "a=ops:raed", "a=ops:read,a=admin", "a=ops:read,"] {
        assert!(Grants::read(bad).is_err(), "{bad}");
    }
}

fn tokens(path: &std::path::Path) -> Tokens {
    let oidc = Oidc {
        issuer: ISSUER.into(),
        audience: "punctual".into(),
        jwks: path.to_str().unwrap().into(),
        actor_claim: "client".into(),
        ..Oidc::default()
    };
    Tokens::new(&oidc, std::sync::Arc::new(crate::platform::clock::Host)).unwrap().unwrap()
}

#[tokio::test]
async fn without_keys_it_is_503_and_a_bad_document_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let tokens = tokens(&path);
    let token = signed(&RSA, &rs256(), &claims());
    assert!(!tokens.read_keys().await);
    let problem = tokens.read(&token).await.unwrap_err();
    assert_eq!((problem.code, problem.code.http()), (Code::TokenKeysUnavailable, 503));
    std::fs::write(&path, json!({"keys": [rsa_jwk("rsa", &RSA)]}).to_string()).unwrap();
    assert!(tokens.read_keys().await);
    assert!(tokens.read(&token).await.unwrap().is_some());
    std::fs::write(&path, "{}").unwrap();
    assert!(!tokens.read_keys().await);
    assert!(tokens.read(&token).await.unwrap().is_some());
    // A key that is withdrawn is gone with the next good document.
    std::fs::write(&path, json!({"keys": [ed_jwk("ed", &ED)]}).to_string()).unwrap();
    assert!(tokens.read_keys().await);
    assert_eq!(tokens.read(&token).await.unwrap(), None);
}

#[test]
fn without_an_issuer_no_token_is_taken_and_odd_settings_are_named() {
    let clock = || std::sync::Arc::new(crate::platform::clock::Host);
    assert!(matches!(Tokens::new(&Oidc::default(), clock()), Ok(None)));
    let oidc = Oidc { issuer: ISSUER.into(), jwks: "keys.json".into(), ..Oidc::default() };
    let odd = Oidc { scopes: "a=b".into(), ..oidc.clone() };
    assert!(Tokens::new(&odd, clock()).is_err_and(|error| error.to_string().starts_with("oidc.scopes")));
    let odd = Oidc { jwks: "ldap://keys".into(), ..oidc };
    assert!(Tokens::new(&odd, clock()).is_err_and(|error| error.to_string().starts_with("oidc.jwks")));
}

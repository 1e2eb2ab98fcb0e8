//! Who may do what: every route, asked with every kind of key. The routes are those of the code that makes the
//! router; a route without a row here, or a row without a route, fails. A stage with a list of its own (`intake::routes!`) is added in [`routes`].
//!
//! **To add a route's row**: one line in [`ROWS`]. `ops` is for what its scope alone opens (write the status that
//! it answers when asked like this), `own` for a client's own collection, `one` for one payment of a client, where
//! a stranger's must be answered exactly like one that does not exist, and `open` for what asks for no key.

use crate::support::api::{Answer, Api, send};
use chrono::{SecondsFormat, TimeDelta, Utc};
use punctual::domain::ids::Operator;
use punctual::intake::{Needs, ROUTES, Route, Scope};
use punctual::schedule::{By, KeyRevoked};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A route, what is sent to it, and what a key with just its scope is answered.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) route: &'static str,
    of: Of,
    pub(crate) body: &'static str,
    status: u16,
}

/// Whose it is that a route shows or changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Nobody's: the scope decides.
    Scope,
    /// The caller's own collection.
    Caller,
    /// One payment of the caller.
    Payment,
    /// Open to all.
    Everybody,
}

const fn ops(route: &'static str, body: &'static str, status: u16) -> Row {
    Row { route, of: Of::Scope, body, status }
}

const fn own(route: &'static str, body: &'static str, status: u16) -> Row {
    Row { route, of: Of::Caller, body, status }
}

const fn one(route: &'static str, body: &'static str, status: u16) -> Row {
    Row { route, of: Of::Payment, body, status }
}

const fn open(route: &'static str, body: &'static str, status: u16) -> Row {
    Row { route, of: Of::Everybody, body, status }
}

/// A reason and nothing else: what most acts take.
const REASON: &str = r#"{"reason":"a test"}"#;

const BATCH: &str =
    r#"{"payments":[{"idempotencyKey":"of-a-batch","payee":"p","amount":1,"currency":"EUR","dueAt":"DUE"}]}"#;

/// `{id}` stands for an id that nobody has, unless the row is about a payment; `DUE` for a due time.
pub(crate) const ROWS: &[Row] = &[
    own("get /v1/scheduled-payments", "", 200),
    own("post /v1/scheduled-payments", r#"{"payee":"p","amount":1,"currency":"EUR","dueAt":"DUE"}"#, 201),
    own("post /v1/scheduled-payments/batch", BATCH, 200),
    one("get /v1/scheduled-payments/{id}", "", 200),
    one("delete /v1/scheduled-payments/{id}", "", 200),
    one("get /v1/scheduled-payments/{id}/history", "", 200),
    one("get /v1/scheduled-payments/{id}/history/proof", "", 200),
    own("get /v1/events", "", 200),
    own("get /v1/events/stream", "", 200),
    own("get /v1/webhook-endpoints", "", 200),
    own("post /v1/webhook-endpoints", r#"{"url":"https://shop.example/hook"}"#, 201),
    // One endpoint of a client; that a stranger is told nothing of it is in `webhook_endpoints`.
    ops("get /v1/webhook-endpoints/{id}", "", 404),
    ops("patch /v1/webhook-endpoints/{id}", r#"{"description":"a test"}"#, 404),
    ops("delete /v1/webhook-endpoints/{id}", "", 404),
    ops("post /v1/webhook-endpoints/{id}/rotate", "{}", 404),
    ops("post /v1/webhook-endpoints/{id}/disable", "", 404),
    ops("post /v1/webhook-endpoints/{id}/enable", "", 404),
    ops("post /v1/webhook-endpoints/{id}/test", "", 404),
    ops("get /v1/webhook-endpoints/{id}/deliveries", "", 404),
    ops("get /v1/webhook-endpoints/{id}/deliveries/{payment}/{sequence}", "", 404),
    ops("post /v1/webhook-endpoints/{id}/deliveries/{payment}/{sequence}/resend", "", 404),
    ops("post /v1/webhook-endpoints/{id}/resend", r#"{"since":"DUE"}"#, 404),
    ops("get /v1/forecast", "", 200),
    ops("get /v1/ops/overview", "", 200),
    ops("get /v1/ops/workers", "", 200),
    // No ring in this process.
    ops("get /v1/ops/buckets", "", 503),
    ops("get /v1/ops/api-keys", "", 200),
    ops("post /v1/ops/api-keys", r#"{"actor":"made","scopes":["payments:read"],"reason":"a test"}"#, 201),
    ops("post /v1/ops/api-keys/{id}/rotate", REASON, 404),
    ops("post /v1/ops/api-keys/{id}/revoke", REASON, 404),
    ops("get /v1/ops/actors/{name}/caps", "", 404),
    ops("put /v1/ops/actors/{name}/caps", r#"{"currency":"EUR","payments":9,"reason":"a test"}"#, 404),
    ops("get /v1/ops/problems", "", 200),
    ops("get /v1/ops/payments", "", 200),
    ops("get /v1/ops/payments/{id}", "", 404),
    ops("get /v1/ops/payments/{id}/history", "", 404),
    ops("get /v1/ops/payments/{id}/deliveries", "", 404),
    ops("post /v1/ops/payments/{id}/cancel", REASON, 404),
    ops("post /v1/ops/payments/{id}/payee", REASON, 404),
    ops("get /v1/ops/parked", "", 200),
    ops("get /v1/ops/parked-counts", "", 200),
    ops("get /v1/ops/parked/{id}", "", 404),
    ops("post /v1/ops/parked/{id}/redrive", REASON, 404),
    ops(
        "post /v1/ops/parked/{id}/resolve",
        r#"{"as":"not_charged","evidence":{"source":"us"},"reason":"a test"}"#,
        404,
    ),
    ops("get /v1/ops/bulk-redrives", "", 200),
    ops("post /v1/ops/bulk-redrives", r#"{"filter":{},"ratePerS":1,"reason":"a test"}"#, 201),
    ops("get /v1/ops/bulk-redrives/{id}", "", 404),
    ops("post /v1/ops/bulk-redrives/{id}/start", REASON, 404),
    ops("post /v1/ops/bulk-redrives/{id}/stop", REASON, 404),
    ops("get /v1/ops/approvals", "", 200),
    ops("get /v1/ops/approvals/{id}", "", 404),
    ops("post /v1/ops/approvals/{id}/approve", REASON, 404),
    ops("post /v1/ops/approvals/{id}/reject", REASON, 404),
    ops("get /v1/ops/acts", "", 200),
    ops("get /v1/ops/gateways", "", 200),
    ops("post /v1/ops/gateways/{id}/pause", REASON, 404),
    ops("post /v1/ops/gateways/{id}/resume", REASON, 404),
    ops("put /v1/ops/gateways/{id}/rate", REASON, 404),
    ops("get /v1/ops/kill-switches", "", 200),
    // Of a currency: what is beyond gateways needs a second scope, see `operators`.
    ops("put /v1/ops/kill-switches/{kind}/{value}", r#"{"on":false,"reason":"a test"}"#, 200),
    ops("get /v1/ops/quarantine", "", 200),
    // An instant that is to come: claims are needed here.
    ops("post /v1/ops/quarantine", r#"{"lostFrom":"2999-01-01T00:00:00Z","reason":"a test"}"#, 422),
    ops("post /v1/ops/quarantine/release", REASON, 409),
    // Without the payment that it must name.
    ops("get /v1/ops/refunds", "", 400),
    ops(
        "post /v1/ops/refunds",
        r#"{"paymentId":"01a2283e-8820-8aaa-9bbb-0123456789ab","gatewayReference":"r","reason":"a test"}"#,
        404,
    ),
    ops("get /v1/ops/refunds/{id}", "", 404),
    ops(
        "post /v1/ops/refunds/{id}/resolve",
        r#"{"as":"not_refunded","evidence":{"source":"us"},"reason":"a test"}"#,
        404,
    ),
    ops("get /v1/ops/reconciliations", "", 200),
    ops("get /v1/ops/reconciliations/{id}", "", 404),
    ops("post /v1/ops/reconciliations/{id}/withdraw", REASON, 404),
    ops("get /v1/ops/reconciliation-standing", "", 200),
    ops("get /v1/ops/reconciliation-items", "", 200),
    ops("get /v1/ops/reconciliation-items/{id}", "", 404),
    ops("post /v1/ops/reconciliation-items/{id}/repair", REASON, 404),
    ops("post /v1/ops/reconciliation-items/{id}/dismiss", REASON, 404),
    // Without the day that it must name.
    ops("get /v1/ops/reconciliation-sums", "", 400),
    open("post /v1/gateway-callbacks/{gateway}", "{}", 401),
    open("get /problems/{code}", "", 404),
    open("get /openapi.json", "", 200),
    // It leads to the page, and the client follows.
    open("get /docs", "", 200),
    open("get /docs/", "", 200),
    open("get /docs/{file}", "", 404),
];

/// The lists of all stages that serve, in one.
fn routes() -> Vec<Route> {
    [ROUTES, punctual::operations::ROUTES].concat()
}

fn name(route: &Route) -> String {
    format!("{} {}", route.method, route.path)
}

/// What stands for a parameter of a path that is no payment's id.
const STRANGERS: &[(&str, &str)] = &[
    ("{id}", "01a2283e-8820-8aaa-9bbb-0123456789ab"),
    ("{name}", "nobody"),
    ("{gateway}", "nowhere"),
    ("{payment}", "01a2283e-8820-8aaa-9bbb-0123456789ab"),
    ("{sequence}", "1"),
    ("{code}", "nothing"),
    ("{file}", "nothing"),
    ("{kind}", "currency"),
    ("{value}", "EUR"),
];

/// The keys of one test: what each of them is, and its text.
struct Keys {
    /// Never to be believed, by what is wrong with them.
    bad: Vec<(&'static str, Option<String>)>,
    /// With just this scope.
    only: BTreeMap<&'static str, String>,
    /// With every scope but this one.
    but: BTreeMap<&'static str, String>,
    /// Another client's, with all scopes.
    stranger: String,
}

impl Keys {
    async fn make(api: &Api) -> Self {
        let all: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        let good = api.new_key("tester", &all).await;
        let mut mistyped = good.clone().into_bytes();
        mistyped[20] = if mistyped[20] == b'A' { b'B' } else { b'A' };
        let past = Utc::now() - TimeDelta::seconds(1);
        let (_, expired) = api.new_key_until("tester", &all, Some(past)).await;
        let (id, revoked) = api.new_key_until("tester", &all, None).await;
        let by = By { operator: Operator("test".into()), reason: "a test".into() };
        let ended = api.owner.revoke_api_key(id, by).await.expect("revoked");
        assert!(matches!(ended, KeyRevoked::Revoked(_)));
        let elsewhere = Api::start(|_| {}).await;
        let unknown = elsewhere.new_key("tester", &all).await;
        let bad = vec![
            ("no key", None),
            ("a mistyped key", Some(String::from_utf8(mistyped).expect("ASCII"))),
            ("an unknown key", Some(unknown)),
            ("an expired key", Some(expired)),
            ("a revoked key", Some(revoked)),
            ("a token, where none are taken", Some("eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.x".into())),
        ];
        let (mut only, mut but) = (BTreeMap::new(), BTreeMap::new());
        for scope in &all {
            only.insert(*scope, api.new_key("tester", &[*scope]).await);
            let others: Vec<&str> = all.iter().copied().filter(|other| other != scope).collect();
            but.insert(*scope, api.new_key("tester", &others).await);
        }
        Self { bad, only, but, stranger: api.new_key("stranger", &all).await }
    }
}

/// One answer without what differs between any two requests, and without the id that it was asked about.
fn told(answer: &Answer, id: &str) -> (u16, BTreeSet<(String, String)>, String) {
    let passing = ["request-id", "date", "content-length"];
    let headers = answer.headers.iter().filter(|(name, _)| !passing.contains(&name.as_str()));
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().expect("a text").to_owned()));
    let text = answer.text.replace(answer.header("request-id"), "REQUEST").replace(id, "ID");
    (answer.status, headers.collect(), text)
}

/// Requests of one test, counted.
struct Asked<'a> {
    api: &'a Api,
    number: u32,
    due: String,
}

impl Asked<'_> {
    async fn ask(&mut self, route: &Route, row: &Row, path: &str, key: Option<&str>) -> Answer {
        self.number += 1;
        let request = self.api.anonymous(&route.method.to_uppercase(), path);
        // A batch has no key of its own.
        let request = match route.path.ends_with("/batch") {
            true => request,
            false => request.header("Idempotency-Key", format!("key-{}", self.number)),
        };
        let request = if let Some(key) = key { request.bearer_auth(key) } else { request };
        if route.path.ends_with("/stream") {
            return opened(request).await;
        }
        let body = (!row.body.is_empty()).then(|| row.body.replace("DUE", &self.due));
        let body: Option<Value> = body.map(|body| serde_json::from_str(&body).expect("a body is JSON"));
        send(request, body.as_ref()).await
    }

    /// A payment of this key's client.
    async fn payment(&mut self, key: &str) -> String {
        self.number += 1;
        let request = self.api.anonymous("POST", "/v1/scheduled-payments").bearer_auth(key);
        let request = request.header("Idempotency-Key", format!("key-{}", self.number));
        let body = json!({"payee": "p", "amount": 1, "currency": "EUR", "dueAt": self.due});
        let made = send(request, Some(&body)).await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.json()["paymentId"].as_str().expect("an id").to_owned()
    }
}

/// A stream does not end by itself, so only the head of one is read; a refusal is read whole.
async fn opened(request: reqwest::RequestBuilder) -> Answer {
    let answer = request.send().await.expect("the API answers");
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let text = if status == 200 { String::new() } else { answer.text().await.expect("a body") };
    Answer { status, headers, text }
}

pub(crate) fn filled(path: &str, id: &str) -> String {
    let path = path.replace("{id}", id);
    STRANGERS.iter().fold(path, |path, (parameter, value)| path.replace(parameter, value))
}

/// Nobody gets in without a key, and nobody learns what is wrong with the key.
async fn without_a_good_key(asked: &mut Asked<'_>, keys: &Keys, route: &Route, row: &Row, path: &str) {
    let mut first = None;
    for (what, key) in &keys.bad {
        let answer = asked.ask(route, row, path, key.as_deref()).await;
        let at = format!("{} with {what}", name(route));
        assert_eq!(answer.refusal(), (401, "unauthenticated".into()), "{at}: {}", answer.text);
        assert!(answer.header("www-authenticate").starts_with("Bearer realm="), "{at}");
        if key.is_some() {
            let told = told(&answer, "-");
            assert_eq!(*first.get_or_insert_with(|| told.clone()), told, "{at}");
        }
    }
}

/// All scopes but the route's are no use, and just the route's is enough.
async fn with_its_scope_alone(
    asked: &mut Asked<'_>,
    keys: &Keys,
    (route, row): (&Route, &Row),
    scope: Scope,
    path: &str,
) {
    let scope = scope.as_str();
    let answer = asked.ask(route, row, path, Some(&keys.but[scope])).await;
    assert_eq!(answer.refusal(), (403, "missing_scope".into()), "{}: {}", name(route), answer.text);
    let named = answer.header("www-authenticate").contains(&format!("scope=\"{scope}\""));
    assert!(named, "{}: {}", name(route), answer.header("www-authenticate"));
    let answer = asked.ask(route, row, path, Some(&keys.only[scope])).await;
    assert_eq!(answer.status, row.status, "{} with {scope}: {}", name(route), answer.text);
}

/// Another client's payment, one that nobody has, and what is no id: one answer.
async fn for_a_stranger(
    asked: &mut Asked<'_>,
    keys: &Keys,
    (route, row): (&Route, &Row),
    scope: Scope,
    id: &str,
) {
    let unknown = STRANGERS[0].1;
    let key = keys.only[scope.as_str()].as_str();
    let foreign = asked.ask(route, row, &filled(route.path, id), Some(&keys.stranger)).await;
    let at = name(route);
    assert_eq!(foreign.refusal(), (404, "payment_not_found".into()), "{at}: {}", foreign.text);
    for (id_asked, key) in [(unknown, keys.stranger.as_str()), (unknown, key), ("no-id", key)] {
        let answer = asked.ask(route, row, &filled(route.path, id_asked), Some(key)).await;
        assert_eq!(told(&answer, id_asked), told(&foreign, id), "{at}: {id_asked}");
    }
}

/// How much was asked.
#[derive(Debug, Default)]
pub struct Matrix {
    /// Lines of the lists that make the routers.
    pub routes: usize,
    /// Rows here.
    pub rows: usize,
    /// Kinds of keys that are never to be believed.
    pub bad_keys: usize,
    /// Scopes.
    pub scopes: usize,
    /// Routes of one payment, where a stranger is told nothing.
    pub owned: usize,
    /// Requests; each was answered as it must be.
    pub requests: usize,
}

/// Asks every route with every kind of key.
///
/// # Panics
/// One of them is not answered as it must be.
pub async fn matrix() -> Matrix {
    let routes = routes();
    let listed: BTreeSet<String> = routes.iter().map(name).collect();
    let rows: BTreeSet<String> = ROWS.iter().map(|row| row.route.to_owned()).collect();
    assert_eq!(listed, rows, "a line of intake/routes.rs needs a row here, and a row a line there");
    assert_eq!((listed.len(), rows.len()), (routes.len(), ROWS.len()), "each of them once");

    let api = Api::start(|api| api.failed_auth_per_address = 0).await;
    let keys = Keys::make(&api).await;
    let due = (Utc::now() + TimeDelta::hours(1)).to_rfc3339_opts(SecondsFormat::Secs, true);
    let mut asked = Asked { api: &api, number: 0, due };
    for route in &routes {
        let row = ROWS.iter().find(|row| row.route == name(route)).expect("compared above");
        let id =
            if row.of == Of::Payment { asked.payment(&api.key).await } else { STRANGERS[0].1.to_owned() };
        let path = filled(route.path, &id);
        match (route.needs, row.of) {
            (Needs::Scope(scope), Of::Scope | Of::Caller | Of::Payment) => {
                without_a_good_key(&mut asked, &keys, route, row, &path).await;
                if row.of == Of::Payment {
                    for_a_stranger(&mut asked, &keys, (route, row), scope, &id).await;
                }
                with_its_scope_alone(&mut asked, &keys, (route, row), scope, &path).await;
            }
            (Needs::Nothing | Needs::Signature, Of::Everybody) => {
                for key in [None, Some(keys.stranger.as_str()), Some("pk_live_x")] {
                    let answer = asked.ask(route, row, &path, key).await;
                    assert_eq!(answer.status, row.status, "{}: {}", name(route), answer.text);
                }
            }
            (needs, of) => panic!("{}: {needs:?} in the list and {of:?} in the row", name(route)),
        }
    }
    Matrix {
        routes: routes.len(),
        rows: ROWS.len(),
        bad_keys: keys.bad.len(),
        scopes: Scope::ALL.len(),
        owned: ROWS.iter().filter(|row| row.of == Of::Payment).count(),
        requests: asked.number as usize,
    }
}

#[tokio::test]
async fn every_route_asks_every_kind_of_key_for_what_it_needs() {
    let asked = matrix().await;
    assert!(asked.requests >= asked.routes * 3, "{asked:?}");
    eprintln!(
        "access: {} routes, {} rows, {} kinds of bad keys, {} scopes, {} routes of one payment: {} requests",
        asked.routes, asked.rows, asked.bad_keys, asked.scopes, asked.owned, asked.requests
    );
}

#[tokio::test]
async fn a_client_s_collection_holds_nothing_of_others() {
    let api = Api::start(|_| {}).await;
    let stranger = api.new_key("stranger", &["payments:read", "payments:write"]).await;
    let due = (Utc::now() + TimeDelta::hours(1)).to_rfc3339_opts(SecondsFormat::Secs, true);
    let mut asked = Asked { api: &api, number: 0, due };
    let (ours, theirs) = (asked.payment(&api.key).await, asked.payment(&stranger).await);
    for (key, has, has_not) in [(&api.key, &ours, &theirs), (&stranger, &theirs, &ours)] {
        let list = send(api.anonymous("GET", "/v1/scheduled-payments").bearer_auth(key), None).await;
        assert!(list.text.contains(has) && !list.text.contains(has_not), "{}", list.text);
    }
}

/// Every route stands in the list: nobody adds one to a router elsewhere. Files that were looked at.
///
/// # Panics
/// A file adds one.
pub fn files_without_routes() -> usize {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut looked_at = 0;
    for folder in ["intake", "operations"] {
        for entry in walkdir::WalkDir::new(root.join(folder)).into_iter().filter_map(Result::ok) {
            let path = entry.path().display().to_string();
            if !path.ends_with(".rs") || path.ends_with("_tests.rs") || path.ends_with("intake/routes.rs") {
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).expect("text");
            let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            assert!(!product.contains(".route("), "{path}: put the route into a list of `intake::routes!`");
            looked_at += 1;
        }
    }
    looked_at
}

#[test]
fn no_route_is_served_that_is_not_in_the_list() {
    let looked_at = files_without_routes();
    assert!(looked_at > 20, "{looked_at} files");
}

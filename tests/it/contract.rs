//! Every status that the document promises is reached and every answer is as the document says.

// Named by its folder: the evidence takes this file from another place.
#[path = "contract/any_client.rs"]
mod any_client;
#[path = "contract/money.rs"]
mod money;
#[path = "contract/quarantine.rs"]
mod quarantine;
#[path = "contract/reconciliations.rs"]
mod reconciliations;
#[path = "contract/webhooks.rs"]
mod webhooks;

use crate::access;
use crate::schedule::world::{fresh, parks, settings, terms};
use crate::support::api::{Answer, Api, send};
use crate::support::contract::{Coverage, DOCUMENT, Held, named};
use crate::support::eventually;
use crate::support::proxy::Fault;
use chrono::{SecondsFormat, TimeDelta, Utc};
use punctual::domain::reason::Reason;
use punctual::intake::{Operation, Place, Scope, operations};
use punctual::schedule::{Access, Schedule, connect};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::collections::BTreeSet;
use std::time::Duration;

/// What is not reached here, and where it is; and by `make evidence-api`.
pub const ELSEWHERE: &[(&str, u16, &str)] = &[
    ("takeCallback", 200, "callbacks:: signs them"),
    ("takeCallback", 400, "callbacks:: signs what is none"),
    ("listBuckets", 200, "buckets:: has a ring"),
    ("streamEvents", 200, "stream:: reads it, since it does not end"),
];

/// A path with something in the place of each name.
fn path_of(operation: &Operation, id: &str) -> String {
    let path = operation.path.replace("{gateway}", "sandbox").replace("{code}", "internal");
    // Differences have numbers.
    let is_numbered = path.starts_with("/v1/ops/reconciliation-items/") && id == NOBODYS;
    let id = if is_numbered { "999999999" } else { id };
    access::filled(&path.replace("{file}", "swagger-ui.css"), id)
}

/// Nobody has it.
const NOBODYS: &str = "01a2283e-8820-8aaa-9bbb-0123456789ab";

/// What an operation takes, as `access` has it.
fn taken(operation: &Operation) -> Option<Value> {
    let route = format!("{} {}", operation.method, operation.path);
    let row = access::ROWS.iter().find(|row| row.route == route).expect("each route has a row");
    let body = row.body.replace("DUE", "2026-01-01T00:00:00Z");
    operation.body.map(|_| serde_json::from_str(&body).expect("a body is JSON"))
}

/// What an operator's act takes.
fn order(operation: &Operation) -> Option<Value> {
    operation.path.starts_with("/v1/ops/").then(|| taken(operation)).flatten()
}

/// With a key of its own where one is needed.
fn keyed(operation: &Operation, request: RequestBuilder, key: &str) -> RequestBuilder {
    match operation.id {
        "createPayment" | "createRefund" => request.header("Idempotency-Key", key),
        _ => request,
    }
}

fn new_payment(due_in: TimeDelta) -> Value {
    let due_at = (Utc::now() + due_in).to_rfc3339_opts(SecondsFormat::Millis, true);
    json!({"payee": "acct_1", "amount": 1050, "currency": "EUR", "dueAt": due_at, "description": "text",
        "metadata": {"a": "b"}, "retry": {"maxSends": 2}, "executeWithin": 60})
}

/// With every scope but the one that the operation needs.
async fn lacking(api: &Api, needed: Scope) -> String {
    let others: Vec<&str> =
        Scope::ALL.iter().filter(|scope| **scope != needed).map(|scope| scope.as_str()).collect();
    api.new_key("lacking", &others).await
}

/// Bytes of a body that is too large.
fn too_large(operation: &Operation) -> usize {
    let most = match operation.id {
        "createPayments" => 8 << 20,
        "takeCallback" => 64 << 10,
        _ => 16 << 10,
    };
    most + 1
}

/// What every route of a kind refuses.
async fn refusals_of_all(api: &Api, key: &str, held: &mut Held) {
    for operation in &operations() {
        let path = path_of(operation, NOBODYS);
        let plain = |path: &str| keyed(operation, api.anonymous(&operation.method.to_uppercase(), path), "k");
        let request = |path: &str| plain(path).bearer_auth(key);
        held.ask(operation, request(&format!("{path}?{}", "x".repeat(9_000))), None).await;
        if let Some(scope) = operation.scope {
            held.ask(operation, plain(&path), None).await;
            held.ask(operation, plain(&path).bearer_auth(lacking(api, scope).await), None).await;
            held.ask(operation, request(&path).header("Accept", "image/png"), Some(&json!({}))).await;
        }
        if operation.body.is_some() {
            held.ask(operation, request(&path).header("Content-Type", "text/plain").body("{}"), None).await;
            let typed = || request(&path).header("Content-Type", "application/json");
            held.ask(operation, typed().body(vec![b' '; too_large(operation)]), None).await;
            held.ask(operation, typed().body("{"), None).await;
        }
        if let Some(mut order) = order(operation) {
            held.ask(operation, request(&path), Some(&order)).await;
            order["reason"] = json!("for 4111 1111 1111 1111");
            let refused = held.ask(operation, request(&path), Some(&order)).await;
            assert_eq!(refused.refusal(), (422, "raw_card_number".into()), "{}", operation.id);
        }
        // What nobody has; a client's own payments have their turn later.
        if operation.method == "get" && operation.path.starts_with("/v1/ops/") {
            held.ask(operation, request(&path), None).await;
        }
        let reads_a_query = operation.parameters.iter().any(|it| it.place == Place::Query);
        if reads_a_query || operation.scope.is_some() {
            let refused = held.ask(operation, request(&format!("{path}?nonsense=1")), None).await;
            assert_eq!(refused.refusal(), (400, "unknown_parameter".into()), "{}", operation.id);
        }
    }
}

/// Asks for every status of every operation, and holds each answer against the document.
pub async fn coverage() -> Coverage {
    let api = Api::start(|api| {
        api.key_cache = Duration::from_secs(4);
        api.due_grace = Duration::from_secs(3_600);
    })
    .await;
    let scopes: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
    let key = api.new_key("everything", &scopes).await;
    let mut held = Held::default();
    refusals_of_all(&api, &key, &mut held).await;
    payments(&api, &key, &mut held).await;
    states(&api, &key, &mut held).await;
    // Before anything is kept that is answered for some seconds.
    away(&api, &key, &mut held).await;
    plain_answers(&api, &key, &mut held).await;
    people(&api, &key, &mut held).await;
    webhooks::told(&api, &key, &mut held).await;
    too_slow(&mut held).await;
    too_many(&mut held).await;

    let (mut documented, mut unreachable) = (BTreeSet::new(), BTreeSet::new());
    for operation in operations() {
        let responses = &DOCUMENT["paths"][operation.path][operation.method]["responses"];
        for status in responses.as_object().expect("responses").keys() {
            let status: u16 = status.parse().expect("a status");
            documented.insert((operation.id, status));
            if status == 500 || status == 503 && operation.scope.is_none() {
                unreachable.insert((operation.id, status));
            }
        }
    }
    Coverage { held, documented, unreachable }
}

#[tokio::test]
async fn every_status_of_the_document_is_reached_and_every_answer_is_as_it_says() {
    let covered = coverage().await;
    let mut missing = covered.missing();
    for (id, status, _) in ELSEWHERE {
        assert!(missing.remove(&(*id, *status)), "{id} {status} is reached here too");
    }
    assert!(missing.is_empty(), "not reached: {missing:#?}");
}

async fn payments(api: &Api, key: &str, held: &mut Held) {
    let as_everybody = |method: &str, path: &str| api.anonymous(method, path).bearer_auth(key);
    let (create, read, list) = (named("createPayment"), named("readPayment"), named("listPayments"));
    let post = |key: &str| as_everybody("POST", create.path).header("Idempotency-Key", key);
    let mut body = new_payment(TimeDelta::hours(1));
    body["externalId"] = json!("inv-1");
    let created = held.ask(&create, post("k1"), Some(&body)).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let id = created.json()["paymentId"].as_str().expect("an id").to_owned();
    held.ask(&create, post("k1"), Some(&body)).await;
    held.ask(&create, post("k1"), Some(&new_payment(TimeDelta::hours(2)))).await;
    held.ask(&create, post("k2"), Some(&body)).await;
    held.ask(&create, post("k3"), Some(&new_payment(TimeDelta::hours(-2)))).await;
    let missing = held.ask(&create, as_everybody("POST", create.path), Some(&body)).await;
    assert_eq!(missing.status, 400);

    for operation in [&read, &named("readHistory"), &named("proveHistory")] {
        let path = path_of(operation, &id);
        let found = held.ask(operation, as_everybody("GET", &path), None).await;
        let tag = found.header("etag").to_owned();
        assert!(found.status == 200 && !tag.is_empty(), "{}", found.text);
        held.ask(operation, as_everybody("GET", &path).header("If-None-Match", tag), None).await;
        let unknown = path.replace(&id, NOBODYS);
        held.ask(operation, as_everybody("GET", &unknown), None).await;
    }
    let page = held.ask(&list, as_everybody("GET", list.path), None).await;
    let tag = page.header("etag").to_owned();
    held.ask(&list, as_everybody("GET", list.path).header("If-None-Match", tag), None).await;

    let batch = named("createPayments");
    let mut item = new_payment(TimeDelta::hours(3));
    item["idempotencyKey"] = json!("b1");
    let wrong = json!({"idempotencyKey": "b2", "amount": "1"});
    let mixed = json!({"payments": [item, wrong]});
    let answered = held.ask(&batch, as_everybody("POST", batch.path), Some(&mixed)).await;
    assert_eq!((&answered.json()["created"], &answered.json()["refused"]), (&json!(1), &json!(1)));
    let atomic = json!({"payments": [wrong], "atomic": true});
    assert_eq!(held.ask(&batch, as_everybody("POST", batch.path), Some(&atomic)).await.status, 422);

    let cancel = named("cancelPayment");
    let path = path_of(&cancel, &id);
    assert_eq!(held.ask(&cancel, as_everybody("DELETE", &path), None).await.status, 200);
    let unknown = path_of(&cancel, NOBODYS);
    held.ask(&cancel, as_everybody("DELETE", &unknown), None).await;
}

/// Cancels of payments that stand where only workers bring them.
async fn states(api: &Api, key: &str, held: &mut Held) {
    let mut sql = PgConnection::connect(&api.database.url).await.expect("a connection");
    let gateway = "INSERT INTO gateways (name, account, voids_by_key) VALUES ('sandbox', 'a', true)
                   ON CONFLICT (name) DO UPDATE SET voids_by_key = true";
    sql.execute(gateway).await.expect("a gateway that voids");
    let (create, cancel) = (named("createPayment"), named("cancelPayment"));
    for (n, (change, status)) in [
        ("status = 'UNKNOWN', unanswered = 1, epoch_first_sent_at = now()", 202),
        ("status = 'COMPLETED'", 409),
    ]
    .into_iter()
    .enumerate()
    {
        let post =
            api.anonymous("POST", create.path).bearer_auth(key).header("Idempotency-Key", format!("s{n}"));
        let made = held.ask(&create, post, Some(&new_payment(TimeDelta::hours(1)))).await;
        let id = made.json()["paymentId"].as_str().expect("an id").to_owned();
        let moved = format!("UPDATE payments SET {change} WHERE id = '{id}'");
        sql.execute(AssertSqlSafe(moved)).await.expect("moved");
        let request = api.anonymous("DELETE", &path_of(&cancel, &id)).bearer_auth(key);
        assert_eq!(held.ask(&cancel, request, None).await.status, status, "{change}");
    }
}

async fn plain_answers(api: &Api, key: &str, held: &mut Held) {
    for id in [
        "listEvents",
        "forecast",
        "overview",
        "listWorkers",
        "openapi",
        "explainProblem",
        "docsPage",
        "docsFile",
    ] {
        let operation = named(id);
        let request = api.anonymous("GET", &path_of(&operation, "")).bearer_auth(key);
        assert_eq!(held.ask(&operation, request, None).await.status, 200, "{id}");
    }
    for (id, path) in [("explainProblem", "/problems/none"), ("docsFile", "/docs/none")] {
        assert_eq!(held.ask(&named(id), api.anonymous("GET", path), None).await.status, 404, "{id}");
    }
    let unredirected = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let way = unredirected.build().expect("a client").get(format!("{}/docs", api.url));
    assert_eq!(held.ask(&named("docs"), way, None).await.status, 308);
    let buckets = named("listBuckets");
    let request = api.anonymous("GET", buckets.path).bearer_auth(key);
    assert_eq!(held.ask(&buckets, request, None).await.refusal(), (503, "ring_unavailable".into()));
    let callback = named("takeCallback");
    let request = api.anonymous("POST", &path_of(&callback, ""));
    let body = json!({"paymentId": "x", "key": "x", "status": "charged"});
    assert_eq!(held.ask(&callback, request, Some(&body)).await.status, 401);
}

/// The database is taken away while the key is still believed.
async fn away(api: &Api, key: &str, held: &mut Held) {
    let list = named("listPayments");
    held.ask(&list, api.anonymous("GET", list.path).bearer_auth(key), None).await;
    api.proxy.set(Fault::Reset).await;
    let mut body = new_payment(TimeDelta::hours(1));
    for operation in operations().iter().filter(|operation| operation.scope.is_some()) {
        // A list of refunds is one payment's, and sums are of days.
        let query = match operation.id {
            "listRefunds" => format!("?paymentId={NOBODYS}"),
            "sumReconciliations" => "?from=2030-01-31".to_owned(),
            _ => String::new(),
        };
        let path = format!("{}{query}", path_of(operation, NOBODYS));
        let request = api.anonymous(&operation.method.to_uppercase(), &path).bearer_auth(key);
        let request = keyed(operation, request, "a1");
        let sent = match operation.id {
            "createPayments" => {
                body["idempotencyKey"] = json!("a1");
                held.ask(operation, request, Some(&json!({"payments": [body]}))).await
            }
            "createPayment" => held.ask(operation, request, Some(&body)).await,
            _ => held.ask(operation, request, taken(operation).as_ref()).await,
        };
        assert_eq!(sent.status, 503, "{}: {}", operation.id, sent.text);
    }
    api.proxy.set(Fault::Pass).await;
    eventually("the API is ready again", Duration::from_secs(30), || async {
        (send(api.anonymous("GET", "/readyz"), None).await.status == 200).then_some(())
    })
    .await;
}

/// Everything that people do, with what stands in their way.
async fn people(api: &Api, key: &str, held: &mut Held) {
    let mut sql = PgConnection::connect(&api.database.url).await.expect("a connection");
    sql.execute("UPDATE gateways SET offers_refunds = true").await.expect("a gateway that refunds");
    let desk = Desk { api, key, second: api.new_key("another", &["ops:approve"]).await };
    let why = json!({"reason": "a test"});
    // All are parked before one is released, which could be claimed again.
    let (small, large) = (parked(api, "small", 1_250).await, parked(api, "large", 1_000_000).await);
    let charged = parked(api, "charged", 500).await;
    let reported = parked(api, "reported", 700).await;
    reconciliations::told(&desk, held, &mut sql, &reported).await;

    // One that is released, and one that needs a second person, twice.
    assert_eq!(desk.ask(held, "showParked", &small, None).await.status, 200);
    for status in [200, 409] {
        assert_eq!(desk.ask(held, "redriveParked", &small, Some(&why)).await.status, status);
    }
    assert_eq!(desk.ask(held, "showParked", &small, None).await.status, 409);
    for (verdict, other) in [("reject", "approve"), ("approve", "reject")] {
        let asked = desk.ask(held, "redriveParked", &large, Some(&why)).await;
        assert_eq!(asked.status, 202, "{}", asked.text);
        let approval = asked.json()["approvalId"].as_str().expect("an id").to_owned();
        assert_eq!(desk.ask(held, "showApproval", &approval, None).await.status, 200);
        assert_eq!(desk.ask(held, verdict, &approval, Some(&why)).await.refusal().1, "same_person");
        let decided = desk.decide(held, verdict, &approval).await;
        assert_eq!(decided.status, 200, "{}", decided.text);
        assert_eq!(desk.decide(held, other, &approval).await.status, 409);
    }

    any_client::told(&desk, held, &small, &charged).await;
    // One that is ended with a charge, which is given back.
    let evidence =
        json!({"source": "their page", "gatewayReference": "ch_1", "amount": 500, "currency": "EUR"});
    let order = json!({"reason": "a test", "as": "charged", "evidence": evidence});
    for status in [200, 409] {
        assert_eq!(desk.ask(held, "resolveParked", &charged, Some(&order)).await.status, status);
    }
    money::given_back(&desk, held, &mut sql, &charged, &evidence).await;

    many_at_once(&desk, held, &mut sql).await;
    gateways_and_keys(&desk, held).await;
    for id in ["listParked", "countParked", "searchPayments", "listBulkRedrives", "listApprovals", "listActs"]
    {
        assert_eq!(desk.ask(held, id, "", None).await.status, 200, "{id}");
    }
    for id in ["listGateways", "listKillSwitches", "listApiKeys"] {
        assert_eq!(desk.ask(held, id, "", None).await.status, 200, "{id}");
    }
    quarantine::entered_and_released(&desk, held).await;
}

async fn many_at_once(desk: &Desk<'_>, held: &mut Held, sql: &mut PgConnection) {
    let why = json!({"reason": "a test"});
    let order = json!({"filter": {"currency": null}, "ratePerS": 1, "reason": "a test"});
    assert_eq!(desk.ask(held, "createBulkRedrive", "", Some(&order)).await.status, 400);
    let order = json!({"filter": {"gateway": "sandbox"}, "ratePerS": 1, "reason": "a test"});
    let bulk = desk.ask(held, "createBulkRedrive", "", Some(&order)).await.json();
    let bulk = bulk["bulkId"].as_str().expect("an id").to_owned();
    for (id, order) in
        [("showBulkRedrive", None), ("startBulkRedrive", Some(&why)), ("stopBulkRedrive", Some(&why))]
    {
        assert_eq!(desk.ask(held, id, &bulk, order).await.status, 200, "{id}");
    }
    sql.execute("UPDATE bulk_redrives SET status = 'done', finished_at = now()").await.expect("done");
    for id in ["startBulkRedrive", "stopBulkRedrive"] {
        assert_eq!(desk.ask(held, id, &bulk, Some(&why)).await.refusal(), (409, "bulk_done".into()), "{id}");
    }
}

async fn gateways_and_keys(desk: &Desk<'_>, held: &mut Held) {
    let why = json!({"reason": "a test"});
    for id in ["pauseGateway", "resumeGateway", "limitGatewayRate"] {
        assert_eq!(desk.ask(held, id, "sandbox", Some(&why)).await.status, 200, "{id}");
    }
    let rate = json!({"reason": "a test", "callsPerSecond": 5});
    assert_eq!(desk.ask(held, "limitGatewayRate", "sandbox", Some(&rate)).await.status, 409);
    let switch = named("turnKillSwitch");
    let turn = |path: &str| {
        desk.api.anonymous("PUT", &format!("/v1/ops/kill-switches/{path}")).bearer_auth(desk.key)
    };
    for (path, on, status) in [
        ("currency/EUR", true, 200),
        ("currency/EUR", false, 200),
        ("gateway/nowhere", true, 404),
        ("what/ever", true, 404),
    ] {
        let order = json!({"on": on, "reason": "a test"});
        assert_eq!(held.ask(&switch, turn(path), Some(&order)).await.status, status, "{path}");
    }

    let new = json!({"actor": "made", "name": "first", "scopes": ["payments:read"], "reason": "a test"});
    let made = desk.ask(held, "createApiKey", "", Some(&new)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(desk.ask(held, "createApiKey", "", Some(&new)).await.status, 409);
    let id = made.json()["keyId"].as_str().expect("an id").to_owned();
    for status in [201, 409] {
        assert_eq!(desk.ask(held, "rotateApiKey", &id, Some(&why)).await.status, status);
    }
    for _ in 0..2 {
        assert_eq!(desk.ask(held, "revokeApiKey", &id, Some(&why)).await.status, 200);
    }
    let (show, set) = (named("showActorCaps"), named("setActorCap"));
    let cap = json!({"currency": "EUR", "payments": 9, "reason": "a test"});
    let path = "/v1/ops/actors/made/caps";
    let put = desk.api.anonymous("PUT", path).bearer_auth(desk.key);
    assert_eq!(held.ask(&set, put, Some(&cap)).await.status, 200);
    let get = desk.api.anonymous("GET", path).bearer_auth(desk.key);
    assert_eq!(held.ask(&show, get, None).await.status, 200);
    let get = desk.api.anonymous("GET", "/v1/ops/actors/nobody/caps").bearer_auth(desk.key);
    assert_eq!(held.ask(&show, get, None).await.status, 404);
}

/// A person with every scope, and a second one.
struct Desk<'a> {
    api: &'a Api,
    key: &'a str,
    second: String,
}

impl Desk<'_> {
    fn request(&self, operation: &Operation, id: &str) -> RequestBuilder {
        let request = self.api.anonymous(&operation.method.to_uppercase(), &path_of(operation, id));
        request.bearer_auth(self.key)
    }

    async fn ask(&self, held: &mut Held, operation: &str, id: &str, order: Option<&Value>) -> Answer {
        let operation = named(operation);
        held.ask(&operation, self.request(&operation, id), order).await
    }

    async fn decide(&self, held: &mut Held, verdict: &str, approval: &str) -> Answer {
        let operation = named(verdict);
        let request = self.api.anonymous("POST", &path_of(&operation, approval)).bearer_auth(&self.second);
        held.ask(&operation, request, Some(&json!({"reason": "a test"}))).await
    }
}

/// A payment that is parked with an open send; its id.
async fn parked(api: &Api, key: &str, amount: i64) -> String {
    let worker = connect(&settings(&api.database.url), Access::Worker).await.expect("a worker connects");
    let due_at = (Utc::now() - TimeDelta::seconds(5)).to_rfc3339();
    let body = json!({"payee": "p", "amount": amount, "currency": "EUR", "dueAt": due_at});
    let created = api.post(key, &body).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let id = created.json()["paymentId"].as_str().expect("an id").to_owned();
    let mut late = worker.claim_late(&terms(), Duration::ZERO, &[], &fresh(1)).await.expect("an answer");
    let claimed = late.remove(0);
    assert_eq!(claimed.payment().id.to_string(), id);
    let settled = worker.settle(vec![parks(claimed, Reason::OutcomeUnknown)]).await;
    settled.map_err(|failed| failed.error).expect("parked");
    id
}

/// Bodies that never arrive.
async fn too_slow(held: &mut Held) {
    let api = Api::start(|api| api.request_timeout = Duration::from_millis(300)).await;
    let scopes: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
    let key = api.new_key("everything", &scopes).await;
    for operation in operations().iter().filter(|operation| operation.body.is_some()) {
        let never = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
        let request = api.anonymous(&operation.method.to_uppercase(), &path_of(operation, NOBODYS));
        let request =
            keyed(operation, request.bearer_auth(&key), "k").header("Content-Type", "application/json");
        let answer = send(request.body(reqwest::Body::wrap_stream(never)), None).await;
        assert_eq!(answer.status, 408, "{}: {}", operation.id, answer.text);
        held.take(operation, &answer);
    }
}

/// More requests than an address may send.
async fn too_many(held: &mut Held) {
    let api = Api::start(|api| api.rate_per_address = 1).await;
    for operation in operations().iter().filter(|operation| operation.path.starts_with("/v1/")) {
        let mut asked = 0;
        loop {
            let request = api.anonymous(&operation.method.to_uppercase(), &path_of(operation, NOBODYS));
            let answer = held.ask(operation, request, None).await;
            if answer.status == 429 {
                assert!(answer.header("ratelimit").starts_with("\"address\";r=0"), "{:?}", answer.headers);
                break;
            }
            asked += 1;
            assert!(asked < 50, "{} is not limited", operation.id);
        }
    }
}

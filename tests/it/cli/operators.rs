//! The operators' commands against a whole installation: what is parked, given back, switched and held, from the
//! first look to the last word, by two people with a key each. Nothing stands in for the API here.

use crate::schedule::world::{fresh, settings, terms};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::stub::{Ran, client};
use chrono::{SecondsFormat, TimeDelta, Utc};
use punctual::domain::refund::{RefundDecision, RefundSends, RefundStatus, RefundVerdict};
use punctual::schedule::{Access, How, RefundAnswer, connect};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::time::Duration;

const SECONDS: Duration = Duration::from_secs(1);
const WHY: [&str; 3] = ["--reason", "ticket 7", "--yes"];

/// A gateway that answers within a second, or not at all.
const QUICK: [(&str, &str); 3] =
    [("gateway.total_timeout", "1s"), ("gateway.connect_timeout", "1s"), ("ladder.reask", "3s")];

/// Two people who do everything, one who only looks, and one who looks after gateways.
pub(super) struct People {
    pub(super) alice: String,
    bob: String,
    pub(super) viewer: String,
    pub(super) warden: String,
}

impl People {
    pub(super) fn of(site: &Installation) -> Self {
        let key = |actor: &str, scopes: &[&str]| {
            let mut command = vec!["keys", "create", "--actor", actor, "-o", "json"];
            scopes.iter().for_each(|scope| command.extend(["--scope", scope]));
            let made: Value = serde_json::from_str(&site.run(&command)).expect("JSON of the key");
            made["apiKey"].as_str().expect("the key's text").to_owned()
        };
        let all = ["ops:read", "ops:redrive", "ops:refund", "ops:approve", "gateways:write", "admin"];
        Self {
            alice: key("alice", &all),
            bob: key("bob", &all),
            viewer: key("viewer", &["ops:read"]),
            warden: key("warden", &["gateways:write"]),
        }
    }
}

/// Runs a command that is written in one line; it ends so, and says that.
pub(super) async fn say(site: &Installation, key: &str, line: &str, code: i32, says: &str) -> Ran {
    ended(site, key, line.split_whitespace().collect(), code, says).await
}

/// The same for an act: with a reason, and without a question.
pub(super) async fn act(site: &Installation, key: &str, line: &str, code: i32, says: &str) -> Ran {
    ended(site, key, line.split_whitespace().chain(WHY).collect(), code, says).await
}

async fn ended(site: &Installation, key: &str, words: Vec<&str>, code: i32, says: &str) -> Ran {
    let mut command = client(site.url("api-1"));
    command.env("PUNCTUAL_API_KEY", key).args(&words);
    let ran: Ran = command.output().await.expect("the binary runs").into();
    let is_said = ran.out.contains(says) || ran.err.contains(says);
    assert!(ran.code == Some(code) && is_said, "{words:?} is not {code} with {says}: {ran:?}");
    ran
}

/// A look, as JSON.
pub(super) async fn look(site: &Installation, key: &str, line: &str) -> Value {
    let ran = say(site, key, &format!("{line} -o json"), 0, "").await;
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{line}: {error}: {ran:?}"))
}

fn list(found: &Value) -> &[Value] {
    found.as_array().expect("a list")
}

/// The value of a field that was printed.
fn field(ran: &Ran, name: &str) -> String {
    let start = format!("{name}\t");
    let line = ran.out.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no {name} in {ran:?}")).to_owned()
}

/// The approval that an act asks for; the same person may not give it.
async fn asked(site: &Installation, key: &str, line: &str) -> String {
    let id = field(&act(site, key, line, 4, "a second person must agree").await, "approvalId");
    act(site, key, &format!("approvals approve {id}"), 4, "same_person").await;
    let waits = look(site, key, "approvals list").await;
    assert!(list(&waits).iter().any(|it| it["approvalId"] == id), "{waits}");
    id
}

async fn allow(site: &Installation, key: &str, approval: &str) {
    act(site, key, &format!("approvals approve {approval}"), 0, "status\tapproved").await;
}

async fn begun(settings: &[(&str, &str)]) -> (Installation, People) {
    let all: Vec<(&str, &str)> = QUICK.iter().chain(settings).copied().collect();
    let mut site = Installation::new(&all).await;
    for (role, name) in [("api", "api-1"), ("relay", "relay-1"), ("keeper", "keeper-1")] {
        site.start(role, name, &[]).await;
    }
    let people = People::of(&site);
    (site, people)
}

async fn due(site: &Installation, key: &str, payee: &str, amount: i64) -> String {
    let due_at = (Utc::now() + TimeDelta::seconds(1)).to_rfc3339_opts(SecondsFormat::Micros, true);
    let body = json!({"payee": payee, "amount": amount, "currency": "EUR", "dueAt": due_at});
    let (status, made) = site.post(key, &body).await.expect("the API answers");
    assert_eq!(status, 201, "{made}");
    made["paymentId"].as_str().expect("an id").to_owned()
}

/// An id that nothing has.
const NOTHING: &str = "01a2283e-8820-8aaa-9bbb-0123456789ab";

/// Three payments that a gateway never took, parked; the last is more than one person may release. A worker that
/// reaches its gateway stands ready.
async fn with_three_parked() -> (Installation, People, [String; 3]) {
    let settings = [
        ("ladder.held_back", "100ms"),
        ("ladder.held_back_limit", "2"),
        ("operations.approve_above_minor", "5000"),
    ];
    let (mut site, people) = begun(&settings).await;
    // Nobody listens there; fewer calls than make a breaker open.
    site.start("worker", "worker-1", &[("gateway.url", "http://127.0.0.1:1")]).await;
    let ids = [
        due(&site, "one", "sim_ok", 1_250).await,
        due(&site, "two", "sim_ok", 100).await,
        due(&site, "large", "sim_ok", 9_900).await,
    ];
    for id in &ids {
        site.settled(id, &["PARKED"], 60 * SECONDS).await;
    }
    site.role("worker-1").drain(20 * SECONDS).await;
    site.start("worker", "worker-2", &[]).await;
    (site, people, ids)
}

#[tokio::test]
async fn what_is_parked_is_found_released_refused_and_decided() {
    let (site, people, [one, two, large]) = with_three_parked().await;
    looked_at(&site, &people, &one, &large).await;
    released(&site, &people, &one).await;
    refused(&site, &people, &large).await;
    released_in_bulk(&site, &people, &two).await;
    decided(&site, &people, &large).await;
}

async fn looked_at(site: &Installation, people: &People, one: &str, large: &str) {
    let viewer = &people.viewer;
    let of = "parked list --reason held_back_too_long --gateway sandbox --actor tester";
    assert_eq!(list(&look(site, viewer, of).await).len(), 3);
    let page = say(site, viewer, "parked list --limit 1", 0, "there are more").await;
    let cells: Vec<&str> = page.out.trim_end().split('\t').collect();
    assert!(
        cells.len() == 7 && cells.iter().all(|cell| !cell.is_empty()),
        "every column has its field: {page:?}"
    );
    say(site, viewer, "parked list --reason bored", 2, "/reason").await;
    searched(site, people, large).await;
    let shown =
        say(site, viewer, &format!("parked show {one}"), 0, "may\tredrive: yes, becomes PENDING").await;
    assert_eq!(field(&shown, "amount"), "12.50 EUR");
    assert_eq!(field(&shown, "parkedReason"), "held_back_too_long");
    say(site, viewer, &format!("parked show {NOTHING}"), 5, "payment_not_found").await;
    act(site, viewer, &format!("parked redrive {one}"), 4, "missing_scope").await;
    let dry = format!("parked redrive {one} {large} --dry-run");
    let dry = act(site, &people.alice, &dry, 0, "dry run: 1 of 2 may be released").await;
    assert!(dry.out.contains("\tyes\n") && dry.out.contains("\twith a second person\n"), "{dry:?}");
}

/// The one filter of the dashboard, over all clients.
async fn searched(site: &Installation, people: &People, large: &str) {
    let viewer = &people.viewer;
    let found = look(site, viewer, "payment search status:PARKED actor:tester amount:5000..").await;
    assert_eq!(list(&found).iter().map(|it| &it["paymentId"]).collect::<Vec<_>>(), [large]);
    assert_eq!(list(&look(site, viewer, "payment search actor:somebody").await).len(), 0);
    assert_eq!(list(&look(site, viewer, "parked list -q amount:..5000").await).len(), 2);
    let page = say(site, viewer, "payment search --order due-first --limit 2", 0, "3 found").await;
    assert!(page.err.contains("there are more") && page.out.lines().count() == 2, "{page:?}");
    let walked = say(site, viewer, "payment search status:PARKED --all", 0, "").await;
    assert_eq!(
        (walked.out.lines().count(), walked.err.as_str()),
        (3, ""),
        "what is all there is not counted"
    );
    say(site, viewer, "payment search status:parked", 2, "At character 8").await;
    say(site, viewer, "parked list -q ref:ch_1", 2, "ref: is not asked of what is parked").await;
    say(site, &people.warden, "payment search", 4, "missing_scope").await;
    let counts = say(site, viewer, "parked counts", 0, "held_back_too_long\tsandbox\t3\t").await;
    assert_eq!((counts.out.lines().count(), counts.err.as_str()), (1, ""), "{counts:?}");
}

async fn released(site: &Installation, people: &People, one: &str) {
    let line = format!("parked redrive {one}");
    act(site, &people.alice, &format!("{line} --if-version 1"), 6, "payment_changed").await;
    act(site, &people.alice, &line, 0, "status\tPENDING").await;
    site.settled(one, &["COMPLETED"], 60 * SECONDS).await;
    say(site, &people.viewer, &format!("parked show {one}"), 6, "not_parked").await;
    act(site, &people.alice, &line, 6, "not_parked").await;
}

async fn refused(site: &Installation, people: &People, large: &str) {
    let id = asked(site, &people.alice, &format!("parked redrive {large}")).await;
    let reject = format!("approvals reject {id}");
    act(site, &people.viewer, &reject, 4, "missing_scope").await;
    act(site, &people.bob, &reject, 0, "status\trejected").await;
    act(site, &people.bob, &format!("approvals approve {id}"), 6, "approval_decided").await;
    say(site, &people.bob, &format!("approvals show {id}"), 0, "decidedBy\tkey:bob").await;
    say(site, &people.bob, &format!("approvals show {NOTHING}"), 5, "approval_not_found").await;
    assert_eq!(list(&look(site, &people.bob, "approvals list --status rejected").await).len(), 1);
}

async fn released_in_bulk(site: &Installation, people: &People, two: &str) {
    let make = "parked bulk make --parked-for held_back_too_long --gateway sandbox --rate 50";
    let made = act(site, &people.alice, make, 0, "status\tstopped").await;
    assert_eq!(
        (field(&made, "payments").as_str(), field(&made, "need a second person").as_str()),
        ("2", "1")
    );
    assert_eq!((field(&made, "sum").as_str(), field(&made, "looked at").as_str()), ("100.00 EUR", "0 of 2"));
    let bulk = field(&made, "bulkId");
    act(site, &people.alice, &format!("parked bulk stop {bulk}"), 0, "status\tstopped").await;
    act(site, &people.bob, &format!("parked bulk start {bulk}"), 0, "status\trunning").await;
    site.settled(two, &["COMPLETED"], 60 * SECONDS).await;
    let outcomes = eventually("the bulk is done", 30 * SECONDS, || async {
        let now = look(site, &people.viewer, &format!("parked bulk show {bulk}")).await;
        (now["status"] == "done").then(|| now["outcomes"].clone())
    })
    .await;
    let outcomes = outcomes.as_object().expect("counts");
    assert_eq!(outcomes.len(), 2, "one released, one that needs two people: {outcomes:?}");
    let shown = say(site, &people.viewer, &format!("parked bulk show {bulk}"), 0, "looked at\t2 of 2").await;
    assert!(shown.out.contains("outcome\tredriven: 1\n"), "{shown:?}");
    let all = say(site, &people.viewer, "parked bulk list", 0, &bulk).await;
    assert!(all.out.contains("\tdone\t2\t2\t"), "status, looked at, and of how many: {all:?}");
    act(site, &people.alice, "parked bulk make -q id:x", 2, "At character 4").await;
    act(site, &people.alice, "parked bulk make -q actor:nobody", 2, "no client of this name").await;
    act(site, &people.alice, &format!("parked bulk start {bulk}"), 6, "bulk_done").await;
    say(site, &people.viewer, &format!("parked bulk show {NOTHING}"), 5, "bulk_not_found").await;
}

async fn decided(site: &Installation, people: &People, large: &str) {
    let resolve = format!("parked resolve {large} --source mail --note seen");
    let wrong = format!("{resolve} --as charged --gateway-reference ch_77 --amount 1 --currency EUR");
    act(site, &people.alice, &wrong, 2, "evidence_differs").await;
    act(site, &people.alice, &format!("{resolve} --as charged"), 2, "--gateway-reference").await;
    let never = format!("{resolve} --as not_charged");
    act(site, &people.alice, &never, 0, "status\tFAILED").await;
    act(site, &people.alice, &never, 6, "not_parked").await;
    let acts = look(site, &people.viewer, &format!("acts --subject {large} --all")).await;
    let said: Vec<&str> = list(&acts).iter().map(|it| it["act"].as_str().expect("a text")).collect();
    assert_eq!(said, ["resolve_not_charged", "reject", "ask_approval"], "{acts}");
    let told = "key:alice decided it with evidence: FAILED. Seen in: mail. The reason given: ticket 7.";
    say(site, &site.api_key, &format!("payment explain {large}"), 0, told).await;
}

#[tokio::test]
async fn a_new_key_is_asked_for_by_one_and_allowed_by_another() {
    let (mut site, people) = begun(&[]).await;
    site.start("worker", "worker-1", &[]).await;
    let payee = "sim_timeout_not_charged|sim_decline_insufficient_funds|sim_ok";
    let id = due(&site, "stored", payee, 1_250).await;
    let parked = site.settled(&id, &["PARKED"], 60 * SECONDS).await;
    assert_eq!(parked["statusReason"], "unproven_decline", "{parked}");
    let line = format!("parked redrive {id} --new-epoch");
    act(&site, &people.alice, &line, 6, "open_send").await;
    // As the late answer of the first send would: it was declined as well.
    let mut sql = PgConnection::connect(&site.database.url).await.expect("a connection");
    let answered = format!("UPDATE payments SET unanswered = 0 WHERE id = '{id}'");
    sqlx::query(AssertSqlSafe(answered)).execute(&mut sql).await.expect("answered");

    let approval = asked(&site, &people.alice, &line).await;
    let shown = say(&site, &people.bob, &format!("parked show {id}"), 0, "").await;
    assert_eq!(field(&shown, "approval"), approval, "who looks sees that somebody asked");
    allow(&site, &people.bob, &approval).await;
    site.settled(&id, &["COMPLETED"], 60 * SECONDS).await;
    let told = "key:alice released it for another try under a new gateway key; key:bob allowed it. The reason given: \
                ticket 7.";
    say(&site, &site.api_key, &format!("payment explain {id}"), 0, told).await;
}

/// As a worker whose gateway contradicts itself: the refund that is due waits for people from here on.
async fn contradicted(site: &Installation) {
    let worker = connect(&settings(&site.database.url), Access::Worker).await.expect("a worker connects");
    let claimed = worker.claim_refunds(&terms(), &fresh(1)).await.expect("an answer").remove(0);
    let verdict = RefundVerdict::ContractViolation { what: "gave 0.01 EUR back".into() };
    let answered = claimed.answered(RefundAnswer::silent(verdict, How::Sent));
    let decision = RefundDecision { to: RefundStatus::Unknown, next_at: None, answered: RefundSends::None };
    worker.settle_refund(&answered, &decision).await.expect("recorded");
}

#[tokio::test]
async fn money_is_given_back_in_parts_by_two_people_and_by_their_word_where_the_gateway_s_is_none() {
    let (mut site, people) = begun(&[("gateway.refunds", "true")]).await;
    site.start("worker", "worker-1", &[]).await;
    let id = due(&site, "paid", "sim_ok", 1_250).await;
    let paid = site.settled(&id, &["COMPLETED"], 60 * SECONDS).await;
    let reference = paid["gatewayReference"].as_str().expect("a reference");
    let create = format!("refund create {id} --gateway-reference {reference} --amount");
    let slip = format!("refund create {id} --gateway-reference ch_other --amount 500");
    act(&site, &people.alice, &slip, 6, "reference_unknown").await;
    given_back(&site, &people, &create).await;

    site.role("worker-1").drain(20 * SECONDS).await;
    let approval = asked(&site, &people.alice, &format!("{create} 750")).await;
    allow(&site, &people.bob, &approval).await;
    contradicted(&site).await;
    closed(&site, &people).await;
    site.settled(&id, &["REFUNDED"], 10 * SECONDS).await;
    let listed = look(&site, &people.alice, &format!("refund list {id}")).await;
    assert_eq!(list(&listed).len(), 2, "{listed}");
    for told in [
        "had 5.00 EUR given back",
        "asked for by key:alice and allowed by key:bob. In sum 5.00 EUR of this charge are given back.",
        "key:alice found in dashboard that a refund of 7.50 EUR (the gateway's re_99) was made, and key:bob agreed.",
    ] {
        say(&site, &site.api_key, &format!("payment explain {id}"), 0, told).await;
    }
}

/// A part of it, by the gateway.
async fn given_back(site: &Installation, people: &People, create: &str) {
    act(site, &people.viewer, &format!("{create} 500"), 4, "missing_scope").await;
    act(site, &people.alice, &format!("{create} 1251"), 6, "refund_above_charge").await;
    let keyed = format!("{create} 500 --idempotency-key rma-7");
    let approval = asked(site, &people.alice, &keyed).await;
    let again = act(site, &people.alice, &keyed, 4, &approval).await;
    let refund = field(&again, "refundId");
    allow(site, &people.bob, &approval).await;
    eventually("it is given back", 30 * SECONDS, || async {
        let now = look(site, &people.alice, &format!("refund show {refund}")).await;
        (now["status"] == "refunded" && now["givenBack"] == 500).then_some(())
    })
    .await;
    // Decided meanwhile, the same command says how it stands and asks nobody.
    act(site, &people.alice, &keyed, 0, "status\trefunded").await;
    let other = format!("{create} 501 --idempotency-key rma-7");
    act(site, &people.alice, &other, 6, "idempotency_key_reused").await;
    say(site, &people.alice, &format!("refund show {NOTHING}"), 5, "refund_not_found").await;
}

/// The rest, of which nobody learns what became, by people.
async fn closed(site: &Installation, people: &People) {
    let waits = say(site, &people.alice, "refund list --needs-human", 0, "\t7.50 EUR\t").await;
    let rest = waits.out.split('\t').next().expect("an id");
    let close = format!("refund resolve {rest} --source dashboard");
    act(site, &people.alice, &format!("{close} --as not_refunded"), 6, "refund_too_recent").await;
    act(site, &people.alice, &format!("{close} --as refunded"), 2, "--gateway-reference").await;
    let back = format!("{close} --as refunded --gateway-reference re_99 --amount");
    act(site, &people.alice, &format!("{back} 750 --currency JPY"), 2, "evidence_differs").await;
    act(site, &people.alice, &format!("{back} 751 --currency EUR"), 6, "refund_above_charge").await;
    let line = format!("{back} 750 --currency EUR");
    let approval = asked(site, &people.alice, &line).await;
    act(site, &people.bob, &line, 6, "approval_waits").await;
    allow(site, &people.bob, &approval).await;
    act(site, &people.alice, &line, 6, "refund_not_waiting").await;
    let shown = say(site, &people.alice, &format!("refund show {rest}"), 0, "status\trefunded").await;
    assert_eq!(
        (field(&shown, "resolvedBy").as_str(), field(&shown, "givenBack").as_str()),
        ("key:alice", "750")
    );
    assert_eq!(look(site, &people.alice, "refund list --needs-human").await, json!([]));
}

#[tokio::test]
async fn gateways_are_paused_slowed_and_resumed() {
    let (mut site, people) = begun(&[("gateway.rate", "50")]).await;
    site.start("worker", "worker-1", &[]).await;
    say(&site, &people.viewer, "gateway list", 0, "sandbox\ttakes charges\tclosed: calls go through\t50\t")
        .await;
    act(&site, &people.viewer, "gateway pause sandbox", 4, "missing_scope").await;
    act(&site, &people.warden, "gateway pause elsewhere", 5, "gateway_not_found").await;
    act(&site, &people.warden, "gateway pause sandbox", 0, "status\tpaused").await;
    let held = due(&site, "held", "sim_ok", 100).await;
    say(&site, &people.viewer, "gateway list", 0, "sandbox\tpaused by key:warden\t").await;
    act(&site, &people.warden, "gateway rate sandbox 20", 0, "\"limit\":20").await;
    act(&site, &people.warden, "gateway rate sandbox 51", 6, "rate_not_settable").await;
    act(&site, &people.warden, "gateway rate sandbox none", 0, "\"limit\":null").await;
    tokio::time::sleep(3 * SECONDS).await;
    assert_eq!(site.get(&held).await.expect("an answer").1["status"], "PENDING", "it is due and held");
    act(&site, &people.warden, "gateway resume sandbox", 0, "status\topen").await;
    site.settled(&held, &["COMPLETED"], 90 * SECONDS).await;
    let acts = look(&site, &people.viewer, "acts --operator key:warden --all").await;
    let said: Vec<&str> = list(&acts).iter().rev().map(|it| it["act"].as_str().expect("a text")).collect();
    assert_eq!(
        said,
        ["pause_gateway", "limit_gateway_rate", "limit_gateway_rate", "resume_gateway"],
        "{acts}"
    );
}

#[tokio::test]
async fn charges_of_a_kind_are_stopped_and_let_go_on() {
    let (mut site, people) = begun(&[]).await;
    site.start("worker", "worker-1", &[]).await;
    for of in ["gateway sandbox", "currency EUR"] {
        act(&site, &people.warden, &format!("switch on {of}"), 0, "on\ttrue").await;
        let row = format!("{}\ttrue\tkey:warden\t", of.replace(' ', "\t"));
        say(&site, &people.viewer, "switch list", 0, &row).await;
        act(&site, &people.warden, &format!("switch off {of}"), 0, "on\tfalse").await;
    }
    // To stop a client, or everything, is more than to look after gateways.
    for of in ["actor tester", "global"] {
        act(&site, &people.warden, &format!("switch on {of}"), 4, "missing_scope").await;
        act(&site, &people.alice, &format!("switch on {of}"), 0, "on\ttrue").await;
        act(&site, &people.alice, &format!("switch off {of}"), 0, "on\tfalse").await;
    }
    act(&site, &people.alice, "switch on actor nobody", 5, "nothing_to_switch").await;
    assert_eq!(look(&site, &people.viewer, "switch list").await, json!([]));
}

#[tokio::test]
async fn keys_are_made_followed_and_ended_by_who_may_and_never_by_others() {
    let (site, people) = begun(&[]).await;
    let make = "api-keys create --actor shop --name till --scope payments:read";
    act(&site, &people.viewer, make, 4, "missing_scope").await;
    act(&site, &people.alice, &make.replace("read", "raed"), 2, "unknown_scope").await;
    let made = act(&site, &people.alice, make, 0, "apiKey\tpk_").await;
    let (old, first) = (field(&made, "keyId"), field(&made, "apiKey"));
    act(&site, &people.alice, make, 6, "api_key_name_taken").await;
    say(&site, &first, "payment list", 0, "").await;
    let rotate = format!("api-keys rotate {old} --overlap 1h");
    let next = field(&act(&site, &people.alice, &rotate, 0, "replaces\t").await, "apiKey");
    act(&site, &people.alice, &rotate, 6, "rotation_under_way").await;
    act(&site, &people.alice, &format!("api-keys revoke {old}"), 0, "revokedAt\t").await;
    say(&site, &first, "payment list", 4, "unauthenticated").await;
    say(&site, &next, "payment list", 0, "").await;
    act(&site, &people.alice, &format!("api-keys revoke {NOTHING}"), 5, "api_key_not_found").await;
    assert_eq!(list(&look(&site, &people.alice, "api-keys list --actor shop").await).len(), 2);
}

#[tokio::test]
async fn what_a_client_may_create_in_a_day_is_set_shown_and_taken_away() {
    let (site, people) = begun(&[]).await;
    let shop = site.new_api_key("shop");
    let create = "payment create --payee acct_7 --amount 100 --currency EUR --due-at +1h";
    let set = "caps set shop EUR --payments 1 --amount 50000";
    act(&site, &people.viewer, set, 4, "missing_scope").await;
    act(&site, &people.alice, &set.replace("shop", "nobody"), 5, "actor_not_found").await;
    act(&site, &people.alice, &set.replace("EUR", "EUX"), 2, "unsupported_currency").await;
    act(&site, &people.alice, set, 0, "EUR\t500.00 EUR\t0\t1\t0\t").await;
    say(&site, &shop, create, 0, "").await;
    say(&site, &shop, create, 2, "daily").await;
    say(&site, &people.viewer, "caps show shop", 0, "EUR\t500.00 EUR\t1.00 EUR\t1\t1\t").await;
    act(&site, &people.alice, "caps set shop EUR --none", 0, "").await;
    assert_eq!(look(&site, &people.viewer, "caps show shop").await, json!([]));
    say(&site, &shop, create, 0, "").await;
    let acts = look(&site, &people.viewer, "acts --subject actor:shop").await;
    assert_eq!(list(&acts).len(), 2, "{acts}");
}

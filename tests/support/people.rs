//! People at their consoles, each with a key of their own, and the payments that they are given to decide about.

use super::installation::{Client, Installation};
use chrono::{DateTime, SecondsFormat, SubsecRound, TimeDelta, Utc};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

/// What somebody who decides about payments may do.
pub const DECIDES: [&str; 4] = ["ops:read", "ops:redrive", "ops:refund", "ops:approve"];
/// What somebody who switches off may do.
pub const SWITCHES: [&str; 3] = ["ops:read", "gateways:write", "admin"];

/// Payments made at once.
const MADE_AT_ONCE: usize = 8;

/// One person at one API.
#[derive(Debug, Clone)]
pub struct Console {
    http: reqwest::Client,
    api: String,
    key: String,
}

/// What they were told.
#[derive(Debug, Clone)]
pub struct Said {
    /// HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
}

impl Said {
    /// `200`, or `409 not_parked`.
    pub fn shown(&self) -> String {
        match self.body["code"].as_str() {
            Some(code) => format!("{} {code}", self.status),
            None => self.status.to_string(),
        }
    }

    /// Refused with this status and code.
    pub fn is(&self, status: u16, code: &str) -> bool {
        self.status == status && self.body["code"] == code
    }

    /// A text of the body.
    ///
    /// # Panics
    /// There is none of this name.
    pub fn text(&self, name: &str) -> String {
        let text = self.body[name].as_str();
        text.unwrap_or_else(|| panic!("no {name}: {} {}", self.status, self.body)).to_owned()
    }
}

/// `100 × 200, 100 × 409 not_parked`.
pub fn shown<'a>(said: impl IntoIterator<Item = &'a Said>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    said.into_iter().for_each(|said| *counts.entry(said.shown()).or_default() += 1);
    let counts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} × {what}")).collect();
    counts.join(", ")
}

impl Console {
    /// A new key of this person, at this API. Two keys of one name are one person's.
    pub fn of(site: &Installation, person: &str, scopes: &[&str], api: &str) -> Self {
        let mut command = vec!["keys", "create", "--actor", person, "-o", "json"];
        scopes.iter().for_each(|scope| command.extend(["--scope", scope]));
        let made: Value = serde_json::from_str(&site.run(&command)).expect("JSON of the key");
        let key = made["apiKey"].as_str().expect("the key's text").to_owned();
        Self { http: site.http.clone(), api: site.url(api).to_owned(), key }
    }

    /// For commands of the same person.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The same person and key at another API.
    pub fn at(&self, site: &Installation, api: &str) -> Self {
        Self { api: site.url(api).to_owned(), ..self.clone() }
    }

    /// One request; `null` is no body.
    pub async fn ask(&self, method: &str, path: &str, idempotency_key: &str, body: &Value) -> Said {
        let method = method.parse().expect("a method");
        let mut request = self.http.request(method, format!("{}{path}", self.api)).bearer_auth(&self.key);
        if !idempotency_key.is_empty() {
            request = request.header("Idempotency-Key", idempotency_key);
        }
        if !body.is_null() {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        let answer = request.send().await.expect("the API answers");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("a body");
        Said { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
    }

    async fn post(&self, path: &str, body: &Value) -> Said {
        self.ask("POST", path, "", body).await
    }

    /// Reads.
    pub async fn get(&self, path: &str) -> Said {
        self.ask("GET", path, "", &Value::Null).await
    }

    /// Releases a parked payment under its key.
    pub async fn redrive(&self, payment: &str) -> Said {
        self.post(&format!("/v1/ops/parked/{payment}/redrive"), &json!({"reason": "look again"})).await
    }

    /// Asks for its release under a new key.
    pub async fn new_epoch(&self, payment: &str) -> Said {
        let body = json!({"reason": "it may be paid now", "newEpoch": true});
        self.post(&format!("/v1/ops/parked/{payment}/redrive"), &body).await
    }

    /// Ends it as charged, by this name of the gateway's.
    pub async fn resolve_charged(&self, payment: &str, reference: &str, amount: i64) -> Said {
        let evidence = json!({"source": "dashboard", "gatewayReference": reference, "amount": amount, "currency": "EUR"});
        let body = json!({"reason": "seen there", "as": "charged", "evidence": evidence});
        self.post(&format!("/v1/ops/parked/{payment}/resolve"), &body).await
    }

    /// Ends it as not charged.
    pub async fn resolve_not_charged(&self, payment: &str) -> Said {
        let body = json!({"reason": "not there", "as": "not_charged", "evidence": {"source": "dashboard"}});
        self.post(&format!("/v1/ops/parked/{payment}/resolve"), &body).await
    }

    /// Allows what another person asked for.
    pub async fn approve(&self, approval: &str) -> Said {
        let body = json!({"reason": "looked at it too"});
        self.post(&format!("/v1/ops/approvals/{approval}/approve"), &body).await
    }

    /// Asks to give money back; `None`: all that is left.
    pub async fn refund(&self, key: &str, payment: &str, reference: &str, amount: Option<i64>) -> Said {
        let mut body = json!({"paymentId": payment, "gatewayReference": reference, "reason": "sent back"});
        if let Some(amount) = amount {
            body["amount"] = json!(amount);
        }
        self.ask("POST", "/v1/ops/refunds", key, &body).await
    }

    /// Turns a kill switch, `currency/EUR` or the like; `on`: what it names is switched off.
    pub async fn throw(&self, path: &str, on: bool) -> Said {
        let body = json!({"on": on, "reason": "a rehearsal"});
        self.ask("PUT", &format!("/v1/ops/kill-switches/{path}"), "", &body).await
    }

    /// Makes a bulk re-drive of what is parked for this reason.
    pub async fn make_bulk(&self, reason: &str, rate_per_s: i64) -> Said {
        let body = json!({"reason": "it is over", "filter": {"reason": reason}, "ratePerS": rate_per_s});
        self.post("/v1/ops/bulk-redrives", &body).await
    }

    /// `start` or `stop`.
    pub async fn turn_bulk(&self, bulk: &str, way: &str) -> Said {
        self.post(&format!("/v1/ops/bulk-redrives/{bulk}/{way}"), &json!({"reason": way})).await
    }
}

/// The same, so much later: a head start for somebody else.
pub async fn later<T>(by: Duration, act: impl Future<Output = T>) -> T {
    tokio::time::sleep(by).await;
    act.await
}

/// When a payment is due.
#[derive(Debug, Clone, Copy)]
pub enum Due {
    /// So long after it is made.
    In(TimeDelta),
    /// Then.
    At(DateTime<Utc>),
}

/// One payment to be made.
#[derive(Debug, Clone, Copy)]
pub struct New {
    /// What the gateway does.
    pub payee: &'static str,
    /// In minor units.
    pub amount: i64,
    /// Its code.
    pub currency: &'static str,
    /// When.
    pub due: Due,
    /// Nothing is sent so long after it is due.
    pub deadline: Option<TimeDelta>,
    /// Sends at most.
    pub max_sends: i64,
}

impl New {
    /// A small one in euro, due two seconds after it is made.
    pub fn of(payee: &'static str) -> Self {
        let due = Due::In(TimeDelta::seconds(2));
        Self { payee, amount: 1_250, currency: "EUR", due, deadline: None, max_sends: 6 }
    }
}

/// Makes them, in this order; their ids.
pub async fn make(client: &Client, name: &str, all: Vec<New>) -> Vec<String> {
    let posts = all.into_iter().enumerate().map(|(number, new)| async move {
        let due_at = match new.due {
            Due::In(ahead) => (Utc::now() + ahead).trunc_subsecs(6),
            Due::At(at) => at.trunc_subsecs(6),
        };
        let text = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Micros, true);
        let mut body = json!({
            "payee": new.payee, "amount": new.amount, "currency": new.currency, "dueAt": text(due_at),
            "retry": {"maxSends": new.max_sends},
        });
        if let Some(after) = new.deadline {
            body["executeBefore"] = json!(text(due_at + after));
        }
        let answer = client.post(number, &format!("{name}-{number}"), &body).await;
        let (status, created) = answer.expect("the API answers");
        assert_eq!(status, 201, "{created}");
        created["paymentId"].as_str().expect("an id").to_owned()
    });
    futures_util::stream::iter(posts).buffered(MADE_AT_ONCE).collect().await
}

//! An installation on which every page has something to show: payments in all states, parked ones of several reasons,
//! words that wait for a second person, a bulk action, webhooks that fail, differences of several classes, a currency
//! switched off, and a gateway that is down with its breaker open.

use super::SOON;
use crate::figures::Figures;
use crate::support::eventually;
use crate::support::hooks::{Hook, Says};
use crate::support::installation::Installation;
use crate::support::people::{Console, Due, New, make};
use crate::support::settlement::{Booked, sandbox};
use chrono::{NaiveDate, TimeDelta, Utc};
use punctual::domain::money::Currency;
use punctual::domain::settlement::Kind;
use serde_json::{Value, json};
use std::time::Duration;

const SETTINGS: [(&str, &str); 15] = [
    ("dashboard.secure_cookie", "false"),
    ("dashboard.environment", "evidence"),
    ("dashboard.logins_per_address", "0"),
    ("gateway.total_timeout", "3s"),
    ("gateway.connect_timeout", "1s"),
    ("gateway.refunds", "true"),
    ("gateway.rate", "100"),
    ("worker.late_by", "2s"),
    ("ladder.retry", "2s"),
    ("ladder.reask", "2s"),
    ("ladder.jitter_percent", "0"),
    ("relay.poll", "200ms"),
    ("kafka.session_timeout", "6s"),
    ("webhooks.allow", "127.0.0.0/8"),
    ("webhooks.poll", "100ms"),
];
const EVERYTHING: [&str; 6] =
    ["ops:read", "ops:redrive", "ops:refund", "ops:approve", "gateways:write", "admin"];
/// Longest for what workers do.
const SETTLES: Duration = Duration::from_secs(60);

/// Declined for its only send: parked under a key that nobody used, so that it may be released.
const CLEAN: &str = "sim_decline_insufficient_funds|sim_ok";
const PAID: usize = 60;
const PARKED: usize = 9;
const WRONG: usize = 4;
const LATER: usize = 45;

/// Everything that runs, and who looks.
pub(super) struct Lively {
    site: Installation,
    ana: Console,
    ben: Console,
    _hooks: [Hook; 2],
}

impl Lively {
    /// Starts it and waits until everything has happened.
    pub(super) async fn new(figures: &mut Figures) -> Self {
        let mut site = Installation::new(&SETTINGS).await;
        for (role, name) in [
            ("keeper", "keeper-1"),
            ("api", "api-1"),
            ("relay", "relay-1"),
            ("publisher", "publisher-1"),
            ("worker", "worker-1"),
            ("worker", "worker-2"),
        ] {
            site.start(role, name, &[]).await;
        }
        let ana = Console::of(&site, "anna.berger", &EVERYTHING, "api-1");
        let ben = Console::of(&site, "ben.okafor", &EVERYTHING, "api-1");
        let hooks = [Hook::always(Says::Status(204)).await, Hook::always(Says::Status(503)).await];
        let lively = Self { site, ana, ben, _hooks: hooks };
        lively.endpoints().await;
        let made = make(&lively.site.client(), "lively", payments()).await;
        for id in made.iter().rev().take(3) {
            let (status, said) = lively.site.cancel(id).await.expect("the API answers");
            assert_eq!(status, 200, "{said}");
        }
        let parked = eventually("payments are parked", SETTLES, || async {
            let parked = lively.ana.get("/v1/ops/parked-counts").await.body["count"].as_u64()?;
            (parked >= u64::try_from(PARKED + WRONG).ok()?).then_some(parked)
        })
        .await;
        lively.decisions().await;
        lively.differences().await;
        let said = lively.ben.throw("currency/KWD", true).await;
        assert_eq!(said.status, 200, "{}", said.body);
        lively.outage().await;
        figures.met("payments parked for people", usize::try_from(parked).unwrap_or(0));
        lively
    }

    /// One that hears and one that does not.
    async fn endpoints(&self) {
        for (hook, about) in self._hooks.iter().zip(["orders", "the ledger of memberships"]) {
            let body = json!({ "url": hook.url(), "description": about }).to_string();
            let url = format!("{}/v1/webhook-endpoints", self.site.url("api-1"));
            let request = self.site.http.post(url).bearer_auth(&self.site.api_key).body(body);
            let answer = request.header("Content-Type", "application/json").send().await.expect("an answer");
            assert_eq!(answer.status(), 201);
        }
    }

    /// Refunds and a large release that wait for a second person, one that had its answer, and a bulk action.
    async fn decisions(&self) {
        let paid = self.listed("/v1/ops/payments?q=status:COMPLETED&limit=3").await;
        for (number, one) in paid.iter().enumerate() {
            let text = |name: &str| one[name].as_str().expect("a text").to_owned();
            let (id, reference) = (text("paymentId"), text("gatewayReference"));
            let said = self.ana.refund(&format!("back-{number}"), &id, &reference, None).await;
            assert_eq!(said.status, 202, "{}", said.body);
            if number == 0 {
                let said = self.ben.approve(&said.text("approvalId")).await;
                assert_eq!(said.status, 200, "{}", said.body);
            }
        }
        let large = self.listed("/v1/ops/parked?q=amount:200000..&limit=1").await;
        let id = large[0]["paymentId"].as_str().expect("a large one is parked").to_owned();
        let said = self.ana.redrive(&id).await;
        assert_eq!(said.status, 202, "{}", said.body);
        let said = self.ana.make_bulk("budget_exhausted", 1).await;
        assert_eq!(said.status, 201, "{}", said.body);
    }

    /// A report of yesterday that knows of charges that we do not, and of one that we take for failed.
    async fn differences(&self) {
        let day = Utc::now().date_naive() - TimeDelta::days(1);
        let failed = self.listed("/v1/ops/payments?q=status:FAILED").await;
        let failed = failed.iter().find(|one| one["currency"] == "EUR").expect("one has failed");
        let amount = failed["amount"].as_i64().expect("an amount");
        let failed = failed["paymentId"].as_str().expect("an id").to_owned();
        let nobody = uuid::Uuid::from_u128(0x0191_0000_0000_8000_8000_0000_0000_0042).to_string();
        let lines = [
            booked(Some(format!("{failed}:0")), "ch_9001", amount, day),
            booked(Some(nobody), "ch_9002", 990, day),
            booked(Some("order-4711".to_owned()), "ch_9003", 4_200, day),
        ];
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("report.ndjson");
        std::fs::write(&file, sandbox(day, &lines)).expect("a file");
        let (day, file) = (day.to_string(), file.display().to_string());
        let of_day = ["reconcile", "run", "--gateway", "sandbox", "--day", &day];
        let of_file = ["--file", &file, "--format", "sandbox"];
        let told = self.site.tell(&[&of_day[..], &of_file[..]].concat());
        assert!(matches!(told.0, Some(0 | 10 | 11)), "{}", told.1);
    }

    /// The gateway is down from now on, and workers have found out.
    async fn outage(&self) {
        let url = format!("{}/outage", self.site.url("sandbox-1"));
        let request = self.site.http.put(url).bearer_auth("sandbox-secret");
        let answer = request.body(r#"{"kind":"unavailable"}"#).send().await.expect("the sandbox answers");
        assert!(answer.status().is_success(), "{}", answer.status());
        make(&self.site.client(), "down", (0..40).map(|_| New::of("sim_ok")).collect()).await;
        eventually("the breaker is open", SETTLES, || async {
            let said = self.ana.get("/v1/ops/gateways").await;
            matches!(said.body["data"][0]["status"].as_str(), Some("broken" | "probing")).then_some(())
        })
        .await;
    }

    async fn listed(&self, path: &str) -> Vec<Value> {
        let said = self.ana.get(path).await;
        assert_eq!(said.status, 200, "{path}: {}", said.body);
        said.body["data"].as_array().cloned().unwrap_or_default()
    }

    /// Every page by the name of its picture: those of the navigation, and one of each kind behind them.
    pub(super) async fn pages(&self) -> Vec<(String, String)> {
        let mut pages = vec![("overview".to_owned(), "/ui".to_owned())];
        for name in [
            "payments",
            "parked",
            "approvals",
            "bulks",
            "acts",
            "buckets",
            "forecast",
            "workers",
            "gateways",
            "webhooks",
            "reconciliation",
            "quarantine",
            "runbooks",
        ] {
            pages.push((name.to_owned(), format!("/ui/{name}")));
        }
        pages.push(("runbook".to_owned(), "/ui/runbooks/BreakerOpen".to_owned()));
        for (name, path, id, way) in [
            ("payment-completed", "/v1/ops/payments?q=status:COMPLETED&limit=1", "paymentId", "payments"),
            ("payment-pending", "/v1/ops/payments?q=status:PENDING&limit=1", "paymentId", "payments"),
            ("payment-failed", "/v1/ops/payments?q=status:FAILED&limit=1", "paymentId", "payments"),
            ("payment-parked", "/v1/ops/parked?q=reason:budget_exhausted&limit=1", "paymentId", "payments"),
            (
                "payment-contradicted",
                "/v1/ops/parked?q=reason:contract_violation&limit=1",
                "paymentId",
                "payments",
            ),
            ("approval", "/v1/ops/approvals?status=pending&limit=1", "approvalId", "approvals"),
            ("bulk", "/v1/ops/bulk-redrives", "bulkId", "bulks"),
            (
                "difference",
                "/v1/ops/reconciliation-items?status=open&class=missing_here&limit=1",
                "itemId",
                "reconciliation/items",
            ),
            (
                "difference-foreign",
                "/v1/ops/reconciliation-items?status=open&class=foreign&limit=1",
                "itemId",
                "reconciliation/items",
            ),
        ] {
            let found = self.listed(path).await;
            let one = found.first().unwrap_or_else(|| panic!("{name}: nothing at {path}"));
            let id = one[id].as_str().map_or_else(|| one[id].to_string(), str::to_owned);
            pages.push((name.to_owned(), format!("/ui/{way}/{id}")));
        }
        pages
    }

    /// Where the pages are.
    pub(super) fn url(&self) -> &str {
        self.site.url("api-1")
    }

    /// What somebody who may do everything logs in with; another person than the one who asked for everything here.
    pub(super) fn key(&self) -> &str {
        self.ben.key()
    }

    /// A parked payment that may be released.
    pub(super) async fn releasable(&self) -> String {
        let found = self.listed("/v1/ops/parked?q=reason:budget_exhausted%20amount:..5000&limit=1").await;
        found[0]["paymentId"].as_str().expect("one is parked").to_owned()
    }

    /// A bulk action that takes some seconds.
    pub(super) async fn slow_bulk(&self) -> String {
        let found = self.listed("/v1/ops/bulk-redrives").await;
        let slow = found.iter().find(|bulk| bulk["ratePerS"] == 1).expect("one was made");
        slow["bulkId"].as_str().expect("an id").to_owned()
    }

    /// The state that a payment is in.
    pub(super) async fn status(&self, id: &str) -> String {
        self.ana.get(&format!("/v1/ops/payments/{id}")).await.text("status")
    }

    /// Claims are held from now on.
    pub(super) async fn quarantine(&self) {
        let body = json!({ "reason": "a disk was lost, ticket OPS-12" });
        let said = self.ana.ask("POST", "/v1/ops/quarantine", "", &body).await;
        assert!(said.status == 200 || said.is(409, "already_quarantined"), "{}", said.body);
        eventually("the pages know of it", SOON, || async {
            (self.ana.get("/v1/ops/quarantine").await.body["quarantined"] == true).then_some(())
        })
        .await;
    }
}

fn booked(key: Option<String>, reference: &str, gross: i64, day: NaiveDate) -> Booked {
    let euro = Currency::from_code("EUR").expect("a currency");
    Booked {
        key,
        gateway_ref: Some(reference.to_owned()),
        charge_ref: None,
        kind: Kind::Charge,
        gross_minor: gross,
        currency: euro,
        fee_minor: 25,
        net_minor: gross - 25,
        net_currency: euro,
        booked_on: day,
        executed_on: Some(day),
    }
}

/// What is made of every kind; those that are cancelled come last.
fn payments() -> Vec<New> {
    let amounts = [999, 1_999, 4_990, 12_500, 129_900];
    let currencies = ["EUR", "EUR", "USD", "JPY"];
    let at = |number: usize, new: New| New {
        amount: amounts[number % amounts.len()],
        due: Due::In(TimeDelta::milliseconds(2_000 + i64::try_from(number).unwrap_or(0) * 120)),
        ..new
    };
    let paid =
        (0..PAID).map(|n| New { currency: currencies[n % currencies.len()], ..at(n, New::of("sim_ok")) });
    let parked = (0..PARKED).map(|n| New {
        max_sends: 1,
        amount: if n == 0 { 250_000 } else { 1_250 },
        ..at(n, New::of(CLEAN))
    });
    let wrong = (0..WRONG).map(|n| at(n, New::of("sim_wrong_amount")));
    let lost = (0..4).map(|n| at(n, New::of("sim_decline_lost_card")));
    let slow = (0..3).map(|n| at(n, New::of("sim_pending_600_ok")));
    let later = (0..LATER).map(|n| {
        let minutes = 3 + i64::try_from(n * n).unwrap_or(0) % 57 + if n % 9 == 0 { 2_880 } else { 0 };
        New { due: Due::In(TimeDelta::minutes(minutes)), ..at(n, New::of("sim_ok")) }
    });
    paid.chain(parked).chain(wrong).chain(lost).chain(slow).chain(later).collect()
}

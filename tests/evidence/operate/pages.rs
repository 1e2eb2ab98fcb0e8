//! Every page of the dashboard on a million payments: how long each takes, the middle one and the worst of twenty.
//!
//! The times are those of a client on the same machine, from the request to the last byte, so they are what the
//! server takes and a little more. What a filter finds nothing for is among them: to say "none" is what costs most.

use super::month;
use super::visitor::{Visitor, key_of};
use crate::figures::{Figures, Holds};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::records::look;
use std::time::{Duration, Instant};
use url::form_urlencoded;

/// Times that each is asked for.
const TIMES: usize = 20;
/// Longest of the middle one and of the worst.
const LONGEST: Duration = Duration::from_millis(300);
/// Longest of the doctor, who also waits for brokers.
const EXAMINED: Duration = Duration::from_secs(10);
/// Pages before the one that is far into a list.
const DEEP: usize = 40;

const PLACES: [&str; 15] = [
    "/ui",
    "/ui/payments",
    "/ui/parked",
    "/ui/parked?q=reason:outcome_unknown",
    "/ui/approvals",
    "/ui/bulks",
    "/ui/acts",
    "/ui/workers",
    "/ui/buckets",
    "/ui/forecast",
    "/ui/gateways",
    "/ui/reconciliation",
    "/ui/webhooks",
    "/ui/quarantine",
    "/ui/runbooks",
];

/// Each in both orders.
const FILTERS: [&str; 18] = [
    "status:PARKED",
    "status:UNKNOWN",
    "status:PROCESSING",
    "status:FAILED",
    "status:PENDING",
    "status:COMPLETED",
    "status:CANCELLED",
    "-status:COMPLETED",
    "actor:shop-7",
    "actor:shop-7 status:FAILED",
    "gateway:second",
    "gateway:second status:UNKNOWN",
    "amount:100000..",
    "amount:249999..",
    "reason:declined_hard",
    "reason:outcome_unknown status:PARKED",
    "due:{today}..",
    "ref:ch_none",
];

const ROUTES: [&str; 9] = [
    "/v1/ops/overview",
    "/v1/forecast",
    "/v1/ops/gateways",
    "/v1/ops/parked",
    "/v1/ops/parked-counts",
    "/v1/ops/payments?q=status:FAILED",
    "/v1/ops/acts",
    "/v1/scheduled-payments",
    "/v1/events?limit=100",
];

/// The middle and the worst of some times.
struct Times(Vec<Duration>);

impl Times {
    fn line(mut self, figures: &mut Figures, name: &str, statuses: &[u16]) {
        self.0.sort_unstable();
        let (middle, worst) = (self.0[self.0.len() / 2], self.0[self.0.len() - 1]);
        let right = statuses.iter().all(|status| *status == 200);
        let ms = |time: Duration| format!("{}.{} ms", time.as_millis(), time.subsec_micros() / 100 % 10);
        let shown =
            format!("{}, worst {}{}", ms(middle), ms(worst), if right { "" } else { ", not all 200" });
        figures.holds(name, shown, "200, < 300 ms, all", Holds(right && worst < LONGEST));
    }
}

/// Loads them, and looks at every page.
pub(super) async fn every_page_answers_at_once_on_a_million_payments(figures: &mut Figures) {
    let asked = std::env::var("PUNCTUAL_PAYMENTS").ok().and_then(|many| many.parse().ok());
    let each_day = asked.unwrap_or(1_000_000_u64).div_ceil(2 * month::DAYS + 1);
    let build = if cfg!(debug_assertions) { ", a debug build" } else { "" };
    figures.part(&format!("Pages on {} payments of two months{build}", each_day * (2 * month::DAYS + 1)));
    let settings = [
        ("database.partition_days_ahead", "40"),
        ("api.horizon", "35days"),
        ("dashboard.secure_cookie", "false"),
    ];
    let mut site = Installation::new(&settings).await;
    let began = Instant::now();
    month::write(&site.database.url, each_day).await;
    let counted: Vec<(String, i64)> =
        sqlx::query_as("SELECT status, count(*) FROM payments GROUP BY 1 ORDER BY 2 DESC")
            .fetch_all(&mut look(&site.database.url).await)
            .await
            .expect("counts");
    println!("  made in {} s: {counted:?}", began.elapsed().as_secs());
    site.start("keeper", "keeper-1", &[]).await;
    site.start("api", "api-1", &[]).await;
    let key = key_of(&site, "shop-7");
    let mut visitor = Visitor::enter(site.url("api-1"), &key).await;
    for place in PLACES {
        shown(figures, &mut visitor, place, place).await;
    }
    let today = chrono::Utc::now().date_naive().to_string();
    for filter in FILTERS {
        let filter = filter.replace("{today}", &today);
        for order in ["due_first", "due_last"] {
            let name = format!("payments, {filter}, {order}");
            shown(figures, &mut visitor, &name, &way(&filter, order)).await;
        }
    }
    one_of_each(figures, &mut visitor).await;
    far_into_a_list(figures, &mut visitor).await;
    routes(figures, &site, &key).await;
    examined(figures, &site).await;
}

fn way(filter: &str, order: &str) -> String {
    let mut written = form_urlencoded::Serializer::new(String::new());
    written.append_pair("q", filter).append_pair("order", order);
    format!("/ui/payments?{}", written.finish())
}

async fn shown(figures: &mut Figures, visitor: &mut Visitor, name: &str, path: &str) {
    let (mut times, mut statuses) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let shown = visitor.open(path).await;
        times.push(shown.took);
        statuses.push(shown.status);
    }
    Times(times).line(figures, name, &statuses);
}

/// The page of a payment in each state.
async fn one_of_each(figures: &mut Figures, visitor: &mut Visitor) {
    for state in ["PENDING", "UNKNOWN", "PARKED", "COMPLETED", "FAILED", "CANCELLED"] {
        let order = if state == "PENDING" { "due_last" } else { "due_first" };
        let list = visitor.open(&way(&format!("status:{state}"), order)).await;
        let Some(id) = list.quoted("href=\"/ui/payments/") else {
            figures.met(&format!("a payment that is {state}"), 0);
            continue;
        };
        shown(figures, visitor, &format!("the page of one that is {state}"), &format!("/ui/payments/{id}"))
            .await;
    }
    for alert in punctual::platform::alerts::alerts().take(1) {
        shown(figures, visitor, "a runbook", &format!("/ui/runbooks/{}", alert.name)).await;
    }
    let yesterday = chrono::Utc::now().date_naive() - chrono::Days::new(1);
    let books = format!("/ui/reconciliation?books={yesterday}");
    shown(figures, visitor, "a day's books, added up when asked", &books).await;
}

/// A page that is reached by its keyset, not by counting.
async fn far_into_a_list(figures: &mut Figures, visitor: &mut Visitor) {
    for (filter, order) in [("gateway:sandbox", "due_first"), ("-status:PARKED", "due_last")] {
        let mut path = way(filter, order);
        let mut pages = 0;
        while pages < DEEP {
            let shown = visitor.open(&path).await;
            let next = shown.text.split("href=\"/ui/payments?").skip(1).find_map(|rest| {
                let link = rest.split('"').next()?;
                link.contains("cursor=").then(|| link.replace("&#38;", "&").replace("&amp;", "&"))
            });
            let Some(next) = next else { break };
            path = format!("/ui/payments?{next}");
            pages += 1;
        }
        let name = format!("payments, {filter}, {order}, {pages} pages on");
        figures.holds(&format!("pages walked, {filter}"), pages, &DEEP.to_string(), Holds(pages == DEEP));
        shown(figures, visitor, &name, &path).await;
    }
}

async fn routes(figures: &mut Figures, site: &Installation, key: &str) {
    for route in ROUTES {
        let (mut times, mut statuses) = (Vec::new(), Vec::new());
        for _ in 0..TIMES {
            let began = Instant::now();
            let asked = site.http.get(format!("{}{route}", site.url("api-1"))).bearer_auth(key);
            let answer = asked.send().await.expect("an answer");
            statuses.push(answer.status().as_u16());
            answer.bytes().await.expect("a body");
            times.push(began.elapsed());
        }
        Times(times).line(figures, &format!("GET {route}"), &statuses);
    }
}

async fn examined(figures: &mut Figures, site: &Installation) {
    let began = Instant::now();
    let output = site.output(&["doctor", "-o", "json"]);
    let took = began.elapsed();
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let looked = findings.as_array().map_or(0, Vec::len);
    let shown = format!("{looked} findings in {} ms", took.as_millis());
    figures.holds("punctual doctor", shown, "≤ 10 s", Holds(looked > 0 && took <= EXAMINED));
    // The keeper counts the month ahead in a twentieth of one connection's time.
    let counted = eventually("the month ahead is counted", Duration::from_secs(120), || async {
        let counted: i64 = sqlx::query_scalar("SELECT count(*) FROM forecast_days WHERE gateway = 'sandbox'")
            .fetch_one(&mut look(&site.database.url).await)
            .await
            .expect("a count");
        (counted >= 31).then_some(counted)
    })
    .await;
    figures.holds("days of the forecast that the keeper has counted", counted, "≥ 31", Holds(counted >= 31));
}

//! Walks from the first page to the last: everything once, whatever happens meanwhile.

use super::{LIST, body, create, create_all, get, ids, later, list, run};
use crate::support::api::Api;
use chrono::{TimeDelta, Utc};
use std::collections::BTreeSet;

/// Every page of a query, in order. `between` happens before each page but the first.
async fn walk(api: &Api, query: &str, mut between: impl AsyncFnMut(usize)) -> Vec<serde_json::Value> {
    let mut pages = vec![list(api, query).await];
    loop {
        let Some(cursor) = pages.last().and_then(|page| page["nextCursor"].as_str()) else { return pages };
        assert!(pages.len() < 1_000, "{query}: the walk does not end");
        let next = format!("{query}&cursor={cursor}");
        between(pages.len()).await;
        pages.push(list(api, &next).await);
    }
}

fn all(pages: &[serde_json::Value]) -> Vec<String> {
    pages.iter().flat_map(ids).collect()
}

fn column(pages: &[serde_json::Value], name: &str) -> Vec<String> {
    let rows = pages.iter().flat_map(|page| page["data"].as_array().expect("a list"));
    // Fractions have none, three or six digits; as times they compare.
    let time = |row: &serde_json::Value| row[name].as_str().expect("a time").parse::<chrono::DateTime<Utc>>();
    rows.map(|row| time(row).expect("a time").to_rfc3339_opts(chrono::SecondsFormat::Micros, true)).collect()
}

#[tokio::test]
async fn walking_all_pages_meets_five_hundred_payments_once_each_in_both_orders() {
    let api = Api::start(|_| {}).await;
    // Six days, and many with the same due instant.
    let due = later();
    let bodies = (0..500_i64).map(|n| body(due + TimeDelta::days(n * 7 % 6) + TimeDelta::seconds(n % 9)));
    let made: BTreeSet<String> = create_all(&api, "key", bodies.collect()).await.into_iter().collect();
    assert_eq!(made.len(), 500);
    for limit in [7, 200] {
        let newest = walk(&api, &format!("limit={limit}"), async |_| {}).await;
        assert_eq!(newest.len(), 500_usize.div_ceil(limit), "every page but the last is full");
        let met = all(&newest);
        assert_eq!((met.len(), &BTreeSet::from_iter(met)), (500, &made));
        let created = column(&newest, "createdAt");
        assert!(created.is_sorted_by(|one, next| one >= next), "newest first");

        let by_due = walk(&api, &format!("limit={limit}&dueFrom=2020-01-01T00:00:00Z"), async |_| {}).await;
        assert_eq!(by_due.len(), 500_usize.div_ceil(limit));
        let met = all(&by_due);
        assert!(column(&by_due, "dueAt").is_sorted(), "earliest due first");
        assert_eq!((met.len(), &BTreeSet::from_iter(met)), (500, &made));
    }
    // Fifty by itself, and the last page says so.
    let usual = list(&api, "").await;
    assert_eq!(ids(&usual).len(), 50);
    let exact = walk(&api, "limit=100", async |_| {}).await;
    assert_eq!(exact.len(), 5, "no empty page after the last full one");
}

#[tokio::test]
async fn payments_made_during_a_walk_double_and_hide_nothing() {
    let api = Api::start(|_| {}).await;
    let due = later();
    let bodies = (0..60_i64).map(|n| body(due + TimeDelta::hours(n)));
    let made = create_all(&api, "before", bodies.collect()).await;
    for query in ["limit=7", "limit=7&dueFrom=2020-01-01T00:00:00Z", "limit=7&status=PENDING"] {
        let pages = walk(&api, query, async |page| {
            // Some before and some behind the walk, by either order.
            for hours in [0, 31, 59] {
                let new = body(due + TimeDelta::hours(hours) + TimeDelta::minutes(1));
                create(&api, &format!("{query} {page} {hours}").replace([' ', '&'], "/"), &new).await;
            }
        })
        .await;
        let met = all(&pages);
        let once: BTreeSet<&String> = met.iter().collect();
        assert_eq!(once.len(), met.len(), "{query}: a payment was met twice");
        let missed: Vec<_> = made.iter().filter(|id| !once.contains(id)).collect();
        assert!(missed.is_empty(), "{query}: {missed:?}");
    }
}

/// 2,400 payments of the tester over three days, every 400th parked, as if made long ago. Their ids
/// carry their due time as ours do.
const MANY: &str = "
    WITH many AS MATERIALIZED (
        SELECT n, date_trunc('second', now()) + n * interval '1 minute' AS at FROM generate_series(1, 2400) AS n
    ), identified AS MATERIALIZED (
        SELECT n, at, (at AT TIME ZONE 'UTC')::date AS day, (substr(hex, 1, 8) || '-' || substr(hex, 9, 4)
                   || '-8000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id,
               (SELECT id FROM actors WHERE name = 'tester') AS actor
        FROM many CROSS JOIN LATERAL (SELECT lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0')) AS h (hex)
    ), key AS (
        INSERT INTO idempotency_keys (actor_id, key, request_hash, payment_id, due_at, created_at)
        SELECT actor, 'k' || n, decode(repeat('00', 32), 'hex'), id, at, now() - n * interval '1 s' FROM identified
    ), detail AS (
        INSERT INTO payment_details (due_day, id, payee_sealed, field_digests)
        SELECT day, id, 'payee', '{}' FROM identified
    )
    INSERT INTO payments (due_day, id, actor_id, status, due_at, next_attempt_at, gateway, amount_minor, currency,
        max_sends, on_soft_decline, on_exhausted, lane, created_at, last_moved_at, history_seq, history_hash, last_xid)
    SELECT day, id, actor, CASE WHEN n % 400 = 0 THEN 'PARKED' ELSE 'COMPLETED' END, at, at, 'sandbox', 1, 'EUR', 6,
           'retry', 'park', 1, now() - n * interval '1 s', now(), 1, '', '1'
    FROM identified";

#[tokio::test]
async fn a_sparse_filter_answers_short_pages_with_cursors_until_all_is_seen() {
    let api = Api::start(|_| {}).await;
    run(&api, MANY).await;
    for query in ["limit=50&status=PARKED", "limit=50&status=PARKED&dueFrom=2020-01-01T00:00:00Z"] {
        let pages = walk(&api, query, async |_| {}).await;
        // 1,000 rows examined a request, so 2,400 take three.
        let sizes: Vec<usize> = pages.iter().map(|page| ids(page).len()).collect();
        assert_eq!(sizes, [2, 3, 1], "{query}");
        let states: BTreeSet<_> = pages
            .iter()
            .flat_map(|page| page["data"].as_array().expect("a list"))
            .map(|row| row["status"].as_str().expect("a state"))
            .collect();
        assert_eq!(states, BTreeSet::from(["PARKED"]));
        assert_eq!(all(&pages).into_iter().collect::<BTreeSet<_>>().len(), 6);
    }
    // A state that none has: empty pages, and an end.
    let pages = walk(&api, "status=REFUNDED", async |_| {}).await;
    assert_eq!(pages.iter().map(|page| ids(page).len()).collect::<Vec<_>>(), [0, 0, 0]);
    // Every page that could be full is full although the filter drops nothing of it.
    let pages = walk(&api, "status=COMPLETED&limit=200", async |_| {}).await;
    assert_eq!(all(&pages).len(), 2_394);
    assert!(pages.iter().rev().skip(1).all(|page| ids(page).len() == 200));
    // The bounds of another span than the order's are dropped row by row, under the same limit.
    let early = (Utc::now() - TimeDelta::seconds(2_390)).to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let query = format!("dueFrom=2020-01-01T00:00:00Z&createdTo={early}");
    let pages = walk(&api, &query, async |_| {}).await;
    assert_eq!(pages.len(), 3);
    let found = all(&pages).len();
    assert!((1..=30).contains(&found), "{found}");
}

#[tokio::test]
async fn a_payment_whose_day_is_gone_is_left_out_and_the_walk_goes_on() {
    let api = Api::start(|_| {}).await;
    let due = later();
    let bodies = (0..9_i64).map(|n| body(due + TimeDelta::days(n % 3)));
    create_all(&api, "key", bodies.collect()).await;
    let gone = (due + TimeDelta::days(1)).format("%Y%m%d");
    run(&api, &format!("ALTER TABLE payments DETACH PARTITION payments_{gone}")).await;
    let pages = walk(&api, "limit=2", async |_| {}).await;
    assert_eq!(all(&pages).len(), 6);
    assert_eq!(get(&api, LIST).await.status, 200);
}

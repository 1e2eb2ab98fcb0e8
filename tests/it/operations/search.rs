//! The search over all clients: each path brings what the rules pass, in both orders, page by page, and counts what it
//! says that it counts.

use crate::schedule::world::World;
use punctual::domain::filter::Filter;
use punctual::domain::ids::PaymentId;
use punctual::schedule::{FoundPayment, MOST_COUNTED, MOST_SEARCHED, Matches, Search, SearchOrder};
use std::collections::BTreeSet;

/// Payments of two actors over six days in every state; several share a millisecond.
const FILL: [&str; 7] = [
    "INSERT INTO actors (id, name) VALUES ('00000000-0000-0000-0000-0000000000b1', 'one shop'),
        ('00000000-0000-0000-0000-0000000000b2', 'other')",
    "INSERT INTO gateways (name, account) VALUES ('sandbox', 'a'), ('second', 'b')
     ON CONFLICT DO NOTHING",
    "CREATE FUNCTION made_id(at timestamptz, n integer) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
        SELECT (lpad(to_hex((extract(epoch FROM date_trunc('milliseconds', at)) * 1000)::bigint), 12, '0')
            || '8' || lpad(to_hex(n * 37 % 4096), 3, '0') || 'a' || lpad(to_hex(n), 15, '0'))::uuid $$",
    "INSERT INTO payments (due_day, id, actor_id, status, status_reason, due_at, next_attempt_at, gateway, gateway_ref,
        amount_minor, currency, attempt, unanswered, epoch_first_sent_at, claim_id, lease_until, fence, max_sends,
        on_soft_decline, on_exhausted, lane, created_at, last_moved_at, history_seq, history_hash, last_xid)
     SELECT (at AT TIME ZONE 'UTC')::date, made_id(at, n),
            ('00000000-0000-0000-0000-0000000000b' || (1 + n % 2))::uuid, status,
            CASE WHEN status IN ('PARKED', 'UNKNOWN') THEN (ARRAY['poisoned', 'outcome_unknown'])[1 + n % 2] END, at, at,
            (ARRAY['sandbox', 'second'])[1 + n % 3 % 2], CASE WHEN status = 'COMPLETED' THEN 'ch_' || n END, 1000 + n,
            'EUR', 1, (status IN ('PROCESSING', 'UNKNOWN'))::int, now(),
            CASE WHEN status = 'PROCESSING' THEN gen_random_uuid() END,
            CASE WHEN status = 'PROCESSING' THEN now() END, 1, 6, 'retry', 'park', 1, now(), now(), 1, '', '1'
     FROM generate_series(0, 299) AS n
     CROSS JOIN LATERAL (SELECT (ARRAY['PENDING', 'PARKED', 'UNKNOWN', 'COMPLETED', 'FAILED', 'PROCESSING',
                                       'CANCELLED'])[1 + n % 7] AS status,
        date_trunc('day', now(), 'UTC') - interval '1 day'
            + CASE WHEN n % 7 IN (2, 5) THEN 0 ELSE n % 6 END * interval '1 day' + n / 40 * interval '1 hour'
            + n % 5 * interval '100 us' AS at) AS t",
    "INSERT INTO payment_details (due_day, id, payee_sealed, field_digests)
     SELECT due_day, id, 'payee', '{}' FROM payments",
    "INSERT INTO parked (payment_id, reason, parked_at, evidence, actor_id, gateway, amount_minor, currency)
     SELECT id, status_reason, now(), '{}', actor_id, gateway, amount_minor, currency
     FROM payments WHERE status = 'PARKED'",
    "INSERT INTO gateway_refs SELECT gateway, gateway_ref, id FROM payments WHERE gateway_ref IS NOT NULL",
];

async fn filled() -> World {
    let world = World::new().await;
    for statement in FILL {
        world.run(statement).await;
    }
    world
        .run(
            "INSERT INTO idempotency_keys (actor_id, key, request_hash, payment_id, due_at, created_at)
             SELECT actor_id, id::text, decode(repeat('00', 32), 'hex'), id, due_at, created_at FROM payments",
        )
        .await;
    world.run("UPDATE installation SET oldest_open_day = (now() AT TIME ZONE 'UTC')::date - 1").await;
    world
}

fn search(text: &str, order: SearchOrder) -> Search {
    let filter: Filter = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    Search { asked: filter.conditions(), order }
}

/// All that a walk meets, in its order; each once.
async fn walked(world: &World, text: &str, order: SearchOrder, limit: usize) -> Vec<FoundPayment> {
    let search = search(text, order);
    let (mut all, mut after) = (Vec::new(), None::<PaymentId>);
    loop {
        let page = world.api.search(&search, after, limit).await.expect("a page");
        assert!(page.found.len() <= limit, "{text}");
        match page.matches {
            Matches::Exactly(count) | Matches::AtLeast(count) => assert!(count >= page.found.len(), "{text}"),
        }
        all.extend(page.found);
        let Some(next) = page.next else { break };
        assert_ne!(after, Some(next), "{text}: the walk goes on");
        after = Some(next);
    }
    let met: BTreeSet<PaymentId> = all.iter().map(|it| it.payment).collect();
    assert_eq!(met.len(), all.len(), "{text}: each once");
    all
}

#[tokio::test]
async fn every_path_brings_exactly_what_the_rules_pass_in_both_orders() {
    let world = filled().await;
    let everything = walked(&world, "", SearchOrder::DueFirst, 300).await;
    assert_eq!(everything.len(), 300);
    let some = (everything[7].payment, everything[250].payment);
    let day = everything[150].due_at.date_naive();
    let instant = everything[150].due_at.to_rfc3339();
    let mut passed = 0;
    for text in [
        "status:PARKED".to_owned(),
        "status:PARKED reason:poisoned actor:other".into(),
        "status:PARKED,UNKNOWN".into(),
        "status:UNKNOWN,PROCESSING,PARKED -gateway:second".into(),
        "status:PROCESSING".into(),
        "status:FAILED,PARKED".into(),
        "-status:COMPLETED,FAILED amount:..1200".into(),
        "actor:\"one shop\"".into(),
        "actor:\"one shop\" status:PENDING".into(),
        "-actor:\"one shop\" gateway:sandbox".into(),
        "actor:nobody".into(),
        "ref:ch_3,ch_10,ch_none".into(),
        format!("id:{},{}", some.0, some.1),
        format!("id:{},{} -status:PENDING,PARKED", some.0, some.1),
        format!("due:{day}"),
        format!("due:..{instant}"),
        format!("due:{instant}.. -due:{instant}"),
        format!("actor:\"one shop\" due:{day}"),
        format!("status:PARKED due:{day}.."),
        "status:PARKED status:FAILED".into(),
    ] {
        let asked = search(&text, SearchOrder::DueFirst).asked;
        let fits = |it: &&FoundPayment| {
            let outline = punctual::domain::filter::Outline {
                id: it.payment,
                status: it.status,
                reason: it.reason,
                due_at: it.due_at,
                amount_minor: it.amount.minor.get(),
                gateway: &it.gateway.0,
                gateway_ref: it.gateway_ref.as_deref(),
            };
            asked.holds_of(&outline) && asked.actors.holds(it.actor_name.as_deref())
        };
        let wanted: BTreeSet<PaymentId> = everything.iter().filter(fits).map(|it| it.payment).collect();
        passed += wanted.len();
        for limit in [3, 50] {
            let first = walked(&world, &text, SearchOrder::DueFirst, limit).await;
            let ids = |all: &[FoundPayment]| all.iter().map(|it| it.payment).collect::<Vec<_>>();
            let mut last = ids(&walked(&world, &text, SearchOrder::DueLast, limit).await);
            last.reverse();
            assert_eq!(ids(&first), last, "{text}: one order is the other backwards");
            assert!(first.windows(2).all(|two| two[0].payment.due_ms() <= two[1].payment.due_ms()), "{text}");
            assert_eq!(ids(&first).into_iter().collect::<BTreeSet<_>>(), wanted, "{text}");
        }
    }
    assert!(passed > 900, "{passed}: the filters pass something");
}

#[tokio::test]
async fn a_count_that_is_capped_says_so_and_one_that_is_not_is_exact() {
    let world = filled().await;
    let page = |text: &str| {
        let search = search(text, SearchOrder::DueLast);
        let api = world.api.clone();
        async move { api.search(&search, None, 10).await.expect("a page") }
    };
    assert_eq!(page("").await.matches, Matches::Exactly(300));
    assert_eq!(page("status:PARKED").await.matches, Matches::Exactly(43));
    // A million salaries of one minute, in small.
    world
        .run(&format!(
            "INSERT INTO payments (due_day, id, actor_id, status, due_at, next_attempt_at, gateway, amount_minor, currency,
                max_sends, on_soft_decline, on_exhausted, lane, created_at, last_moved_at, history_seq, history_hash,
                last_xid)
             SELECT (at AT TIME ZONE 'UTC')::date, made_id(at, n), '00000000-0000-0000-0000-0000000000b1', 'COMPLETED',
                at, at, 'sandbox', 5, 'EUR', 6, 'retry', 'park', 1, now(), now(), 1, '', '1'
             FROM generate_series(1000, {}) AS n
             CROSS JOIN LATERAL (SELECT date_trunc('day', now(), 'UTC') + interval '2 days') AS t (at)",
            1_000 + MOST_SEARCHED
        ))
        .await;
    assert_eq!(page("").await.matches, Matches::AtLeast(MOST_COUNTED));
    assert_eq!(
        page("status:PARKED").await.matches,
        Matches::Exactly(43),
        "what is rare has a path of its own"
    );
    // Few pass among many: a short page with a place to go on, and an honest count.
    let sparse = page("status:CANCELLED").await;
    assert!(sparse.next.is_some() && matches!(sparse.matches, Matches::AtLeast(_)), "{:?}", sparse.matches);
    let all = walked(&world, "status:CANCELLED", SearchOrder::DueLast, 50).await;
    assert_eq!(all.len(), 42);
}

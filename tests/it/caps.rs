//! Daily caps: what an actor creates in a day never exceeds them, whoever creates at once.

use crate::support::api::{Answer, Api, send};
use chrono::{SecondsFormat, TimeDelta, Utc};
use futures_util::future::join_all;
use serde_json::{Value, json};

fn payment(amount: i64, currency: &str) -> Value {
    let due = (Utc::now() + TimeDelta::hours(1)).to_rfc3339_opts(SecondsFormat::Secs, true);
    json!({"payee": "p", "amount": amount, "currency": currency, "dueAt": due})
}

/// An interface with the key of an administrator, and the tester's cap in euros.
async fn capped(amount: Value, payments: Value) -> (Api, String) {
    let api = Api::start(|_| {}).await;
    let admin = api.new_key("chief", &["admin", "ops:read"]).await;
    let mut wanted = json!({"currency": "EUR"});
    for (name, most) in [("amount", amount), ("payments", payments)] {
        if !most.is_null() {
            wanted[name] = most;
        }
    }
    let set = cap(&api, &admin, "tester", wanted).await;
    assert_eq!(set.status, 200, "{}", set.text);
    (api, admin)
}

async fn cap(api: &Api, admin: &str, actor: &str, mut body: Value) -> Answer {
    body["reason"] = json!("a new contract");
    let request = api.anonymous("PUT", &format!("/v1/ops/actors/{actor}/caps")).bearer_auth(admin);
    send(request, Some(&body)).await
}

/// The first answer that says what became of it: 503 says that nothing was judged yet, and to repeat it under the same key.
async fn judged(request: reqwest::RequestBuilder, body: &Value) -> Answer {
    loop {
        let again = request.try_clone().expect("no stream is sent");
        let answer = send(again, Some(body)).await;
        if answer.status != 503 {
            return answer;
        }
    }
}

async fn shown(api: &Api, admin: &str) -> Value {
    let request = api.anonymous("GET", "/v1/ops/actors/tester/caps").bearer_auth(admin);
    let answer = send(request, None).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["caps"].clone()
}

#[tokio::test]
async fn each_cap_takes_what_fits_and_no_more() {
    // Caps of amount and number, the amounts asked for, and what each is answered.
    for (amount, payments, asked) in [
        (json!(1_000), Value::Null, &[(400, ""), (600, ""), (1, "daily_amount_reached")][..]),
        (json!(1_000), Value::Null, &[(1_001, "daily_amount_reached"), (1_000, "")]),
        (Value::Null, json!(2), &[(1_000_000, ""), (1, ""), (1, "daily_count_reached")]),
        (json!(10), json!(2), &[(8, ""), (3, "daily_amount_reached"), (2, ""), (1, "daily_amount_reached")]),
        (json!(10), json!(1), &[(5, ""), (5, "daily_count_reached"), (6, "daily_amount_reached")]),
        (json!(0), Value::Null, &[(1, "daily_amount_reached")]),
        (Value::Null, json!(0), &[(1, "daily_count_reached")]),
    ] {
        let (api, admin) = capped(amount.clone(), payments.clone()).await;
        let (mut sum, mut count) = (0, 0);
        for (number, (minor, refused)) in asked.iter().enumerate() {
            let answer = api.post(&format!("key-{number}"), &payment(*minor, "EUR")).await;
            if refused.is_empty() {
                assert_eq!(answer.status, 201, "{amount} {payments}: {minor}: {}", answer.text);
                (sum, count) = (sum + minor, count + 1);
            } else {
                assert_eq!(answer.refusal(), (422, (*refused).into()), "{amount} {payments}: {minor}");
            }
        }
        let caps = shown(&api, &admin).await;
        assert_eq!(
            (&caps[0]["amountToday"], &caps[0]["paymentsToday"]),
            (&json!(sum), &json!(count)),
            "{caps}"
        );
    }
}

#[tokio::test]
async fn many_creates_at_once_never_exceed_a_cap_and_waste_none_of_it() {
    let (api, admin) = capped(json!(1_000), Value::Null).await;
    let other = api.another(|_| {}).await;
    // 120 of 25 each, half of them through another process: 40 fit.
    let (http, body) = (reqwest::Client::new(), payment(25, "EUR"));
    let posts = (0..120).map(|number| {
        let url = if number % 2 == 0 { &api.url } else { &other.url };
        let request = http.post(format!("{url}/v1/scheduled-payments")).bearer_auth(&api.key);
        judged(request.header("Idempotency-Key", format!("key-{number}")), &body)
    });
    let answers = join_all(posts).await;
    let of = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((of(201), of(422)), (40, 80), "{:?}", answers.iter().map(|a| a.status).collect::<Vec<_>>());
    assert_eq!(api.one::<i64>("SELECT sum(amount_minor)::bigint FROM payments").await, 1_000);
    assert_eq!(api.one::<i64>("SELECT count(*) FROM idempotency_keys").await, 40, "a refused key stays free");
    let caps = shown(&api, &admin).await;
    assert_eq!((&caps[0]["amountToday"], &caps[0]["paymentsToday"]), (&json!(1_000), &json!(40)), "{caps}");
}

/// A payment of a batch.
fn item(key: &str, amount: i64, currency: &str) -> Value {
    let mut item = payment(amount, currency);
    item["idempotencyKey"] = json!(key);
    item
}

async fn batch(api: &Api, body: &Value) -> Answer {
    send(api.request("POST", "/v1/scheduled-payments/batch"), Some(body)).await
}

/// What became of each: nothing for a new payment, `replayed`, or the code of its refusal.
fn told(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let one = |item: &Value| match item["problem"]["code"].as_str() {
        Some(code) => code.to_owned(),
        None if item["replayed"] == json!(true) => "replayed".to_owned(),
        None => String::new(),
    };
    answer.json()["data"].as_array().expect("a list").iter().map(one).collect()
}

#[tokio::test]
async fn a_batch_takes_of_a_cap_what_single_creates_in_its_order_would() {
    for (amount, payments, asked) in [
        // The sixth crosses it; so do all after it.
        (
            json!(1_000),
            Value::Null,
            (0..12).map(|n| (200, if n < 5 { "" } else { "daily_amount_reached" })).collect(),
        ),
        (
            Value::Null,
            json!(3),
            (0..7).map(|n| (9, if n < 3 { "" } else { "daily_count_reached" })).collect(),
        ),
        // One that does not fit leaves room for a smaller one behind it, and none before an earlier one.
        (
            json!(100),
            Value::Null,
            vec![(60, ""), (60, "daily_amount_reached"), (30, ""), (30, "daily_amount_reached"), (10, "")],
        ),
        (
            json!(10),
            json!(2),
            vec![(6, ""), (6, "daily_amount_reached"), (4, ""), (1, "daily_amount_reached")],
        ),
        (json!(0), Value::Null, vec![(1, "daily_amount_reached")]),
        (json!(50), Value::Null, vec![(25, ""), (25, "")]),
    ] as [(Value, Value, Vec<(i64, &str)>); 6]
    {
        let (api, admin) = capped(amount.clone(), payments.clone()).await;
        let items: Vec<Value> = asked
            .iter()
            .enumerate()
            .map(|(n, (minor, _))| item(&format!("key-{n}"), *minor, "EUR"))
            .collect();
        let wanted: Vec<&str> = asked.iter().map(|(_, told)| *told).collect();
        let answer = batch(&api, &json!({"payments": items})).await;
        assert_eq!(told(&answer), wanted, "{amount} {payments}");
        let fits = asked.iter().filter(|(_, told)| told.is_empty());
        let (sum, count) = fits.fold((0, 0), |(sum, count), (minor, _)| (sum + minor, count + 1));
        assert_eq!(api.one::<i64>("SELECT coalesce(sum(amount_minor), 0)::bigint FROM payments").await, sum);
        assert_eq!(
            api.one::<i64>("SELECT count(*) FROM idempotency_keys").await,
            count,
            "a refused key is free"
        );
        let caps = shown(&api, &admin).await;
        assert_eq!(
            (&caps[0]["amountToday"], &caps[0]["paymentsToday"]),
            (&json!(sum), &json!(count)),
            "{caps}"
        );
        // Again: what exists is replayed and counts no second time, what did not fit still does not.
        let answer = batch(&api, &json!({"payments": items})).await;
        let wanted: Vec<&str> =
            wanted.iter().map(|told| if told.is_empty() { "replayed" } else { *told }).collect();
        assert_eq!(told(&answer), wanted, "{amount} {payments}");
        assert_eq!(shown(&api, &admin).await, caps);
    }
}

#[tokio::test]
async fn what_a_key_made_earlier_leaves_room_in_a_batch_for_what_is_new() {
    let (api, admin) = capped(json!(100), Value::Null).await;
    let old = [item("a", 30, "EUR"), item("b", 30, "EUR")];
    assert_eq!(told(&batch(&api, &json!({"payments": old})).await), ["", ""]);
    // 60 of 100 are used; the old ones, summed again, would leave no room for any of these.
    let mut other = old[1].clone();
    other["amount"] = json!(31);
    let items = [old[0].clone(), item("c", 30, "EUR"), other, item("d", 20, "EUR"), item("e", 10, "EUR")];
    let answer = batch(&api, &json!({"payments": items})).await;
    assert_eq!(told(&answer), ["replayed", "", "idempotency_key_reused", "daily_amount_reached", ""]);
    assert_eq!(answer.json()["data"][3]["problem"]["errors"][0]["pointer"], "/amount");
    assert_eq!(shown(&api, &admin).await[0]["amountToday"], json!(100));
    // Currencies without a cap are no part of it.
    let items = [item("f", 1, "EUR"), item("g", 5_000, "USD"), item("h", 1, "EUR")];
    let wanted = ["daily_amount_reached", "", "daily_amount_reached"];
    assert_eq!(told(&batch(&api, &json!({"payments": items})).await), wanted);
    assert_eq!(shown(&api, &admin).await[0]["amountToday"], json!(100));
}

#[tokio::test]
async fn all_or_nothing_meets_a_cap_with_nothing() {
    let (api, admin) = capped(json!(100), Value::Null).await;
    assert_eq!(api.post("old", &payment(40, "EUR")).await.status, 201);
    let items =
        json!([item("a", 40, "EUR"), item("b", 40, "EUR"), item("c", 7, "USD"), item("d", 20, "EUR")]);
    let refused = batch(&api, &json!({"payments": items, "atomic": true})).await;
    assert_eq!(refused.refusal(), (422, "batch_refused".into()));
    let errors = refused.json()["errors"].clone();
    let told = |at: usize| (errors[at]["pointer"].clone(), errors[at]["code"].clone());
    assert_eq!(told(0), (json!("/payments/1/amount"), json!("daily_amount_reached")), "{errors}");
    assert_eq!(errors.as_array().map(Vec::len), Some(1), "{errors}");
    assert_eq!(api.one::<i64>("SELECT count(*) FROM payments").await, 1);
    assert_eq!(shown(&api, &admin).await[0]["amountToday"], json!(40));
    // What fits is taken whole, to the last of it, and once.
    let items = json!([item("a", 40, "EUR"), item("c", 7, "USD"), item("d", 20, "EUR")]);
    for created in [3, 0] {
        let made = batch(&api, &json!({"payments": items, "atomic": true})).await;
        assert_eq!((made.status, &made.json()["created"]), (200, &json!(created)), "{}", made.text);
        assert_eq!(shown(&api, &admin).await[0]["amountToday"], json!(100));
    }
}

#[tokio::test]
async fn batches_at_once_never_exceed_a_cap_together_and_waste_none_of_it() {
    let (api, admin) = capped(json!(1_000), Value::Null).await;
    let other = api.another(|_| {}).await;
    let http = reqwest::Client::new();
    // Eight batches of 15, and 20 single ones, of 25 each, half of them through another process: 40 fit.
    let batches = (0..8).map(|number| {
        let url = if number % 2 == 0 { &api.url } else { &other.url };
        let items: Vec<Value> = (0..15).map(|n| item(&format!("b-{number}-{n}"), 25, "EUR")).collect();
        let request = http.post(format!("{url}/v1/scheduled-payments/batch")).bearer_auth(&api.key);
        async move { judged(request, &json!({"payments": items})).await }
    });
    let (single, body) = (reqwest::Client::new(), payment(25, "EUR"));
    let singles = (0..20).map(|number| {
        let request = single.post(format!("{}/v1/scheduled-payments", other.url)).bearer_auth(&api.key);
        judged(request.header("Idempotency-Key", format!("s-{number}")), &body)
    });
    let (batches, singles) = tokio::join!(join_all(batches), join_all(singles));
    let mut made = singles.iter().filter(|answer| answer.status == 201).count();
    assert!(singles.iter().all(|answer| [201, 422].contains(&answer.status)));
    for answer in &batches {
        made += told(answer).iter().filter(|told| told.is_empty() || *told == "replayed").count();
    }
    assert_eq!(made, 40);
    assert_eq!(api.one::<i64>("SELECT sum(amount_minor)::bigint FROM payments").await, 1_000);
    let caps = shown(&api, &admin).await;
    assert_eq!((&caps[0]["amountToday"], &caps[0]["paymentsToday"]), (&json!(1_000), &json!(40)), "{caps}");
}

#[tokio::test]
async fn a_replay_a_cancel_and_another_currency_cost_and_give_back_nothing() {
    let (api, admin) = capped(json!(100), Value::Null).await;
    let body = payment(60, "EUR");
    let made = api.post("key-1", &body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    for _ in 0..3 {
        let again = api.post("key-1", &body).await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, "true"));
    }
    assert_eq!(api.post("key-2", &payment(1_000, "USD")).await.status, 201, "no cap in dollars");
    let id = made.json()["paymentId"].as_str().expect("an id").to_owned();
    assert_eq!(api.payment("DELETE", &id).await.status, 200);
    let more = api.post("key-3", &payment(60, "EUR")).await;
    assert_eq!(more.refusal(), (422, "daily_amount_reached".into()), "cancelling gives nothing back");
    assert_eq!(shown(&api, &admin).await[0]["amountToday"], json!(60));
    // The refused key is free, also for what fits.
    assert_eq!(api.post("key-3", &payment(40, "EUR")).await.status, 201);
    // A replay is no create, also when nothing is left.
    assert_eq!(api.post("key-1", &body).await.status, 201);
}

#[tokio::test]
async fn yesterday_is_another_day_and_other_actors_are_others() {
    let (api, _) = capped(json!(100), Value::Null).await;
    assert_eq!(api.post("key-1", &payment(100, "EUR")).await.status, 201);
    assert_eq!(api.post("key-2", &payment(1, "EUR")).await.status, 422);
    let other = api.new_key("another", &["payments:write"]).await;
    let request = api.anonymous("POST", "/v1/scheduled-payments").bearer_auth(&other);
    let theirs = send(request.header("Idempotency-Key", "key-1"), Some(&payment(5_000, "EUR"))).await;
    assert_eq!(theirs.status, 201, "{}", theirs.text);
    assert!(api.one::<bool>("UPDATE actor_days SET day = day - 1 RETURNING true").await);
    assert_eq!(api.post("key-2", &payment(100, "EUR")).await.status, 201);
    assert_eq!(api.one::<i64>("SELECT count(*) FROM actor_days").await, 2, "only of the actor with a cap");
}

#[tokio::test]
async fn sums_of_days_long_past_are_forgotten_and_no_others() {
    let (api, _) = capped(json!(100), Value::Null).await;
    for (key, age) in [("key-1", 41), ("key-2", 40), ("key-3", 0)] {
        assert_eq!(api.post(key, &payment(1, "EUR")).await.status, 201);
        let aged = format!(
            "UPDATE actor_days SET day = day - {age} WHERE day = (now() AT TIME ZONE 'UTC')::date RETURNING true"
        );
        assert!(api.one::<bool>(&aged).await);
    }
    assert_eq!(api.owner.actor_caps("tester").await.expect("asked").expect("an actor").len(), 1);
    let worker = {
        let settings = punctual::platform::config::Database {
            url: api.database.url.as_str().into(),
            ..Default::default()
        };
        punctual::schedule::connect(&settings, punctual::schedule::Access::Worker)
            .await
            .expect("a worker connects")
    };
    assert_eq!(worker.forget_actor_days(0).await.expect("asked"), 0);
    assert_eq!(worker.forget_actor_days(5).await.expect("asked"), 1);
    assert_eq!(worker.forget_actor_days(5).await.expect("asked"), 0);
    assert_eq!(api.one::<i64>("SELECT count(*) FROM actor_days").await, 2);
}

#[tokio::test]
async fn caps_are_set_changed_and_taken_away_with_a_reason_on_record() {
    let (api, admin) = capped(json!(100), json!(5)).await;
    let caps = shown(&api, &admin).await;
    assert_eq!(
        (&caps[0]["currency"], &caps[0]["amount"], &caps[0]["payments"]),
        (&json!("EUR"), &json!(100), &json!(5))
    );
    assert_eq!(api.post("key-1", &payment(100, "EUR")).await.status, 201);
    // Raised, and what is used stays used.
    assert_eq!(cap(&api, &admin, "tester", json!({"currency": "EUR", "amount": 150})).await.status, 200);
    assert_eq!(api.post("key-2", &payment(51, "EUR")).await.status, 422);
    assert_eq!(api.post("key-2", &payment(50, "EUR")).await.status, 201);
    let taken = cap(&api, &admin, "tester", json!({"currency": "EUR"})).await;
    assert_eq!((taken.status, taken.json()), (200, json!({"actor": "tester", "caps": []})));
    assert_eq!(api.post("key-3", &payment(1_000, "EUR")).await.status, 201);
    let acts = "SELECT count(*) FROM operator_acts WHERE act = 'actor_cap_set' AND operator = 'key:chief'
        AND subject = 'actor:tester' AND reason = 'a new contract'";
    assert_eq!(api.one::<i64>(acts).await, 3);
    for (actor, body, refused) in [
        ("nobody", json!({"currency": "EUR", "amount": 1}), (404, "actor_not_found")),
        ("tester", json!({"currency": "eur", "amount": 1}), (422, "unsupported_currency")),
        ("tester", json!({"currency": "EUR", "amount": -1}), (422, "out_of_range")),
        ("tester", json!({"currency": "EUR", "payments": -1}), (422, "out_of_range")),
        ("tester", json!({"currency": "EUR", "payments": 1.5}), (400, "wrong_type")),
        ("tester", json!({"currency": "EUR", "amount": null}), (400, "wrong_type")),
        ("tester", json!({"amount": 1}), (400, "missing_field")),
    ] {
        let answer = cap(&api, &admin, actor, body.clone()).await;
        assert_eq!(answer.refusal(), (refused.0, refused.1.into()), "{actor}: {body}");
    }
}

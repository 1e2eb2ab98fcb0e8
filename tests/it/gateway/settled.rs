//! Settlement reports over HTTP: equal to the ledger without defects, and with them wrong in exactly
//! the lines that the list of defects names.

use super::rig::{Rig, Still, hasty, payment};
use punctual::platform::config::Value as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const DAY: Duration = Duration::from_secs(86_400);
const EVENING: &str = "2026-11-28T23:59:30Z";
const DEFECTS: &str = "missing:2,doubled:1,amount:3,currency:1,unknown:2,late:2,orphan:2,refund:1";

/// Forty charges on the 28th, one that decides on the 29th, and some that charge nothing.
async fn busy(clock: &Still, defects: &str) -> Rig {
    let rig = Rig::start_on(Arc::new(clock.clone()), |settings| {
        settings.settlement_defects = punctual::platform::config::Defects::read(defects).expect("defects");
    })
    .await;
    for n in 1..=38 {
        rig.verdict(&payment(n), "sim_ok").await;
    }
    rig.verdict(&payment(39), "sim_reset_after_write").await;
    rig.verdict(&payment(40), "sim_wrong_amount").await;
    rig.verdict(&payment(41), "sim_pending_60_ok").await;
    for (n, payee) in [(42, "sim_pending_1_fail"), (43, "sim_decline_lost_card"), (1, "sim_ok")] {
        rig.verdict(&payment(n), payee).await;
    }
    let hasty = rig.gateway_with(hasty);
    super::rig::charge(&hasty, &payment(44), "sim_timeout_not_charged", super::rig::open_gate()).await;
    rig
}

/// Gives so much back of the charge of payment `n`, under a key of its own; the reference.
async fn give_back(rig: &Rig, n: u8, amount: i64) -> String {
    let id = payment(n).id;
    let found: Value = serde_json::from_str(&rig.get(&format!("/charges?key={id}")).await).expect("JSON");
    let (charge, key) = (&found["charges"][0]["id"], format!("refund-of-{n}"));
    let body = serde_json::json!({
        "refundId": key, "charge": charge, "paymentId": id, "amount": amount, "currency": "EUR",
    })
    .to_string();
    let mut stream = rig.dial().await.expect("connected");
    let head = format!(
        "POST /refunds HTTP/1.0\r\nAuthorization: Bearer sandbox-secret\r\nIdempotency-Key: {key}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("read");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    let told: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(told["status"], "refunded", "{answer}");
    told["id"].as_str().expect("a reference").to_owned()
}

/// The report's lines and its end.
async fn report(rig: &Rig, query: &str) -> (Vec<Value>, Value) {
    let mut lines = ndjson(&rig.get(&format!("/settlement?{query}")).await);
    let end = lines.pop().expect("an end")["end"].take();
    assert_eq!(end["lines"], lines.len());
    (lines, end)
}

fn ndjson(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn a_report_has_one_line_for_each_movement_of_money_on_its_day_as_the_gateway_says_it() {
    let clock = Still::at(EVENING);
    let rig = busy(&clock, "").await;
    let (lines, end) = report(&rig, "day=2026-11-28").await;
    assert_eq!((&end["day"], &end["complete"]), (&"2026-11-28".into(), &false.into()));
    assert_eq!(lines.len(), 40);
    for (line, n) in lines.iter().zip(1..) {
        assert_eq!(line["key"], payment(n).id.to_string());
        assert_eq!((&line["kind"], &line["currency"]), (&"charge".into(), &"EUR".into()));
        let gross = line["gross"].as_i64().expect("whole");
        assert_eq!(gross, if n == 40 { 1_001 } else { 1_000 });
        assert_eq!(line["fee"].as_i64().zip(line["net"].as_i64()).map(|(f, n)| f + n), Some(gross));
        assert_eq!((&line["executedOn"], &line["bookedOn"]), (&end["day"], &end["day"]));
    }
    let references: Vec<_> = lines.iter().map(|line| line["gatewayRef"].as_str().expect("text")).collect();
    let charged: Vec<_> = rig.ledger().await.into_iter().filter(|line| line["charged"] == true).collect();
    assert_eq!(charged.len(), 41);
    for line in charged.iter().filter(|line| line["payee"] != "sim_pending_60_ok") {
        assert!(references.contains(&format!("ch_{}", line["seq"]).as_str()), "{line}");
    }
    assert_eq!(report(&rig, "day=2026-11-29").await.0, Vec::<Value>::new(), "not decided yet");
    clock.advance(DAY);
    let (again, end) = report(&rig, "day=2026-11-28").await;
    assert_eq!((again, &end["complete"]), (lines, &true.into()));
    let (next, _) = report(&rig, "day=2026-11-29").await;
    assert_eq!(next.len(), 1);
    assert_eq!(next[0]["key"], payment(41).id.to_string());
    assert_eq!(report(&rig, "day=2026-11-27").await.0, Vec::<Value>::new());
    rig.stop().await;
}

#[tokio::test]
async fn a_report_with_defects_differs_from_the_right_one_exactly_where_the_list_says() {
    let clock = Still::at(EVENING);
    let rig = busy(&clock, DEFECTS).await;
    for n in [3, 4, 5] {
        give_back(&rig, n, 300).await;
    }
    clock.advance(3 * DAY);
    let mut seen = BTreeMap::new();
    let mut late = Vec::new();
    for day in ["2026-11-28", "2026-11-29", "2026-11-30"] {
        let (right, _) = report(&rig, &format!("day={day}&defects=")).await;
        let (wrong, _) = report(&rig, &format!("day={day}")).await;
        let list = ndjson(&rig.get(&format!("/settlement/defects?day={day}")).await);
        let mut wanted = right.clone();
        for item in &list {
            let name = item["defect"].as_str().expect("a name").to_owned();
            *seen.entry((day, name)).or_insert(0) += 1;
            wanted.retain(|line| *line != item["is"]);
            wanted.extend(item["reported"].as_array().expect("lines").iter().cloned());
            fits(day, item);
            if item["defect"] == "late" {
                late.push(item["is"]["key"].clone());
            }
        }
        let sorted = |mut lines: Vec<Value>| {
            lines.sort_by_key(Value::to_string);
            lines
        };
        assert_eq!(sorted(wrong.clone()), sorted(wanted), "{day}");
        assert!(list.is_empty() || wrong != right, "{day}");
    }
    let count = |day, name: &str| seen.get(&(day, name.to_owned())).copied().unwrap_or(0);
    for part in DEFECTS.split(',') {
        let (name, wanted) = part.split_once(':').expect("a count");
        assert_eq!(count("2026-11-28", name).to_string(), wanted, "{name}");
    }
    // Its one charge of the day is missing; the late ones of the day before are there.
    assert_eq!((count("2026-11-29", "missing"), count("2026-11-29", "late")), (1, 2));
    assert_eq!((late.len(), late[0] == late[2], late[1] == late[3]), (4, true, true));
    assert_eq!(seen.keys().filter(|(day, _)| *day == "2026-11-30").count(), 0);
    rig.stop().await;
}

/// One entry of the list says what its name says.
#[track_caller]
fn fits(day: &str, item: &Value) {
    let is = &item["is"];
    let reported = item["reported"].as_array().expect("lines");
    let differs = |line: &Value, field: &str| {
        let fields = line.as_object().expect("a line").iter();
        let differing: Vec<_> =
            fields.filter(|(name, value)| is[*name] != **value).map(|(name, _)| name).collect();
        differing == [field]
    };
    let fits = match (item["defect"].as_str().expect("a name"), reported.as_slice()) {
        ("missing", []) => true,
        ("doubled", [first, second]) => first == is && second == is,
        ("amount", [line]) => line["key"] == is["key"] && line["gross"] != is["gross"],
        ("currency", [line]) => differs(line, "currency"),
        ("unknown", [first, second]) => {
            first == is && second["key"].as_str().is_some_and(|key| key.len() == 24)
        }
        ("orphan", [first, second]) => first == is && second["key"] != is["key"] && is_ours(&second["key"]),
        ("refund", [line]) => {
            is["kind"] == "refund" && line["key"] == is["key"] && line["gross"] != is["gross"]
        }
        ("late", []) => is["bookedOn"] == day,
        ("late", [line]) => is["bookedOn"] != day && line["bookedOn"] == day && differs(line, "bookedOn"),
        _ => false,
    };
    assert!(fits, "{day}: {item}");
}

/// It has the shape of a payment's id.
fn is_ours(key: &Value) -> bool {
    key.as_str().is_some_and(|key| key.parse::<punctual::domain::ids::PaymentId>().is_ok())
}

#[tokio::test]
async fn what_goes_back_stands_on_its_own_day_whoever_sent_it_back() {
    let clock = Still::at(EVENING);
    let rig = busy(&clock, "").await;
    rig.verdict(&payment(50), "sim_chargeback_60").await;
    let charged = rig.ledger().await.last().expect("a line")["seq"].to_string();
    let reference = give_back(&rig, 3, 300).await;
    let (lines, _) = report(&rig, "day=2026-11-28").await;
    let back = |lines: &[Value]| -> Vec<Value> {
        lines.iter().filter(|line| line["kind"] != "charge").cloned().collect()
    };
    let of = |line: &Value| (line["key"].clone(), line["gatewayRef"].clone(), line["gross"].clone());
    let refund = back(&lines);
    assert_eq!(
        refund.iter().map(of).collect::<Vec<_>>(),
        [("refund-of-3".into(), reference.clone().into(), (-300).into())]
    );
    assert_eq!((&refund[0]["kind"], &refund[0]["net"]), (&"refund".into(), &(-300).into()));
    assert!(refund[0]["chargeRef"].as_str().is_some_and(|charge| charge.starts_with("ch_")), "{refund:?}");
    assert_eq!(
        back(&report(&rig, "day=2026-11-29").await.0),
        Vec::<Value>::new(),
        "the bank has not moved yet"
    );
    clock.advance(DAY);
    let next = back(&report(&rig, "day=2026-11-29").await.0);
    let id = payment(50).id.to_string();
    assert_eq!(
        next.iter().map(of).collect::<Vec<_>>(),
        [(id.into(), format!("cb_{charged}").into(), (-1_000).into())]
    );
    assert_eq!(
        (&next[0]["kind"], &next[0]["chargeRef"]),
        (&"chargeback".into(), &format!("ch_{charged}").into())
    );
    let rig = rig.restart().await;
    assert_eq!(back(&report(&rig, "day=2026-11-28").await.0), refund, "and after a restart");
    assert_eq!(back(&report(&rig, "day=2026-11-29").await.0), next);
    rig.stop().await;
}

#[tokio::test]
async fn a_seed_repeats_its_report_and_another_one_chooses_other_lines() {
    let clock = Still::at(EVENING);
    let rig = busy(&clock, "").await;
    let of = |seed: u32| format!("/settlement?day=2026-11-28&defects=missing:5&seed={seed}");
    let first = rig.get(&of(1)).await;
    assert_eq!(rig.get(&of(1)).await, first);
    assert_ne!(rig.get(&of(2)).await, first);
    assert_eq!(first.lines().count(), 36);
    rig.stop().await;
}

#[tokio::test]
async fn a_report_is_for_those_with_the_secret_who_ask_rightly() {
    let rig = Rig::start().await;
    for path in ["/settlement", "/settlement/defects"] {
        for query in ["?day=2026-11-28", "", "?day=2026-11-28&seed=x"] {
            let (status, body) = rig.ask("GET", &format!("{path}{query}"), "wrong", "").await;
            assert_eq!((status, body.contains("ch_")), (401, false), "{path}{query}");
        }
        let day = "?day=2026-11-28";
        for (query, code) in [
            (String::new(), "invalid_query"),
            (format!("{day}&seed=x"), "invalid_query"),
            // Misspelt: without a refusal a rehearsal would meet a flawless report.
            (format!("{day}&defect=missing:1"), "invalid_query"),
            (format!("{day}&defects=lost:1"), "invalid_defects"),
            ("?day=yesterday".to_owned(), "invalid_day"),
        ] {
            let (status, body) = rig.ask("GET", &format!("{path}{query}"), "sandbox-secret", "").await;
            assert_eq!((status, body.contains(code)), (400, true), "{path}{query}: {body}");
        }
    }
    let (status, body) = rig.ask("GET", "/charges", "sandbox-secret", "").await;
    assert_eq!((status, body.contains("invalid_query")), (400, true), "{body}");
    rig.stop().await;
}

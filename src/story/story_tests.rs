//! A whole story, and histories that do not fit together.

use super::*;

fn row(seq: i32, from: Value, to: &str, cause: &str, detail: Value) -> Value {
    let by = if cause == "created" { "client" } else { "worker-1" };
    json!({
        "seq": seq, "from": from, "to": to, "cause": cause, "by": by, "fence": i32::from(seq > 1),
        "attempt": i32::from(seq > 1), "epoch": 0, "at": format!("2026-11-29T14:00:0{seq}Z"), "detail": detail,
        "prev": format!("{}", seq - 1), "hash": format!("{seq}"),
    })
}

fn payment(version: i32) -> Value {
    json!({
        "paymentId": "01a2283e-8820-8aaa-9bbb-0123456789ab", "status": "COMPLETED", "statusReason": null,
        "payee": "acct_secret", "amount": 1_250, "currency": "EUR", "dueAt": "2026-11-29T14:00:02Z",
        "executeBefore": null, "gateway": "sandbox", "externalId": "invoice-7",
        "retry": {"maxSends": 6, "onSoftDecline": "retry", "onExhausted": "park"},
        "createdAt": "2026-11-29T14:00:01Z", "nextAttemptAt": null, "cancelRequestedAt": null,
        "gatewayReference": "ch_1", "latenessMs": 12, "version": version,
        "attempts": [{"attempt": 1, "epoch": 0, "outcome": "charged", "httpStatus": 200, "tookMs": 21}],
    })
}

fn rows() -> Vec<Value> {
    let charged = json!({"verdict": "charged", "how": "sent", "reference": "ch_1", "amountMinor": 1_250,
        "currency": "EUR"});
    vec![
        row(1, Value::Null, "PENDING", "created", json!({})),
        row(2, json!("PENDING"), "PROCESSING", "claimed", json!({"claimId": "x"})),
        row(3, json!("PROCESSING"), "COMPLETED", "settled", charged),
    ]
}

fn story(rows: Vec<Value>, version: i32) -> Story {
    let payment = told::payment(payment(version)).unwrap();
    Story::of(&payment, json!({"data": rows}), &Operators::default(), &Kafka::default()).unwrap()
}

const WANTED: &str = "\
Payment 01a2283e-8820-8aaa-9bbb-0123456789ab: 12.50 EUR through sandbox. COMPLETED.
All times are in UTC.

What was asked for
  It is due at 2026-11-29T14:00:02Z; nothing is charged before.
  Its first notice belongs to 2026-11-29T14:00Z, bucket m00 of the ring; one that was made too late for its bucket goes past the ring.
  It has no deadline: if it is late, it is still paid.
  It may take 6 sends; a decline that may pass is tried again later, and when the sends are spent it waits for a human.
  The client calls it invoice-7.

What happened
   1. 2026-11-29T14:00:01Z  The client asked for it; payment and first notice were committed together.  [payment.scheduled]
   2. 2026-11-29T14:00:02Z  worker-1 claimed it, 12 ms after its instant (claim 1, fence 1, key epoch 0); submission to the gateway began.  [payment.claimed]
   3. 2026-11-29T14:00:03Z  The gateway made a charge of 12.50 EUR, reference ch_1 (HTTP 200, 21 ms). That is its one charge.  [payment.completed]

Where the money is
  Exactly one charge of 12.50 EUR exists, reference ch_1 at sandbox.

What happens next
  Nothing.

What may be done now
  An operator can have it given back, whole or in part, with a second person: `punctual refund create 01a2283e-8820-8aaa-9bbb-0123456789ab --gateway-reference ch_1`.

For whoever looks further: its records in Kafka
  Offsets are not kept here. By the settings of this command all its records have the key 01a2283e-8820-8aaa-9bbb-0123456789ab and lie in partition PARTITION of their topics, as long as those keep them:
  the notice of its first try, 2026-11-29T14:00:02Z, in payments.due.m00:
    kcat -b \"$KAFKA_BOOTSTRAP_SERVERS\" -t payments.due.m00 -p PARTITION -C -o beginning -e -q -f '%t %p/%o %T %k %s\\n' | grep 01a2283e-8820-8aaa-9bbb-0123456789ab
  notices that were made too late for their bucket, in payments.due.now:
    kcat -b \"$KAFKA_BOOTSTRAP_SERVERS\" -t payments.due.now -p PARTITION -C -o beginning -e -q -f '%t %p/%o %T %k %s\\n' | grep 01a2283e-8820-8aaa-9bbb-0123456789ab
  its events, in payments.events:
    kcat -b \"$KAFKA_BOOTSTRAP_SERVERS\" -t payments.events -p PARTITION -C -o beginning -e -q -f '%t %p/%o %T %k %s\\n' | grep 01a2283e-8820-8aaa-9bbb-0123456789ab
";

#[test]
fn a_payment_s_story_is_told_whole_and_without_its_payee() {
    let story = story(rows(), 3);
    // By the rule of the ring, which has tests of its own.
    let id: crate::domain::ids::PaymentId = story.id.parse().unwrap();
    let partition =
        crate::domain::bucket::partition(crate::domain::bucket::shard(id), Kafka::default().partitions);
    assert_eq!(story.text(), WANTED.replace("PARTITION", &partition.to_string()));
    assert_eq!(story.broken, None);
    let document = story.document();
    assert_eq!(document["historyIsWhole"], true);
    assert_eq!(document["happened"].as_array().unwrap().len(), 3);
    assert!(!document.to_string().contains("acct_secret"));
}

#[test]
fn a_history_that_does_not_fit_together_is_seen() {
    let broken = |change: &dyn Fn(&mut Vec<Value>), version| {
        let mut rows = rows();
        change(&mut rows);
        story(rows, version).broken
    };
    assert_eq!(broken(&|_| {}, 3), None);
    assert_eq!(broken(&|_| {}, 2), None, "a row was added after the payment was read");
    let missing = broken(&|rows| drop(rows.remove(1)), 3).unwrap();
    assert!(missing.contains("row 3 stands where row 2 belongs"), "{missing}");
    let hash = broken(&|rows| rows[1]["hash"] = json!("other"), 3).unwrap();
    assert!(hash.contains("hash of the row before"), "{hash}");
    let torn = broken(&|rows| rows[2]["from"] = json!("PENDING"), 3).unwrap();
    assert!(torn.contains("begin where"), "{torn}");
    let cut = broken(&|rows| rows.truncate(2), 3).unwrap();
    assert!(cut.contains("ends with row 2, and the payment has 3"), "{cut}");
}

#[test]
fn an_answer_of_another_form_is_said_and_not_guessed() {
    let error = told::payment(json!({"paymentId": "x"})).unwrap_err();
    assert!(error.contains("payment is not of a form"), "{error}");
}

//! The quarantine, as the document has it; it is over when this ends.

use super::{Desk, Held, named};
use chrono::{SecondsFormat, SubsecRound, TimeDelta, Utc};
use serde_json::{Value, json};

pub(super) async fn entered_and_released(desk: &Desk<'_>, held: &mut Held) {
    let why = json!({"reason": "a test"});
    for status in [200, 409] {
        assert_eq!(desk.ask(held, "enterQuarantine", "", Some(&why)).await.status, status);
    }
    let lacks = desk.ask(held, "releaseQuarantine", "", Some(&why)).await;
    assert_eq!(lacks.refusal(), (409, "quarantine_lacks".into()));
    let named_day =
        lacks.json()["errors"][0]["detail"].as_str().is_some_and(|it| it.starts_with("sandbox, "));
    assert!(named_day, "{}", lacks.text);
    let since =
        (Utc::now() - TimeDelta::days(3)).trunc_subsecs(0).to_rfc3339_opts(SecondsFormat::AutoSi, true);
    let earlier = json!({"reason": "the backup is of then", "lostFrom": since});
    let altered = desk.ask(held, "enterQuarantine", "", Some(&earlier)).await;
    assert_eq!((altered.status, &altered.json()["data"][0]["lostFrom"]), (200, &json!(since)));
    let advice = altered.json()["advice"].as_str().unwrap_or_default().to_owned();
    assert!(advice.contains("two people") && altered.json()["releasableFrom"].is_string(), "{advice}");
    let anyway = json!({"reason": "a test", "anyway": true});
    let asked = desk.ask(held, "releaseQuarantine", "", Some(&anyway)).await;
    assert_eq!((asked.status, &asked.json()["quarantined"]), (202, &Value::Bool(true)));
    let again = desk.ask(held, "releaseQuarantine", "", Some(&anyway)).await;
    assert_eq!(again.refusal(), (403, "same_person".into()));
    let release = named("releaseQuarantine");
    let second = desk.api.anonymous("POST", release.path).bearer_auth(&desk.second);
    let released = held.ask(&release, second, Some(&anyway)).await;
    assert_eq!((released.status, &released.json()["quarantined"]), (200, &Value::Bool(false)));
    let shown = desk.ask(held, "showQuarantine", "", None).await;
    assert_eq!(shown.json()["data"][0]["released"]["overridden"][0]["gateway"], "sandbox");
}

//! `payment create`: every field of the API, under a key that is said before anything is sent.

use super::{When, instant, shown};
use crate::cli::Ended;
use crate::cli::output::minor_units;
use crate::cli::output::{Output, print, say};
use crate::cli::remote::{Remote, announce, of_client, payment_of, sendable_key};
use crate::client::ClientError;
use crate::platform::clock::Clock;
use crate::platform::exit::Exit;
use clap::Args;
use serde_json::{Map, Value, json};

pub(super) const HELP: &str = "\
The idempotency key is said on standard error before anything is sent. If no answer comes, say the same \
again with --idempotency-key: it asks for the same payment, and never for a second one. A due time like +1h is \
another one each time: it is printed as it is sent, and that is what is said again.

Examples:
  punctual payment create --payee acct_7 --amount 1250 --currency EUR --due-at 2030-01-31T09:00:00Z
  punctual payment create --payee acct_7 --amount 1250 --currency EUR --due-at +1h --external-id invoice-77
  punctual payment create --payee acct_7 --amount 1250 --currency EUR --due-at 2030-01-31T09:00:00Z \
--idempotency-key order-77

Exit codes: 0 created, or created by this key before; 2 something typed is refused; 4 the key may not; \
6 the key or the external id belongs to another payment; 1 no answer, or try again later.";

/// What a payment is asked for with; names and meanings are the API's.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct Create {
    /// Destination reference: a token, never a card number.
    #[arg(long, value_name = "REFERENCE")]
    payee: String,
    /// Whole minor units: 1250 is 12.50 EUR.
    #[arg(long, value_name = "MINOR", value_parser = minor_units, allow_negative_numbers = true)]
    amount: i64,
    /// ISO 4217; without it your API client's own.
    #[arg(long, value_name = "CODE")]
    currency: Option<String>,
    /// Not charged before: RFC 3339 with an offset, or +LENGTH from now (+1h30m).
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    due_at: When,
    /// No charge starts from here on.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    execute_before: Option<When>,
    /// The first try may come this many seconds after the due time.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    execute_within: Option<i64>,
    /// A configured gateway; without it your API client's default.
    #[arg(long, value_name = "NAME")]
    gateway: Option<String>,
    /// Your own name for it, unique among your payments that are not cancelled or failed.
    #[arg(long, value_name = "TEXT")]
    external_id: Option<String>,
    /// Free text.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// One pair; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Most sends, 1 to 6.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    max_sends: Option<i64>,
    /// What a decline that may pass does: retry or fail.
    #[arg(long, value_name = "CHOICE")]
    on_soft_decline: Option<String>,
    /// What happens when the sends are spent: park or fail.
    #[arg(long, value_name = "CHOICE")]
    on_exhausted: Option<String>,
    /// The key of a create whose answer was lost; without it a new one.
    #[arg(long, value_name = "KEY", value_parser = sendable_key)]
    idempotency_key: Option<String>,
    /// How to print the payment.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

fn pair(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Create {
    /// The request's body; fields that were not typed are left to the API's defaults.
    fn body(&self, clock: &dyn Clock) -> Value {
        let mut body = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        };
        let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
        set("payee", Some(json!(self.payee)));
        set("amount", Some(json!(self.amount)));
        set("currency", text(&self.currency));
        set("dueAt", Some(json!(self.due_at.text(clock))));
        set("executeBefore", self.execute_before.as_ref().map(|when| json!(when.text(clock))));
        set("executeWithin", self.execute_within.map(|seconds| json!(seconds)));
        set("gateway", text(&self.gateway));
        set("externalId", text(&self.external_id));
        set("description", text(&self.description));
        if !self.metadata.is_empty() {
            let pairs: Map<_, _> =
                self.metadata.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            set("metadata", Some(Value::Object(pairs)));
        }
        let retry = [
            ("maxSends", self.max_sends.map(|sends| json!(sends))),
            ("onSoftDecline", text(&self.on_soft_decline)),
            ("onExhausted", text(&self.on_exhausted)),
        ];
        let retry: Map<_, _> =
            retry.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        if !retry.is_empty() {
            set("retry", Some(Value::Object(retry)));
        }
        Value::Object(body)
    }
}

/// Asks for it and prints what was made.
///
/// # Errors
/// See the exit codes in [`HELP`].
pub(super) async fn create(remote: &Remote, asked: &Create) -> Result<(), Ended> {
    only_one_value_each(&asked.metadata)?;
    let body = asked.body(&*remote.clock);
    let key = asked.idempotency_key.clone().unwrap_or_else(|| remote.new_key());
    announce(&key);
    let relative = [Some(&asked.due_at), asked.execute_before.as_ref()];
    if relative.into_iter().flatten().any(|when| matches!(when, When::FromNow(_))) {
        // The same key with another instant would be another request.
        for name in ["dueAt", "executeBefore"] {
            if let Some(at) = body.get(name).and_then(Value::as_str) {
                say(&format!("{name} {at}"));
            }
        }
    }
    let call = remote.client.call("POST", &["scheduled-payments"]).under(&key).json(&body);
    match call.send().await {
        Ok(answer) => {
            let is_replay = answer.is_replay;
            let payment = payment_of(answer.body).map_err(|ended| say_again(ended, &key))?;
            if is_replay {
                say("this key had created it before; `punctual payment show` says how it stands now");
            }
            print(&shown(&payment, asked.output))
        }
        Err(error) => match asked.moved(&error) {
            Some((id, names)) => {
                // Where it cannot be looked at, the refusal's own words still name it.
                let made = remote.client.get(id).await.unwrap_or(Value::Null);
                Err(Ended::with(Exit::Conflict, another_moment(&key, id, &names, &made)))
            }
            None => {
                let ended = of_client(error);
                Err(if ended.exit == Exit::Failed { say_again(ended, &key) } else { ended })
            }
        },
    }
}

fn say_again(mut ended: Ended, key: &str) -> Ended {
    ended.message.push_str(&format!(
        "\nIt may exist. Say the same again with --idempotency-key {key}, and with the times that were printed \
         where they were typed like +1h: never a second payment."
    ));
    ended
}

impl Create {
    /// The payment that the key belongs to, where only instants differ that were typed as a length from now: the
    /// same command said again a moment later.
    fn moved<'a>(&self, error: &'a ClientError) -> Option<(&'a str, Vec<&'static str>)> {
        let ClientError::Refused { problem, .. } = error else { return None };
        let relative = [("/dueAt", Some(&self.due_at)), ("/executeBefore", self.execute_before.as_ref())];
        let is_relative = |pointer: &str| {
            let named = relative.iter().find(|(name, _)| *name == pointer);
            named
                .filter(|(_, when)| matches!(when, Some(When::FromNow(_))))
                .map(|(name, _)| name.trim_start_matches('/'))
        };
        let differs = problem.get("differs").and_then(Value::as_array).filter(|names| !names.is_empty())?;
        let names: Option<Vec<_>> = differs.iter().map(|name| name.as_str().and_then(is_relative)).collect();
        Some((problem.get("paymentId").and_then(Value::as_str)?, names?))
    }
}

fn another_moment(key: &str, id: &str, names: &[&str], made: &Value) -> String {
    let mut text = format!(
        "the key {key} created payment {id} already, and {} was counted from now, so it is another one this time. To \
         ask for the same payment, say the same again with that key and the time that was printed then",
        names.join(" and ")
    );
    for (name, option) in [("dueAt", "--due-at"), ("executeBefore", "--execute-before")] {
        match made.get(name).and_then(Value::as_str) {
            Some(at) if names.contains(&name) => text.push_str(&format!("\n  {option} {at}")),
            Some(_) | None => {}
        }
    }
    text + "\nFor a second payment leave --idempotency-key out."
}

/// The API would take one of two values, and nobody said which.
fn only_one_value_each(pairs: &[(String, String)]) -> Result<(), Ended> {
    for (at, (name, _)) in pairs.iter().enumerate() {
        if pairs[..at].iter().any(|(before, _)| before == name) {
            return Err(Ended::with(Exit::Usage, format!("--metadata says {name} twice; say it once")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        asked: Create,
    }

    struct Noon;

    impl Clock for Noon {
        fn wall(&self) -> chrono::DateTime<chrono::Utc> {
            "2030-01-31T12:00:00Z".parse().unwrap()
        }
        fn mono(&self) -> crate::domain::lease::Mono {
            crate::domain::lease::Mono(std::time::Duration::ZERO)
        }
        fn sleep(&self, _: std::time::Duration) -> futures_util::future::BoxFuture<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    fn body(rest: &[&str]) -> Value {
        let usual = ["create", "--payee", "acct_7", "--amount", "1250", "--due-at"];
        let line = Line::try_parse_from(usual.iter().chain(rest)).unwrap();
        line.asked.body(&Noon)
    }

    #[test]
    fn what_is_not_typed_is_left_to_the_api() {
        let wanted =
            json!({"payee": "acct_7", "amount": 1_250, "dueAt": "2030-02-01T00:00:00.1234567+02:00"});
        assert_eq!(body(&["2030-02-01T00:00:00.1234567+02:00"]), wanted);
    }

    #[test]
    fn every_field_of_the_api_can_be_typed() {
        let wanted = json!({
            "payee": "acct_7", "amount": 1_250, "currency": "EUR", "dueAt": "2030-01-31T13:30:00.000Z",
            "executeBefore": "2030-01-31T14:00:00.000Z", "executeWithin": 60, "gateway": "sandbox",
            "externalId": "i-7", "description": "d", "metadata": {"a": "1=2", "b": ""},
            "retry": {"maxSends": 2, "onSoftDecline": "fail", "onExhausted": "park"},
        });
        let rest = "+1h30m --execute-before +2h --execute-within 60 --currency EUR --gateway sandbox \
                    --external-id i-7 --description d --metadata a=1=2 --metadata b= --max-sends 2 \
                    --on-soft-decline fail --on-exhausted park";
        assert_eq!(body(&rest.split_whitespace().collect::<Vec<_>>()), wanted);
    }

    #[test]
    fn one_name_of_metadata_has_one_value() {
        let pair = |name: &str| (name.to_owned(), "x".to_owned());
        assert!(only_one_value_each(&[pair("a"), pair("b")]).is_ok());
        let ended = only_one_value_each(&[pair("a"), pair("b"), pair("a")]).unwrap_err();
        assert!(ended.exit == Exit::Usage && ended.message.contains("says a twice"), "{}", ended.message);
    }

    #[test]
    fn what_is_below_nothing_is_refused_for_that() {
        let told = |rest: &[&str]| {
            let line = ["create", "--payee", "a"].iter().chain(rest);
            Line::try_parse_from(line).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let amount = told(&["--amount", "-5", "--due-at", "+1h"]);
        assert!(amount.contains("at least 1: 1250 for 12.50"), "{amount}");
        let due = told(&["--amount", "5", "--due-at", "-1h"]);
        assert!(due.contains("'-1h'") && due.contains("before now"), "{due}");
        let key = told(&["--amount", "5", "--due-at", "+1h", "--idempotency-key", "a\nb"]);
        assert!(key.contains("visible ASCII"), "{key}");
    }

    #[test]
    fn the_same_command_said_again_a_moment_later_is_told_to_say_the_time_that_was_printed() {
        let asked = |due: &str| {
            Line::try_parse_from(["create", "--payee", "a", "--amount", "1", "--due-at", due]).unwrap().asked
        };
        let refused = |differs: Value| ClientError::Refused {
            status: 409,
            problem: json!({"code": "idempotency_key_reused", "paymentId": "p-1", "differs": differs}),
            retry_after: None,
        };
        let moved = |due: &str, differs: Value| {
            asked(due).moved(&refused(differs)).map(|(id, names)| (id.to_owned(), names))
        };
        assert_eq!(moved("+1h", json!(["/dueAt"])), Some(("p-1".to_owned(), vec!["dueAt"])));
        assert_eq!(moved("+1h", json!(["/dueAt", "/amount"])), None);
        assert_eq!(moved("2030-01-31T09:00:00Z", json!(["/dueAt"])), None);
        assert_eq!(moved("+1h", json!([])), None);
        let made = json!({"dueAt": "2030-01-31T13:00:00.000Z", "executeBefore": "2030-02-01T00:00:00Z"});
        let told = another_moment("k", "p-1", &["dueAt"], &made);
        assert!(
            told.contains("--due-at 2030-01-31T13:00:00.000Z") && !told.contains("execute-before"),
            "{told}"
        );
    }

    #[test]
    fn an_instant_without_an_offset_and_one_for_ever_away_are_refused() {
        for bad in ["2030-01-31T09:00:00", "tomorrow", "+", "+5", "+99999d", "9:00"] {
            assert!(instant(bad).is_err(), "{bad}");
        }
        assert_eq!(instant("+90s"), Ok(When::FromNow(TimeDelta::seconds(90))));
    }
}

//! What every command shares that is a client of the API: where it is, what its refusals mean for whoever
//! typed the command, and how a person confirms what cannot be taken back.
//!
//! These commands never touch the database: they can do what the key may do, and every act is in the
//! API's own records under the key's name. Exit codes follow the answer: 401 and 403 end with 4, 404 with
//! 5, 409 and 412 with 6, 400 and 422 with 2 (what was typed is wrong and nothing was done), the rest
//! with 1.

use super::Ended;
use super::output::{Column, Face, List, Output, Reader, items, object, print, say};
use crate::client::{Call, Client, ClientError};
use crate::platform::clock::{Host, SharedClock};
use crate::platform::config::Config;
use crate::platform::dice::{Os, SharedDice};
use crate::platform::exit::Exit;
use clap::Args;
use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::sync::Arc;

/// Most characters of a reason, as the API has it.
const MOST_REASON: usize = 500;

/// Most characters of an answer that an error repeats.
const MOST_SHOWN: usize = 300;

/// The API, and time and chance for whoever waits for it.
pub(super) struct Remote {
    pub(super) client: Client,
    pub(super) clock: SharedClock,
    pub(super) dice: SharedDice,
}

impl Remote {
    /// Of these settings.
    ///
    /// # Errors
    /// [`Exit::Usage`] without a key or with an address that is none.
    pub(super) fn of(config: &Config) -> Result<Self, Ended> {
        let client = &config.client;
        if client.api_key.is_empty() {
            let why = "no API key: set PUNCTUAL_API_KEY (`punctual keys create --actor NAME` makes one)";
            return Err(Ended::with(Exit::Usage, why));
        }
        if !client.api_key.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = "the API key (PUNCTUAL_API_KEY) has spaces, control characters or others that no key has: \
                       perhaps a line end came with it";
            return Err(Ended::with(Exit::Usage, why));
        }
        let made = Client::patient(&client.url, &client.api_key, client.timeout).map_err(of_client)?;
        Ok(Self { client: made, clock: Arc::new(Host), dice: Arc::new(Os) })
    }

    /// A key for one act, never used before. It begins with what made it, for whoever finds it in a list.
    pub(super) fn new_key(&self) -> String {
        format!("cli-{}", self.dice.claim_id().0)
    }
}

/// What an error of the API means for whoever typed the command.
pub(super) fn of_client(error: ClientError) -> Ended {
    match &error {
        ClientError::BadAddress(_) => Ended::with(Exit::Usage, format!("client.url: {error}")),
        // Nothing was done: no API answers so.
        ClientError::NotTheApi { status: 404, .. } => Ended::with(Exit::Usage, wrong_address(&error)),
        ClientError::Refused { status: 404, problem, .. } if is_no_answer_of_ours(problem) => {
            Ended::with(Exit::Usage, wrong_address(&error))
        }
        ClientError::NotTheApi { .. } => Ended::with(Exit::Failed, wrong_address(&error)),
        ClientError::NoAnswer(_) => Ended::with(Exit::Failed, error.to_string()),
        ClientError::Refused { status, problem, retry_after } => {
            let mut message = refusal(*status, problem);
            if let Some(after) = retry_after {
                message.push_str(&format!("\nIt wants to be asked again after {} s.", after.as_secs()));
            }
            Ended::with(exit_of(*status), message)
        }
    }
}

fn wrong_address(error: &ClientError) -> String {
    format!("{error}\nIs this the API's address? It is client.url, or PUNCTUAL_URL")
}

/// A 404 of something else, or of our API where it has no such route.
fn is_no_answer_of_ours(problem: &Value) -> bool {
    problem.get("code").and_then(Value::as_str).is_none_or(|code| code == "route_not_found")
}

/// The payment of an answer, which has an id.
///
/// # Errors
/// [`Exit::Failed`]: success was answered, and no payment.
pub(super) fn payment_of(body: Value) -> Result<Value, Ended> {
    if body.get("paymentId").and_then(Value::as_str).is_some_and(|id| !id.is_empty()) {
        return Ok(body);
    }
    Err(empty_success(&body))
}

/// An act's answer is an object with something in it.
///
/// # Errors
/// [`Exit::Failed`]: success was answered, and nothing else.
pub(super) fn said_something(body: &Value) -> Result<(), Ended> {
    if body.as_object().is_some_and(|fields| !fields.is_empty()) { Ok(()) } else { Err(empty_success(body)) }
}

/// A page has its items, though they may be none.
///
/// # Errors
/// [`Exit::Failed`]: success was answered, and no list.
pub(super) fn page_of(body: Value) -> Result<Value, Ended> {
    if body.get("data").is_some_and(Value::is_array) { Ok(body) } else { Err(empty_success(&body)) }
}

/// Success that does not say what it is of.
pub(super) fn empty_success(body: &Value) -> Ended {
    let shown: String = body.to_string().chars().take(MOST_SHOWN).collect();
    let told = format!(
        "success was answered, and nothing that says of what: {shown}\nNobody knows whether it was done. Is this \
         the API's address?"
    );
    Ended::with(Exit::Failed, told)
}

fn exit_of(status: u16) -> Exit {
    match status {
        400 | 422 => Exit::Usage,
        401 | 403 => Exit::NotAllowed,
        404 => Exit::NotFound,
        409 | 412 => Exit::Conflict,
        _ => Exit::Failed,
    }
}

/// The problem document in lines: its code and sentence, the payment it speaks of, each broken rule.
pub(super) fn refusal(status: u16, problem: &Value) -> String {
    let text = |name: &str| problem.get(name).and_then(Value::as_str);
    let Some(code) = text("code") else { return format!("the API answered {status}: {problem}") };
    let told = text("detail").or(text("title")).unwrap_or("refused");
    let errors = problem.get("errors").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let place = match errors {
        // One error alone is what the sentence says already, but for its place.
        [one] if one["detail"] == told => Some(one["pointer"].as_str().unwrap_or("")),
        _ => None,
    };
    let mut lines = match place {
        Some(pointer) if !pointer.is_empty() => vec![format!("{code} at {pointer}: {told}")],
        Some(_) | None => vec![format!("{code}: {told}")],
    };
    if let Some(id) = text("paymentId") {
        let now = text("paymentStatus").map_or_else(String::new, |status| format!(", now {status}"));
        lines.push(format!("It is about payment {id}{now}."));
    }
    if let Some(differs) = problem.get("differs").and_then(Value::as_array) {
        let names: Vec<&str> = differs.iter().filter_map(Value::as_str).collect();
        lines.push(format!("These fields differ: {}.", names.join(", ")));
    }
    for error in errors.iter().filter(|_| place.is_none()) {
        let of = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or("");
        lines.push(format!("  {} {}: {}", of("pointer"), of("code"), of("detail")));
    }
    if let Some(id) = text("requestId") {
        lines.push(format!("Request {id}."));
    }
    lines.join("\n")
}

/// What an act takes that cannot be taken back.
#[derive(Debug, Clone, Args)]
pub(super) struct Act {
    /// Why, for the payment's history and the operators' audit; 1 to 500 characters.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub(super) reason: String,
    /// Do not ask; needed where there is no terminal to ask at.
    #[arg(short, long)]
    pub(super) yes: bool,
    /// How to print the answer.
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: Output,
}

fn reason(text: &str) -> Result<String, &'static str> {
    let fits = !text.trim().is_empty() && text.chars().count() <= MOST_REASON && !text.contains('\0');
    if fits { Ok(text.to_owned()) } else { Err("a reason has 1 to 500 characters, and not only spaces") }
}

/// Goes on only if a person says so, or said so with `--yes`.
///
/// # Errors
/// [`Exit::Usage`] where nobody can be asked; [`Exit::Failed`] where the person does not want it.
pub(super) fn confirm(yes: bool, what: &str) -> Result<(), Ended> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let why = format!("{what}? There is no terminal to ask at: repeat it with --yes");
        return Err(Ended::with(Exit::Usage, why));
    }
    // A person at a terminal is asked before anything runs beside it, so blocking here blocks nothing.
    let mut err = std::io::stderr().lock();
    write!(err, "{what}? Type yes: ")?;
    err.flush()?;
    drop(err);
    let mut typed = String::new();
    std::io::stdin().read_line(&mut typed)?;
    if typed.trim() == "yes" { Ok(()) } else { Err(Ended::with(Exit::Failed, "nothing was done")) }
}

/// Where what was asked for waits for a second person: an approval, and a refund.
const WAITS: [&str; 2] = ["pending", "asked"];

/// What became of an act that may need a second person. An answer that is repeated under its key may be of an
/// act that was decided meanwhile.
///
/// # Errors
/// [`Exit::NotAllowed`] for 202 with an approval that waits: it is asked for and not done.
pub(super) fn done_or_asked(status: u16, body: &Value) -> Result<(), Ended> {
    let waits = body.get("status").and_then(Value::as_str).is_some_and(|stands| WAITS.contains(&stands));
    match body.get("approvalId").and_then(Value::as_str) {
        Some(id) if status == 202 && waits => {
            let told = format!(
                "Not done yet: a second person must agree. They say `punctual approvals approve {id} --reason …`"
            );
            Err(Ended::with(Exit::NotAllowed, told))
        }
        Some(_) | None => Ok(()),
    }
}

/// Asks for an act, prints what the API answers, and says so if a second person is needed.
///
/// # Errors
/// The API's refusal; [`Exit::NotAllowed`] where it is asked for and not done.
pub(super) async fn acted(call: Call<'_>, output: Output) -> Result<(), Ended> {
    let answer = call.send().await.map_err(of_client)?;
    said_something(&answer.body)?;
    print(&object(output, Face::of_stdout(), &answer.body))?;
    done_or_asked(answer.status, &answer.body)
}

/// Asks for one thing, and prints it.
///
/// # Errors
/// The API's refusal.
pub(super) async fn looked_up(call: Call<'_>, output: Output) -> Result<(), Ended> {
    let found = call.send().await.map_err(of_client)?.body;
    said_something(&found)?;
    print(&object(output, Face::of_stdout(), &found))
}

/// Asks for a list that comes whole, and prints it.
///
/// # Errors
/// The API's refusal.
pub(super) async fn listed(call: Call<'_>, output: Output, columns: &'static [Column]) -> Result<(), Ended> {
    let page = page_of(call.send().await.map_err(of_client)?.body)?;
    let mut list = List::new(output, Face::of_stdout(), columns);
    match list.page(items(&page))? {
        Reader::Reads => list.end(),
        Reader::Left => Ok(()),
    }
}

/// A key that was typed, if a request can carry it; the rest is the API's to say.
pub(super) fn sendable_key(text: &str) -> Result<String, &'static str> {
    let is_sendable = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if is_sendable { Ok(text.to_owned()) } else { Err("a key is a text of visible ASCII characters") }
}

/// Says under which key something is about to be asked for, before it is: if the answer gets lost, the
/// same key asks for the same thing, and for no second one.
pub(super) fn announce(key: &str) {
    say(&format!("idempotency key {key}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn refused(status: u16, problem: Value, retry_after: Option<Duration>) -> Ended {
        of_client(ClientError::Refused { status, problem, retry_after })
    }

    #[test]
    fn every_refusal_ends_with_the_exit_code_that_the_readme_promises() {
        for (status, exit) in [
            (400, Exit::Usage),
            (422, Exit::Usage),
            (401, Exit::NotAllowed),
            (403, Exit::NotAllowed),
            (404, Exit::NotFound),
            (409, Exit::Conflict),
            (412, Exit::Conflict),
            (405, Exit::Failed),
            (429, Exit::Failed),
            (503, Exit::Failed),
        ] {
            assert_eq!(refused(status, json!({"code": "x", "detail": "y"}), None).exit, exit, "{status}");
        }
    }

    #[test]
    fn a_refusal_is_told_with_its_payment_and_every_broken_rule() {
        let problem = json!({
            "code": "ALREADY_FINAL", "detail": "Nothing is left.", "paymentId": "p-1", "paymentStatus": "COMPLETED",
            "differs": ["/amount", "/payee"], "requestId": "r-1",
            "errors": [{"pointer": "/dueAt", "code": "due_in_past", "detail": "Too late."}],
        });
        let ended = refused(409, problem, Some(Duration::from_secs(3)));
        assert_eq!(
            ended.message,
            "ALREADY_FINAL: Nothing is left.\nIt is about payment p-1, now COMPLETED.\n\
             These fields differ: /amount, /payee.\n  /dueAt due_in_past: Too late.\nRequest r-1.\n\
             It wants to be asked again after 3 s."
        );
    }

    #[test]
    fn a_404_that_is_not_about_what_was_named_is_a_wrong_address() {
        let page = ClientError::NotTheApi { status: 404, text: "<html>".to_owned() };
        for ended in [
            of_client(page),
            refused(404, json!({"error": "gone"}), None),
            refused(404, json!({"code": "route_not_found"}), None),
        ] {
            assert!(
                ended.exit == Exit::Usage && ended.message.contains("the API's address?"),
                "{}",
                ended.message
            );
        }
        assert_eq!(refused(404, json!({"code": "payment_not_found"}), None).exit, Exit::NotFound);
    }

    #[test]
    fn success_that_names_no_payment_is_none() {
        for body in [json!({}), Value::Null, json!([]), json!({"paymentId": ""}), json!("fine")] {
            let ended = payment_of(body.clone()).unwrap_err();
            assert!(
                ended.exit == Exit::Failed && ended.message.contains(&body.to_string()),
                "{}",
                ended.message
            );
        }
        assert!(payment_of(json!({"paymentId": "p"})).is_ok());
        assert!(said_something(&json!({})).is_err() && said_something(&json!({"on": true})).is_ok());
        assert!(page_of(json!({})).is_err() && page_of(json!({"data": []})).is_ok());
    }

    #[test]
    fn one_broken_rule_is_told_once_with_its_place() {
        let problem = |detail: &str| {
            json!({"code": "invalid_parameter", "detail": detail,
            "errors": [{"pointer": "/q", "code": "invalid_parameter", "detail": "At character 8: expected a state."}]})
        };
        let told = refusal(400, &problem("At character 8: expected a state."));
        assert_eq!(told, "invalid_parameter at /q: At character 8: expected a state.");
        assert_eq!(
            refusal(400, &problem("Two rules.")).lines().count(),
            2,
            "the sentence says something else"
        );
    }

    #[test]
    fn what_is_no_problem_document_is_shown_as_it_is() {
        assert_eq!(refusal(502, &json!("Bad gateway")), "the API answered 502: \"Bad gateway\"");
    }

    #[test]
    fn a_reason_says_something_and_fits() {
        for fine in ["x", "two\nlines", &"ü".repeat(500)] {
            assert!(reason(fine).is_ok(), "{fine}");
        }
        for bad in ["", "  ", "a\0b", &"x".repeat(501)] {
            assert!(reason(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_act_that_waits_for_a_second_person_is_not_done() {
        assert!(done_or_asked(200, &json!({"approvalId": "a"})).is_ok());
        assert!(done_or_asked(202, &json!({"status": "UNKNOWN"})).is_ok());
        assert!(
            done_or_asked(202, &json!({"approvalId": "a-1", "status": "refunded"})).is_ok(),
            "a repetition"
        );
        for stands in ["pending", "asked"] {
            let asked = done_or_asked(202, &json!({"approvalId": "a-1", "status": stands})).unwrap_err();
            assert!(asked.exit == Exit::NotAllowed && asked.message.contains("approvals approve a-1"));
        }
    }
}

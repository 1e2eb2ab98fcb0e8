//! Groups of rows to the API, until each is a payment or is refused.
//!
//! A group is one request where the API takes several payments at once, and one payment otherwise; asked
//! once, at the start. Whatever may pass (429, 503, no answer at all) is waited for and sent again under the
//! same keys: what had been created meanwhile answers as it did then. `Retry-After` is heeded.

use super::Done;
use super::rejects::Why;
use super::source::{CameAs, Draft, Row};
use crate::cli::Ended;
use crate::cli::output::items;
use crate::cli::remote::{Remote, of_client, payment_of, refusal};
use crate::client::ClientError;
use crate::domain::lease::Mono;
use crate::platform::exit::Exit;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Most bytes of one group as they stand in the file: half of what the API takes, since JSON is longer.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// The first pause before a repetition, doubled for each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause of our own choice.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The longest `Retry-After` that is obeyed.
const LONGEST_ASKED_FOR: Duration = Duration::from_secs(120);

/// How payments are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Many in a request.
    Batch,
    /// One in a request.
    Single,
}

/// What became of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is a payment.
    Created,
    /// It was one already.
    Known,
    /// It is none.
    Rejected(Why),
}

/// Sends groups.
pub(super) struct Sender<'a> {
    pub(super) remote: &'a Remote,
    pub(super) way: Way,
    pub(super) give_up_after: Duration,
}

/// What one request learned.
enum Learned {
    /// What became of these rows, by their places in the group; the others may be sent again.
    Outcomes(Vec<(usize, Outcome)>, Option<Duration>),
    /// Nothing; it may be sent again.
    Nothing(Option<Duration>, String),
    /// The group as a whole cannot be read: its rows must be sent one by one.
    Unreadable,
}

/// Asks how payments can be created, with a batch of none, until the API says so.
///
/// # Errors
/// The API's refusal of the key, or it took nothing for too long.
pub(super) async fn way(remote: &Remote, give_up_after: Duration) -> Result<Way, Ended> {
    let mut patience = Patience::new(remote, give_up_after);
    loop {
        let call =
            remote.client.call("POST", &["scheduled-payments", "batch"]).json(&json!({"payments": []}));
        let (retry_after, why) = match call.send().await {
            // Of ours, and without that route: an address that is wrong is told by the first payment.
            Err(ClientError::Refused { status: 404 | 405, problem, .. }) if problem.get("code").is_some() => {
                return Ok(Way::Single);
            }
            // Because it is empty: the route is there.
            Ok(_) | Err(ClientError::Refused { status: 400 | 409 | 413 | 422, .. }) => return Ok(Way::Batch),
            Err(error) => may_pass(error)?,
        };
        patience.wait(retry_after, &why).await?;
    }
}

impl Way {
    /// Rows in groups of one request.
    pub(super) fn groups(
        self,
        mut rows: impl Iterator<Item = Result<Row, Ended>>,
        batch: usize,
    ) -> impl Iterator<Item = Result<Vec<Row>, Ended>> {
        let most = match self {
            Self::Batch => batch,
            Self::Single => 1,
        };
        std::iter::from_fn(move || {
            let mut group = Vec::new();
            let mut bytes = 0;
            while group.len() < most && bytes < MOST_BYTES {
                match rows.next() {
                    None => break,
                    Some(Ok(row)) => {
                        bytes += row.came_as.bytes();
                        group.push(row);
                    }
                    Some(Err(ended)) => return Some(Err(ended)),
                }
            }
            (!group.is_empty()).then_some(Ok(group))
        })
    }
}

impl CameAs {
    fn bytes(&self) -> usize {
        match self {
            Self::Cells(cells) => cells.as_slice().len(),
            Self::Line(line) => line.len(),
            Self::Bytes(line) => line.len(),
        }
    }
}

impl Sender<'_> {
    /// Sends the rows of a group until each has an outcome.
    ///
    /// # Errors
    /// The key is refused, or the API took nothing for too long.
    pub(super) async fn send(&self, rows: Vec<Row>) -> Result<Done, Ended> {
        let of_draft = |row: &Row| row.draft.as_ref().err().map(|why| Outcome::Rejected(why.clone()));
        let mut outcomes: Vec<Option<Outcome>> = rows.iter().map(of_draft).collect();
        let mut way = self.way;
        let mut patience = Patience::new(self.remote, self.give_up_after);
        loop {
            let open: Vec<(usize, &Draft)> = rows
                .iter()
                .enumerate()
                .filter(|(at, _)| outcomes[*at].is_none())
                .filter_map(|(at, row)| Some((at, row.draft.as_ref().ok()?)))
                .collect();
            let Some(first) = open.first() else { break };
            let learned = match way {
                Way::Batch => self.batch(&open).await?,
                Way::Single => self.single(*first).await?,
            };
            match learned {
                Learned::Outcomes(learned, retry_after) => {
                    let all = learned.len() == if way == Way::Batch { open.len() } else { 1 };
                    if !learned.is_empty() {
                        patience = Patience::new(self.remote, self.give_up_after);
                    }
                    for (at, outcome) in learned {
                        outcomes[at] = Some(outcome);
                    }
                    if !all {
                        patience.wait(retry_after, "the API asks to be asked later").await?;
                    }
                }
                Learned::Nothing(retry_after, why) => patience.wait(retry_after, &why).await?,
                Learned::Unreadable => way = Way::Single,
            }
        }
        // Every row has one now: the loop ends only when none is open.
        Ok(rows.into_iter().zip(outcomes.into_iter().flatten()).collect())
    }

    async fn single(&self, (at, draft): (usize, &Draft)) -> Result<Learned, Ended> {
        let body = Value::Object(draft.body.clone());
        let call = self.remote.client.call("POST", &["scheduled-payments"]).under(&draft.key).json(&body);
        let outcome = match call.send().await {
            Ok(answer) => {
                let is_known = answer.is_replay;
                payment_of(answer.body)?;
                if is_known { Outcome::Known } else { Outcome::Created }
            }
            Err(ClientError::Refused { status, problem, .. }) if is_about_the_row(status) => {
                Outcome::Rejected(Why::of_problem(status.into(), &problem))
            }
            Err(error) => return not_now(error),
        };
        Ok(Learned::Outcomes(vec![(at, outcome)], None))
    }

    async fn batch(&self, open: &[(usize, &Draft)]) -> Result<Learned, Ended> {
        let item = |(_, draft): &(usize, &Draft)| {
            let mut item = Map::new();
            item.insert("idempotencyKey".to_owned(), json!(draft.key));
            item.extend(draft.body.iter().map(|(name, value)| (name.clone(), value.clone())));
            Value::Object(item)
        };
        let body = json!({"payments": open.iter().map(item).collect::<Vec<_>>()});
        let call = self.remote.client.call("POST", &["scheduled-payments", "batch"]).json(&body);
        let answer = match call.send().await {
            Ok(answer) => answer.body,
            Err(ClientError::Refused { status: 400 | 409 | 413 | 422, .. }) => {
                return Ok(Learned::Unreadable);
            }
            Err(error) => return not_now(error),
        };
        let results = items(&answer);
        if results.len() != open.len() {
            let told = format!("the API gave {} results for {} rows", results.len(), open.len());
            return Err(Ended::with(Exit::Failed, told));
        }
        if let Some(strange) = results.iter().find(|result| is_strange(result)) {
            let told = format!("the API says that a row is a payment, and not which: {strange}");
            return Err(Ended::with(Exit::Failed, told));
        }
        let learned =
            open.iter().zip(results).filter_map(|((at, _), result)| Some((*at, of_result(result)?)));
        Ok(Learned::Outcomes(learned.collect(), None))
    }
}

/// A payment without its id: whoever answers that is perhaps not the API, and nothing of it is counted as paid.
fn is_strange(result: &Value) -> bool {
    let is_done = matches!(result.get("status").and_then(Value::as_u64), Some(200..=299));
    is_done && result.pointer("/payment/paymentId").and_then(Value::as_str).is_none_or(str::is_empty)
}

/// What a result of a batch says; nothing, if the row may be sent again.
fn of_result(result: &Value) -> Option<Outcome> {
    let status = result.get("status").and_then(Value::as_u64).unwrap_or(0);
    let problem = result.get("problem").unwrap_or(&Value::Null);
    match status {
        200..=299 if result.get("replayed") == Some(&Value::Bool(true)) => Some(Outcome::Known),
        200..=299 => Some(Outcome::Created),
        status if u16::try_from(status).is_ok_and(is_about_the_row) => {
            Some(Outcome::Rejected(Why::of_problem(status, problem)))
        }
        _ => None,
    }
}

/// The refusal speaks of what was sent, so the same again would be refused again.
fn is_about_the_row(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 401 | 403 | 404 | 405 | 408 | 429)
}

fn not_now(error: ClientError) -> Result<Learned, Ended> {
    may_pass(error).map(|(retry_after, why)| Learned::Nothing(retry_after, why))
}

/// When to ask again and why, for what may pass; what does not ends the import.
fn may_pass(error: ClientError) -> Result<(Option<Duration>, String), Ended> {
    match error {
        ClientError::Refused { status: status @ (408 | 429 | 500..=599), problem, retry_after } => {
            Ok((retry_after, refusal(status, &problem)))
        }
        ClientError::NoAnswer(_) => Ok((None, error.to_string())),
        // A proxy's page while the API is being replaced.
        ClientError::NotTheApi { status: 500..=599, .. } => Ok((None, error.to_string())),
        error => Err(of_client(error)),
    }
}

/// Waits between repetitions, each time longer, and not for ever.
struct Patience<'a> {
    remote: &'a Remote,
    give_up_after: Duration,
    since: Mono,
    turn: u32,
}

impl<'a> Patience<'a> {
    fn new(remote: &'a Remote, give_up_after: Duration) -> Self {
        Self { remote, give_up_after, since: remote.clock.mono(), turn: 0 }
    }

    async fn wait(&mut self, retry_after: Option<Duration>, why: &str) -> Result<(), Ended> {
        let remote = self.remote;
        let waited = remote.clock.mono().0.saturating_sub(self.since.0);
        if waited >= self.give_up_after {
            let told = format!("the API took nothing for {} s: {why}", waited.as_secs());
            return Err(Ended::with(Exit::Failed, told));
        }
        let asked_for = retry_after.unwrap_or_default();
        if asked_for > self.give_up_after - waited {
            let told = format!(
                "the API took nothing and wants to be asked again after {} s, which is longer than --give-up-after \
                 leaves: {why}",
                asked_for.as_secs()
            );
            return Err(Ended::with(Exit::Failed, told));
        }
        let own = FIRST_PAUSE.saturating_mul(1 << self.turn.min(10)).min(LONGEST_PAUSE);
        // From half of it to all of it, so that groups which were refused together do not come together.
        let own = own * (500 + remote.dice.per_mille() / 2) / 1_000;
        self.turn = self.turn.saturating_add(1);
        remote.clock.sleep(asked_for.min(LONGEST_ASKED_FOR) + own).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_an_outcome_only_if_sending_again_would_not_change_it() {
        for (result, wanted) in [
            (json!({"status": 201, "payment": {}}), Some(Outcome::Created)),
            (json!({"status": 201, "replayed": true}), Some(Outcome::Known)),
            (json!({"status": 429, "problem": {"code": "rate_limited"}}), None),
            (json!({"status": 503}), None),
            (json!({}), None),
            (
                json!({"status": 422, "problem": {"code": "due_in_past", "detail": "Past."}}),
                Some(Outcome::Rejected(Why::new("due_in_past", "Past."))),
            ),
            (
                json!({"status": 409, "problem": {"code": "idempotency_key_reused", "detail": "Other."}}),
                Some(Outcome::Rejected(Why::new("idempotency_key_reused", "Other."))),
            ),
        ] {
            assert_eq!(of_result(&result), wanted, "{result}");
        }
    }

    #[test]
    fn a_payment_without_its_id_is_not_taken_for_one() {
        for (result, strange) in [
            (json!({"status": 201, "payment": {"paymentId": "p"}}), false),
            (json!({"status": 201, "payment": {}}), true),
            (json!({"status": 200}), true),
            (json!({"status": 503}), false),
        ] {
            assert_eq!(is_strange(&result), strange, "{result}");
        }
    }

    #[test]
    fn groups_are_as_large_as_they_may_and_a_row_that_cannot_be_read_ends_them() {
        let row = |line, bytes| {
            let came_as = CameAs::Line("x".repeat(bytes));
            Ok(Row { line, ends_at: 0, draft: Err(Why::new("", "")), came_as })
        };
        let sizes = |way: Way, rows: Vec<Result<Row, Ended>>| -> Vec<Option<usize>> {
            way.groups(rows.into_iter(), 3).map(|group| group.ok().map(|group| group.len())).collect()
        };
        let rows = || (1..=7).map(|line| row(line, 1)).collect();
        assert_eq!(sizes(Way::Batch, rows()), [Some(3), Some(3), Some(1)]);
        assert_eq!(sizes(Way::Single, rows()), [Some(1); 7]);
        let large = vec![row(1, MOST_BYTES), row(2, 1)];
        assert_eq!(sizes(Way::Batch, large), [Some(1), Some(1)]);
        let broken = vec![row(1, 1), Err(Ended::with(Exit::Failed, "gone"))];
        assert_eq!(sizes(Way::Batch, broken), [None]);
    }
}

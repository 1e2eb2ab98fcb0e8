//! `payment list`: page after page, printed as they come.

use super::{COLUMNS, When, instant};
use crate::cli::Ended;
use crate::cli::output::{Face, List, Output, Reader, items, say};
use crate::cli::remote::{Remote, of_client, page_of};
use crate::platform::clock::Clock;
use clap::Args;
use serde_json::Value;

/// Payments a page, as the API has it.
const MOST_PER_PAGE: usize = 200;

pub(super) const HELP: &str = "\
A page is asked for when the one before it is printed, so `| head` costs a page. Spans have their start in \
them and their end not. --external-id, --idempotency-key and --gateway-reference each name one payment.

Examples:
  punctual payment list --status PARKED,UNKNOWN
  punctual payment list -q 'status:FAILED reason:declined_hard due:2030-01-01..'
  punctual payment list --due-from 2030-01-31T00:00:00Z --due-to 2030-02-01T00:00:00Z --all -o jsonl";

/// Which payments.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct Filters {
    /// In one of these states; several with commas.
    #[arg(long, value_name = "STATES")]
    status: Option<String>,
    /// Due at or after it.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    due_from: Option<When>,
    /// Due before it.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    due_to: Option<When>,
    /// Created at or after it.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    created_from: Option<When>,
    /// Created before it.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    created_to: Option<When>,
    /// The one that holds this external id.
    #[arg(long, value_name = "TEXT")]
    external_id: Option<String>,
    /// The one that this idempotency key created.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// The one with this reference at the gateway.
    #[arg(long, value_name = "REFERENCE")]
    gateway_reference: Option<String>,
    /// The filter of the API and the dashboard: words like status:PARKED -gateway:sandbox amount:100..200.
    #[arg(short, long, value_name = "FILTER", allow_hyphen_values = true)]
    query: Option<String>,
    /// Most payments.
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// All of them, however many.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl Filters {
    fn parameters(&self, clock: &dyn Clock) -> Vec<(&'static str, String)> {
        let when = |when: &Option<When>| when.as_ref().map(|when| when.text(clock));
        let all = [
            ("status", self.status.clone()),
            ("dueFrom", when(&self.due_from)),
            ("dueTo", when(&self.due_to)),
            ("createdFrom", when(&self.created_from)),
            ("createdTo", when(&self.created_to)),
            ("externalId", self.external_id.clone()),
            ("idempotencyKey", self.idempotency_key.clone()),
            ("gatewayReference", self.gateway_reference.clone()),
            ("q", self.query.clone()),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Asks for them and prints them.
///
/// # Errors
/// The API's refusal.
pub(super) async fn list(remote: &Remote, filters: &Filters) -> Result<(), Ended> {
    let query = filters.parameters(&*remote.clock);
    let most = if filters.all { u64::MAX } else { filters.limit };
    walked(
        remote,
        &["scheduled-payments"],
        query,
        most,
        List::new(filters.output, Face::of_stdout(), COLUMNS),
    )
    .await
}

/// Walks a list, prints it, and says if it goes on.
///
/// # Errors
/// The API's refusal, or standard output's.
pub(in crate::cli) async fn walked(
    remote: &Remote,
    segments: &[&str],
    query: Vec<(&'static str, String)>,
    most: u64,
    list: List,
) -> Result<(), Ended> {
    let walked = pages(remote, segments, query, most, list).await?;
    if let Some(counted) = &walked.counted {
        say(counted);
    }
    if walked.has_more {
        say("there are more: ask for all, or for more with --limit");
    }
    Ok(())
}

/// What a walk is told besides its items.
struct Walked {
    has_more: bool,
    /// How many there are, where the first page says it.
    counted: Option<String>,
}

/// How many there are by a page that counts from its own place on; nothing where it does not count.
fn counted(page: &Value) -> Option<String> {
    let count = page.get("count")?.as_u64()?;
    let all = page.get("countIsAll")?.as_bool()?;
    Some(if all { format!("{count} found") } else { format!("{count} found or more: no more are counted") })
}

/// Walks a list of the API and prints each page as it comes, up to so many items. Says whether there are
/// more. A short page, even an empty one, with a cursor is not the end.
///
/// # Errors
/// The API's refusal, or standard output's.
async fn pages(
    remote: &Remote,
    segments: &[&str],
    query: Vec<(&'static str, String)>,
    most: u64,
    mut list: List,
) -> Result<Walked, Ended> {
    let mut found = None;
    let mut left = usize::try_from(most).unwrap_or(usize::MAX);
    let mut cursor: Option<String> = None;
    loop {
        let mut query = query.clone();
        query.push(("limit", left.min(MOST_PER_PAGE).to_string()));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let call = remote.client.call("GET", segments).query(&query);
        let page = page_of(call.send().await.map_err(of_client)?.body)?;
        let is_first = found.is_none();
        let counted = found.get_or_insert_with(|| counted(&page)).clone();
        let items = items(&page);
        let items = &items[..items.len().min(left)];
        left -= items.len();
        cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        if list.page(items)? == Reader::Left {
            return Ok(Walked { has_more: false, counted: None });
        }
        if cursor.is_none() || left == 0 {
            list.end()?;
            // A walk that one page ends has shown how many there are.
            let counted = counted.filter(|_| !is_first || cursor.is_some());
            return Ok(Walked { has_more: cursor.is_some(), counted });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_count_that_ends_at_a_bound_says_so() {
        for (page, told) in [
            (json!({"count": 3, "countIsAll": true}), Some("3 found")),
            (json!({"count": 1_000, "countIsAll": false}), Some("1000 found or more: no more are counted")),
            (json!({"data": []}), None),
        ] {
            assert_eq!(counted(&page).as_deref(), told);
        }
    }
}

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
    if pages(remote, segments, query, most, list).await? {
        say("there are more: ask for all, or for more with --limit");
    }
    Ok(())
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
) -> Result<bool, Ended> {
    let mut left = usize::try_from(most).unwrap_or(usize::MAX);
    let mut cursor: Option<String> = None;
    loop {
        let mut query = query.clone();
        query.push(("limit", left.min(MOST_PER_PAGE).to_string()));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let call = remote.client.call("GET", segments).query(&query);
        let page = page_of(call.send().await.map_err(of_client)?.body)?;
        let items = items(&page);
        let items = &items[..items.len().min(left)];
        left -= items.len();
        cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        if list.page(items)? == Reader::Left {
            return Ok(false);
        }
        if cursor.is_none() || left == 0 {
            list.end()?;
            return Ok(cursor.is_some());
        }
    }
}

//! `/v1/ops/bulk-redrives`: many parked payments released by one act, at a rate.
//!
//! Made stopped, with an exact preview; started and stopped by a person; worked off by the keeper, batch by batch.
//! What one person may not release alone is counted and skipped.

use super::parked::{NOBODY, gateway_name};
use super::{Desk, IdInPath, shapes, uuid};
use crate::domain::filter::Filter;
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::intake::{Code, Form, Pairs, Problem, Scope, json, trouble};
use crate::platform::metrics;
use crate::schedule::{BulkStatus, BulkSwitched, NewBulk, ParkedFilter};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri};

/// The fields of a filter.
const FILTER: [&str; 6] = ["reason", "gateway", "actor", "dueFrom", "dueTo", "q"];
/// Most characters of the filter `q`.
const LONGEST_Q: usize = crate::domain::filter::MOST_CHARACTERS;

pub(super) async fn create(State(desk): State<Desk>, request: Request) -> Result<Response<Body>, Problem> {
    let (caller, mut form) =
        desk.intake.act(request, Scope::Redrive, &["filter", "reason", "ratePerS"]).await?;
    let given = form.form("filter", &FILTER)?.ok_or_else(|| form.missing("filter"))?;
    let filter = desk.filter(given).await?;
    let rate = form.integer("ratePerS")?.ok_or_else(|| form.missing("ratePerS"))?;
    let rate = i32::try_from(rate).ok().filter(|rate| (1..=500).contains(rate));
    let out_of_range =
        || Problem::at(Code::OutOfRange, form.pointer("ratePerS"), "1 to 500 payments a second.");
    let rate_per_s = rate.ok_or_else(out_of_range)?;
    let new = NewBulk {
        id: desk.intake.fresh_id(),
        by: caller.operator,
        reason: form.reason()?,
        filter,
        rate_per_s,
    };
    let schedule = desk.intake.schedule();
    let made = schedule.create_bulk(&new, desk.rules.approve_above_minor).await.map_err(trouble)?;
    metrics::OPERATOR_ACTS.add(1, ["create_bulk_redrive", "done"]);
    Ok(json(StatusCode::CREATED, shapes::bytes(&shapes::bulk(&made))))
}

pub(super) async fn list(
    State(desk): State<Desk>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let pairs = Pairs::read(&uri, &["limit", "cursor"])?;
    let limit = pairs.limit()?;
    let schedule = desk.intake.schedule();
    // The cursor is the last one of the page before: its place never changes.
    let after = match pairs.text("cursor") {
        Some(text) => {
            let invalid = || Problem::at(Code::InvalidCursor, "/cursor", Code::InvalidCursor.doc());
            let id = text.parse().map_err(|_| invalid())?;
            Some(schedule.bulk(id).await.map_err(trouble)?.ok_or_else(invalid)?)
        }
        None => None,
    };
    let most = u32::try_from(limit).unwrap_or(u32::MAX);
    let found = schedule.bulks(after.as_ref(), most).await.map_err(trouble)?;
    let next = found.last().filter(|_| found.len() == limit).map(|last| last.id.to_string());
    Ok(json(StatusCode::OK, shapes::page(found.iter().map(shapes::bulk).collect(), next)))
}

pub(super) async fn show(
    State(desk): State<Desk>,
    id: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let found = desk.intake.schedule().bulk(uuid(id, Code::BulkNotFound)?).await.map_err(trouble)?;
    let found = found.ok_or_else(|| Problem::new(Code::BulkNotFound))?;
    Ok(json(StatusCode::OK, shapes::bytes(&shapes::bulk(&found))))
}

pub(super) async fn start(
    desk: State<Desk>,
    id: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    switch(desk, id, request, BulkStatus::Running).await
}

pub(super) async fn stop(
    desk: State<Desk>,
    id: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    switch(desk, id, request, BulkStatus::Stopped).await
}

async fn switch(
    State(desk): State<Desk>,
    id: IdInPath,
    request: Request,
    to: BulkStatus,
) -> Result<Response<Body>, Problem> {
    let (caller, mut form) = desk.intake.act(request, Scope::Redrive, &["reason"]).await?;
    let reason = form.reason()?;
    let id = uuid(id, Code::BulkNotFound)?;
    let schedule = desk.intake.schedule();
    let switched = schedule.switch_bulk(id, to, &caller.operator, &reason).await.map_err(trouble)?;
    let act = if to == BulkStatus::Running { "start_bulk_redrive" } else { "stop_bulk_redrive" };
    match switched {
        BulkSwitched::Now(bulk) | BulkSwitched::Already(bulk) => {
            metrics::OPERATOR_ACTS.add(1, [act, "done"]);
            Ok(json(StatusCode::OK, shapes::bytes(&shapes::bulk(&bulk))))
        }
        BulkSwitched::Done(_) => {
            metrics::OPERATOR_ACTS.add(1, [act, "refused"]);
            Err(Problem::new(Code::BulkDone))
        }
        BulkSwitched::NotFound => Err(Problem::new(Code::BulkNotFound)),
    }
}

impl Desk {
    async fn filter(&self, mut given: Form) -> Result<ParkedFilter, Problem> {
        let unknown = |given: &Form, name: &str, why: &'static str| {
            Problem::at(Code::UnknownChoice, given.pointer(name), why)
        };
        let reason = match given.text("reason", 100)? {
            None => None,
            Some(text) => Some(
                Reason::from_text(&text)
                    .ok_or_else(|| unknown(&given, "reason", "Expected one of the registry of reasons."))?,
            ),
        };
        let gateway = match given.text("gateway", 64)? {
            None => None,
            Some(text) => Some(
                gateway_name(&text)
                    .ok_or_else(|| unknown(&given, "gateway", "Expected a gateway's name."))?,
            ),
        };
        let q = match given.text("q", LONGEST_Q)? {
            None => None,
            Some(text) => Some(self.parked_filter(&given.pointer("q"), &text).await?),
        };
        // A list that is empty shows a misspelt name; an act on nothing would be believed to have done its work.
        if let Some(name) = &gateway
            && !self.intake.schedule().gateways().await.map_err(trouble)?.iter().any(|it| it.name == *name)
        {
            return Err(unknown(&given, "gateway", "There is no gateway of this name."));
        }
        let actor = match given.text("actor", 100)? {
            None => None,
            Some(text) => Some(self.actor(&text).await?),
        };
        if actor == Some(NOBODY) {
            return Err(unknown(&given, "actor", "There is no client of this name."));
        }
        let (due_from, due_to) = (given.time("dueFrom")?, given.time("dueTo")?);
        if due_from.zip(due_to).is_some_and(|(from, to)| from >= to) {
            return Err(Problem::at(Code::OutOfRange, given.pointer("dueTo"), "dueTo lies after dueFrom."));
        }
        Ok(ParkedFilter { reason, gateway, actor, due_from, due_to, q })
    }

    /// A filter of which an act is made: what names nothing that is here is refused, since an act on nothing would be
    /// believed to have done its work.
    async fn parked_filter(&self, at: &str, text: &str) -> Result<Filter, Problem> {
        let read = of_parked(at, text)?;
        let asked = read.conditions();
        let refused = |why: &'static str| Err(Problem::at(Code::UnknownChoice, at.to_owned(), why));
        let gateways = self.intake.schedule().gateways().await.map_err(trouble)?;
        let is_known = |name: &String| gateways.iter().any(|gateway| gateway.name.0 == *name);
        if !asked.gateways.only.iter().flatten().chain(&asked.gateways.never).all(is_known) {
            return refused("gateway: there is no gateway of this name.");
        }
        for name in asked.actors.only.iter().flatten().chain(&asked.actors.never) {
            if self.intake.schedule().actor_named(name).await.map_err(trouble)?.is_none() {
                return refused("actor: there is no client of this name.");
            }
        }
        Ok(read)
    }
}

/// Reads a filter of what is parked.
///
/// # Errors
/// For one that cannot be read, with the place; or that asks what only other payments have.
pub(super) fn of_parked(at: &str, text: &str) -> Result<Filter, Problem> {
    let read: Filter = text.parse().map_err(|error: crate::domain::filter::FilterError| {
        Problem::at(
            Code::InvalidParameter,
            at.to_owned(),
            format!("At character {}: {}.", error.at, error.why),
        )
    })?;
    let asked = read.conditions();
    let refused = |why: &'static str| Err(Problem::at(Code::InvalidParameter, at.to_owned(), why));
    if !asked.references.is_any() {
        return refused("ref: is not asked of what is parked; look for the payment, and name it by id:.");
    }
    if !asked.statuses.holds(Some(&Status::Parked)) {
        return refused("status: everything here is PARKED; no other state passes.");
    }
    Ok(read)
}

//! `GET /v1/ops/acts`: who did what to what, and why; the newest first.

use super::parked::line;
use super::{Desk, shapes};
use crate::intake::{Pairs, Problem, Scope, json, trouble};
use crate::schedule::ActFilter;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, Uri};

pub(super) async fn list(
    State(desk): State<Desk>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let pairs = Pairs::read(&uri, &["subject", "operator", "limit", "cursor"])?;
    let limit = pairs.limit()?;
    let filter = ActFilter {
        subject: pairs.read_as("subject", LINE, line)?,
        operator: pairs.read_as("operator", LINE, line)?,
        // The number of the last act of the page before: acts are only ever added at the other end.
        before: pairs
            .read_as("cursor", "Expected the cursor of the page before.", |text| text.parse().ok())?,
    };
    let most = u32::try_from(limit).unwrap_or(u32::MAX);
    let found = desk.intake.schedule().acts(&filter, most).await.map_err(trouble)?;
    let next = found.last().filter(|_| found.len() == limit).map(|last| last.id.to_string());
    Ok(json(StatusCode::OK, shapes::page(found.iter().map(shapes::act).collect(), next)))
}

/// What a subject or an operator is.
const LINE: &str = "Expected a text on one line.";

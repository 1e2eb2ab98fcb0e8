//! `/livez` and `/readyz`: is this process alive, and can it serve?
//!
//! Alive says nothing about dependencies, so that an outage of the database does not make an
//! orchestrator restart every process that waits for it. Ready names what is missing.

use super::problem::{Code, Problem};
use super::{Intake, json};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::future::{Either, select};
use std::time::Duration;

/// A dependency that takes longer is as good as away for whoever balances the load.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn live() -> Response {
    json(StatusCode::OK, br#"{"status":"live"}"#.to_vec())
}

pub(super) async fn ready(State(intake): State<Intake>) -> Result<Response, Problem> {
    let schedule = intake.schedule.clone();
    // In a task of its own: the ping goes on when we stop waiting for it.
    let ping = tokio::spawn(async move { schedule.ping().await });
    match select(ping, intake.clock.sleep(PATIENCE)).await {
        Either::Left((Ok(Ok(())), _)) => Ok(json(StatusCode::OK, br#"{"status":"ready"}"#.to_vec())),
        Either::Left(_) | Either::Right(_) => {
            let mut problem = Problem::new(Code::NotReady).retry_after(1);
            problem.failing = Some(vec!["database"]);
            Err(problem)
        }
    }
}

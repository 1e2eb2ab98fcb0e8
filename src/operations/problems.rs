//! `GET /v1/ops/problems`: what is wrong with this installation and what mends it, as the dashboard's banner has it.
//!
//! The doctor's checks that ask only the database, with the settings of this process. However many screens show it,
//! the database is examined every ten seconds at most. Where it cannot be reached at all, nothing that was known before
//! is told: 503, and never an empty list.

use super::{Desk, shapes};
use crate::doctor::{self, Finding, Level};
use crate::intake::{Code, Problem, Scope, json};
use crate::platform::clock::SharedClock;
use crate::platform::config::Config;
use crate::platform::kept::Kept;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json as object};
use std::time::Duration;

/// How old the findings may be, and how long one may wait for them.
const PROBLEMS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3));

/// What is examined.
pub(super) struct Examined {
    config: Config,
    clock: SharedClock,
    found: Kept<Vec<Finding>>,
}

impl Examined {
    pub(super) fn new(config: &Config, clock: SharedClock) -> Self {
        Self { config: config.clone(), clock, found: Kept::default() }
    }
}

pub(super) async fn list(State(desk): State<Desk>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let away = || Problem::new(Code::DatabaseUnavailable).retry_after(2);
    let examined = desk.examined.as_ref().ok_or_else(away)?;
    desk.intake.schedule().lineage_is_released().await.map_err(|_| away())?;
    let ask = doctor::problems(desk.intake.schedule(), &examined.config, &examined.clock);
    let found = examined.found.get(&*examined.clock, PROBLEMS, ask).await.ok_or_else(away)?;
    Ok(json(StatusCode::OK, shapes::bytes(&object!({"data": shown(&found)}))))
}

/// What is not fine, the worst first.
fn shown(found: &[Finding]) -> Vec<Value> {
    let mut wrong: Vec<&Finding> = found.iter().filter(|finding| finding.level != Level::Fine).collect();
    wrong.sort_by_key(|finding| finding.urgency());
    let shown = wrong.into_iter().map(|it| {
        object!({
            "check": it.check.as_str(),
            "level": it.level.as_str(),
            "saw": it.saw,
            "means": it.means,
            "fix": it.fix,
            "runbook": it.runbook,
        })
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Check;

    #[test]
    fn the_worst_comes_first_then_what_stops_payments_now_and_what_is_fine_is_no_problem() {
        let finding = |check, level, fix: &str| Finding {
            check,
            level,
            saw: "seen".into(),
            means: "something",
            fix: fix.into(),
            runbook: None,
        };
        let told = shown(&[
            finding(Check::Database, Level::Fine, ""),
            finding(Check::Durability, Level::Bad, "wait for the disk"),
            finding(Check::Days, Level::Warn, "start a keeper"),
            finding(Check::Crew, Level::Unseen, "look again"),
            finding(Check::Overdue, Level::Bad, "start workers"),
        ]);
        let told: Vec<(&str, &str)> =
            told.iter().map(|it| (it["check"].as_str().unwrap(), it["fix"].as_str().unwrap())).collect();
        let wanted = [
            ("overdue", "start workers"),
            ("durability", "wait for the disk"),
            ("days", "start a keeper"),
            ("crew", "look again"),
        ];
        assert_eq!(told, wanted);
    }
}

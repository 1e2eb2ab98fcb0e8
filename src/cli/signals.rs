//! What a command logs and traces where no variable says otherwise. If this dies here, nothing was begun.

use super::{Command, Role};
use crate::platform::{telemetry, trace};
use std::time::Duration;
use tokio::runtime::Runtime;

/// What tasks of the runtime still hold at the end is given so long.
const TASKS_END: Duration = Duration::from_millis(500);

/// The runtime goes first, with every span that a task of it still held.
pub(super) fn last_spans(runtime: Runtime, traces: Option<trace::Exporting>) {
    if let Some(traces) = traces.filter(trace::Exporting::is_on) {
        runtime.shutdown_timeout(TASKS_END);
        traces.end();
    }
}

impl Command {
    /// What it logs where no variable says otherwise: a person at a command reads its answer.
    pub(super) fn usually(&self) -> telemetry::Usually {
        match self {
            Self::Role(_)
            | Self::Publisher(_)
            | Self::Migrate(_)
            | Self::Topics(_)
            | Self::Bucket(_)
            | Self::Config(_)
            | Self::Keys(_)
            | Self::Doctor { .. }
            | Self::Forecast { .. }
            | Self::Audit(_)
            | Self::Health { .. } => telemetry::Usually::Info,
            Self::Payment(_)
            | Self::Import(_)
            | Self::Parked(_)
            | Self::Refund(_)
            | Self::Reconcile(_)
            | Self::Approvals(_)
            | Self::Acts(_)
            | Self::Gateway(_)
            | Self::Switch(_)
            | Self::Quarantine(_)
            | Self::ApiKeys(_)
            | Self::Webhooks(_)
            | Self::Caps(_)
            | Self::Top(_)
            | Self::Assets(_)
            | Self::Completions { .. }
            | Self::Dev(_) => telemetry::Usually::Warnings,
            #[cfg(feature = "simulation")]
            Self::Simulate(_) => telemetry::Usually::Warnings,
        }
    }

    /// What its traces are called, of those that work rather than ask.
    pub(super) fn traced_as(&self) -> Option<&'static str> {
        match self {
            Self::Role(role) => Some(role.as_str()),
            Self::Publisher(_) => Some(Role::Publisher.as_str()),
            Self::Dev(_) => Some("dev"),
            _ => None,
        }
    }
}

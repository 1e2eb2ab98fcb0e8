//! `punctual doctor`: what is wrong with this installation, and what mends it.

use crate::cli::{self, Ended, Output};
use crate::doctor::{Check, Doctor, Finding, Level};
use crate::platform::clock::{Host, SharedClock};
use crate::platform::config::Config;
use crate::platform::exit::Exit;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;

/// Examines and prints.
///
/// # Errors
/// [`Exit::Differences`] where something is wrong, [`Exit::Failed`] where nothing is and a check could not look.
pub async fn doctor(output: Output, config: Config) -> Result<(), Ended> {
    let clock: SharedClock = Arc::new(Host);
    let found = Doctor { config: &config, clock }.examine().await;
    let document = || Value::Array(found.iter().map(as_json).collect());
    cli::print(&output.shown(|| as_table(&found), document))?;
    let count = |level: fn(Level) -> bool| found.iter().filter(|finding| level(finding.level)).count();
    let wrong = count(|level| matches!(level, Level::Warn | Level::Bad));
    let unseen = count(|level| level == Level::Unseen);
    match (wrong, unseen) {
        (0, 0) => Ok(()),
        (0, _) => Err(Ended::with(Exit::Failed, format!("{unseen} checks could not look"))),
        _ => Err(Ended::with(Exit::Differences, format!("{wrong} findings"))),
    }
}

fn as_json(finding: &Finding) -> Value {
    json!({
        "check": finding.check.as_str(), "about": finding.check.about(), "level": finding.level.as_str(),
        "saw": finding.saw, "means": finding.means, "fix": finding.fix,
        "runbook": finding.runbook,
    })
}

fn as_table(found: &[Finding]) -> String {
    let width = Check::ALL.iter().map(|check| check.as_str().len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in found {
        let (level, check) = (finding.level.as_str(), finding.check.as_str());
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{level:<6}  {check:<width$}  {}", finding.saw);
        if finding.level != Level::Fine {
            let _ = writeln!(text, "{:8}{:width$}  means: {}", "", "", finding.means);
            let _ = writeln!(text, "{:8}{:width$}  fix:   {}", "", "", finding.fix);
            if let Some(name) = finding.runbook {
                let _ = writeln!(
                    text,
                    "{:8}{:width$}  see:   {name} in `punctual assets print runbooks`",
                    "", ""
                );
            }
        }
    }
    text
}

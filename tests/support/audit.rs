//! The product's own `punctual audit check`, as a process over what an installation left, in brief.

use super::installation::Installation;
use serde_json::Value;
use std::path::Path;

/// What it said.
#[derive(Debug, Default)]
pub struct Audited {
    /// Its exit code.
    pub code: Option<i32>,
    /// Promises that looked at something.
    pub promises: usize,
    /// Things that they looked at.
    pub looked_at: usize,
    /// Each broken promise with its first witnesses; what it said where it gave no report.
    pub broken: Vec<String>,
}

impl Audited {
    /// Everything that was looked at holds, and something was.
    pub fn holds(&self) -> bool {
        self.code == Some(0) && self.promises > 0 && self.broken.is_empty()
    }
}

/// Over the ledger and the database, and over the clients' log of operations where there is one.
pub fn audit(site: &Installation, operations: Option<&Path>) -> Audited {
    let log = operations.map(|path| path.display().to_string());
    let more: Vec<&str> = log.iter().flat_map(|log| ["--operations", log]).collect();
    audit_of(site, &more)
}

/// Over the ledger, the database and the topics of an installation that has a ring to itself.
pub fn audit_topics(site: &Installation) -> Audited {
    audit_of(site, &["--topics"])
}

/// Over the ledger, the database, and what else these arguments name.
pub fn audit_of(site: &Installation, more: &[&str]) -> Audited {
    let ledger = format!("{}/ledger", site.url("sandbox-1"));
    let arguments = [&["audit", "check", "--ledger", &ledger, "-o", "json"], more].concat();
    let output = site.output(&arguments);
    let mut audited = Audited { code: output.status.code(), ..Audited::default() };
    let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else {
        audited.broken.push(String::from_utf8_lossy(&output.stderr).into_owned());
        return audited;
    };
    for line in report["invariants"].as_array().expect("a line a promise") {
        let looked_at = usize::try_from(line["lookedAt"].as_u64().expect("a count")).expect("a count");
        audited.promises += usize::from(looked_at > 0);
        audited.looked_at += looked_at;
        if line["broken"] != 0 {
            audited.broken.push(format!("{}: {}", line["invariant"], line["witnesses"]));
        }
    }
    audited
}

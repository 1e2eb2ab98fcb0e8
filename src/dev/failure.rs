//! What can go wrong while services are brought up on one machine, by what the person can do.
//!
//! Every message is complete on its own: it names the missing thing and the command that installs
//! it, or the log and its last lines. It is printed once, by `dev::run`.

use crate::cli::Ended;
use std::io;
use std::path::{Path, PathBuf};

/// Why the services are not up.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Install something, then try again.
    #[error("{what} was not found; install it with:\n    {install}")]
    Missing {
        /// The thing that is missing, for people.
        what: String,
        /// The exact command that installs it.
        install: String,
    },
    /// Choose another folder, or stop the other one.
    #[error("{} is in use by another `punctual dev`; stop that one or choose another --data-dir", path.display())]
    InUse {
        /// The folder that is locked.
        path: PathBuf,
    },
    /// Choose another port.
    #[error("{name} cannot have port {port}, something else listens there; use --random-ports")]
    PortTaken {
        /// The service that wanted the port.
        name: &'static str,
        /// The port.
        port: u16,
    },
    /// Look at a process that may not be ours; we do not touch it.
    #[error("process {pid}, named by {}, is alive but does not look like ours; stop it by hand", file.display())]
    Foreign {
        /// The process named by the pid file.
        pid: i32,
        /// The pid file.
        file: PathBuf,
    },
    /// A tool that we ran said no.
    #[error("{program} failed:\n{said}")]
    Refused {
        /// The tool and what it was asked to do.
        program: String,
        /// The end of its output.
        said: String,
    },
    /// A service did not come up; its log says why.
    #[error("{name} {how}; the end of {}:\n{tail}", log.display())]
    NotUp {
        /// The service.
        name: String,
        /// "stopped while starting (exit status …)" or "was not ready after … s".
        how: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of that log.
        tail: String,
    },
    /// A part of the product said no, in its own words and with its own exit code.
    #[error("{0}")]
    Part(#[from] Ended),
    /// The machine said no.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done, as an infinitive with its path.
        doing: String,
        /// What the system answered.
        source: io::Error,
    },
}

impl Failure {
    /// For `map_err`: a part of the product failed, in its own words.
    pub(crate) fn part(error: impl std::fmt::Display) -> Self {
        Self::Part(Ended::with(crate::platform::exit::Exit::Failed, error.to_string()))
    }

    /// For `map_err`: an I/O error with what was being done.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// A service that is not up, with the end of its log.
    pub(crate) fn not_up(name: &str, how: String, log: &Path) -> Self {
        Self::NotUp { name: name.to_owned(), how, log: log.to_owned(), tail: tail(log) }
    }
}

/// The last 25 lines of a log, or a remark that there is none.
fn tail(log: &Path) -> String {
    let Ok(bytes) = std::fs::read(log) else { return "(no log)".to_owned() };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}

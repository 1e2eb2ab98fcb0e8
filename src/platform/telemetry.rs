//! Logs: JSON off a terminal, short lines on one, to standard error, so that standard output stays
//! what the command answers.
//!
//! `PUNCTUAL_LOG` filters (then `RUST_LOG`, then `info`, or `warn` for `punctual dev`), in the form `info,punctual::worker=debug`.
//! Secrets do not get here: their types have no printed form.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// What is logged where no variable says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usually {
    /// What an operator reads: a line a request, joins, drains.
    Info,
    /// What a person at a terminal needs, beside what the command itself says.
    Warnings,
}

/// The filter cannot be read, or logs were started twice.
#[derive(Debug, thiserror::Error)]
pub enum NotLogging {
    /// The variable's text is not a filter.
    #[error("{variable} is not a log filter: {why}")]
    BadFilter {
        /// Which variable.
        variable: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Something set a subscriber before.
    #[error("logs were started twice")]
    Twice,
}

/// Starts logging for the whole process, `usually` where no variable filters.
///
/// # Errors
/// See [`NotLogging`]; the first is for the user (exit code 2).
pub fn start(usually: Usually) -> Result<(), NotLogging> {
    let set = |variable| std::env::var(variable).ok().filter(|text| !text.is_empty());
    let filter = filter(set("PUNCTUAL_LOG"), set("RUST_LOG"), usually)?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if std::io::stderr().is_terminal() {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        logs.with_ansi(colour).with_target(false).try_init()
    } else {
        logs.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    };
    started.map_err(|_| NotLogging::Twice)
}

fn filter(ours: Option<String>, usual: Option<String>, usually: Usually) -> Result<EnvFilter, NotLogging> {
    let (variable, text) = match (ours, usual) {
        (Some(text), _) => ("PUNCTUAL_LOG", text),
        (None, Some(text)) => ("RUST_LOG", text),
        (None, None) => {
            let text = match usually {
                Usually::Info => "info",
                Usually::Warnings => "warn",
            };
            ("PUNCTUAL_LOG", text.to_owned())
        }
    };
    EnvFilter::try_new(text).map_err(|error| NotLogging::BadFilter { variable, why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_variable_beats_the_usual_one() {
        let text = |ours: Option<&str>, usual: Option<&str>| {
            filter(ours.map(str::to_owned), usual.map(str::to_owned), Usually::Info).unwrap().to_string()
        };
        assert_eq!(text(None, None), "info");
        assert_eq!(text(None, Some("warn")), "warn");
        assert_eq!(text(Some("debug"), Some("warn")), "debug");
    }

    #[test]
    fn a_filter_that_is_none_is_refused_by_its_variable() {
        let refused = filter(None, Some("punctual=loud".to_owned()), Usually::Info).unwrap_err();
        assert!(refused.to_string().starts_with("RUST_LOG is not a log filter"), "{refused}");
    }
}

//! `punctual assets print`: what goes with the binary, as this version has it.
//!
//! **Why from the binary**: rules, dashboards and documents fit the version that runs, also where its source is not
//! at hand. Nothing is asked of any service.

use super::{Ended, print};
use crate::bucket::asyncapi;
use crate::intake;
use crate::platform::config::Config;
use crate::platform::exit::Exit;
use crate::platform::{alerts, boards};
use clap::{Subcommand, ValueEnum};

/// What goes with the binary.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum Assets {
    /// Print one of them to standard output.
    Print {
        /// Which.
        #[arg(value_enum)]
        asset: Asset,
    },
}

/// One file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Asset {
    /// Rules for Prometheus.
    Alerts,
    /// What `promtool test rules` judges them by.
    AlertTests,
    /// What to do when one fires.
    Runbooks,
    /// The Grafana dashboard in the order in which payments flow.
    Overview,
    /// The Grafana dashboard of the parts.
    Internals,
    /// The REST interface.
    Openapi,
    /// What travels through the topics.
    Asyncapi,
    /// A whole installation on one machine.
    Compose,
}

/// Prints it.
///
/// # Errors
/// Standard output cannot be written to; topics that are declared wrongly.
pub(super) fn run(asked: Assets, config: &Config) -> Result<(), Ended> {
    let Assets::Print { asset } = asked;
    print(&match asset {
        Asset::Alerts => alerts::rules_yaml(),
        Asset::AlertTests => alerts::tests_yaml(),
        Asset::Runbooks => alerts::runbooks_markdown(),
        Asset::Overview => board("punctual-overview"),
        Asset::Internals => board("punctual-internals"),
        Asset::Openapi => format!("{:#}\n", intake::document()),
        Asset::Asyncapi => {
            let document = asyncapi::document(&config.kafka);
            asyncapi::as_yaml(&document.map_err(|error| Ended::with(Exit::Failed, error.to_string()))?)
        }
        Asset::Compose => include_str!("../../docker-compose.yml").to_owned(),
    })
}

fn board(name: &str) -> String {
    boards::BOARDS.iter().filter(|board| board.name == name).map(boards::json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dashboard_has_its_name() {
        for name in ["punctual-overview", "punctual-internals"] {
            assert!(board(name).contains(&format!("\"uid\": \"{name}\"")), "{name}");
        }
    }
}

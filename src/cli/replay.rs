//! The command line of `punctual publisher`: the role, or a replay beside it.

use super::Output;
use crate::domain::ids::PaymentId;
use crate::schedule::ReplayPlace;
use chrono::{DateTime, Utc};
use clap::{Args, ValueEnum};
use std::str::FromStr;

/// Where a replay begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// With the oldest row that is kept.
    Beginning,
    /// With the first row of this instant or later.
    Instant(DateTime<Utc>),
}

impl FromStr for Since {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "beginning" {
            return Ok(Self::Beginning);
        }
        DateTime::parse_from_rfc3339(text).map(|at| Self::Instant(at.to_utc())).map_err(|_| {
            "neither `beginning` nor an instant with its offset, as 2026-11-30T08:00:00Z".to_owned()
        })
    }
}

/// Which topics hear it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Topic {
    /// The topic of events.
    #[default]
    Events,
    /// Announcements of what was parked in that time.
    Parked,
    /// Both.
    All,
}

/// The role of the publisher; with --from a replay of what was published, which ends by itself.
#[derive(Debug, Clone, Args)]
pub struct Replay {
    /// Publish again what was published since: `beginning`, or an instant. It runs beside the publisher that
    /// leads, writes to the same partitions in the same order and ends.
    #[arg(long, value_name = "INSTANT|beginning")]
    pub from: Option<Since>,
    /// Up to this instant, not included; without it all that is published already.
    #[arg(long, value_name = "INSTANT", requires = "from")]
    pub to: Option<DateTime<Utc>>,
    /// This payment alone.
    #[arg(long, value_name = "PAYMENT_ID", requires = "from")]
    pub payment: Option<PaymentId>,
    /// To which topics.
    #[arg(long, value_enum, default_value_t, requires = "from")]
    pub topic: Topic,
    /// Most events a second.
    #[arg(long, value_name = "EVENTS", default_value_t = 1_000, requires = "from",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,
    /// Go on from where an earlier replay of the same span stopped; it printed the place.
    #[arg(long, value_name = "PLACE", requires = "from")]
    pub after: Option<ReplayPlace>,
    /// Count by type, and publish nothing.
    #[arg(long, requires = "from")]
    pub dry_run: bool,
    /// How to print what was done.
    #[arg(short, long, value_enum, default_value_t, requires = "from")]
    pub output: Output,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_begins_at_an_instant_with_its_offset_or_at_the_beginning() {
        assert_eq!("beginning".parse(), Ok(Since::Beginning));
        let noon = "2026-11-30T12:00:00Z".parse::<DateTime<Utc>>().unwrap();
        assert_eq!("2026-11-30T13:00:00+01:00".parse(), Ok(Since::Instant(noon)));
        for bad in ["", "start", "2026-11-30T12:00:00", "2026-11-30", "1h"] {
            assert!(bad.parse::<Since>().is_err(), "{bad}");
        }
    }
}

//! The command line of `punctual bucket`.

use super::Output;
use crate::domain::bucket::{Channel, Slot};
use clap::Subcommand;

/// Records of one `bucket peek`, all held in memory.
const MOST_PEEKED: usize = 10_000;

/// A look into the ring; changes nothing.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum Bucket {
    /// Every minute from now on: what is due by the database, what is staged for it, how far the workers are.
    List {
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// The newest records of one bucket, with their seals and what the database says of their payments.
    Peek {
        /// A minute of the hour, 0 to 59, or `now`.
        #[arg(value_name = "MINUTE|now", value_parser = channel)]
        bucket: Channel,
        /// Most records.
        #[arg(long, default_value_t = 20, value_parser = limit)]
        limit: usize,
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}

fn channel(text: &str) -> Result<Channel, &'static str> {
    let minute = || text.strip_prefix('m').unwrap_or(text).parse().ok().and_then(Slot::new);
    let channel = if text == "now" { Some(Channel::Now) } else { minute().map(Channel::Ring) };
    channel.ok_or("a bucket is a minute of the hour, 0 to 59, or `now`")
}

fn limit(text: &str) -> Result<usize, &'static str> {
    let limit = text.parse().ok().filter(|limit| (1..=MOST_PEEKED).contains(limit));
    limit.ok_or("from 1 to 10000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_a_minute_of_the_hour_or_now() {
        for (text, minute) in [("0", 0), ("07", 7), ("m07", 7), ("59", 59)] {
            assert_eq!(channel(text), Ok(Channel::Ring(Slot::new(minute).unwrap())), "{text}");
        }
        assert_eq!(channel("now"), Ok(Channel::Now));
        for text in ["60", "-1", "", "m", "due.m07", "14:07", "Now"] {
            assert!(channel(text).is_err(), "{text}");
        }
        assert_eq!((limit("1"), limit("10000")), (Ok(1), Ok(10_000)));
        assert!(["0", "10001", "-1", "all"].iter().all(|text| limit(text).is_err()));
    }
}

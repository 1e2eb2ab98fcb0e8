//! Settings of webhooks that are each legal and dangerous together: what is never sent, sent for ever, or sent in
//! a storm. Pure; if this is wrong, a receiver of somebody else's suffers for it.

use super::{DAY, Found};
use std::time::Duration;

pub(super) fn webhooks(found: &mut Found<'_>) {
    let webhooks = &found.config.webhooks;
    found.refuse_unless(
        webhooks.max_in_flight > 0 && webhooks.batch > 0 && webhooks.poll > Duration::ZERO,
        &["webhooks.max_in_flight", "webhooks.batch", "webhooks.poll"],
        "each must be above zero, or nothing is delivered",
    );
    found.refuse_unless(
        webhooks.connect_timeout > Duration::ZERO && webhooks.connect_timeout <= webhooks.timeout,
        &["webhooks.connect_timeout", "webhooks.timeout"],
        "connecting is part of the request and cannot take longer, nor no time at all",
    );
    found.refuse_unless(
        webhooks.timeout <= Duration::from_secs(120),
        &["webhooks.timeout"],
        "at most 2m: a slow receiver keeps a place that others wait for, and a shutdown waits for it",
    );
    found.refuse_unless(
        webhooks.ladder.iter().all(|wait| *wait > Duration::ZERO) && webhooks.jitter_percent <= 100,
        &["webhooks.ladder", "webhooks.jitter_percent"],
        "a wait of nothing is a storm at the receiver; jitter is at most 100",
    );
    found.refuse_unless(
        webhooks.rest_cap >= Duration::from_secs(1),
        &["webhooks.rest_cap"],
        "at least 1s, or an endpoint that is down never rests",
    );
    found.refuse_unless(
        webhooks.secret_overlap <= DAY * 30,
        &["webhooks.secret_overlap"],
        "at most 30d: a secret that got out is good for so long",
    );
    found.refuse_unless(
        webhooks.keep_days >= 2,
        &["webhooks.keep_days"],
        "at least 2: the days of events that are written at midnight must not be dropped meanwhile",
    );
    found.warn_unless(
        webhooks.disable_after >= DAY,
        &["webhooks.disable_after"],
        "an outage of less than a day will disable endpoints",
    );
    found.warn_unless(
        webhooks.ladder.iter().sum::<Duration>() >= DAY,
        &["webhooks.ladder"],
        "a receiver that is down for a day loses what it missed, unless its owner has it sent again",
    );
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use crate::platform::config::{Config, Setting};

    fn said(name: &str, value: &str) -> (usize, usize) {
        let mut config = Config::default();
        let before = check(&config);
        (Setting::named(name).unwrap().set)(&mut config, value).unwrap();
        let after = check(&config);
        (after.0.len() - before.0.len(), after.1.len() - before.1.len())
    }

    #[test]
    fn what_would_never_deliver_or_storm_is_refused() {
        for (name, value) in [
            ("webhooks.max_in_flight", "0"),
            ("webhooks.batch", "0"),
            ("webhooks.poll", "0s"),
            ("webhooks.connect_timeout", "0s"),
            ("webhooks.connect_timeout", "16s"),
            ("webhooks.timeout", "3m"),
            ("webhooks.jitter_percent", "101"),
            ("webhooks.rest_cap", "500ms"),
            ("webhooks.secret_overlap", "31d"),
            ("webhooks.keep_days", "1"),
        ] {
            assert_eq!(said(name, value), (1, 0), "{name} = {value}");
        }
        assert_eq!(said("webhooks.ladder", "10h,0s,20h"), (1, 0));
    }

    #[test]
    fn what_gives_up_within_a_day_is_only_warned_about() {
        assert_eq!(said("webhooks.ladder", "5s,1h"), (0, 1));
        assert_eq!(said("webhooks.disable_after", "2h"), (0, 1));
        assert_eq!(said("webhooks.allow", "127.0.0.0/8"), (0, 0));
    }
}

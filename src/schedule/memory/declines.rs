//! How often each destination was declined, by the hour: the counterpart of `destination_declines`.

use super::rows::Destination;
use super::{Memory, State};
use crate::domain::declines::{DeclineCounts, hour};
use crate::domain::ids::PaymentId;
use crate::domain::lease::Mono;
use crate::schedule::{Answered, Claimed};
use chrono::{DateTime, Utc};
use secrecy::ExposeSecret;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Counted(BTreeMap<Destination, BTreeMap<DateTime<Utc>, u32>>);

impl Counted {
    /// One more, if this answer is a decline.
    pub(super) fn count(&mut self, answered: &Answered, now: DateTime<Utc>) {
        if answered.answer().decline().is_none() {
            return;
        }
        let claimed = answered.claimed();
        let account = claimed.payment().gateway_account.clone().unwrap_or_default();
        let destination = (account, claimed.payee().expose_secret().to_owned());
        *self.0.entry(destination).or_default().entry(hour(now)).or_default() += 1;
    }

    fn of(&self, destination: &Destination, now: DateTime<Utc>) -> DeclineCounts {
        let by_hour = self.0.get(destination).into_iter().flatten();
        DeclineCounts::of(by_hour.map(|(hour, declines)| (*hour, *declines)), now)
    }
}

impl State {
    /// Hands out the claim that holds this payment.
    pub(super) fn claimed(&self, id: PaymentId, asked_at: Mono) -> Claimed {
        let row = &self.rows[&id];
        row.claimed(asked_at, self.declines.of(&row.destination(), row.claimed_at()))
    }
}

impl Memory {
    /// Every count: account, payee, hour and declines.
    pub fn declines(&self) -> Vec<(String, String, DateTime<Utc>, u32)> {
        let state = self.state();
        let all = state.declines.0.iter().flat_map(|((account, payee), by_hour)| {
            by_hour.iter().map(|(hour, count)| (account.clone(), payee.clone(), *hour, *count))
        });
        all.collect()
    }
}

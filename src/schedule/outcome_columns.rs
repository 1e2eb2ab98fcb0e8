//! A batch of outcomes as the columns of `settle.sql`, in the order of its parameters.

use super::proof::Answered;
use super::settle::Outcome;
use super::words::{self, plain};
use crate::domain::bucket::shard;
use crate::domain::decision::{Budget, EpochChange, SendsAnswered};
use crate::domain::declines::destination;
use crate::domain::intent::Secret;
use crate::domain::money::Money;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use chrono::{DateTime, Utc};
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use uuid::Uuid;

/// Longest gateway reference kept, in characters.
const REFERENCE_CHARS: usize = 255;

/// The destination for which this answer counts, if it is a decline; however it was come by, it is one try
/// that the gateway refused.
pub(super) fn declined_destination(secret: &Secret, answered: &Answered) -> Option<Vec<u8>> {
    answered.answer().decline()?;
    let claimed = answered.claimed();
    // A claim has stored the account with the epoch (rule R4).
    let account = claimed.payment().gateway_account.as_deref().unwrap_or_default();
    Some(destination(secret, account, claimed.payee()).to_vec())
}

/// The name of a charge, and what it took where that is not what the payment asks.
pub(super) fn charge_named(answered: &Answered) -> Option<(String, Option<Money>)> {
    let Verdict::Charged { reference, amount } = &answered.answer().verdict else { return None };
    let is_otherwise = *amount != answered.claimed().payment().amount;
    Some((plain(reference, REFERENCE_CHARS), is_otherwise.then_some(*amount)))
}

#[derive(Default)]
pub(super) struct Columns {
    ids: Vec<Uuid>,
    fences: Vec<i64>,
    claims: Vec<Uuid>,
    states: Vec<&'static str>,
    causes: Vec<&'static str>,
    reasons: Vec<Option<&'static str>>,
    next_at: Vec<Option<DateTime<Utc>>>,
    answered: Vec<i16>,
    budgets: Vec<i16>,
    next_epoch: Vec<bool>,
    not_sent: Vec<bool>,
    references: Vec<Option<String>>,
    request_hashes: Vec<Option<Vec<u8>>>,
    details: Vec<String>,
    verdicts: Vec<&'static str>,
    how: Vec<&'static str>,
    codes: Vec<Option<String>>,
    http_status: Vec<Option<i16>>,
    took_ms: Vec<Option<i32>>,
    notes: Vec<Option<String>>,
    shards: Vec<i16>,
    declined: Vec<Option<Vec<u8>>>,
    taken_minor: Vec<Option<i64>>,
    taken_currency: Vec<Option<&'static str>>,
}

impl Columns {
    pub(super) fn of<'a>(secret: &Secret, outcomes: impl Iterator<Item = &'a Outcome>) -> Self {
        let mut columns = Self::default();
        outcomes.for_each(|outcome| {
            columns.push(outcome);
            columns.declined.push(declined_destination(secret, &outcome.0));
        });
        columns
    }

    fn push(&mut self, (answered, decision): &Outcome) {
        let claimed = answered.claimed();
        let answer = answered.answer();
        let payment = claimed.payment();
        self.ids.push(payment.id.as_uuid());
        self.fences.push(payment.fence.0);
        self.claims.push(claimed.claim_id().0);
        self.states.push(decision.to.as_str());
        self.causes.push(decision.cause.as_str());
        self.reasons.push(decision.reason.map(Reason::as_str));
        self.next_at.push(decision.next_attempt_at);
        self.answered.push(match decision.answered {
            SendsAnswered::None => 0,
            SendsAnswered::Own => 1,
            SendsAnswered::All => 2,
        });
        self.budgets.push(match decision.budget {
            Budget::Keep => 0,
            Budget::HandBack => 1,
            Budget::Untouched => 2,
        });
        self.next_epoch.push(decision.epoch == EpochChange::Next);
        self.not_sent.push(matches!(answer.verdict, Verdict::NotSent { .. }));
        self.references.push(decision.gateway_ref.as_deref().map(|text| plain(text, REFERENCE_CHARS)));
        self.request_hashes.push(answer.request_hash.map(Vec::from));
        self.details.push(words::detail(answer, decision.reason));
        self.verdicts.push(answer.verdict.as_str());
        self.how.push(words::how(answer.how));
        self.codes.push(words::code(&answer.verdict));
        self.http_status.push(words::http_status(answer));
        self.took_ms.push(words::took_ms(answer));
        self.notes.push(words::note(answer));
        self.shards.push(shard(payment.id));
        let taken = charge_named(answered).and_then(|(_, amount)| amount);
        self.taken_minor.push(taken.map(|amount| amount.minor.get()));
        self.taken_currency.push(taken.map(|amount| amount.currency.as_str()));
    }

    /// Appends them to a query that has its day.
    pub(super) fn bind(
        self,
        query: Query<'static, Postgres, PgArguments>,
    ) -> Query<'static, Postgres, PgArguments> {
        query
            .bind(self.ids)
            .bind(self.fences)
            .bind(self.claims)
            .bind(self.states)
            .bind(self.causes)
            .bind(self.reasons)
            .bind(self.next_at)
            .bind(self.answered)
            .bind(self.budgets)
            .bind(self.next_epoch)
            .bind(self.not_sent)
            .bind(self.references)
            .bind(self.request_hashes)
            .bind(self.details)
            .bind(self.verdicts)
            .bind(self.how)
            .bind(self.codes)
            .bind(self.http_status)
            .bind(self.took_ms)
            .bind(self.notes)
            .bind(self.shards)
            .bind(self.declined)
            .bind(self.taken_minor)
            .bind(self.taken_currency)
    }
}

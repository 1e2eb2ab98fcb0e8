//! One immutable row per move, and the chain of hashes that shows any change made to them later.
//!
//! The row is written by the statement that makes the move, and it *is* the event that goes to
//! Kafka. Its hash is computed twice, here and by one immutable SQL function; a test holds them
//! equal, so the text form below is a contract.
//!
//! # The text form
//! Eleven fields in this order, each written as `octet_length(text) || ':' || text` (the length in
//! bytes of UTF-8, decimal), joined by nothing:
//!
//! | # | field | text |
//! |---|---|---|
//! | 1 | payment | lower-case hyphenated UUID |
//! | 2 | seq | decimal, from 1 |
//! | 3 | from | the state's text, or `-` for "did not exist" |
//! | 4 | to | the state's text |
//! | 5 | cause | [`Event::as_str`] |
//! | 6 | by | who did it, as stored |
//! | 7 | fence | decimal |
//! | 8 | attempt | decimal |
//! | 9 | epoch | decimal |
//! | 10 | at | microseconds since 1970-01-01T00:00:00Z, decimal: `(extract(epoch from at) * 1000000)::bigint::text` |
//! | 11 | detail | the JSON text exactly as stored, so the column is `text` (or the text is taken from `jsonb` and kept) |
//!
//! `hash = sha256(prev || convert_to(form, 'UTF8'))`, where `prev` is the 32 bytes of the previous
//! row's hash and 32 zero bytes for the first row. The lengths make the form unambiguous: no field
//! can grow into its neighbour.

use super::ids::{Epoch, Fence, PaymentId};
use super::state::{Cause, IllegalMove, Status, advance};
use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};

/// `prev` of a payment's first row.
pub const FIRST_PREV: [u8; 32] = [0; 32];

/// What a history row tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// A move of the table [`super::state::MOVES`].
    Moved(Cause),
    /// A late answer was kept off the status by the fence (rule R2); from = to.
    Fenced,
    /// The client wished to cancel while the outcome was unknown; from = to.
    CancelWished,
    /// A remark of an operator or of reconciliation; from = to.
    Noted,
}

impl Event {
    /// The text stored as `cause`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Moved(cause) => cause.as_str(),
            Self::Fenced => "fenced",
            Self::CancelWished => "cancel_wished",
            Self::Noted => "noted",
        }
    }

    /// Reads the stored text; `None` for anything else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let others = [Self::Fenced, Self::CancelWished, Self::Noted];
        others.into_iter().chain(Cause::ALL.into_iter().map(Self::Moved)).find(|event| event.as_str() == text)
    }
}

/// One row of `payment_history` without its own hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRow {
    /// Whose.
    pub payment: PaymentId,
    /// From 1, without gaps.
    pub seq: i32,
    /// The state left; `None` is "did not exist".
    pub from: Option<Status>,
    /// The state entered; equal to `from` unless it is a move.
    pub to: Status,
    /// What happened.
    pub event: Event,
    /// The actor, worker, keeper or operator.
    pub by: String,
    /// The payment's fence after the event.
    pub fence: Fence,
    /// Claims made so far, after the event.
    pub attempt: i32,
    /// The gateway key's epoch after the event.
    pub epoch: Epoch,
    /// By the database clock; microseconds.
    pub at: DateTime<Utc>,
    /// A JSON object as text; no secrets, no payee.
    pub detail: String,
}

impl HistoryRow {
    /// The text form of the module's table.
    #[must_use]
    pub fn form(&self) -> String {
        let fields = [
            self.payment.to_string(),
            self.seq.to_string(),
            self.from.map_or("-", Status::as_str).to_owned(),
            self.to.as_str().to_owned(),
            self.event.as_str().to_owned(),
            self.by.clone(),
            self.fence.0.to_string(),
            self.attempt.to_string(),
            self.epoch.0.to_string(),
            self.at.timestamp_micros().to_string(),
            self.detail.clone(),
        ];
        fields.iter().map(|field| format!("{}:{field}", field.len())).collect()
    }

    /// sha256(prev ‖ form).
    #[must_use]
    pub fn hash(&self, prev: &[u8; 32]) -> [u8; 32] {
        Sha256::new().chain_update(prev).chain_update(self.form()).finalize().into()
    }
}

/// What is wrong with a payment's history (invariants H1, H2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BrokenChain {
    /// A row is missing, doubled or out of order.
    #[error("history has seq {found} where {expected} belongs")]
    Gap {
        /// The number that belongs here.
        expected: i32,
        /// The number found.
        found: i32,
    },
    /// The row leaves another state than the one before it entered.
    #[error("history row {seq} does not start where row {seq} - 1 ended")]
    Torn {
        /// The row's number.
        seq: i32,
    },
    /// A row that is no move changes the state.
    #[error("history row {seq} is no move and changes the state")]
    Smuggled {
        /// The row's number.
        seq: i32,
    },
    /// The move is not in the table.
    #[error("history row {seq}: {illegal}")]
    Illegal {
        /// The row's number.
        seq: i32,
        /// Which.
        illegal: IllegalMove,
    },
    /// The stored hash is not the computed one: this row or one before it was changed.
    #[error("history row {seq} does not verify")]
    Changed {
        /// The row's number.
        seq: i32,
    },
    /// A row of another payment.
    #[error("history row {seq} belongs to another payment")]
    Foreign {
        /// The row's number.
        seq: i32,
    },
}

/// Verifies a payment's whole history, oldest first, each row with its stored hash; answers the
/// last hash ([`FIRST_PREV`] for none), to be compared with `payments.history_hash`: only that
/// comparison shows a chain that was cut at its end.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify<'a>(
    rows: impl IntoIterator<Item = (&'a HistoryRow, [u8; 32])>,
) -> Result<[u8; 32], BrokenChain> {
    let mut prev = FIRST_PREV;
    let mut before: Option<&HistoryRow> = None;
    for (row, stored) in rows {
        let seq = row.seq;
        let expected = before.map_or(1, |b| b.seq.saturating_add(1));
        if seq != expected {
            return Err(BrokenChain::Gap { expected, found: seq });
        }
        if before.is_some_and(|b| b.payment != row.payment) {
            return Err(BrokenChain::Foreign { seq });
        }
        if row.from != before.map(|b| b.to) {
            return Err(BrokenChain::Torn { seq });
        }
        match row.event {
            Event::Moved(cause) => {
                advance(row.from, cause, row.to).map_err(|illegal| BrokenChain::Illegal { seq, illegal })?;
            }
            Event::Fenced | Event::CancelWished | Event::Noted => {
                if row.from != Some(row.to) {
                    return Err(BrokenChain::Smuggled { seq });
                }
            }
        }
        prev = row.hash(&prev);
        if prev != stored {
            return Err(BrokenChain::Changed { seq });
        }
        before = Some(row);
    }
    Ok(prev)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    fn row(seq: i32, from: Option<Status>, event: Event, to: Status) -> HistoryRow {
        let at = DateTime::from_timestamp_micros(1_795_960_020_123_456).expect("in range");
        HistoryRow {
            payment: "01a2283e-8820-8aaa-9bbb-0123456789ab".parse().expect("a version 8 id"),
            seq,
            from,
            to,
            event,
            by: "worker-1/7 ü".into(),
            fence: Fence(3),
            attempt: 2,
            epoch: Epoch(1),
            at: at + TimeDelta::seconds(i64::from(seq - 1)),
            detail: r#"{"reason":"declined_soft"}"#.into(),
        }
    }

    fn story() -> Vec<HistoryRow> {
        use Status::{Completed, Pending, Processing, Unknown};
        vec![
            row(1, None, Event::Moved(Cause::Created), Pending),
            row(2, Some(Pending), Event::Moved(Cause::Claimed), Processing),
            row(3, Some(Processing), Event::Moved(Cause::LeaseExpired), Unknown),
            row(4, Some(Unknown), Event::Fenced, Unknown),
            row(5, Some(Unknown), Event::Moved(Cause::Claimed), Processing),
            row(6, Some(Processing), Event::Moved(Cause::Settled), Completed),
        ]
    }

    fn sealed(rows: &[HistoryRow]) -> Vec<(&HistoryRow, [u8; 32])> {
        let mut prev = FIRST_PREV;
        rows.iter()
            .map(|row| {
                prev = row.hash(&prev);
                (row, prev)
            })
            .collect()
    }

    /// The vector that the SQL function is held against.
    #[test]
    fn the_text_form_and_the_hash_are_exactly_these() {
        let first = row(1, None, Event::Moved(Cause::Created), Status::Pending);
        assert_eq!(
            first.form(),
            "36:01a2283e-8820-8aaa-9bbb-0123456789ab1:11:-7:PENDING7:created13:worker-1/7 ü1:31:21:1\
             16:179596002012345626:{\"reason\":\"declined_soft\"}"
        );
        let hash = first.hash(&FIRST_PREV);
        let second = row(2, Some(Status::Pending), Event::Moved(Cause::Claimed), Status::Processing);
        assert_eq!(hex::encode(hash), VECTOR_1);
        assert_eq!(hex::encode(second.hash(&hash)), VECTOR_2);
    }
    const VECTOR_1: &str = "203fb08662d8719ce30c217e29f5603a224b39e1ea20eb5353ddca2c991ba5fc";
    const VECTOR_2: &str = "48464b5f6fe1075ae120e348bb065d562f87322143adaaa7d42f29cbd880bb4d";

    #[test]
    fn a_whole_story_verifies_and_answers_its_last_hash() {
        let rows = story();
        let sealed = sealed(&rows);
        assert_eq!(verify(sealed.clone()), Ok(sealed[5].1));
        assert_eq!(verify([]), Ok(FIRST_PREV));
    }

    #[test]
    fn any_changed_field_of_any_row_breaks_the_chain_at_that_row() {
        for n in 0..6 {
            for change in 0..8 {
                let rows = story();
                let hashes: Vec<_> = sealed(&rows).into_iter().map(|(_, hash)| hash).collect();
                let mut rows = rows;
                let row = &mut rows[n];
                match change {
                    0 => row.by.push('x'),
                    1 => row.fence.0 += 1,
                    2 => row.attempt += 1,
                    3 => row.epoch.0 += 1,
                    4 => row.at += TimeDelta::microseconds(1),
                    5 => row.detail.push(' '),
                    6 => row.detail = row.detail.replace("soft", "hard"),
                    _ => row.by.clear(),
                }
                let seq = row.seq;
                assert_eq!(verify(rows.iter().zip(hashes)), Err(BrokenChain::Changed { seq }));
            }
        }
    }

    #[test]
    fn removed_swapped_and_smuggled_rows_are_named() {
        let rows = story();
        let mut gone = sealed(&rows);
        gone.remove(2);
        assert_eq!(verify(gone), Err(BrokenChain::Gap { expected: 3, found: 4 }));

        let mut smuggled = story();
        smuggled[3].to = Status::Pending;
        assert_eq!(verify(sealed(&smuggled)), Err(BrokenChain::Smuggled { seq: 4 }));

        let mut illegal = story();
        illegal[2].to = Status::Pending;
        assert!(matches!(verify(sealed(&illegal)), Err(BrokenChain::Illegal { seq: 3, .. })));

        let mut torn = story();
        torn[4].from = Some(Status::Pending);
        assert_eq!(verify(sealed(&torn)), Err(BrokenChain::Torn { seq: 5 }));

        let mut foreign = story();
        foreign[1].payment = "01a2283e-8820-8aaa-9bbb-0123456789ac".parse().expect("a version 8 id");
        assert_eq!(verify(sealed(&foreign)), Err(BrokenChain::Foreign { seq: 2 }));
    }

    #[test]
    fn no_field_can_grow_into_its_neighbour() {
        let mut one = row(1, None, Event::Noted, Status::Pending);
        let mut two = one.clone();
        one.by = "a1:3".into();
        two.by = "a".into();
        assert_ne!(one.form(), two.form());
    }

    #[test]
    fn event_texts_are_distinct_and_read_back() {
        let all = Cause::ALL.into_iter().map(Event::Moved).chain([
            Event::Fenced,
            Event::CancelWished,
            Event::Noted,
        ]);
        let mut seen = std::collections::BTreeSet::new();
        for event in all {
            assert!(seen.insert(event.as_str()));
            assert_eq!(Event::from_text(event.as_str()), Some(event));
        }
        assert_eq!(Event::from_text("refund"), None);
    }
}

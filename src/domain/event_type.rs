//! What a history row is called outside: the `type` of its event.
//!
//! The name tells a reader what the payment did, not which of our parts did it: a lease that ran out
//! and a reset connection are both `payment.outcome_unknown`; who and why stand in the event's data.
//! Total over everything that a history row can say, so a new cause or state does not compile until it
//! has a name here. Names, once published, never change their meaning.

use super::history::Event;
use super::state::{Cause, Status};

macro_rules! event_types {
    ($( $variant:ident = $text:literal : $doc:literal ),* $(,)?) => {
        /// The type of an event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventType { $( #[doc = $doc] $variant, )* }
        impl EventType {
            /// Every type, in the order of the table.
            pub const ALL: &[Self] = &[ $( Self::$variant, )* ];
            /// The published text.
            #[must_use]
            pub fn as_str(self) -> &'static str { match self { $( Self::$variant => $text, )* } }
            /// One sentence for people.
            #[must_use]
            pub fn explanation(self) -> &'static str { match self { $( Self::$variant => $doc, )* } }
        }
    };
}

event_types! {
    Scheduled = "payment.scheduled": "It was created and will be executed at its due time.",
    Claimed = "payment.claimed": "A worker claimed it; submission to the gateway has started.",
    RetryScheduled = "payment.retry_scheduled": "Proven: nothing was charged; it is tried again later.",
    OutcomeUnknown = "payment.outcome_unknown": "A request may have reached the gateway without a trustworthy answer; we ask.",
    Completed = "payment.completed": "Exactly one charge exists.",
    Failed = "payment.failed": "Proven: no money moved, and none of our requests can still move any.",
    Cancelled = "payment.cancelled": "Never charged, never will be.",
    Parked = "payment.parked": "It waits for a human.",
    Redriven = "payment.redriven": "An operator released it from parking.",
    Refunded = "payment.refunded": "It was refunded in full.",
    Repaired = "payment.repaired": "The gateway's own record proved a charge on a payment that was final without one.",
    Fenced = "payment.fenced": "A late answer was kept as evidence and changed nothing.",
    CancelWished = "payment.cancel_wished": "The client wished to cancel while the outcome was unknown; nothing is charged from the next claim on.",
    Noted = "payment.noted": "A remark was added; nothing changed.",
}

/// The type of the history row that tells `event` and leaves the payment in `to`.
#[must_use]
pub fn event_type(event: Event, to: Status) -> EventType {
    match event {
        Event::Fenced => EventType::Fenced,
        Event::CancelWished => EventType::CancelWished,
        Event::Noted => EventType::Noted,
        Event::Moved(cause) => match cause {
            Cause::Created => EventType::Scheduled,
            Cause::Redriven => EventType::Redriven,
            Cause::Repaired => EventType::Repaired,
            Cause::Claimed
            | Cause::Cancelled
            | Cause::DeadlinePassed
            | Cause::Settled
            | Cause::LeaseExpired
            | Cause::Reconciled
            | Cause::Resolved
            | Cause::Refunded
            | Cause::Poisoned => entered(to),
        },
    }
}

fn entered(to: Status) -> EventType {
    match to {
        Status::Pending => EventType::RetryScheduled,
        Status::Processing => EventType::Claimed,
        Status::Unknown => EventType::OutcomeUnknown,
        Status::Completed => EventType::Completed,
        Status::Failed => EventType::Failed,
        Status::Cancelled => EventType::Cancelled,
        Status::Parked => EventType::Parked,
        Status::Refunded => EventType::Refunded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::state::MOVES;
    use std::collections::BTreeSet;

    #[test]
    fn every_legal_move_has_exactly_this_type() {
        use Cause as C;
        use Status as S;
        for (from, cause, to) in MOVES {
            let wanted = match (from, cause, to) {
                (None, C::Created, S::Pending) => "scheduled",
                (Some(S::Pending | S::Unknown), C::Claimed, S::Processing) => "claimed",
                (Some(S::Processing), C::Settled, S::Pending) => "retry_scheduled",
                (Some(S::Processing), C::Settled | C::LeaseExpired, S::Unknown) => "outcome_unknown",
                (Some(S::Processing), C::Settled, S::Completed)
                | (Some(S::Unknown | S::Parked), C::Reconciled, S::Completed)
                | (Some(S::Parked), C::Resolved, S::Completed) => "completed",
                (Some(S::Processing), C::Settled, S::Failed)
                | (Some(S::Pending), C::DeadlinePassed, S::Failed)
                | (Some(S::Parked), C::Resolved, S::Failed) => "failed",
                (Some(S::Processing), C::Settled, S::Cancelled)
                | (Some(S::Pending), C::Cancelled, S::Cancelled)
                | (Some(S::Parked), C::Resolved, S::Cancelled) => "cancelled",
                (Some(_), C::Settled | C::Reconciled | C::Poisoned, S::Parked) => "parked",
                (Some(S::Parked), C::Redriven, S::Pending | S::Unknown) => "redriven",
                (Some(S::Completed | S::Parked), C::Refunded, S::Refunded) => "refunded",
                (Some(S::Failed | S::Cancelled), C::Repaired, S::Completed) => "repaired",
                other => panic!("{other:?} has no type in this test"),
            };
            let found = event_type(Event::Moved(*cause), *to);
            assert_eq!(found.as_str(), format!("payment.{wanted}"), "{from:?} {cause:?} {to:?}");
        }
    }

    #[test]
    fn what_is_no_move_has_a_type_of_its_own_in_every_state() {
        for to in Status::ALL {
            assert_eq!(event_type(Event::Fenced, to).as_str(), "payment.fenced");
            assert_eq!(event_type(Event::CancelWished, to).as_str(), "payment.cancel_wished");
            assert_eq!(event_type(Event::Noted, to).as_str(), "payment.noted");
        }
    }

    #[test]
    fn every_type_is_reached_and_their_texts_are_distinct() {
        let others = [Event::Fenced, Event::CancelWished, Event::Noted].map(|event| (event, Status::Unknown));
        let moved = MOVES.iter().map(|(_, cause, to)| (Event::Moved(*cause), *to));
        let reached: BTreeSet<_> = moved.chain(others).map(|(event, to)| event_type(event, to)).collect();
        assert_eq!(reached, EventType::ALL.iter().copied().collect());
        let texts: BTreeSet<_> = EventType::ALL.iter().map(|it| it.as_str()).collect();
        assert_eq!(texts.len(), EventType::ALL.len());
        assert!(EventType::ALL.iter().all(|it| it.explanation().ends_with('.')));
    }
}

//! The life of one refund, every way that it can go: workers that die, answers that are lost, requests that arrive
//! late, at gateways that forget what they declined or replay it, that show declines or do not.
//!
//! The rule under test is the product's own `domain::refund::decide`; around it is the least that can be true of the
//! database (claims, open sends) and of a gateway (one key gives back once). **What must hold**: called declined or
//! never sent, nothing was given back and nothing on its way can be; called refunded, it was.

use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::money::{Currency, Minor, Money};
use punctual::domain::refund::{LearnedBy, RefundSends, RefundStatus, RefundVerdict, RefundView, decide};
use punctual::domain::retry::{Ladders, PerMille};
use punctual::domain::verdict::{Doubt, NotSent};
use std::collections::BTreeSet;

/// Claims of one refund that are tried.
const CLAIMS: i32 = 5;

/// Falsifies what the rule is told.
type Lie = fn(&mut RefundView);

/// What a gateway does.
#[derive(Debug, Clone, Copy)]
struct Manners {
    /// Declines again what it declined under this key.
    replays: bool,
    /// Answers questions.
    lookup: bool,
    /// A question shows declines too.
    shows_declines: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    status: RefundStatus,
    open: i32,
    attempt: i32,
    asks: i16,
    waits_for_people: bool,
    /// Requests that have not arrived yet.
    flying: u8,
    given: bool,
    declined: bool,
}

const ALLOWED: State = State {
    status: RefundStatus::Approved,
    open: 0,
    attempt: 0,
    asks: 0,
    waits_for_people: false,
    flying: 0,
    given: false,
    declined: false,
};

fn amount() -> Money {
    Money { minor: Minor::new(100).expect("positive"), currency: Currency::from_code("EUR").expect("known") }
}

fn refunded() -> RefundVerdict {
    RefundVerdict::Refunded { reference: "re_1".into(), amount: amount() }
}

fn declined() -> RefundVerdict {
    RefundVerdict::Declined { code: "no".into() }
}

fn not_sent(why: NotSent) -> RefundVerdict {
    RefundVerdict::NotSent { why, retry_after: None }
}

/// What a request that arrives can come to.
fn arrives(state: State, manners: Manners) -> Vec<(State, RefundVerdict)> {
    if state.given {
        vec![(state, refunded())]
    } else if state.declined && manners.replays {
        vec![(state, declined())]
    } else {
        vec![(State { given: true, ..state }, refunded()), (State { declined: true, ..state }, declined())]
    }
}

/// What a claim's request can come to, and what its worker hears.
fn sent(state: State, manners: Manners) -> Vec<(State, RefundVerdict)> {
    let flies = State { flying: state.flying + 1, ..state };
    let lost = RefundVerdict::Unknown(Doubt::TimedOut);
    let mut all = vec![
        (state, not_sent(NotSent::Refused)),
        (state, not_sent(NotSent::Killed)),
        (flies, lost.clone()),
        (flies, RefundVerdict::Underway { retry_after: None }),
    ];
    for (arrived, answer) in arrives(state, manners) {
        all.push((arrived, lost.clone()));
        all.push((arrived, answer));
    }
    all
}

/// Everything that can happen next.
fn next(state: State, manners: Manners, lie: Lie) -> Vec<State> {
    let mut all = Vec::new();
    if state.flying > 0 {
        let landed = State { flying: state.flying - 1, ..state };
        all.extend(arrives(landed, manners).into_iter().map(|(state, _)| state));
    }
    let is_due =
        matches!(state.status, RefundStatus::Approved | RefundStatus::Unknown) && !state.waits_for_people;
    if !is_due || state.attempt == CLAIMS {
        return all;
    }
    let claimed = State { open: state.open + 1, attempt: state.attempt + 1, ..state };
    // Its worker dies before its request, or after it, and whatever the gateway answers changes nothing (R2).
    let dead = State { status: RefundStatus::Unknown, asks: state.asks + 1, ..claimed };
    all.extend([dead, State { flying: dead.flying + 1, ..dead }]);
    all.extend(arrives(dead, manners).into_iter().map(|(state, _)| state));
    let mut heard = Vec::new();
    let asks_first = state.open > 0 && manners.lookup;
    if asks_first {
        heard.push((LearnedBy::Request, claimed, not_sent(NotSent::OnlyAsked)));
    }
    match (asks_first, state.given, state.declined && manners.shows_declines) {
        (true, true, _) => heard.push((LearnedBy::LookUp, claimed, refunded())),
        (true, false, true) => heard.push((LearnedBy::LookUp, claimed, declined())),
        _ => heard.extend(sent(claimed, manners).into_iter().map(|(at, it)| (LearnedBy::Request, at, it))),
    }
    all.extend(heard.into_iter().map(|(by, at, verdict)| settled(at, state, by, &verdict, manners, lie)));
    all
}

/// As `settle_refund.sql` writes it.
fn settled(
    at: State,
    before: State,
    by: LearnedBy,
    verdict: &RefundVerdict,
    manners: Manners,
    lie: Lie,
) -> State {
    let now = DateTime::<Utc>::UNIX_EPOCH;
    let mut view = RefundView {
        amount: amount(),
        others_open: before.open,
        by,
        asks: before.asks,
        attempt: at.attempt,
        key_ends_at: (before.open > 0).then_some(now + TimeDelta::days(1)),
    };
    lie(&mut view);
    let decision = decide(&view, verdict, manners.replays, &Ladders::default(), now, PerMille(0));
    State {
        status: decision.to,
        open: match decision.answered {
            RefundSends::None => at.open,
            RefundSends::Own => at.open - 1,
            RefundSends::All => 0,
        },
        asks: if decision.to == RefundStatus::Unknown { at.asks + 1 } else { 0 },
        waits_for_people: decision.to == RefundStatus::Unknown && decision.next_at.is_none(),
        ..at
    }
}

fn holds(state: State, manners: Manners) -> bool {
    let may_still_give = state.flying > 0 && !(state.declined && manners.replays);
    match state.status {
        RefundStatus::Approved | RefundStatus::Declined => !state.given && !may_still_give,
        RefundStatus::Refunded => state.given,
        RefundStatus::Asked | RefundStatus::Sending | RefundStatus::Unknown | RefundStatus::Rejected => true,
    }
}

/// Every state that can be reached, and the first that must not be.
fn explored(manners: Manners, lie: Lie) -> (BTreeSet<State>, Option<State>) {
    let mut seen = BTreeSet::from([ALLOWED]);
    let mut open = vec![ALLOWED];
    while let Some(state) = open.pop() {
        if !holds(state, manners) {
            return (seen, Some(state));
        }
        open.extend(next(state, manners, lie).into_iter().filter(|state| seen.insert(*state)));
    }
    (seen, None)
}

fn every_gateway() -> impl Iterator<Item = Manners> {
    (0..8).map(|bits| Manners { replays: bits & 1 > 0, lookup: bits & 2 > 0, shows_declines: bits & 4 > 0 })
}

#[test]
fn no_refund_is_called_undone_that_was_done_or_may_still_be() {
    for manners in every_gateway() {
        let (seen, broken) = explored(manners, |_| {});
        assert_eq!(broken, None, "{manners:?}");
        for end in [RefundStatus::Refunded, RefundStatus::Declined, RefundStatus::Unknown] {
            assert!(seen.iter().any(|state| state.status == end), "{manners:?} never reaches {end:?}");
        }
        assert!(seen.len() > 200, "{manners:?}: {} states", seen.len());
    }
}

#[test]
fn each_thing_that_the_rule_is_told_matters() {
    let forgets = Manners { replays: false, lookup: true, shows_declines: true };
    let lies: [(&str, Lie); 3] = [
        ("as if it were the first question", |view| view.asks = 1),
        ("as if nothing were open", |view| view.others_open = 0),
        ("as if it had only been asked", |view| view.by = LearnedBy::LookUp),
    ];
    for (what, lie) in lies {
        assert!(explored(forgets, lie).1.is_some(), "{what}");
    }
}

//! What clients were told, against what is so: L2, L3, M7 and A1 to A3. Unknown is an answer: what was not
//! answered may have happened or not, and binds nobody.

use super::checked::Checked;
use super::index::Index;
use super::records::{LedgerLine, Op, Operation, Records};
use crate::domain::ids::PaymentId;
use crate::domain::invariants::Invariant as Is;
use crate::domain::state::Status;
use std::collections::{BTreeMap, BTreeSet};

fn granted(records: &Records, op: Op) -> impl Iterator<Item = &Operation> {
    records.operations.iter().filter(move |operation| operation.op == op && operation.granted())
}

/// 200 means that it never was and never is charged.
pub(super) fn granted_cancels_are_never_charged(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::M7);
    // 202 recorded a wish and promised no outcome.
    for cancel in granted(records, Op::Cancel).filter(|cancel| cancel.status != Some(202)) {
        let Some(id) = cancel.payment_id else {
            checked.look(false, || format!("granted for no payment: {}", cancel.told()));
            continue;
        };
        let charged = index.charged.contains(&id);
        let answered = cancel.answered_at;
        let is_later = |line: &&&LedgerLine| line.could_charge() && answered.is_some_and(|at| line.at > at);
        let later = index.lines_of(id).iter().find(is_later);
        checked.look(!charged && later.is_none(), || {
            let later = later.map(|line| line.told());
            format!("{}: charged {charged}, later {later:?}", cancel.told())
        });
    }
    checked
}

pub(super) fn acknowledged_creates_exist(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::L2);
    for create in granted(records, Op::Create) {
        let row = create.payment_id.and_then(|id| index.payments.get(&id));
        let same = row.is_some_and(|row| {
            create.asked.as_ref().is_none_or(|asked| {
                row.amount == asked.amount
                    && row.currency == asked.currency
                    && row.payee == asked.payee
                    && row.due_at == asked.due_at
            })
        });
        checked.look(same, || {
            let stored = row.map(|row| (row.id, row.amount, &row.currency, row.due_at));
            format!("acknowledged {}, stored {stored:?}", create.told())
        });
    }
    checked
}

/// In all answers, and in the database's own list of keys.
pub(super) fn one_key_names_one_payment(records: &Records) -> Checked {
    let mut checked = Checked::new(Is::L3);
    let mut named: BTreeMap<(Option<&str>, &str), BTreeSet<PaymentId>> = BTreeMap::new();
    for create in granted(records, Op::Create) {
        if let (Some(key), Some(payment)) = (&create.key, create.payment_id) {
            named.entry((create.actor.as_deref(), key)).or_default().insert(payment);
        }
    }
    let mut stored: BTreeMap<&str, Vec<(&str, PaymentId)>> = BTreeMap::new();
    for row in &records.keys {
        stored.entry(&row.key).or_default().push((&row.actor, row.payment));
    }
    for ((actor, key), payments) in named {
        let rows = stored.get(key).map_or(&[][..], Vec::as_slice);
        let of_actor = rows.iter().filter(|(owner, _)| actor.is_none_or(|actor| *owner == actor));
        let kept: BTreeSet<PaymentId> = of_actor.map(|(_, payment)| *payment).collect();
        let holds = payments.len() == 1 && payments.is_subset(&kept);
        checked.look(holds, || format!("key {key:?} of {actor:?}: answered {payments:?}, kept {kept:?}"));
    }
    checked
}

/// Per payment: a granted cancel and a later claim exclude each other; so do a recorded wish and a charge sent
/// under a later claim; a payment that was only ever refused its cancel is not CANCELLED by it; what was
/// acknowledged is found.
pub(super) fn answers_and_rows_agree(index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::A1);
    for (id, operations) in &index.operations {
        let status = index.payments.get(id).map(|payment| payment.status);
        let cancels = || operations.iter().filter(|it| it.op == Op::Cancel);
        let create = operations.iter().filter(|it| it.op == Op::Create && it.granted());
        let create = create.min_by_key(|it| it.answered_at);
        let may_have_cancelled = cancels().any(|it| it.granted() || it.is_unknown());
        for operation in operations {
            let claim = index
                .attempts_of(*id)
                .iter()
                .find(|claim| operation.answered_at.is_some_and(|at| claim.claimed_at > at));
            let sent = index.attempts_of(*id).iter().find(|claim| {
                let is_later = operation.answered_at.is_some_and(|at| claim.claimed_at > at);
                is_later && claim.how.as_deref() == Some("sent")
            });
            let holds = match (operation.op, operation.status) {
                (Op::Cancel, Some(202)) => sent.is_none(),
                (Op::Cancel, Some(200..=299)) => status == Some(Status::Cancelled) && claim.is_none(),
                (Op::Cancel, Some(409)) => status != Some(Status::Cancelled) || may_have_cancelled,
                // It was there before its owner asked.
                (Op::Cancel | Op::Read, Some(404)) => create.is_none_or(|create| {
                    create.actor != operation.actor || create.answered_at.is_none_or(|at| operation.at < at)
                }),
                (Op::Read, Some(200..=299)) => status.is_some(),
                (Op::Create, Some(200..=299)) => status.is_some(),
                (Op::Create | Op::Cancel | Op::Read, _) => continue,
            };
            checked.look(holds, || {
                let claimed_at = claim.map(|claim| claim.claimed_at);
                format!("{}; the row is {status:?}, claimed later {claimed_at:?}", operation.told())
            });
        }
    }
    checked
}

/// Each read shows a state of the payment's history that is not older than what any read which was
/// answered before it began had shown.
pub(super) fn reads_never_go_back(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::A2);
    if granted(records, Op::Read).next().is_none() {
        return Checked::unknown(Is::A2, "the log has no answered reads");
    }
    for (id, operations) in &index.operations {
        let mut reads: Vec<&&Operation> =
            operations.iter().filter(|it| it.op == Op::Read && it.granted() && it.state.is_some()).collect();
        reads.sort_by_key(|read| read.at);
        let rows = index.history_of(*id);
        let mut shown = Vec::with_capacity(reads.len());
        for read in reads {
            let ended =
                |(before, _): &&(&Operation, usize)| before.answered_at.is_some_and(|at| at <= read.at);
            let least = shown.iter().filter(ended).map(|(_, place)| *place).max().unwrap_or(0);
            let place = (least..rows.len()).find(|place| Some(rows[*place].row.to) == read.state);
            checked.look(place.is_some(), || format!("{}: older than what was shown before", read.told()));
            shown.push((*read, place.unwrap_or(least)));
        }
    }
    checked
}

/// The actor of a payment is the one whose create was acknowledged; nobody else is ever shown it, not
/// even by a refusal that names its state. Who is turned away before that is shown nothing.
pub(super) fn nobody_sees_another_s(records: &Records) -> Checked {
    let mut owners: BTreeMap<PaymentId, &str> = BTreeMap::new();
    for create in granted(records, Op::Create) {
        if let (Some(payment), Some(actor)) = (create.payment_id, &create.actor) {
            owners.insert(payment, actor);
        }
    }
    let actors: BTreeSet<&str> = records.operations.iter().filter_map(|it| it.actor.as_deref()).collect();
    if actors.len() < 2 {
        return Checked::unknown(Is::A3, "the log does not name two actors");
    }
    let mut checked = Checked::new(Is::A3);
    for operation in records.operations.iter().filter(|it| it.op != Op::Create) {
        let owner = operation.payment_id.and_then(|id| owners.get(&id));
        if let (Some(owner), Some(actor)) = (owner, &operation.actor)
            && actor != owner
        {
            let told = || format!("{}; its owner is {owner}", operation.told());
            checked.look(!matches!(operation.status, Some(200..=399 | 409)), told);
        }
    }
    checked
}

#[cfg(test)]
mod tests {
    use super::super::checked::Valid;
    use super::*;
    use chrono::DateTime;

    fn operation(op: Op, actor: &str, status: Option<u16>) -> Operation {
        let at = DateTime::UNIX_EPOCH;
        let payment_id = Some(PaymentId::new(at, [1; 10]).expect("in range"));
        let (actor, key, asked, state) = (Some(actor.to_owned()), None, None, None);
        Operation { op, actor, key, at, answered_at: Some(at), status, payment_id, asked, state }
    }

    #[test]
    fn who_is_turned_away_at_the_door_is_shown_nothing_and_who_hears_of_a_state_is() {
        for (status, valid) in [
            (Some(401), Valid::True),
            (Some(403), Valid::True),
            (Some(404), Valid::True),
            (Some(503), Valid::True),
            (None, Valid::True),
            (Some(200), Valid::False),
            (Some(304), Valid::False),
            (Some(409), Valid::False),
        ] {
            let create = operation(Op::Create, "shop", Some(201));
            let operations = vec![create, operation(Op::Read, "stranger", status)];
            let checked = nobody_sees_another_s(&Records { operations, ..Records::default() });
            assert_eq!(checked.valid(), valid, "{status:?}");
        }
    }
}

//! The promises about Kafka: K1 to K4. The topics were read before the database, so what they hold must
//! be in it; and what the publisher's cursor had passed before they were read must be in them.

use super::checked::Checked;
use super::index::Index;
use super::records::Records;
use crate::bucket::dump::{DumpedNotice, Place};
use crate::domain::invariants::Invariant as Is;
use crate::domain::state::Status;
use std::collections::{BTreeMap, BTreeSet};

/// A record below the committed offset was claimed, refused for good, or left to the late scan (rule R11);
/// one that cannot be read was kept.
pub(super) fn committed_records_have_evidence(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::K1);
    for notice in records.topics.notices.iter().filter(|notice| notice.is_complete) {
        let holds = is_kept(records, &notice.place) || has_evidence(records, index, notice);
        checked.look(holds, || format!("{notice:?}: its payment is as the notice found it"));
    }
    for place in records.topics.unreadable.iter().filter(|(_, is_complete)| *is_complete) {
        checked.look(is_kept(records, &place.0), || format!("{:?}: not readable and not kept", place.0));
    }
    checked
}

fn is_kept(records: &Records, place: &Place) -> bool {
    records.kept.contains(place)
}

fn has_evidence(records: &Records, index: &Index<'_>, notice: &DumpedNotice) -> bool {
    let Some(payment) = index.payments.get(&notice.payment) else { return false };
    match payment.status {
        Status::Pending | Status::Unknown => {
            payment.attempt > notice.attempt || payment.next_attempt_at <= records.taken_at
        }
        Status::Processing
        | Status::Completed
        | Status::Failed
        | Status::Cancelled
        | Status::Parked
        | Status::Refunded => payment.attempt >= notice.attempt,
    }
}

pub(super) fn partitions_are_stable(records: &Records) -> Checked {
    let mut checked = Checked::new(Is::K2);
    let mut partitions: BTreeMap<_, BTreeSet<i32>> = BTreeMap::new();
    for notice in &records.topics.notices {
        partitions.entry((notice.payment, "notices")).or_default().insert(notice.place.partition);
    }
    for event in &records.topics.events {
        partitions.entry((event.payment, "events")).or_default().insert(event.partition);
    }
    for ((payment, what), partitions) in partitions {
        checked.look(partitions.len() == 1, || format!("{payment}: {what} in partitions {partitions:?}"));
    }
    checked
}

pub(super) fn every_record_is_known(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::K3);
    let foreign = |notice: &&DumpedNotice| !is_kept(records, &notice.place);
    for notice in records.topics.notices.iter().filter(foreign) {
        checked.look(index.payments.contains_key(&notice.payment), || format!("{notice:?}"));
    }
    for event in &records.topics.events {
        checked.look(index.payments.contains_key(&event.payment), || format!("{event:?}"));
    }
    checked
}

/// What a consumer sees of one payment: 1, 2, 3, … to its last published row, once repetitions are left
/// out, and nothing that is no row. Only payments that the topic has known from their first event.
pub(super) fn events_tell_everything(records: &Records, index: &Index<'_>) -> Checked {
    if !records.is_published {
        return Checked::unknown(Is::K4, "no publisher has published");
    }
    let mut checked = Checked::new(Is::K4);
    let mut seen: BTreeMap<_, (Vec<i64>, BTreeSet<i64>)> = BTreeMap::new();
    for event in &records.topics.events {
        let (in_order, all) = seen.entry(event.payment).or_default();
        if all.insert(event.sequence) {
            in_order.push(event.sequence);
        }
    }
    let from = records.topics.events_complete_from;
    for payment in &records.payments {
        let rows = index.history_of(payment.id);
        let in_topic = rows.first().is_some_and(|first| from.is_none_or(|from| first.row.at >= from));
        if !in_topic {
            continue;
        }
        let published = rows.iter().filter(|told| told.is_published).count();
        let sequences = seen.get(&payment.id).map_or(&[][..], |(in_order, _)| in_order.as_slice());
        let in_order = sequences.iter().copied().zip(1_i64..).all(|(found, wanted)| found == wanted);
        let whole = sequences.len() >= published && sequences.len() <= rows.len();
        checked.look(in_order && whole, || {
            format!("{}: events {sequences:?}, {} rows, {published} published", payment.id, rows.len())
        });
    }
    checked
}

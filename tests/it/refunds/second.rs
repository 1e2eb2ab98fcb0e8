//! Of two charges of one payment each is given back for itself: neither stands for the other.

use super::reported::{asked_of_two, line, order, shown};
use super::resolving::{asked, claim, contradicts, decide, word};
use super::{CHARGE, Site, alice, bob};
use crate::books::desk::{charge, days_ago, items_of, reconcile};
use chrono::NaiveDate;
use punctual::domain::ids::PaymentId;
use punctual::domain::matching::Class;
use punctual::domain::refund::{RefundRefused, RefundStatus};
use punctual::domain::repair::NotRepaired;
use punctual::domain::settlement::Line;
use punctual::domain::state::Status;
use punctual::schedule::{ApprovalVerdict, CarriedOut, Decided, RefundAsked, RepairAnswer};

/// A payment that only a bank's line completed, and of which the gateway's report has these two charges: the second one
/// is on record as such.
async fn with_a_second_charge(site: &Site, payment: PaymentId, lines: &[Line]) {
    site.world.run("UPDATE payments SET gateway_ref = NULL").await;
    site.world.run("DELETE FROM gateway_refs").await;
    let day = days_ago(&site.world, 0).await;
    let found = reconcile(&site.world, day, lines).await;
    assert_eq!(found.counts.get(&Class::DuplicateCharge), Some(&1), "{found:?}");
    let second = (payment, lines[1].gateway_ref.clone().expect("a name"));
    let refused = RefundAsked::Refused(RefundRefused::ReferenceUnknown);
    assert_eq!(site.ask("too early", &second, None).await, refused, "a second charge is put on record first");
    let mut found = items_of(&site.world, payment).await;
    found.retain(|it| it.what.class == Class::DuplicateCharge);
    let done = site.world.api.repair_item(&order(found[0].number)).await.expect("an answer");
    assert!(matches!(done, RepairAnswer::Done(done) if !done.has_moved), "{done:?}");
}

#[tokio::test]
async fn a_second_charge_that_is_given_back_leaves_the_one_that_only_a_bank_showed() {
    let site = Site::start().await;
    let second = site.completed("k1", "sim_ok").await;
    let first = (second.0, "ch_kept".to_owned());
    let day = days_ago(&site.world, 0).await;
    let lines = [charge(1, first.0, &first.1, day), charge(2, second.0, &second.1, day)];
    with_a_second_charge(&site, second.0, &lines).await;

    let refund = site.allowed("r1", &second, None).await;
    site.turns_until(&refund, RefundStatus::Refunded).await;
    assert_eq!((site.given_back().await, site.sums(&second.1).await), (CHARGE, (CHARGE, CHARGE)));
    assert_eq!(site.world.row(first.0).await.status, Status::Completed, "it is still paid");
    let asked = site.ask("r2", &first, None).await;
    assert!(matches!(&asked, RefundAsked::Asked(it) if it.amount.minor.get() == CHARGE), "{asked:?}");
}

#[tokio::test]
async fn a_second_charge_that_a_report_shows_as_given_back_leaves_the_one_that_only_a_bank_showed() {
    let site = Site::start().await;
    let first = site.completed("k1", "sim_ok").await;
    let second = (first.0, "ch_2".to_owned());
    let day = days_ago(&site.world, 0).await;
    let lines = [charge(1, first.0, &first.1, day), charge(2, second.0, &second.1, day)];
    with_a_second_charge(&site, second.0, &lines).await;

    let refund = site.allowed("r1", &second, None).await;
    let shows =
        [lines[0].clone(), lines[1].clone(), Line { number: 3, ..line(&second, "re_2", Some(&refund), day) }];
    reconcile(&site.world, day, &shows).await;
    let item = shown(&site, &first).await;
    let done = site.world.api.repair_item(&order(item)).await.expect("an answer");
    assert!(matches!(done, RepairAnswer::Done(done) if done.ended_refund && !done.has_moved), "{done:?}");
    assert_eq!(site.world.row(first.0).await.status, Status::Completed, "it is still paid");
    let kept = site.allowed("r2", &first, None).await;
    site.turns_until(&kept, RefundStatus::Refunded).await;
    assert_eq!(site.world.row(first.0).await.status, Status::Refunded);
}

#[tokio::test]
async fn a_second_charge_that_people_call_given_back_leaves_the_one_that_only_a_bank_showed() {
    let site = Site::start().await;
    let second = site.completed("k1", "sim_ok").await;
    let day = days_ago(&site.world, 0).await;
    let lines = [charge(1, second.0, "ch_kept", day), charge(2, second.0, &second.1, day)];
    with_a_second_charge(&site, second.0, &lines).await;
    let refund = site.allowed("r1", &second, None).await;
    contradicts(&site, claim(&site).await).await;
    let waits = asked(&site, &word(refund.id, alice(), Some(("re_9", CHARGE)))).await;
    let done = decide(&site, waits.id, &bob(), ApprovalVerdict::Approve).await;
    let Decided::Approved(_, CarriedOut::RefundClosed(closed)) = done else { panic!("{done:?}") };
    assert!(closed.to == RefundStatus::Refunded && !closed.is_whole, "{closed:?}");
    assert_eq!(site.world.row(second.0).await.status, Status::Completed, "it is still paid");
}

#[tokio::test]
async fn a_second_charge_of_another_amount_can_be_given_back_where_only_a_bank_showed_the_first() {
    let site = Site::start().await;
    let first = site.completed("k1", "sim_ok").await;
    let day = days_ago(&site.world, 0).await;
    let less = Line { gross_minor: 5_000, fee_minor: 0, net_minor: 5_000, ..charge(2, first.0, "ch_2", day) };
    with_a_second_charge(&site, first.0, &[charge(1, first.0, &first.1, day), less]).await;
    let asked = site.ask("r1", &(first.0, "ch_2".into()), None).await;
    assert!(matches!(&asked, RefundAsked::Asked(it) if it.amount.minor.get() == 5_000), "{asked:?}");
}

/// What somebody gave back of this charge in the gateway's dashboard, which repeats the payment's key.
fn dashboard(of: &(PaymentId, String), charge_ref: &str, minor: i64, day: NaiveDate) -> Line {
    let back = line(&(of.0, charge_ref.to_owned()), "re_dashboard", None, day);
    Line { key: Some(of.0.to_string()), number: 9, gross_minor: -minor, net_minor: -minor, ..back }
}

async fn refused(site: &Site, of: &(PaymentId, String)) -> NotRepaired {
    let answer = site.world.api.repair_item(&order(shown(site, of).await)).await.expect("an answer");
    let RepairAnswer::Refused(why) = answer else { panic!("{answer:?}") };
    why
}

/// Two people put the refund on record that the report shows.
async fn put_on_record(site: &Site, of: &(PaymentId, String)) {
    let decided = asked_of_two(site, shown(site, of).await).await;
    let is_done = matches!(&decided, Decided::Approved(_, CarriedOut::Repaired(it)) if it.ended_refund);
    assert!(is_done, "{decided:?}");
}

/// One part that is given back of a charge, and its line.
async fn with_a_part_back(site: &Site, of: &(PaymentId, String), minor: i64) -> Line {
    let refund = site.allowed("r1", of, Some(minor)).await;
    let done = site.turns_until(&refund, RefundStatus::Refunded).await;
    let day = days_ago(&site.world, 0).await;
    let name = done.gateway_ref.clone().expect("a name");
    let line = line(of, &name, Some(&done), day);
    Line { gross_minor: -minor, net_minor: -minor, ..line }
}

#[tokio::test]
async fn what_went_back_of_a_charge_that_is_not_on_record_is_counted_on_no_other_one() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    let part = with_a_part_back(&site, &of, 345).await;
    let day = days_ago(&site.world, 0).await;
    reconcile(&site.world, day, &[part, dashboard(&of, "ch_2", 12_000, day)]).await;
    assert_eq!(refused(&site, &of).await, NotRepaired::ReferenceMissing);
    assert_eq!(site.sums(&of.1).await, (345, 345));

    let second = format!(
        "INSERT INTO gateway_refs (gateway, reference, payment_id) VALUES ('sandbox', 'ch_2', '{}')",
        of.0
    );
    site.world.run(&second).await;
    put_on_record(&site, &of).await;
    assert_eq!((site.sums(&of.1).await, site.sums("ch_2").await), ((345, 345), (12_000, 12_000)));
    assert_eq!(site.world.row(of.0).await.status, Status::Completed);
}

#[tokio::test]
async fn what_went_back_of_another_charge_ends_no_open_refund_of_its_amount() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    let open = site.allowed("r1", &of, Some(5_000)).await;
    let day = days_ago(&site.world, 0).await;
    reconcile(&site.world, day, &[dashboard(&of, "ch_2", 5_000, day)]).await;
    assert_eq!(refused(&site, &of).await, NotRepaired::ReferenceMissing);
    assert_eq!(site.stands(&open).await.status, RefundStatus::Approved);
}

#[tokio::test]
async fn what_went_back_of_a_charge_is_counted_on_it_under_either_of_its_names() {
    let site = Site::start().await;
    let of = site.completed("k1", "sim_ok").await;
    let part = with_a_part_back(&site, &of, 345).await;
    let day = days_ago(&site.world, 0).await;
    let of_two_names = Line { charge_ref: Some("pi_1".into()), ..charge(2, of.0, &of.1, day) };
    reconcile(&site.world, day, &[part, of_two_names, dashboard(&of, "pi_1", 12_000, day)]).await;
    put_on_record(&site, &of).await;
    assert_eq!(site.sums(&of.1).await, (CHARGE, CHARGE));
    assert_eq!(site.world.row(of.0).await.status, Status::Refunded);
}

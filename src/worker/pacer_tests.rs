//! Permits, pause and probe of one worker, on virtual time.

use super::*;
use crate::domain::pace::Reserved;
use crate::domain::switches::Orders;
use crate::platform::clock::SharedClock;
use crate::worker::lab::{BEGAN_MS, VirtualTime};
use chrono::{DateTime, TimeDelta, Utc};

fn terms(rate: u32) -> Terms {
    let (longest_pause, probe_lease) = (Duration::from_secs(60), Duration::from_secs(25));
    Terms { rate, lookup_share: 10, in_flight: 0, longest_pause, probe_lease }
}

struct Rig {
    time: VirtualTime,
    clock: SharedClock,
    pacer: Arc<Pacer>,
}

impl Rig {
    fn new(rate: u32) -> Self {
        let time = VirtualTime::new(DateTime::from_timestamp_millis(BEGAN_MS).unwrap());
        Self { clock: Arc::new(time.clone()), time, pacer: Arc::new(Pacer::new(terms(rate))) }
    }

    fn now(&self) -> Mono {
        self.clock.mono()
    }

    fn wall(&self) -> DateTime<Utc> {
        self.clock.wall()
    }

    fn told(&self, demand: usize) -> Beat {
        self.pacer.beat(&WorkerName("w1".into()), demand, (0, 0), self.now())
    }

    fn grant(&self, gate: Gate) -> Grant {
        let now = self.wall();
        let orders = Orders::default();
        Grant { now, gate, charges: None, lookups: None, slots: None, rate: 0, became: None, orders }
    }

    fn hear(&self, grant: &Grant) {
        self.pacer.answered(&self.told(1), grant, self.now());
    }

    /// So many charges in the next 200 ms.
    fn permit(&self, calls: u32) {
        let (from, until) = (self.wall(), self.wall() + TimeDelta::milliseconds(200));
        let charges = Some(Reserved { from, until, calls });
        self.hear(&Grant { charges, ..self.grant(Gate::Open) });
    }

    fn pass(&self, ms: u64) {
        self.time.run(self.clock.sleep(Duration::from_millis(ms)));
    }

    fn charges(&self, ticket: &mut Ticket) -> Result<(), NotSent> {
        self.time.run(self.pacer.charges(self.clock.as_ref(), Some(ticket)))
    }
}

#[test]
fn nothing_may_be_claimed_before_the_first_word_of_the_schedule() {
    let rig = Rig::new(0);
    assert_eq!(rig.pacer.available(rig.now()), 0);
    assert!(rig.pacer.closed_because(rig.now()).is_some());
    rig.hear(&rig.grant(Gate::Open));
    assert_eq!(rig.pacer.available(rig.now()), usize::MAX);
}

#[test]
fn a_permit_is_used_once_and_an_unused_one_goes_round_while_its_window_lasts() {
    let rig = Rig::new(100);
    rig.permit(2);
    let mut tickets = rig.pacer.take(2, rig.now());
    assert_eq!(rig.pacer.available(rig.now()), 0);
    assert_eq!(rig.charges(&mut tickets[0]), Ok(()));
    drop(tickets);
    assert_eq!(rig.pacer.available(rig.now()), 1, "the other one was not needed");
    let mut again = rig.pacer.take(1, rig.now());
    assert_eq!(rig.charges(&mut again[0]), Ok(()));
    assert_eq!(rig.pacer.available(rig.now()), 0);
    assert_eq!(rig.told(0).returned, 0);
}

#[test]
fn what_nobody_used_in_its_window_is_void_and_told_once() {
    let rig = Rig::new(100);
    rig.permit(3);
    rig.pass(400);
    assert_eq!(rig.pacer.available(rig.now()), 3, "a fifth of a second of grace");
    rig.pass(1);
    assert_eq!(rig.pacer.available(rig.now()), 0);
    assert_eq!(rig.told(0).returned, 3);
    rig.hear(&rig.grant(Gate::Open));
    assert_eq!(rig.told(0).returned, 0);
}

#[test]
fn a_void_ticket_waits_for_another_permit_and_gives_up_after_a_second() {
    let rig = Rig::new(100);
    rig.permit(1);
    let mut ticket = rig.pacer.take(1, rig.now()).remove(0);
    rig.pass(551);
    let began = rig.now();
    assert_eq!(rig.charges(&mut ticket), Err(NotSent::Paced));
    assert_eq!(rig.now().0 - began.0, PATIENCE);
    let mut other = rig.pacer.take(1, rig.now()).remove(0);
    let waits = async {
        let (granted, ()) =
            futures_util::join!(rig.pacer.charges(rig.clock.as_ref(), Some(&mut other)), async {
                rig.clock.sleep(Duration::from_millis(50)).await;
                assert_eq!(rig.told(0).wants, 1, "it asks");
                rig.permit(1);
            });
        granted
    };
    assert_eq!(rig.time.run(waits), Ok(()));
    assert_eq!(rig.told(0).wants, 0);
}

#[test]
fn who_was_claimed_and_waits_has_its_permit_before_anything_else_is_claimed() {
    let rig = Rig::new(100);
    rig.permit(1);
    let mut late = rig.pacer.take(1, rig.now()).remove(0);
    rig.pass(551);
    let waits = async {
        let (granted, ()) =
            futures_util::join!(rig.pacer.charges(rig.clock.as_ref(), Some(&mut late)), async {
                rig.clock.sleep(Duration::from_millis(50)).await;
                rig.permit(2);
                assert_eq!(rig.pacer.available(rig.now()), 1, "one of them is spoken for");
                drop(rig.pacer.take(1, rig.now()));
            });
        granted
    };
    assert_eq!(rig.time.run(waits), Ok(()));
    assert_eq!(rig.pacer.available(rig.now()), 1);
}

#[test]
fn what_is_given_back_wakes_who_waits_for_it() {
    let rig = Rig::new(100);
    rig.permit(1);
    let mut held = rig.pacer.take(1, rig.now());
    let began = rig.now();
    let mut other = Ticket::new(Arc::clone(&rig.pacer), Kind::Void);
    let waits = async {
        let (granted, ()) =
            futures_util::join!(rig.pacer.charges(rig.clock.as_ref(), Some(&mut other)), async {
                rig.clock.sleep(Duration::from_millis(50)).await;
                held.clear();
            });
        granted
    };
    assert_eq!(rig.time.run(waits), Ok(()));
    assert_eq!(rig.now().0 - began.0, Duration::from_millis(50));
}

#[test]
fn a_question_waits_for_its_own_permit_and_no_charge_s_will_do() {
    let rig = Rig::new(100);
    rig.permit(5);
    let looked = async {
        let (asked, ()) = futures_util::join!(rig.pacer.looks_up(rig.clock.as_ref(), None), async {
            rig.clock.sleep(Duration::from_millis(100)).await;
            assert_eq!(rig.told(0).lookups, 1);
        });
        asked
    };
    assert_eq!(rig.time.run(looked), Err(NotSent::Paced));
    let (from, until) = (rig.wall(), rig.wall() + TimeDelta::milliseconds(100));
    let lookups = Some(Reserved { from, until, calls: 1 });
    rig.hear(&Grant { lookups, ..rig.grant(Gate::Open) });
    assert_eq!(rig.time.run(rig.pacer.looks_up(rig.clock.as_ref(), None)), Ok(()));
    let unpaced = Rig::new(0);
    unpaced.hear(&unpaced.grant(Gate::Open));
    assert_eq!(unpaced.time.run(unpaced.pacer.looks_up(unpaced.clock.as_ref(), None)), Ok(()));
}

#[test]
fn while_the_breaker_is_open_one_probe_goes_and_its_end_is_told() {
    let rig = Rig::new(0);
    rig.hear(&rig.grant(Gate::Open));
    let mut before = rig.pacer.take(1, rig.now()).remove(0);
    rig.hear(&rig.grant(Gate::Broken));
    assert_eq!(rig.charges(&mut before), Err(NotSent::BreakerOpen), "claimed before, and not sent yet");
    assert_eq!(rig.pacer.available(rig.now()), 0);
    rig.hear(&rig.grant(Gate::Probe));
    assert_eq!(rig.pacer.available(rig.now()), 1);
    let mut tickets = rig.pacer.take(2, rig.now());
    assert_eq!(rig.charges(&mut tickets[1]), Err(NotSent::BreakerOpen), "one");
    assert_eq!(rig.time.run(rig.pacer.looks_up(rig.clock.as_ref(), Some(&mut tickets[0]))), Ok(()));
    assert_eq!(rig.charges(&mut tickets[0]), Ok(()), "it may ask first");
    rig.pacer.ended(Call::Failed, Some(&mut tickets[1]), rig.now());
    assert_eq!(rig.told(1).probe, None, "another call's end");
    rig.pacer.ended(Call::Failed, Some(&mut tickets[0]), rig.now());
    drop(tickets);
    assert_eq!(rig.told(1).probe, Some(Probed::Failed));
    assert!(rig.pacer.is_urgent());
    rig.hear(&rig.grant(Gate::Broken));
    assert_eq!(rig.told(1).probe, None);
}

#[test]
fn a_probe_without_a_payment_is_told_as_unused() {
    let rig = Rig::new(0);
    rig.hear(&rig.grant(Gate::Probe));
    drop(rig.pacer.take(1, rig.now()));
    assert_eq!(rig.told(1).probe, Some(Probed::Unused));
}

#[test]
fn what_all_must_know_holds_here_at_once() {
    let rig = Rig::new(0);
    rig.hear(&rig.grant(Gate::Open));
    rig.pacer.ended(Call::RateLimited(Some(Duration::from_secs(3))), None, rig.now());
    assert_eq!(rig.pacer.available(rig.now()), 0);
    assert_eq!(rig.pacer.next_at(rig.now()), Some(Mono(rig.now().0 + Duration::from_secs(3))));
    rig.pass(3_000);
    assert_eq!(rig.pacer.available(rig.now()), usize::MAX);
    rig.pacer.ended(Call::Unauthorised, None, rig.now());
    assert_eq!(rig.pacer.available(rig.now()), 0);
    assert!(rig.pacer.is_urgent());
}

#[test]
fn calls_that_went_well_are_told_once_a_second_and_trouble_with_all_of_them_at_once() {
    let rig = Rig::new(0);
    rig.hear(&rig.grant(Gate::Open));
    let answered = |count| (0..count).for_each(|_| rig.pacer.ended(Call::Answered, None, rig.now()));
    rig.pass(1_000);
    answered(3);
    assert_eq!(rig.told(1).seen.answered, 3);
    rig.hear(&rig.grant(Gate::Open));
    answered(2);
    assert_eq!(rig.told(1).seen, Seen::default());
    rig.pacer.ended(Call::Failed, None, rig.now());
    let told = rig.told(1).seen;
    assert_eq!((told.answered, told.failed), (2, 1));
    rig.hear(&rig.grant(Gate::Open));
    assert_eq!(rig.told(1).seen.calls(), 0);
}

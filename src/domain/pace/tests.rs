//! The rules of pacing on made-up clocks: any number of workers, beats of any rhythm.

use super::*;
use proptest::prelude::*;

const RATE: u32 = 100;

fn terms() -> Terms {
    Terms {
        rate: RATE,
        lookup_share: 10,
        in_flight: 0,
        longest_pause: Duration::from_secs(3_600),
        probe_lease: Duration::from_secs(25),
    }
}

fn at(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_795_960_020_000 + ms).expect("in range")
}

fn of(worker: &str, demand: u32) -> Beat {
    Beat {
        worker: WorkerName(worker.into()),
        demand,
        wants: demand,
        held: 0,
        lookups: 0,
        in_use: 0,
        may_use: 0,
        returned: 0,
        seen: Seen::default(),
        probe: None,
        cause: None,
    }
}

fn seen(calls: &[Call]) -> Seen {
    let mut seen = Seen::default();
    calls.iter().for_each(|call| seen.add(*call));
    seen
}

fn saw(worker: &str, calls: &[Call]) -> Beat {
    Beat { seen: seen(calls), ..of(worker, 1) }
}

/// The most calls whose windows touch any span of ten seconds, each counted at the beginning of its own time.
fn most_in_ten_seconds(reserved: &[Reserved]) -> usize {
    let mut starts: Vec<i64> = Vec::new();
    for window in reserved {
        let each = (window.until - window.from).num_microseconds().expect("short") / i64::from(window.calls);
        starts.extend((0..i64::from(window.calls)).map(|n| window.from.timestamp_micros() + n * each));
    }
    starts.sort_unstable();
    let mut first = 0;
    let mut most = 0;
    for (n, start) in starts.iter().enumerate() {
        while starts[first] + 10_000_000 <= *start {
            first += 1;
        }
        most = most.max(n + 1 - first);
    }
    most
}

/// A worker that keeps what it was given until its time has passed.
#[derive(Default)]
struct Keeper(Vec<Reserved>);

impl Keeper {
    fn beat(&mut self, pace: &mut Pace, name: &str, demand: u32, now: DateTime<Utc>) -> Option<Reserved> {
        self.tell(pace, of(name, demand), now).charges
    }

    fn tell(&mut self, pace: &mut Pace, beat: Beat, now: DateTime<Utc>) -> Grant {
        self.0.retain(|window| window.until > now);
        let held = self.0.iter().map(|window| window.calls).sum();
        let grant = pace.beat(&terms(), &Beat { held, wants: beat.demand.saturating_sub(held), ..beat }, now);
        self.0.extend(grant.charges);
        grant
    }
}

#[test]
fn four_greedy_workers_share_the_rate_and_leave_none_of_it() {
    let mut pace = Pace::new(at(0));
    let mut workers = [(); 4].map(|()| Keeper::default());
    let mut got = [0; 4];
    let mut windows = Vec::new();
    // In lockstep, which is when who asks at the wrong moment could get nothing for ever.
    for beat in 0..1_200 {
        let now = at(i64::try_from(beat).expect("small") * 25);
        let worker = beat % 4;
        if let Some(reserved) = workers[worker].beat(&mut pace, &format!("w{worker}"), 200, now) {
            got[worker] += reserved.calls;
            windows.push(reserved);
        }
    }
    let total: u32 = got.iter().sum();
    assert!((3_000..=3_065).contains(&total), "{total} in thirty seconds, and what is reserved ahead");
    assert!(got.iter().all(|calls| (700..=800).contains(calls)), "{got:?}");
    assert!(most_in_ten_seconds(&windows) <= 1_016);
}

#[test]
fn what_a_dead_worker_held_costs_no_more_than_a_moment() {
    let mut pace = Pace::new(at(0));
    let (mut first, mut second) = (Keeper::default(), Keeper::default());
    let mut given = 0;
    for beat in 0..600 {
        let now = at(beat * 50);
        given += first.beat(&mut pace, "w1", 200, now).map_or(0, |reserved| reserved.calls);
        // Dies after five seconds, with all that it holds.
        if beat < 100 {
            given += second.beat(&mut pace, "w2", 200, now).map_or(0, |reserved| reserved.calls);
        } else if beat == 100 {
            given -=
                second.0.iter().filter(|window| window.until > now).map(|window| window.calls).sum::<u32>();
        }
    }
    assert!((2_970..=3_065).contains(&given), "{given} of 3000");
}

#[test]
fn a_worker_with_little_to_do_leaves_the_rest_to_the_busy_one() {
    let mut pace = Pace::new(at(0));
    let (mut busy, mut idle) = (Keeper::default(), Keeper::default());
    let mut got = 0;
    for beat in 0..100 {
        let now = at(beat * 100);
        idle.beat(&mut pace, "idle", 1, now);
        got += busy.beat(&mut pace, "busy", 200, now).map_or(0, |reserved| reserved.calls);
    }
    assert!((880..=1_065).contains(&got), "{got} of 1000, less the other's hundred");
}

#[test]
fn unused_permits_are_given_to_others_but_never_saved_up() {
    let mut pace = Pace::new(at(0));
    let grant = pace.beat(&terms(), &of("w1", 20), at(0));
    assert_eq!(grant.charges, Some(Reserved { from: at(0), until: at(150), calls: 15 }));
    let back = Beat { returned: 10, ..of("w1", 0) };
    pace.beat(&terms(), &back, at(20));
    assert_eq!(pace.charges_free_at, at(50));
    pace.beat(&terms(), &Beat { returned: 500, ..back.clone() }, at(30));
    assert_eq!(pace.charges_free_at, at(-120), "time that passed is nobody's, but for a moment");
    pace.beat(&terms(), &back, at(90));
    assert_eq!(pace.charges_free_at, at(-120));
    let grant = pace.beat(&terms(), &of("w1", 20), at(90));
    assert_eq!(grant.charges, Some(Reserved { from: at(90), until: at(90), calls: 15 }));
    let late = pace.beat(&terms(), &of("w1", 20), at(5_000));
    assert_eq!(late.charges, Some(Reserved { from: at(5_000), until: at(5_000), calls: 15 }));
    assert_eq!(pace.charges_free_at, at(5_000), "a moment's worth and no more");
}

#[test]
fn lookups_have_time_that_charges_cannot_take_and_both_keep_the_rate() {
    let mut pace = Pace::new(at(0));
    let mut worker = Keeper::default();
    let (mut charges, mut lookups) = (0, 0);
    for beat in 0..200 {
        let both = Beat { lookups: 50, ..of("w1", 200) };
        let grant = worker.tell(&mut pace, both, at(beat * 50));
        charges += grant.charges.map_or(0, |reserved| reserved.calls);
        lookups += grant.lookups.map_or(0, |reserved| reserved.calls);
    }
    assert!((100..=106).contains(&lookups), "{lookups}: a tenth");
    assert!((1_000..=1_070).contains(&(charges + lookups)), "{charges} and {lookups}");
}

#[test]
fn too_many_requests_halve_the_rate_once_a_second_and_it_comes_back_by_a_twentieth_a_second() {
    let mut pace = Pace::new(at(0));
    let limited = saw("w1", &[Call::RateLimited(Some(Duration::ZERO)); 7]);
    assert_eq!(pace.beat(&terms(), &limited, at(0)).rate, 50);
    assert_eq!(pace.beat(&terms(), &limited, at(400)).rate, 52, "the same trouble, told again");
    assert_eq!(pace.beat(&terms(), &limited, at(2_000)).rate, 30);
    assert_eq!(pace.beat(&terms(), &of("w1", 1), at(7_000)).rate, 55);
    assert_eq!(pace.beat(&terms(), &of("w1", 1), at(60_000)).rate, 100);
    for n in 0..40 {
        pace.beat(&terms(), &limited, at(60_000 + n * 1_001));
    }
    assert!(pace.rate(&terms(), at(100_100)) >= 1);
}

#[test]
fn a_pause_that_the_gateway_asks_for_holds_for_everybody_and_no_longer_than_the_cap() {
    let mut pace = Pace::new(at(0));
    let terms = Terms { rate: 0, longest_pause: Duration::from_secs(5), ..terms() };
    pace.beat(&terms, &saw("w1", &[Call::RateLimited(Some(Duration::from_secs(3)))]), at(0));
    assert_eq!(pace.beat(&terms, &of("w2", 9), at(100)).gate, Gate::Paused(at(3_000)));
    pace.beat(&terms, &saw("w1", &[Call::RateLimited(Some(Duration::from_secs(999)))]), at(200));
    assert_eq!(pace.beat(&terms, &of("w2", 9), at(300)).gate, Gate::Paused(at(5_200)));
    let open = pace.beat(&terms, &of("w2", 9), at(5_200));
    assert_eq!((open.gate, open.rate), (Gate::Open, 0));
    pace.beat(&terms, &saw("w1", &[Call::RateLimited(None)]), at(6_000));
    assert_eq!(pace.beat(&terms, &of("w2", 9), at(6_100)).gate, Gate::Paused(at(7_000)), "a second");
}

#[test]
fn the_breaker_opens_when_half_of_ten_calls_failed_and_one_probe_at_a_time_closes_it() {
    let mut pace = Pace::new(at(0));
    let terms = Terms { rate: 0, ..terms() };
    pace.beat(&terms, &saw("w1", &[Call::Answered; 5]), at(0));
    pace.beat(&terms, &saw("w2", &[Call::Failed; 4]), at(500));
    assert_eq!(pace.breaker, Breaker::Closed, "nine calls");
    let grant = pace.beat(&terms, &saw("w2", &[Call::Failed]), at(900));
    assert_eq!((grant.gate, &grant.became), (Gate::Broken, &Some(Breaker::Open { until: at(1_900) })));
    assert_eq!(pace.beat(&terms, &of("w1", 9), at(1_000)).gate, Gate::Broken);
    assert_eq!(pace.beat(&terms, &of("w3", 0), at(1_950)).gate, Gate::Broken, "it has nothing to call for");
    assert_eq!(pace.beat(&terms, &of("w1", 9), at(2_000)).gate, Gate::Probe);
    assert_eq!(pace.beat(&terms, &of("w2", 9), at(2_000)).gate, Gate::Broken, "one at a time");
    assert_eq!(pace.beat(&terms, &of("w1", 9), at(2_100)).gate, Gate::Broken, "and only once");
    // Calls from before say nothing about the probe.
    assert_eq!(pace.beat(&terms, &saw("w2", &[Call::Answered; 20]), at(2_150)).gate, Gate::Broken);
    let failed = Beat { probe: Some(Probed::Failed), ..of("w1", 9) };
    pace.beat(&terms, &failed, at(2_200));
    assert_eq!(pace.breaker, Breaker::Open { until: at(4_200) }, "twice as long");
    assert_eq!(pace.beat(&terms, &of("w2", 9), at(4_300)).gate, Gate::Probe);
    let answered = Beat { probe: Some(Probed::Answered), ..of("w2", 9) };
    let closed = pace.beat(&terms, &answered, at(4_400));
    assert_eq!((closed.gate, closed.became), (Gate::Open, Some(Breaker::Closed)));
}

#[test]
fn an_open_breaker_says_why_in_the_words_of_whoever_opened_it_last() {
    let mut pace = Pace::new(at(0));
    let because = |cause: &str, beat: Beat| Beat { cause: Some(cause.into()), ..beat };
    pace.beat(&terms(), &because("no answer in time", saw("w1", &[Call::Failed; 9])), at(0));
    assert_eq!(pace.cause, None, "it is closed");
    pace.beat(&terms(), &because("a server error (HTTP 503)", saw("w2", &[Call::Failed])), at(100));
    assert_eq!(pace.cause.as_deref(), Some("a server error (HTTP 503)"));
    pace.beat(&terms(), &because("no answer in time", saw("w1", &[Call::Failed])), at(200));
    assert_eq!(pace.cause.as_deref(), Some("a server error (HTTP 503)"), "what came late opened nothing");
    let probe = |pace: &mut Pace, beat, now| {
        assert_eq!(pace.beat(&terms(), &of("w1", 9), now).gate, Gate::Probe);
        pace.beat(&terms(), &Beat { probe: Some(Probed::Failed), ..beat }, now)
    };
    probe(&mut pace, because("the connection was refused", of("w1", 9)), at(1_100));
    assert_eq!(pace.cause.as_deref(), Some("the connection was refused"));
    probe(&mut pace, of("w1", 9), at(3_100));
    assert_eq!(pace.cause.as_deref(), Some("the connection was refused"), "nobody knows better");
    pace.beat(&terms(), &Beat { probe: Some(Probed::Answered), ..of("w1", 9) }, at(3_200));
    assert_eq!((pace.breaker, pace.cause), (Breaker::Closed, None));
}

#[test]
fn a_breaker_stays_open_for_a_minute_at_most_and_for_longer_when_it_opens_again_soon() {
    let mut pace = Pace::new(at(0));
    let mut now = at(0);
    let mut lengths = Vec::new();
    pace.beat(&terms(), &saw("w1", &[Call::Unauthorised]), now);
    for _ in 0..9 {
        let Breaker::Open { until } = pace.breaker.clone() else { panic!("{:?}", pace.breaker) };
        lengths.push((until - now).num_seconds());
        now = until;
        assert_eq!(pace.beat(&terms(), &of("w1", 1), now).gate, Gate::Probe);
        pace.beat(&terms(), &Beat { probe: Some(Probed::Failed), ..of("w1", 1) }, now);
    }
    assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    let close = |pace: &mut Pace, now| {
        pace.breaker = Breaker::Open { until: now };
        pace.beat(&terms(), &of("w1", 1), now);
        pace.beat(&terms(), &Beat { probe: Some(Probed::Answered), ..of("w1", 1) }, now);
        assert_eq!(pace.breaker, Breaker::Closed);
    };
    let length = |pace: &mut Pace, now: DateTime<Utc>| {
        pace.beat(&terms(), &saw("w1", &[Call::Unauthorised]), now);
        let Breaker::Open { until } = pace.breaker.clone() else { panic!("{:?}", pace.breaker) };
        (until - now).num_seconds()
    };
    close(&mut pace, now);
    assert_eq!(length(&mut pace, now + TimeDelta::seconds(5)), 60, "it was well for five seconds");
    now += TimeDelta::seconds(70);
    close(&mut pace, now);
    assert_eq!(length(&mut pace, now + TimeDelta::seconds(61)), 1, "it was well for a minute");
}

#[test]
fn a_prober_that_died_or_had_nothing_to_call_for_is_followed_by_another() {
    let mut pace = Pace::new(at(0));
    pace.breaker = Breaker::Open { until: at(0) };
    assert_eq!(pace.beat(&terms(), &of("w1", 1), at(0)).gate, Gate::Probe);
    pace.beat(&terms(), &Beat { probe: Some(Probed::Unused), ..of("w1", 0) }, at(50));
    assert_eq!(pace.beat(&terms(), &of("w2", 1), at(60)).gate, Gate::Probe);
    assert_eq!(pace.beat(&terms(), &of("w1", 1), at(25_059)).gate, Gate::Broken);
    assert_eq!(pace.beat(&terms(), &of("w1", 1), at(25_060)).gate, Gate::Probe, "its lease is over");
    pace.beat(&terms(), &Beat { probe: Some(Probed::Failed), ..of("w2", 1) }, at(25_100));
    assert!(matches!(pace.breaker, Breaker::Probing { .. }), "a late failure is not the new probe's");
    pace.beat(&terms(), &Beat { probe: Some(Probed::Answered), ..of("w2", 1) }, at(25_200));
    assert_eq!(pace.breaker, Breaker::Closed, "a late answer is an answer");
}

#[test]
fn successes_of_ten_seconds_ago_do_not_keep_a_breaker_closed() {
    let mut pace = Pace::new(at(0));
    let failing = saw("w1", &[Call::Failed; 10]);
    pace.beat(&terms(), &saw("w2", &[Call::Answered; 500]), at(0));
    pace.beat(&terms(), &failing, at(5_000));
    assert_eq!(pace.breaker, Breaker::Closed, "ten of 510");
    pace.beat(&terms(), &failing, at(10_500));
    assert!(matches!(pace.breaker, Breaker::Open { .. }), "{:?}", pace.window);
}

#[test]
fn slots_are_shared_by_need_and_those_of_a_dead_worker_come_back() {
    let terms = Terms { rate: 0, in_flight: 12, ..terms() };
    let mut pace = Pace::new(at(0));
    let mut slots = |worker: &str, demand, in_use, ms| {
        let beat = Beat { in_use, ..of(worker, demand) };
        pace.beat(&terms, &beat, at(ms)).slots.expect("a common limit")
    };
    assert_eq!(slots("w1", 100, 0, 0), 12);
    assert_eq!(slots("w2", 100, 0, 10), 0, "all of them are in use for all that is known");
    assert_eq!(slots("w1", 100, 4, 100), 7, "half, as two want them, and it has some in flight");
    assert_eq!(slots("w2", 100, 0, 110), 5);
    assert_eq!(slots("w1", 0, 2, 200), 1, "nothing follows what is in flight");
    assert_eq!(slots("w2", 100, 5, 210), 10, "which is in use until it ends");
    // The first one dies.
    assert_eq!(slots("w2", 100, 10, 5_100), 10);
    assert_eq!(slots("w2", 100, 10, 5_300), 12);
}

/// Workers that always have more to do than slots, and fill each at once; what each of them has in flight at
/// the end.
fn in_flight_after(rounds: i64, workers: usize, in_flight: u32) -> Vec<u32> {
    let terms = Terms { rate: 0, in_flight, ..terms() };
    let mut pace = Pace::new(at(0));
    let (mut calls, mut shares) = (vec![0; workers], vec![0; workers]);
    for round in 0..rounds {
        for worker in 0..workers {
            // One of its calls ends between two beats, and another one begins if it may.
            let may_use = shares[worker].max(calls[worker]);
            let beat = Beat { in_use: calls[worker], may_use, ..of(&format!("w{worker}"), 100) };
            let now = at(round * 75 + i64::try_from(worker).expect("small"));
            let slots = pace.beat(&terms, &beat, now).slots.expect("a common limit");
            shares[worker] = slots;
            calls[worker] = slots.max(calls[worker].saturating_sub(1));
            assert!(calls.iter().sum::<u32>() <= in_flight, "{calls:?}");
        }
    }
    calls
}

#[test]
fn an_account_in_full_use_is_shared_with_whoever_comes_and_nobody_is_left_without_a_slot() {
    assert!(in_flight_after(40, 2, 12).iter().all(|calls| (5..=7).contains(calls)));
    for (workers, in_flight) in [(3, 4), (5, 12), (7, 20), (12, 12)] {
        let calls = in_flight_after(100, workers, in_flight);
        assert!(calls.iter().all(|calls| *calls > 0), "{calls:?}");
        assert!(calls.iter().sum::<u32>() * 10 >= in_flight * 9, "{calls:?} of {in_flight}");
    }
    assert_eq!(in_flight_after(100, 5, 2).iter().sum::<u32>(), 2, "fewer slots than workers");
}

#[test]
fn a_slot_is_nobody_else_s_before_its_worker_knows_that_it_lost_it() {
    let terms = Terms { rate: 0, in_flight: 12, ..terms() };
    let mut pace = Pace::new(at(0));
    let mut slots = |worker: &str, in_use, may_use, ms| {
        pace.beat(&terms, &Beat { in_use, may_use, ..of(worker, 100) }, at(ms)).slots
    };
    assert_eq!(slots("w1", 0, 0, 0), Some(12));
    assert_eq!(slots("w2", 0, 0, 10), Some(0));
    assert_eq!(slots("w1", 4, 12, 75), Some(7), "it hears this a moment later");
    assert_eq!(slots("w2", 0, 0, 85), Some(0));
    assert_eq!(slots("w1", 7, 7, 150), Some(7));
    assert_eq!(slots("w2", 0, 0, 160), Some(5));
}

#[test]
fn a_probe_is_for_a_worker_that_has_a_slot_for_it() {
    let terms = Terms { rate: 0, in_flight: 4, ..terms() };
    let mut pace = Pace::new(at(0));
    let all = Beat { in_use: 4, ..of("w1", 1) };
    pace.beat(&terms, &all, at(0));
    pace.breaker = Breaker::Open { until: at(100) };
    let grant = pace.beat(&terms, &of("w2", 1), at(100));
    assert_eq!((grant.gate, grant.slots), (Gate::Broken, Some(0)));
    assert_eq!(pace.beat(&terms, &all, at(110)).gate, Gate::Broken, "all of them are in use");
    assert_eq!(pace.beat(&terms, &Beat { in_use: 1, ..all }, at(120)).gate, Gate::Probe);
}

#[test]
fn a_clock_that_was_set_back_keeps_an_account_waiting_no_longer_than_its_rules() {
    const DAY: i64 = 86_400_000;
    let terms = Terms { in_flight: 12, ..terms() };
    let mut pace = Pace::new(at(DAY));
    let full = Beat { lookups: 5, ..of("w1", 100) };
    let before = pace.beat(&terms, &full, at(DAY)).charges.expect("the first");
    pace.beat(&terms, &saw("w2", &[Call::RateLimited(Some(Duration::from_secs(5)))]), at(DAY + 1));
    pace.throttle = WHOLE;
    // A day back: what was reserved lies as far ahead as it did, and not a day.
    assert_eq!(pace.beat(&terms, &full, at(0)).gate, Gate::Paused(at(3_600_000)), "the longest pause");
    pace.paused_until = None;
    let grant = pace.beat(&terms, &full, at(10));
    let from = grant.charges.expect("not a day later").from;
    assert!(from >= at(0) + (before.until - at(DAY)) && from < at(1_000), "{from}");
    assert!(grant.lookups.is_some_and(|reserved| reserved.from < at(1_000)));
    // Nor do the dead keep their slots, or a breaker its word, for as long.
    assert_eq!(pace.beat(&terms, &full, at(6_000)).slots, Some(12));
    pace.breaker = Breaker::Open { until: at(DAY) };
    assert_eq!(pace.beat(&terms, &full, at(7_000)).gate, Gate::Broken);
    assert_eq!(pace.beat(&terms, &full, at(67_000)).gate, Gate::Probe);
    pace.breaker = Breaker::Probing { worker: WorkerName("w2".into()), until: at(DAY) };
    assert_eq!(pace.beat(&terms, &full, at(67_000)).gate, Gate::Broken);
    assert_eq!(pace.beat(&terms, &full, at(92_000)).gate, Gate::Probe);
    // And calls of the day to come count for nothing.
    pace.breaker = Breaker::Closed;
    pace.window.count(&seen(&[Call::Answered; 500]), at(DAY));
    pace.beat(&terms, &saw("w1", &[Call::Failed; 10]), at(93_000));
    assert!(matches!(pace.breaker, Breaker::Open { .. }), "{:?}", pace.window);
}

#[test]
fn a_well_account_without_limits_has_nothing_to_write_down() {
    let terms = Terms { rate: 0, ..terms() };
    let mut pace = Pace::new(at(0));
    let before = pace.clone();
    let grant = pace.beat(&terms, &of("w1", 200), at(100));
    assert_eq!((grant.gate, grant.charges, grant.slots), (Gate::Open, None, None));
    assert_eq!(pace, before);
}

proptest! {
    /// Whatever the rhythm, the demand and what comes back unused: windows do not overlap but for what was
    /// given back, and in any ten seconds there are no more than the rate and a twentieth.
    #[test]
    fn no_rhythm_of_beats_breaks_the_rate(
        beats in prop::collection::vec((0u8..5, 1i64..180, 0u32..40, 0u32..4), 200..600),
    ) {
        let mut pace = Pace::new(at(0));
        let mut now = 0;
        let mut held: BTreeMap<u8, u32> = BTreeMap::new();
        let mut windows = Vec::new();
        let mut returned_in_all = 0;
        for (worker, pause, demand, back) in beats {
            now += pause;
            let returned = back.min(held.get(&worker).copied().unwrap_or(0));
            returned_in_all += returned;
            let beat = Beat { returned, ..of(&format!("w{worker}"), demand) };
            let grant = pace.beat(&terms(), &beat, at(now));
            let calls = grant.charges.map_or(0, |reserved| reserved.calls);
            held.insert(worker, calls);
            windows.extend(grant.charges);
        }
        let given: u32 = windows.iter().map(|window| window.calls).sum();
        let by_time = u32::try_from(now * i64::from(RATE) / 1_000).expect("small");
        prop_assert!(given <= by_time + returned_in_all + 80, "{given} of {by_time}");
        if returned_in_all == 0 {
            prop_assert!(most_in_ten_seconds(&windows) <= 1_050);
        }
    }
}

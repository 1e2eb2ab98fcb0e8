//! The gateway's memory, told request by request.

use super::*;

const TTL: Duration = Duration::from_secs(100);
const RULES: Rules = Rules {
    key_ttl: TTL,
    replays_declines: false,
    replays_5xx: false,
    compares_body: true,
    voids_by_key: true,
};

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000 + seconds, 0).expect("in range")
}

fn heads(key: &str) -> Heads {
    Heads { key: Some(key.into()), ..Heads::default() }
}

fn body(payee: &str) -> ChargeBody {
    ChargeBody { payment_id: "p".into(), amount: 1_000, currency: "EUR".into(), payee: payee.into() }
}

/// One request, answered at once.
fn ask(book: &mut Book, second: i64, key: &str, payee: &str) -> (Verdict, Reply) {
    let ruling = book.receive(at(second), Door::Open, &heads(key), Ok(&body(payee))).expect("possible");
    if ruling.in_flight {
        book.land(key);
    }
    (ruling.line.verdict, ruling.reply)
}

fn verdicts(book: &mut Book, key: &str, payee: &str, calls: usize) -> Vec<Verdict> {
    (0..calls).map(|_| ask(book, 0, key, payee).0).collect()
}

fn status(reply: &Reply) -> u16 {
    match reply {
        Reply::Json { status, .. } => *status,
        Reply::Garbage | Reply::Hold | Reply::Reset => 0,
    }
}

#[test]
fn a_key_charges_once_and_replays_until_it_expires_and_then_charges_again() {
    let mut book = Book::new(RULES);
    assert_eq!(ask(&mut book, 0, "k", "sim_ok").0, Verdict::Charged);
    let (verdict, reply) = ask(&mut book, 99, "k", "sim_ok");
    assert_eq!((verdict, status(&reply)), (Verdict::Replayed, 200));
    assert!(matches!(reply, Reply::Json { replayed: true, .. }));
    assert_eq!(book.summary().payments_charged_more_than_once, 0);
    assert_eq!(ask(&mut book, 100, "k", "sim_ok").0, Verdict::Charged);
    assert_eq!(book.summary().payments_charged_more_than_once, 1);
    assert_eq!(book.look_up(at(100), "k").len(), 2, "the list shows both");
}

#[test]
fn every_behaviour_that_charges_charges_once_however_often_it_is_sent() {
    for payee in [
        "sim_ok",
        "sim_slow_5",
        "sim_500_charged",
        "sim_500_sticky",
        "sim_timeout_charged",
        "sim_reset_after_write",
        "sim_pending_5_ok",
        "sim_lookup_lag_5",
        "sim_lookup_404_charged",
        "sim_wrong_amount",
        "sim_wrong_currency",
        "sim_garbage",
        "sim_timeout_not_charged",
        "sim_in_use_2",
        "sim_429_0",
    ] {
        let mut book = Book::new(RULES);
        verdicts(&mut book, "k", payee, 6);
        let summary = book.summary();
        assert_eq!((summary.requests, summary.charges, summary.payments_charged), (6, 1, 1), "{payee}");
    }
}

#[test]
fn a_decline_is_executed_anew_unless_the_gateway_replays_declines() {
    let mut forgetful = Book::new(RULES);
    let payee = "sim_decline_insufficient_funds|sim_ok";
    assert_eq!(verdicts(&mut forgetful, "k", payee, 2), [Verdict::Declined, Verdict::Charged]);
    for rules in [Rules { replays_5xx: true, ..RULES }, Rules { key_ttl: Duration::ZERO, ..RULES }] {
        let wanted = [Verdict::Declined, Verdict::Charged];
        assert_eq!(verdicts(&mut Book::new(rules), "k", payee, 2), wanted, "another switch");
    }
    let mut sticky = Book::new(Rules { replays_declines: true, ..RULES });
    assert_eq!(verdicts(&mut sticky, "k", payee, 2), [Verdict::Declined, Verdict::Replayed]);
    assert_eq!(status(&ask(&mut sticky, 0, "k", payee).1), 402);
    assert_eq!(ask(&mut sticky, 0, "k:1", payee).0, Verdict::Charged, "the chain is the payment's");
}

#[test]
fn a_stored_500_is_replayed_where_that_is_the_gateways_way() {
    for (payee, replays_5xx, resent) in [
        ("sim_500_charged", false, 200),
        ("sim_500_charged", true, 500),
        ("sim_500_sticky", false, 500),
        ("sim_500_sticky", true, 500),
    ] {
        let mut book = Book::new(Rules { replays_5xx, replays_declines: !replays_5xx, ..RULES });
        assert_eq!(status(&ask(&mut book, 0, "k", payee).1), 500, "{payee}");
        assert_eq!(status(&ask(&mut book, 0, "k", payee).1), resent, "{payee} {replays_5xx}");
        assert_eq!(book.look_up(at(0), "k")[0]["status"], "charged", "a look-up tells: {payee}");
    }
}

#[test]
fn a_request_in_flight_refuses_its_twin_and_shows_as_in_progress() {
    let mut book = Book::new(RULES);
    let first = book.receive(at(0), Door::Open, &heads("k"), Ok(&body("sim_slow_50"))).expect("possible");
    assert!(first.in_flight);
    assert_eq!(first.slow, Duration::from_millis(50));
    let twin = book.receive(at(0), Door::Open, &heads("k"), Ok(&body("sim_slow_50"))).expect("possible");
    assert_eq!((twin.line.verdict, status(&twin.reply)), (Verdict::Concurrent, 409));
    assert!(!twin.in_flight, "the twin's end must not end the first's flight");
    assert_eq!(book.look_up(at(0), "k")[0]["status"], "in_progress");
    book.land("k");
    assert_eq!(book.look_up(at(0), "k")[0]["status"], "charged");
    assert_eq!(ask(&mut book, 0, "k", "sim_slow_50").0, Verdict::Replayed);
}

#[test]
fn a_used_key_refuses_another_body_only_where_bodies_are_compared() {
    for (compares_body, wanted) in [(true, Verdict::KeyReused), (false, Verdict::Replayed)] {
        let mut book = Book::new(Rules { compares_body, ..RULES });
        ask(&mut book, 0, "k", "sim_ok");
        assert_eq!(ask(&mut book, 0, "k", "sim_slow_1").0, wanted);
        assert_eq!(book.summary().charges, 1);
    }
}

#[test]
fn a_rate_limit_ends_with_its_time() {
    let mut book = Book::new(RULES);
    let wait = |reply: Reply| match reply {
        Reply::Json { status: 429, retry_after_s, .. } => retry_after_s,
        Reply::Json { .. } | Reply::Garbage | Reply::Hold | Reply::Reset => None,
    };
    assert_eq!(wait(ask(&mut book, 0, "k", "sim_429_5").1), Some(5));
    assert_eq!(wait(ask(&mut book, 2, "k", "sim_429_5").1), Some(3));
    assert_eq!(ask(&mut book, 5, "k", "sim_429_5").0, Verdict::Charged);
}

#[test]
fn a_pending_charge_is_decided_when_its_time_comes() {
    for (payee, charges, decided) in
        [("sim_pending_5_ok", 1, "charged"), ("sim_pending_5_fail", 0, "declined")]
    {
        let mut book = Book::new(RULES);
        assert_eq!(status(&ask(&mut book, 0, "k", payee).1), 202);
        assert_eq!(book.look_up(at(4), "k")[0]["status"], "pending");
        assert_eq!(book.look_up(at(5), "k")[0]["status"], decided);
        assert_eq!(book.summary().charges, charges, "{payee}");
    }
}

#[test]
fn lookups_lag_or_never_show_where_the_reference_says_so() {
    let mut book = Book::new(RULES);
    ask(&mut book, 0, "lag", "sim_lookup_lag_5");
    assert!(book.look_up(at(4), "lag").is_empty());
    assert_eq!(book.look_up(at(5), "lag").len(), 1);
    let mut book = Book::new(RULES);
    ask(&mut book, 0, "never", "sim_lookup_404_charged");
    assert!(book.look_up(at(99), "never").is_empty());
    assert_eq!(ask(&mut book, 99, "never", "sim_lookup_404_charged").0, Verdict::Replayed);
}

#[test]
fn a_wrong_answer_names_another_amount_and_the_line_the_asked_one_and_what_was_taken() {
    let mut book = Book::new(RULES);
    let ruling =
        book.receive(at(0), Door::Open, &heads("k"), Ok(&body("sim_wrong_amount"))).expect("possible");
    let Reply::Json { body: said, .. } = ruling.reply else { panic!("no answer") };
    assert_eq!((said["amount"].as_i64(), ruling.line.amount), (Some(1_001), Some(1_000)));
    assert_eq!(ruling.line.taken, Some(Taken { amount: 1_001, currency: "EUR".into() }));
    let mut book = Book::new(RULES);
    let ruling =
        book.receive(at(0), Door::Open, &heads("k"), Ok(&body("sim_wrong_currency"))).expect("possible");
    let Reply::Json { body: said, .. } = ruling.reply else { panic!("no answer") };
    assert_eq!(said["currency"], "USD");
    assert_eq!(ruling.line.taken, Some(Taken { amount: 1_000, currency: "USD".into() }));
    book.land("k");
    let again = book.receive(at(0), Door::Open, &heads("k"), Ok(&body("sim_wrong_currency")));
    assert_eq!(again.expect("possible").line.taken, None, "a replay takes nothing");
    let mut book = Book::new(RULES);
    for (key, payee) in [("a", "sim_ok"), ("b", "sim_decline_lost_card"), ("c", "sim_pending_5_ok")] {
        let ruling = book.receive(at(0), Door::Open, &heads(key), Ok(&body(payee))).expect("possible");
        assert_eq!(ruling.line.taken, None, "{payee}");
    }
}

#[test]
fn refused_requests_leave_a_line_and_nothing_else() {
    let mut book = Book::new(RULES);
    assert_eq!(ask(&mut book, 0, "k", "acct_1").0, Verdict::Invalid);
    for refused in [Refused::Unauthorized, Refused::Malformed(wire::Malformed::Shape)] {
        let ruling = book.receive(at(0), Door::Open, &heads("k"), Err(refused)).expect("possible");
        assert!(!ruling.line.charged && ruling.line.payment_id.is_none());
    }
    assert!(book.look_up(at(0), "k").is_empty());
    assert_eq!(book.summary(), Summary { requests: 3, ..Summary::default() });
}

#[test]
fn what_the_door_refuses_takes_no_link_and_no_key_and_says_so_in_its_line() {
    let mut book = Book::new(RULES);
    let payee = "sim_decline_lost_card|sim_ok";
    for (door, verdict, wanted) in [
        (Door::OverRate(3), Verdict::OverRate, 429),
        (Door::Unavailable, Verdict::Outage, 503),
        (Door::Silent, Verdict::Outage, 0),
    ] {
        let ruling = book.receive(at(0), door, &heads("k"), Ok(&body(payee))).expect("possible");
        assert_eq!((ruling.line.verdict, status(&ruling.reply)), (verdict, wanted), "{door:?}");
        assert!(!ruling.line.charged && !ruling.in_flight && ruling.line.payment_id.is_some());
    }
    assert_eq!(ask(&mut book, 0, "k", payee).0, Verdict::Declined, "the first link is still there");
    let stranger = book.receive(at(0), Door::OverRate(3), &heads("k"), Err(Refused::Unauthorized));
    assert_eq!(stranger.expect("possible").line.verdict, Verdict::Unauthorized, "no account, no quota");
}

#[test]
fn money_is_booked_as_said_and_when_it_moved() {
    let mut book = Book::new(RULES);
    let booked = |book: &mut Book, key: &str, payee: &str| {
        let line = book.receive(at(7), Door::Open, &heads(key), Ok(&body(payee))).expect("possible").line;
        book.booking(key, line.seq, line.at)
            .map(|booking| (booking.moved_at, booking.amount, booking.currency.as_str().to_owned()))
    };
    let eur = |second, amount| Some((at(second), amount, "EUR".to_owned()));
    assert_eq!(booked(&mut book, "1", "sim_ok"), eur(7, 1_000));
    let chained = ["sim_ok|sim_wrong_amount", "sim_wrong_amount|sim_ok"];
    assert_eq!(booked(&mut book, "2", chained[0]), eur(7, 1_001), "the payment's second call");
    assert_eq!(booked(&mut book, "3", chained[1]), eur(7, 1_000));
    assert_eq!(booked(&mut book, "4", "sim_wrong_currency").map(|it| it.2), Some("USD".into()));
    assert_eq!(booked(&mut book, "5", "sim_pending_60_ok"), eur(67, 1_000));
    assert_eq!(booked(&mut book, "6", "sim_pending_60_fail"), None);
    assert_eq!(booked(&mut book, "7", "sim_decline_lost_card"), None);
}

#[test]
fn margins_are_floored_so_that_half_a_millisecond_early_is_early() {
    let mut book = Book::new(RULES);
    let due = |micros| Heads { due_at: Some(at(10) + chrono::TimeDelta::microseconds(micros)), ..heads("k") };
    book.receive(at(10), Door::Open, &due(-2_500), Ok(&body("sim_ok"))).expect("possible");
    assert_eq!(book.summary().earliest_margin_ms, Some(2));
    assert_eq!(book.summary().early, 0);
    book.land("k");
    book.receive(at(10), Door::Open, &due(500), Ok(&body("sim_ok"))).expect("possible");
    let summary = book.summary();
    assert_eq!((summary.earliest_margin_ms, summary.early, summary.early_charges), (Some(-1), 1, 0));
}

#[test]
fn a_restart_from_the_lines_alone_remembers_everything() {
    for (replays_declines, replays_5xx) in [(false, false), (true, false), (false, true)] {
        let rules = Rules { replays_declines, replays_5xx, ..RULES };
        let (mut book, mut lines) = (Book::new(rules), Vec::new());
        let payees = [
            "sim_ok",
            "sim_decline_do_not_honor|sim_429_50|sim_ok",
            "sim_500_charged",
            "sim_500_sticky",
            "sim_timeout_not_charged",
            "sim_pending_5_fail",
            "sim_lookup_lag_30",
            "sim_wrong_amount",
            "unknown",
        ];
        for second in [0, 1, 60, 150] {
            for payee in payees {
                let body = ChargeBody { payment_id: payee.into(), ..body(payee) };
                let ruling =
                    book.receive(at(second), Door::Open, &heads(payee), Ok(&body)).expect("possible");
                book.land(payee);
                lines.push(ruling.line);
            }
        }
        let mut restarted = Book::new(rules);
        for line in &lines {
            let text = serde_json::to_string(line).expect("text");
            restarted.absorb(&serde_json::from_str(&text).expect("a line")).expect("possible");
        }
        assert_eq!(restarted.summary(), book.summary());
        for payee in payees {
            assert_eq!(restarted.look_up(at(151), payee), book.look_up(at(151), payee), "{payee}");
            let next = |book: &mut Book| {
                let body = ChargeBody { payment_id: payee.into(), ..body(payee) };
                book.receive(at(152), Door::Open, &heads(payee), Ok(&body)).expect("possible").reply
            };
            assert_eq!(next(&mut restarted), next(&mut book), "{payee}");
        }
    }
}

#[test]
fn a_gap_in_the_lines_is_refused() {
    let mut book = Book::new(RULES);
    let line = book.receive(at(0), Door::Open, &heads("k"), Ok(&body("sim_ok"))).expect("possible").line;
    assert!(Book::new(RULES).absorb(&Line { seq: 2, ..line }).is_err());
}

/// One void, answered at once.
fn void(book: &mut Book, second: i64, key: &str) -> (Verdict, Reply) {
    let ruling = book.receive_void(at(second), Door::Open, &heads(key), None).expect("possible");
    assert_eq!((ruling.line.request, ruling.line.charged), (Request::Void, false));
    (ruling.line.verdict, ruling.reply)
}

#[test]
fn a_voided_key_refuses_every_charge_for_ever_and_is_voided_again_whenever_asked() {
    let mut book = Book::new(RULES);
    for second in [0, 1, 500] {
        let (verdict, reply) = void(&mut book, second, "k");
        assert_eq!((verdict, status(&reply)), (Verdict::Voided, 200));
    }
    for (second, key) in [(2, "k"), (99, "k"), (100, "k"), (10_000, "k")] {
        let (verdict, reply) = ask(&mut book, second, key, "sim_ok");
        assert_eq!((verdict, status(&reply)), (Verdict::Tombstoned, 409), "long after its life");
    }
    assert_eq!(ask(&mut book, 2, "k:1", "sim_ok").0, Verdict::Charged, "another key of the payment");
    assert!(book.is_voided("k") && !book.is_voided("k:1"));
    let summary = book.summary();
    assert_eq!((summary.requests, summary.voids, summary.charges), (5, 3, 1));
}

#[test]
fn a_void_of_a_decided_key_answers_what_became_of_it() {
    let replays = Rules { replays_declines: true, ..RULES };
    for (rules, payee, verdict, answered) in [
        (RULES, "sim_ok", Verdict::Replayed, 200),
        (RULES, "sim_timeout_charged", Verdict::Replayed, 200),
        (RULES, "sim_500_sticky", Verdict::Replayed, 200),
        (RULES, "sim_pending_9_ok", Verdict::Replayed, 202),
        (replays, "sim_decline_lost_card", Verdict::Replayed, 402),
        // Here the same key would be executed anew, so nothing is decided.
        (RULES, "sim_decline_lost_card", Verdict::Voided, 200),
        (RULES, "sim_timeout_not_charged", Verdict::Voided, 200),
        (RULES, "sim_429_9", Verdict::Voided, 200),
    ] {
        let mut book = Book::new(rules);
        ask(&mut book, 0, "k", payee);
        let (said, reply) = void(&mut book, 1, "k");
        assert_eq!((said, status(&reply)), (verdict, answered), "{payee}");
        let charges = book.summary().charges;
        ask(&mut book, 2, "k", payee);
        assert_eq!(book.summary().charges, charges, "{payee}: nothing is charged after a void");
    }
}

#[test]
fn a_void_waits_for_a_running_charge_and_lies_about_a_forgotten_one() {
    let mut book = Book::new(RULES);
    let ruling = book.receive(at(0), Door::Open, &heads("k"), Ok(&body("sim_ok"))).expect("possible");
    assert!(ruling.in_flight);
    assert_eq!(void(&mut book, 0, "k").0, Verdict::Concurrent);
    book.land("k");
    assert_eq!(void(&mut book, 99, "k").0, Verdict::Replayed);
    // Why nobody may void after the key's life: the charge stands, and the answer is "voided".
    assert_eq!(void(&mut book, 100, "k").0, Verdict::Voided);
    assert_eq!(book.look_up(at(100), "k").len(), 1);
}

#[test]
fn destinations_lose_the_answer_of_the_first_void_or_refuse_some() {
    let mut lost = Book::new(RULES);
    assert_eq!(ask(&mut lost, 0, "k", "sim_void_lost").0, Verdict::NotCharged);
    assert_eq!(void(&mut lost, 1, "k"), (Verdict::Voided, Reply::Reset));
    assert_eq!(ask(&mut lost, 2, "k", "sim_void_lost").0, Verdict::Tombstoned, "it was performed");
    assert_eq!(status(&void(&mut lost, 3, "k").1), 200);

    let mut refused = Book::new(RULES);
    ask(&mut refused, 0, "k", "sim_void_refused_2");
    let said: Vec<_> = (1..4).map(|second| void(&mut refused, second, "k").0).collect();
    assert_eq!(said, [Verdict::VoidRefused, Verdict::VoidRefused, Verdict::Voided]);
    let mut charged = Book::new(RULES);
    let said = verdicts(&mut charged, "k", "sim_void_refused_2", 2);
    assert_eq!(said, [Verdict::NotCharged, Verdict::Charged], "without a void, as any lost request");
}

#[test]
fn a_gateway_that_does_not_void_says_so_and_plants_nothing() {
    let mut book = Book::new(Rules { voids_by_key: false, ..RULES });
    let (verdict, reply) = void(&mut book, 0, "k");
    assert_eq!((verdict, status(&reply)), (Verdict::Invalid, 404));
    assert_eq!(ask(&mut book, 1, "k", "sim_ok").0, Verdict::Charged);
}

#[test]
fn a_restart_remembers_tombstones_and_which_voids_came() {
    let (mut book, mut again) = (Book::new(RULES), Book::new(RULES));
    let ruling = book.receive(at(0), Door::Open, &heads("k"), Ok(&body("sim_void_lost"))).expect("possible");
    book.land("k");
    let voids =
        [1, 2].map(|s| book.receive_void(at(s), Door::Open, &heads("k"), None).expect("possible").line);
    for line in std::iter::once(&ruling.line).chain(&voids) {
        let text = serde_json::to_string(line).expect("JSON");
        again.absorb(&serde_json::from_str(&text).expect("read back")).expect("possible");
    }
    assert_eq!(again.summary(), book.summary());
    assert_eq!(ask(&mut again, 3, "k", "sim_ok").0, Verdict::Tombstoned);
    let (verdict, reply) = void(&mut again, 4, "k");
    assert_eq!((verdict, status(&reply)), (Verdict::Voided, 200), "only the first one's answer is lost");
    assert_eq!(voids[0].payment_id.as_deref(), Some("k"));
}

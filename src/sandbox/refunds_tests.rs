//! Refunds of the simulated gateway, told request by request.

use super::super::book::Rules;
use super::super::wire::ChargeBody;
use super::*;

const RULES: Rules = Rules {
    key_ttl: Duration::from_secs(100),
    replays_declines: false,
    replays_5xx: false,
    compares_body: true,
    voids_by_key: false,
};

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000, 0).expect("in range")
}

fn heads(key: &str) -> Heads {
    Heads { key: Some(key.into()), ..Heads::default() }
}

/// A book whose payment `p` was charged 1,000 by line 1.
fn charged(payee: &str) -> Book {
    let mut book = Book::new(RULES);
    let body =
        ChargeBody { payment_id: "p".into(), amount: 1_000, currency: "EUR".into(), payee: payee.into() };
    book.receive(now(), Door::Open, &heads("p"), Ok(&body)).expect("possible");
    book.land("p");
    book
}

fn body(key: &str, amount: i64) -> RefundBody {
    RefundBody {
        refund_id: key.into(),
        charge: "ch_1".into(),
        payment_id: "p".into(),
        amount,
        currency: "EUR".into(),
    }
}

fn give(book: &mut Book, body: &RefundBody) -> (Verdict, u16, Ruling) {
    let ruling = book.receive_refund(now(), Door::Open, &heads(&body.refund_id), Ok(body)).expect("possible");
    let status = match &ruling.reply {
        Reply::Json { status, .. } => *status,
        Reply::Garbage | Reply::Hold | Reply::Reset => 0,
    };
    (ruling.line.verdict, status, ruling)
}

fn said(book: &mut Book, body: &RefundBody) -> (Verdict, u16) {
    let (verdict, status, _) = give(book, body);
    (verdict, status)
}

#[test]
fn a_key_gives_back_once_and_in_sum_never_more_than_the_charge() {
    let mut book = charged("sim_ok");
    assert_eq!(said(&mut book, &body("a", 600)), (Verdict::Refunded, 200));
    assert_eq!(said(&mut book, &body("a", 600)), (Verdict::Replayed, 200));
    assert_eq!(said(&mut book, &body("a", 500)), (Verdict::KeyReused, 422));
    assert_eq!(said(&mut book, &body("b", 401)), (Verdict::Declined, 402));
    assert_eq!(said(&mut book, &body("b", 400)), (Verdict::KeyReused, 422), "also after a decline");
    assert_eq!(said(&mut book, &body("c", 400)), (Verdict::Refunded, 200));
    assert_eq!(said(&mut book, &body("d", 1)), (Verdict::Declined, 402));
    let summary = book.summary();
    assert_eq!((summary.refund_requests, summary.refunds, summary.requests, summary.charges), (7, 2, 1, 1));
    let shown = book.look_up_refund("a").expect("shown");
    assert_eq!((&shown["status"], &shown["amount"]), (&json!("refunded"), &json!(600)));
    assert_eq!(book.look_up_refund("b"), None);
}

#[test]
fn only_a_charge_of_this_payment_in_its_currency_is_given_back() {
    let mut book = charged("sim_ok");
    let good = body("a", 1);
    for wrong in [
        RefundBody { charge: "ch_2".into(), ..good.clone() },
        RefundBody { charge: "re_1".into(), ..good.clone() },
        RefundBody { payment_id: "q".into(), ..good.clone() },
        RefundBody { currency: "USD".into(), ..good.clone() },
    ] {
        let mut fresh = charged("sim_ok");
        assert_eq!(said(&mut fresh, &wrong), (Verdict::Declined, 402), "{wrong:?}");
    }
    let mut declined = charged("sim_decline_lost_card");
    assert_eq!(said(&mut declined, &good), (Verdict::Declined, 402));
    assert_eq!(said(&mut book, &good), (Verdict::Refunded, 200));
}

#[test]
fn a_destination_says_what_its_refunds_get() {
    for (payee, first, again) in [
        ("sim_refund_timeout", (Verdict::Refunded, 0), (Verdict::Replayed, 200)),
        ("sim_refund_reset", (Verdict::Refunded, 0), (Verdict::Replayed, 200)),
        ("sim_refund_lost", (Verdict::NotCharged, 0), (Verdict::Refunded, 200)),
        ("sim_refund_declined", (Verdict::Declined, 402), (Verdict::Declined, 402)),
    ] {
        let mut book = charged(payee);
        assert_eq!(said(&mut book, &body("a", 10)), first, "{payee}");
        assert_eq!(said(&mut book, &body("a", 10)), again, "{payee}");
    }
}

#[test]
fn a_restart_remembers_what_was_given_back() {
    let mut lines = Vec::new();
    let mut book = charged("sim_ok");
    for body in [body("a", 600), body("b", 600), body("a", 600)] {
        lines.push(give(&mut book, &body).2.line);
    }
    let mut again = charged("sim_ok");
    lines.iter().for_each(|line| again.absorb(line).expect("possible"));
    assert_eq!(again.summary(), book.summary());
    assert_eq!(again.look_up_refund("a"), book.look_up_refund("a"));
    assert_eq!(said(&mut again, &body("c", 401)), (Verdict::Declined, 402));
    assert_eq!(said(&mut again, &body("c2", 400)), (Verdict::Refunded, 200));
    let too_much = Line { seq: again.next_seq(), key: Some("z".into()), ..lines[0].clone() };
    assert!(again.absorb(&too_much).is_err(), "a line that this gateway cannot have written");
}

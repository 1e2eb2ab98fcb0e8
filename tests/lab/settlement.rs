//! Settlement reports: our own files read line by line, broken in every way we know of, and whatever chance makes of
//! them.

#[path = "../support/settlement.rs"]
mod files;
mod bank_refusals;
mod refusals;

use chrono::NaiveDate;
use files::{Booked, Message, Style, Sums};
use proptest::prelude::*;
use punctual::domain::ids::{Epoch, PaymentId, gateway_key};
use punctual::domain::money::Currency;
use punctual::domain::settlement::{Kind, Line, bank_key};
use punctual::reconcile::read::{Format, Report, Stopped, read};
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read};

type Lines = (Report, Vec<Line>);

fn all(format: &str, from: impl BufRead) -> Result<Lines, String> {
    let mut lines = Vec::new();
    let format: Format = format.parse().expect("a format");
    let report = read(&format, from, |line| {
        lines.push(line);
        Ok::<(), Infallible>(())
    });
    report.map(|report| (report, lines)).map_err(|stopped| stopped.to_string())
}

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/settlement/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("a file of ours")
}

/// `number@line kind gross CUR = fee + net CUR key ref<charge booked(executed)`.
fn shown(line: &Line) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let Line {
        number,
        at_line,
        kind,
        gross_minor,
        currency,
        fee_minor,
        net_minor,
        net_currency,
        booked_on,
        ..
    } = line;
    let charge = line.charge_ref.as_ref().map(|charge| format!("<{charge}")).unwrap_or_default();
    let executed = line.executed_on.map(|day| format!(" done {day}")).unwrap_or_default();
    format!(
        "{number}@{at_line} {} {gross_minor} {currency} = {fee_minor} + {net_minor} {net_currency}, {} {}{charge}, {booked_on}{executed}",
        kind.as_str(),
        text(&line.key),
        text(&line.gateway_ref),
    )
}

const A: &str = "01a22198-ed00-8101-8101-010101010101";
const B: &str = "01a2219d-80e0-8202-8202-020202020202";
const C: &str = "01a2247e-80c0-8303-8303-030303030303";
const D: &str = "01a2219e-6b40-8404-8404-040404040404";
const R: &str = "55555555-5555-8555-9555-555555555555";

fn hex(id: &str) -> String {
    id.replace('-', "")
}

fn is(format: &str, name: &str, expected: &[String]) -> Report {
    let (report, lines) = all(format, fixture(name).as_slice()).expect(name);
    let shown: Vec<String> = lines.iter().map(shown).collect();
    assert_eq!(shown, expected, "{name}");
    assert_eq!(report.lines as usize, lines.len(), "{name}");
    report
}

fn day(text: &str) -> Option<NaiveDate> {
    Some(text.parse().expect("a day"))
}

#[test]
fn the_sandbox_s_report_is_read_line_by_line() {
    let report = is(
        "sandbox",
        "sandbox.ndjson",
        &[
            format!("1@1 charge 1000 EUR = 40 + 960 EUR, {A} ch_1, 2026-11-28 done 2026-11-28"),
            format!("2@2 charge 500 JPY = 32 + 468 JPY, {B}:2 ch_2, 2026-11-28 done 2026-11-27"),
            format!("3@3 refund -300 EUR = 0 + -300 EUR, {R} re_3<ch_1, 2026-11-28 done 2026-11-28"),
            format!("4@4 chargeback -700 EUR = 0 + -700 EUR, {A} cb_1<ch_1, 2026-11-28 done 2026-11-28"),
            "5@5 charge 1 EUR = 26 + -25 EUR, unknown-00000000000000ff ch_05, 2026-11-28 done 2026-11-28"
                .into(),
        ],
    );
    assert_eq!((report.day, report.is_complete, report.source_id), (day("2026-11-28"), true, None));
    let sums: Vec<_> = report
        .sums
        .iter()
        .map(|sum| (sum.kind.as_str(), sum.currency.as_str(), sum.lines, sum.gross_minor))
        .collect();
    assert_eq!(
        sums,
        [
            ("charge", "EUR", 2, 1001),
            ("charge", "JPY", 1, 500),
            ("refund", "EUR", 1, -300),
            ("chargeback", "EUR", 1, -700)
        ]
    );
}

#[test]
fn stripe_s_reports_are_read_with_what_the_customer_paid() {
    let report = is(
        "stripe:totals=required",
        "stripe_balance.csv",
        &[
            format!("1@2 charge 1000 EUR = 40 + 960 EUR, {A} pi_1<ch_1, 2026-11-28 done 2026-11-28"),
            format!("2@3 charge 500 JPY = 30 + 275 EUR, {B}:2 pi_2<ch_2, 2026-11-28 done 2026-11-28"),
            format!("3@5 refund -300 EUR = 0 + -300 EUR, {A} re_3<pi_1, 2026-11-28 done 2026-11-28"),
            format!("4@6 chargeback -700 EUR = 1500 + -2200 EUR, {A} dp_4<pi_1, 2026-11-28 done 2026-11-28"),
            "5@7 fee -2 EUR = 0 + -2 EUR, - -, 2026-11-28 done 2026-11-28".into(),
            "6@8 payout -50000 EUR = 0 + -50000 EUR, - po_6, 2026-11-28 done 2026-11-28".into(),
            "7@9 other 100 EUR = 0 + 100 EUR, - x_7, 2026-11-28 done 2026-11-28".into(),
        ],
    );
    assert_eq!((report.day, report.is_complete), (day("2026-11-28"), true));
    // UGX has no decimals; Stripe writes two.
    is(
        "stripe:key=order (metadata)",
        "stripe_history.csv",
        &[
            format!("1@2 charge 5 UGX = 0 + 5 UGX, {A} py_1, 2026-11-28 done 2026-11-28"),
            format!("2@3 refund -5 UGX = 0 + -5 UGX, {A} pyr_2, 2026-11-28 done 2026-11-28"),
        ],
    );
}

#[test]
fn adyen_s_report_is_read_by_the_clock_of_each_row() {
    let report = is(
        "adyen:totals=required",
        "adyen.csv",
        &[
            format!("1@2 charge 1000 EUR = 40 + 960 EUR, {A} 8515131751004933, 2026-11-28 done 2026-11-28"),
            format!("2@3 charge 500 JPY = 30 + 275 EUR, {B}:2 8515131751004935, 2026-11-28 done 2026-11-28"),
            format!("3@4 charge 1234 KWD = 30 + 1204 KWD, {C} 8515131751004937, 2026-11-28 done 2026-11-28"),
            format!(
                "4@5 refund -300 EUR = 0 + -300 EUR, {R} 8515131751004939<8515131751004933, 2026-11-28 done 2026-11-28"
            ),
            format!(
                "5@6 chargeback -700 EUR = 1500 + -2200 EUR, {A} 8515131751004940<8515131751004933, 2026-11-28 done 2026-11-28"
            ),
            "6@7 fee -2 EUR = 0 + -2 EUR, - Transaction fees, 2026-11-28 done 2026-11-28".into(),
            "7@8 payout -50000 EUR = 0 + -50000 EUR, - Batch 17, AcmeEU, 2026-11-28 done 2026-11-28".into(),
        ],
    );
    assert_eq!(report.day, day("2026-11-28"));
}

#[test]
fn where_money_is_paid_out_the_debit_is_the_charge() {
    let text = String::from_utf8(fixture("adyen.csv")).expect("text");
    let row = text.lines().next().expect("a headline").to_owned()
        + "\n"
        + &format!(
            "Acme,AcmeEU,1,{A},iban,2026-11-28 11:00:01,CET,PaidOut,2,EUR,10.00,,1,EUR,10.40,,0.40,,,,,,17\n"
        );
    let (_, lines) = all("adyen:charges=debit", row.as_bytes()).expect("in order");
    assert_eq!(
        shown(&lines[0]),
        format!("1@2 charge 1000 EUR = -40 + 1040 EUR, {A} 1, 2026-11-28 done 2026-11-28")
    );
    let (_, lines) =
        all("adyen", row.replace("10.40", "10.00").replace("0.40", "").as_bytes()).expect("in order");
    assert_eq!(lines[0].kind, Kind::Other);
}

#[test]
fn a_bank_s_statement_is_read_with_its_batches_reversals_and_fees() {
    let (a, b, c, d) = (hex(A), hex(B).to_uppercase(), hex(C), hex(D));
    let report = is(
        "camt.053",
        "camt.053.001.02.xml",
        &[
            format!("1@21 charge 1000 EUR = 0 + 1000 EUR, {a} BANK-1, 2026-11-28 done 2026-11-28"),
            format!("2@33 charge 500 EUR = 0 + 500 EUR, {b} BANK-2-1, 2026-11-28"),
            format!("3@37 charge 2190 USD = 0 + 2000 EUR, {d} BANK-2-2, 2026-11-28"),
            format!("4@46 chargeback -1000 EUR = 0 + -1000 EUR, {a} BANK-3, 2026-11-28"),
            "5@51 other -300 EUR = 0 + -300 EUR, - BANK-4, 2026-11-28".into(),
            "6@53 fee 50 EUR = 0 + 50 EUR, - BANK-5, 2026-11-28".into(),
            format!("7@61 charge 90 EUR = -10 + 100 EUR, {c} BANK-6, 2026-11-28"),
        ],
    );
    assert_eq!(
        (report.day, report.is_complete, report.source_id.as_deref(), report.passed_over),
        (day("2026-11-28"), true, Some("STMT-2026-11-28"), 0)
    );
}

#[test]
fn a_page_with_a_prefix_and_elements_of_the_bank_s_own_is_read() {
    let expected = [format!("1@14 charge 2345 KWD = 0 + 2345 KWD, {} -, 2026-11-28", hex(A))];
    let report = is("camt.053", "camt.053.001.08.xml", &expected);
    assert_eq!((report.is_complete, report.passed_over, report.day), (false, 1, day("2026-11-28")));
    assert_eq!(report.source_id.as_deref(), Some("STMT-8#1"), "the next page does not replace it");
    // What is said of the whole statement is not of this page; of a whole one it would be held.
    let text = String::from_utf8(fixture("camt.053.001.08.xml"))
        .expect("text")
        .replace("<c:NbOfNtries>2", "<c:NbOfNtries>9");
    assert!(all("camt.053", text.as_bytes()).is_ok());
    let whole = text.replace("<c:LastPgInd>false", "<c:LastPgInd>true");
    assert!(
        all("camt.053", whole.as_bytes())
            .expect_err("nine")
            .contains("the file says 9, and its lines come to 2")
    );
    let text = String::from_utf8(fixture("camt.053.001.02.xml")).expect("text");
    let page = text
        .replace("<PgNb>1</PgNb><LastPgInd>true", "<PgNb>2</PgNb><LastPgInd>1")
        .replace("976.50", "1976.50");
    let (report, _) = all("camt.053", page.as_bytes()).expect("a page of a message");
    assert_eq!((report.is_complete, report.source_id.as_deref()), (false, Some("STMT-2026-11-28#2")));
}

#[test]
fn a_notification_of_collections_is_read_though_it_is_one_line_of_text() {
    let report = is(
        "camt.054:charges=credit",
        "camt.054.001.08.xml",
        &[
            format!("1@1 charge 400 EUR = 0 + 400 EUR, {} B-1, 2026-11-28", hex(A)),
            format!("2@1 charge 300 EUR = 0 + 300 EUR, {} B-1, 2026-11-28", hex(B)),
            "3@1 other 700 EUR = 0 + 700 EUR, - -, 2026-11-28".into(),
        ],
    );
    assert_eq!((report.is_complete, report.source_id.as_deref()), (true, Some("MSG-54")));
}

#[test]
fn a_line_s_hash_is_of_its_own_bytes_and_the_report_s_of_all() {
    use sha2::{Digest, Sha256};
    let text = fixture("sandbox.ndjson");
    let (report, lines) = all("sandbox", text.as_slice()).expect("in order");
    assert_eq!(report.sha256[..], Sha256::digest(&text)[..]);
    assert_eq!(report.size_bytes as usize, text.len());
    let second = text.split(|byte| *byte == b'\n').nth(1).expect("a line");
    assert_eq!(lines[1].raw_hash[..], Sha256::digest(second)[..]);

    let text = String::from_utf8(fixture("camt.053.001.02.xml")).expect("text");
    let (report, lines) = all("camt.053", text.as_bytes()).expect("in order");
    assert_eq!(report.sha256[..], Sha256::digest(&text)[..]);
    let between = |from: &str, to: &str, nth: usize| {
        let start = text.match_indices(from).nth(nth).expect("it begins").0;
        let length = text[start..].find(to).expect("it ends") + to.len();
        text[start..start + length].to_owned()
    };
    assert_eq!(lines[0].raw_hash[..], Sha256::digest(between("<TxDtls>", "</TxDtls>", 0))[..]);
    assert_eq!(lines[2].raw_hash[..], Sha256::digest(between("<TxDtls>", "</TxDtls>", 2))[..]);
    assert_eq!(
        lines[5].raw_hash[..],
        Sha256::digest(between("<Ntry>", "</Ntry>", 4))[..],
        "an entry without any"
    );

    let text = fixture("stripe_balance.csv");
    let (report, lines) = all("stripe", text.as_slice()).expect("in order");
    assert_eq!(report.sha256[..], Sha256::digest(&text)[..]);
    let of_two_lines = text.split(|byte| *byte == b'\n').skip(2).take(2).collect::<Vec<_>>().join(&b'\n');
    assert_eq!(lines[1].raw_hash[..], Sha256::digest(of_two_lines)[..]);
}

#[test]
fn whoever_takes_the_lines_can_stop_and_a_broken_connection_is_no_fault_of_the_file() {
    let text = fixture("sandbox.ndjson");
    let mut seen = 0;
    let stopped = read(&Format::Sandbox, text.as_slice(), |_| {
        seen += 1;
        if seen == 2 { Err("enough") } else { Ok(()) }
    });
    assert!(matches!(stopped, Err(Stopped::By("enough"))) && seen == 2);

    struct Breaks;
    impl Read for Breaks {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
        }
    }
    for (format, name) in FILES {
        let half = fixture(name);
        let broken = BufReader::with_capacity(7, half[..half.len() / 2].chain(Breaks));
        let stopped = read(&format.parse().expect("a format"), broken, |_| Ok::<(), Infallible>(()));
        assert!(matches!(stopped, Err(Stopped::Unread(_))), "{name}: {stopped:?}");
    }
}

/// Every file with its format.
const FILES: [(&str, &str); 7] = [
    ("sandbox", "sandbox.ndjson"),
    ("stripe:totals=required", "stripe_balance.csv"),
    ("stripe:key=order (metadata)", "stripe_history.csv"),
    ("adyen:totals=required", "adyen.csv"),
    ("camt.053", "camt.053.001.02.xml"),
    ("camt.053", "camt.053.001.08.xml"),
    ("camt.054:charges=credit", "camt.054.001.08.xml"),
];

#[test]
fn a_file_cut_at_any_byte_is_refused_or_lost_nothing() {
    for (format, name) in FILES {
        let whole = fixture(name);
        let (_, lines) = all(format, whole.as_slice()).expect(name);
        for length in 0..whole.len() {
            let Ok((_, read)) = all(format, &whole[..length]) else { continue };
            // The export of the balance's history has no totals: cut behind a row, nobody can see it.
            let cannot_tell = name == "stripe_history.csv" && whole[length - 1] == b'\n';
            assert!(read == lines || cannot_tell, "{name} cut at {length}");
        }
    }
}

#[test]
fn a_reader_that_gives_a_byte_at_a_time_changes_nothing() {
    for (format, name) in FILES {
        let whole = fixture(name);
        let slowly = all(format, BufReader::with_capacity(1, whole.as_slice())).expect(name);
        assert_eq!(slowly, all(format, whole.as_slice()).expect(name), "{name}");
    }
}

const CODES: [&str; 6] = ["EUR", "USD", "JPY", "KWD", "CLF", "UGX"];

fn currency() -> impl Strategy<Value = Currency> {
    (0..CODES.len()).prop_map(|at| Currency::from_code(CODES[at]).expect("in the table"))
}

fn id() -> impl Strategy<Value = PaymentId> {
    (1_795_000_000_000_i64..1_796_000_000_000, any::<[u8; 10]>()).prop_map(|(ms, intent)| {
        PaymentId::new(chrono::DateTime::from_timestamp_millis(ms).expect("in range"), intent)
            .expect("in range")
    })
}

/// A charge or a refund of ours, with fee and net of the same currency or of `account`.
fn booked(account: Option<Currency>) -> impl Strategy<Value = Booked> {
    let amounts = (1..1_000_000_000_000_i64, 0..1_000_000_i64, 1..1_000_000_000_i64);
    (id(), 0..3_i32, any::<bool>(), currency(), amounts, "[A-Z]{1,3}-[0-9]{1,9}").prop_map(
        move |(id, epoch, is_charge, currency, (gross, fee, other), reference)| {
            let sign = if is_charge { 1 } else { -1 };
            let net_currency = account.unwrap_or(currency);
            let net = sign * if net_currency == currency { gross } else { other } - fee;
            let day = id.due_day();
            Booked {
                key: Some(gateway_key(id, Epoch(if is_charge { epoch } else { 0 }))),
                gateway_ref: Some(reference.clone()),
                charge_ref: (!is_charge).then(|| format!("OF-{reference}")),
                kind: if is_charge { Kind::Charge } else { Kind::Refund },
                gross_minor: sign * gross,
                currency,
                fee_minor: fee,
                net_minor: net,
                net_currency,
                booked_on: day,
                executed_on: Some(day),
            }
        },
    )
}

/// As a bank knows it: no fee, no charge that a refund belongs to, the key without hyphens.
fn at_a_bank(account: Currency) -> impl Strategy<Value = Booked> {
    booked(Some(account)).prop_map(move |line| {
        let id: PaymentId =
            line.key.as_deref().and_then(|key| key.get(..36)).expect("a key").parse().expect("an id");
        // With no fee taken off, so that the account moves the way the payment does.
        let net_minor = line.net_minor + line.fee_minor;
        Booked { key: Some(bank_key(id)), charge_ref: None, fee_minor: 0, net_minor, ..line }
    })
}

fn read_back(format: &str, text: &str) -> Vec<Booked> {
    let (report, lines) = all(format, text.as_bytes()).expect("what was written in order");
    assert_eq!(report.lines as usize, lines.len());
    lines.into_iter().map(Booked::from).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_was_written_for_the_sandbox_is_read(lines in prop::collection::vec(booked(None), 0..20)) {
        let day = day("2026-11-28").expect("a day");
        let lines: Vec<Booked> = lines.into_iter().map(|line| Booked { booked_on: day, ..line }).collect();
        prop_assert_eq!(read_back("sandbox", &files::sandbox(day, &lines)), lines);
    }

    #[test]
    fn what_was_written_for_stripe_is_read(
        lines in currency().prop_flat_map(|account| prop::collection::vec(
            prop_oneof![booked(None), booked(Some(account))], 1..20)),
        is_windows: bool,
    ) {
        let end = if is_windows { "\r\n" } else { "\n" };
        prop_assert_eq!(read_back("stripe", &files::stripe(&lines, Sums::Absent, end)), lines.clone());
        prop_assert_eq!(read_back("stripe:totals=required", &files::stripe(&lines, Sums::Present, end)), lines);
    }

    #[test]
    fn what_was_written_for_adyen_is_read(
        lines in currency().prop_flat_map(|account| prop::collection::vec(
            prop_oneof![booked(None), booked(Some(account))], 1..20)),
        is_windows: bool,
    ) {
        let end = if is_windows { "\r\n" } else { "\n" };
        prop_assert_eq!(read_back("adyen", &files::adyen(&lines, Sums::Absent, end)), lines.clone());
        prop_assert_eq!(read_back("adyen:totals=required", &files::adyen(&lines, Sums::Present, end)), lines);
    }

    #[test]
    fn what_a_bank_wrote_in_any_version_is_read(
        lines in currency().prop_flat_map(|account| prop::collection::vec(at_a_bank(account), 0..30)),
        version in 2..=14_u8,
        batch in 1..8_usize,
        is_prefixed: bool,
        is_spread: bool,
        is_statement: bool,
    ) {
        let (message, format) = if is_statement {
            (Message::Statement, "camt.053")
        } else {
            (Message::Notification, "camt.054")
        };
        let prefix = if is_prefixed { "ns1:" } else { "" };
        let style = Style { message, version, batch, prefix, blank: if is_spread { "\n\t" } else { "" } };
        let text = files::camt(style, day("2026-11-28").expect("a day"), &lines);
        prop_assert_eq!(read_back(format, &text), lines);
    }

    #[test]
    fn no_damage_makes_a_reader_panic_or_accept_other_money(
        file in 0..FILES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (format, name) = FILES[file];
        let mut bytes = fixture(name);
        for (at, byte) in &damage {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if let Ok((report, lines)) = all(format, bytes.as_slice()) {
            prop_assert_eq!(report.lines as usize, lines.len());
            for line in lines.iter().filter(|line| line.currency == line.net_currency) {
                prop_assert_eq!(line.gross_minor, line.fee_minor + line.net_minor);
            }
        }
    }

    #[test]
    fn no_bytes_at_all_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), which in 0..FILES.len()) {
        let _ = all(FILES[which].0, bytes.as_slice());
    }
}

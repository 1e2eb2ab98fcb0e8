//! Files of ours with one thing wrong in each, and the line and the sentence that it is refused with.

use super::{A, all, fixture};

/// A format, its file, what is replaced once, by what, and what is said.
pub(super) type Wrong = (&'static str, &'static str, &'static str, &'static str, &'static str);

pub(super) fn check(wrong: &[Wrong]) {
    let mut others = Vec::new();
    for (format, name, from, to, told) in wrong {
        let text = String::from_utf8(fixture(name)).expect("text");
        assert!(text.contains(from), "{name} has no {from:?}");
        match all(format, text.replacen(from, to, 1).as_bytes()) {
            Err(refused) if refused == *told => {}
            other => others.push(format!("{from:?} as {to:?}: {:?}, not {told:?}", other.map(|_| "read"))),
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

const END: &str = "{\"end\":{\"day\":\"2026-11-28\",\"lines\":5,\"complete\":true}}\n";

const fn of_the_sandbox(from: &'static str, to: &'static str, told: &'static str) -> Wrong {
    ("sandbox", "sandbox.ndjson", from, to, told)
}

const OF_THE_SANDBOX: &[Wrong] = &[
    of_the_sandbox(END, "", "line 6: the file is cut short: its last line, the end, is missing"),
    of_the_sandbox("true}}\n", "true}}", "line 6: the file is cut short: in this line"),
    of_the_sandbox(
        "\"lines\":5",
        "\"lines\":6",
        "line 6: the number of lines: the file says 6, and its lines come to 5",
    ),
    of_the_sandbox(
        END,
        "{\"end\":{\"day\":\"2026-11-29\",\"lines\":5,\"complete\":true}}\n",
        "line 6: it is booked on 2026-11-28, in a report of 2026-11-29",
    ),
    of_the_sandbox(
        END,
        "{\"end\":{\"day\":\"2026-11-28\",\"lines\":5,\"complete\":true}}\n\n",
        "line 7: something follows the end of the report",
    ),
    of_the_sandbox(
        "\"bookedOn\":\"2026-11-28\"}\n{\"key\":\"555",
        "\"bookedOn\":\"2026-11-29\"}\n{\"key\":\"555",
        "line 2: it is booked on 2026-11-29, in a report of 2026-11-28",
    ),
    of_the_sandbox(
        "\"fee\":40",
        "\"fee\":41",
        "line 1: fee and net together: the file says 1000, and its lines come to 1001",
    ),
    of_the_sandbox(
        "\"gross\":500",
        "\"gross\":500.0",
        "line 2: not a line of this format: invalid type: floating point `500.0`, expected i64",
    ),
    of_the_sandbox(
        "\"gross\":500",
        "\"gross\":9223372036854775808",
        "line 2: not a line of this format: invalid value: integer `9223372036854775808`, expected i64",
    ),
    of_the_sandbox(
        "\"gross\":500",
        "\"gross\":-500",
        "line 2: a charge of -500 minor units is against its own direction",
    ),
    of_the_sandbox(
        "\"gross\":1,\"fee\":26,\"net\":-25",
        "\"gross\":-1,\"fee\":24,\"net\":-25",
        "line 5: a charge of -1 minor units is against its own direction",
    ),
    of_the_sandbox(
        "\"fee\":40,\"net\":960",
        "\"fee\":9223372036854775807,\"net\":960",
        "line 1: fee and net is larger than 64 bits hold",
    ),
    of_the_sandbox(
        "\"currency\":\"JPY\"",
        "\"currency\":\"XAU\"",
        "line 2: currency names no currency that we know: \"XAU\"",
    ),
    of_the_sandbox(
        "\"kind\":\"charge\"",
        "\"kind\":\"capture\"",
        "line 1: \"capture\" is no kind of movement that we know, and it carries a key of ours",
    ),
    of_the_sandbox(
        "\"net\":960",
        "\"net\":960,\"net\":960",
        "line 1: not a line of this format: duplicate field `net`",
    ),
    of_the_sandbox(
        "\"net\":960",
        "\"net\":960,\"tax\":1",
        "line 1: not a line of this format: unknown field `tax`, expected one of `key`, `gatewayRef`, `c…",
    ),
    of_the_sandbox("\"net\":960,", "", "line 1: not a line of this format: missing field `net`"),
    of_the_sandbox("2026-11-27", "2026-11-31", "line 2: not a line of this format: input is out of range"),
    of_the_sandbox("\"key\":\"unknown-00000000000000ff\",", "", "line 5: key is missing"),
    of_the_sandbox("unknown-00", "unknown\\u0007", "line 5: a control character stands in the key"),
];

#[test]
fn the_sandbox_s_report_is_refused_where_it_is_wrong() {
    check(OF_THE_SANDBOX);
    assert_eq!(all("sandbox", &b""[..]).expect_err("empty"), "line 1: the file is empty");
    assert_eq!(
        all("sandbox", &b"\xff\xfe{"[..]).expect_err("utf-16"),
        "line 1: this is not UTF-8: save the file as UTF-8"
    );
    assert_eq!(
        all("sandbox", &b"{\"key\":\"\xff\"}\n"[..]).expect_err("latin"),
        "line 1: this is not UTF-8: save the file as UTF-8"
    );
    let long = format!("{{\"key\":\"{}\"}}\n", "x".repeat(70_000));
    assert_eq!(
        all("sandbox", long.as_bytes()).expect_err("long"),
        "line 1: a record is longer than a report may have"
    );
    let key = format!("\"{}\"", "k".repeat(256));
    let text = String::from_utf8(fixture("sandbox.ndjson")).expect("text").replacen("\"ch_1\"", &key, 1);
    assert_eq!(
        all("sandbox", text.as_bytes()).expect_err("long"),
        "line 1: the reference is longer than a report may have"
    );
    let huge = text.replacen(&key, "\"ch_1\"", 1).replace(
        "\"gross\":1000,\"fee\":40,\"net\":960",
        "\"gross\":9223372036854775807,\"fee\":0,\"net\":9223372036854775807",
    );
    assert_eq!(
        all("sandbox", huge.as_bytes()).expect_err("huge"),
        "line 5: the sum of the lines is larger than 64 bits hold"
    );
}

const fn of_stripe(from: &'static str, to: &'static str, told: &'static str) -> Wrong {
    ("stripe", "stripe_balance.csv", from, to, told)
}

const OF_STRIPE: &[Wrong] = &[
    of_stripe(
        "payment_metadata[punctual_payment]",
        "payment_metadata[x]",
        "line 1: the column \"payment_metadata[punctual_payment]\" is missing",
    ),
    of_stripe(
        "reporting_category",
        "category",
        "line 1: the column \"reporting_category\" or \"Type\" is missing",
    ),
    of_stripe("charge_id", "net", "line 1: the column \"net\" is there twice"),
    of_stripe(
        "eur,10.00,0.40",
        "eur,10.001,0.40",
        "line 2: gross cannot be \"10.001\": more decimal places than the currency has",
    ),
    of_stripe(
        "eur,10.00,0.40",
        "eur,\"1,000.00\",0.40",
        "line 2: gross cannot be \"1,000.00\": not a decimal number",
    ),
    of_stripe("eur,10.00,0.40", "eur,1e1,0.40", "line 2: gross cannot be \"1e1\": not a decimal number"),
    of_stripe("eur,10.00,0.40", "eur,,0.40", "line 2: gross cannot be \"\": not a decimal number"),
    of_stripe(
        "eur,10.00,0.40",
        "eur,99999999999999999999.00,0.40",
        "line 2: gross cannot be \"99999999999999999999.00\": too large",
    ),
    of_stripe(
        "eur,10.00,0.40",
        "eur,10.01,0.40",
        "line 2: fee and net together: the file says 1001, and its lines come to 1000",
    ),
    of_stripe("eur,10.00,0.40", "xau,10.00,0.40", "line 2: currency names no currency that we know: \"xau\""),
    of_stripe(
        "10.00,eur,pi_1",
        "10.00,btc,pi_1",
        "line 2: the customer's currency names no currency that we know: \"btc\"",
    ),
    of_stripe(
        "500,jpy",
        "500.5,jpy",
        "line 3: the customer's amount cannot be \"500.5\": more decimal places than the currency has",
    ),
    of_stripe(
        "2026-11-28 10:00:01",
        "28/11/2026 10:00",
        "line 2: the time of creation cannot be \"28/11/2026 10:00\"",
    ),
    of_stripe(
        ",refund,",
        ",retrieval,",
        "line 5: \"retrieval\" is no kind of movement that we know, and it carries a key of ours",
    ),
    of_stripe(",refund,", ",charge,", "line 5: a charge of -300 minor units is against its own direction"),
    of_stripe(",refund,", ",,", "line 5: the kind of movement is missing"),
    of_stripe(
        "first\nsecond",
        "first\n\"second",
        "line 3: a quote stands where none can: inside a cell it is written twice, with quotes around the cell",
    ),
    of_stripe(
        "-511.67",
        "-511.66",
        "line 10: the total of \"net\" in minor units of EUR: the file says -51166, and its lines come to -51167",
    ),
    of_stripe(
        "Total,,,,eur,-495.97,15.70,-511.67",
        "Total,,,,eur,,,",
        "line 10: an amount of the totals is missing",
    ),
    of_stripe(
        "Total,,,,eur",
        "Total,,,,usd",
        "line 10: the total of \"gross\" in minor units of USD: the file says -49597, and its lines come to 0",
    ),
    of_stripe("Total,", "Total,,,,eur,-495.97,,,,,,,,,,\nTotal,", "line 11: the total of EUR is there twice"),
    of_stripe(
        "txn_7,",
        "Total,,,,eur,-496.97,,,,,,,,,,\ntxn_7,",
        "line 10: something follows the end of the report",
    ),
    of_stripe(",,,,,,,,\n", ",,,,,,,\n", "line 10: it has 15 cells, and the headline has 16"),
];

#[test]
fn stripe_s_report_is_refused_where_it_is_wrong() {
    check(OF_STRIPE);
    let required = "stripe:totals=required,key=order (metadata)";
    let told = all(required, fixture("stripe_history.csv").as_slice()).expect_err("without totals");
    assert_eq!(told, "line 4: the file is cut short: the total of UGX is missing");
    let headline = "id,Type,Source,Amount,Fee,Net,Currency,Created (UTC),order (metadata)\n";
    assert_eq!(
        all(required, headline.as_bytes()).expect_err("none"),
        "line 2: the file is cut short: the totals are missing"
    );
    assert_eq!(all("stripe:key=order (metadata)", headline.as_bytes()).expect("a quiet day").0.lines, 0);
}

const fn of_adyen(from: &'static str, to: &'static str, told: &'static str) -> Wrong {
    ("adyen", "adyen.csv", from, to, told)
}

const OF_ADYEN: &[Wrong] = &[
    of_adyen("Psp Reference", "Reference", "line 1: the column \"Psp Reference\" is missing"),
    of_adyen(
        "11:00:01,CET",
        "11:00:01,CST",
        "line 2: TimeZone: the zone \"CST\" is not known, or is the name of several",
    ),
    of_adyen("11:00:01,CET", "11:00:01,", "line 2: the zone of the date is missing"),
    of_adyen("2026-11-28 11:00:01", "2026-11-28", "line 2: the date cannot be \"2026-11-28\""),
    of_adyen(
        "EUR,,10.00,1,EUR,,9.60",
        "EUR,10.00,10.00,1,EUR,,9.60",
        "line 2: the gross amount, as debit and as credit, is there twice",
    ),
    of_adyen(
        "EUR,,10.00,1,EUR,,9.60",
        "EUR,,-10.00,1,EUR,,9.60",
        "line 2: the gross credit cannot be \"-10.00\"",
    ),
    of_adyen(
        "EUR,,10.00,1,EUR,,9.60",
        "EUR,10.00,,1,EUR,9.60,",
        "line 2: the fees: the file says 40, and its lines come to -40",
    ),
    of_adyen(
        "EUR,,10.00,1,EUR,,9.60",
        "EUR,,10.00,1,EUR,,9.61",
        "line 2: the fees: the file says 40, and its lines come to 39",
    ),
    of_adyen(
        "EUR,,10.00,1,EUR,,9.60",
        "EUR,,10.00,1,,,9.60",
        "line 2: Net Currency names no currency that we know: \"\"",
    ),
    of_adyen("EUR,0.02,,", "EUR,,,", "line 7: the net amount is missing"),
    of_adyen(
        "0.10,0.10,0.20",
        "0.101,0.10,0.20",
        "line 2: Markup (NC) cannot be \"0.101\": more decimal places than the currency has",
    ),
    of_adyen(
        ",Settled,",
        ",Captured,",
        "line 2: \"Captured\" is no kind of movement that we know, and it carries a key of ours",
    ),
    of_adyen(",Settled,", ",,", "line 2: the type is missing"),
    of_adyen(
        "525.02",
        "525.01",
        "line 9: the total of \"Net Debit (NC)\" in minor units of EUR: the file says 52501, and its lines come to 52502",
    ),
    of_adyen(
        "KWD,,1.204,,,,,,,",
        "KWD,,1.203,,,,,,,",
        "line 10: the total of \"Net Credit (NC)\" in minor units of KWD: the file says 1203, and its lines come to 1204",
    ),
];

#[test]
fn adyen_s_report_is_refused_where_it_is_wrong() {
    check(OF_ADYEN);
    let text = String::from_utf8(fixture("adyen.csv")).expect("text");
    let without = text.trim_end().rsplit_once('\n').expect("lines").0.to_owned() + "\n";
    assert_eq!(
        all("adyen", without.as_bytes()).expect_err("cut"),
        "line 10: the file is cut short: the total of KWD is missing"
    );
    // A type that we do not know is nobody's business while its key is nobody's.
    assert_eq!(
        all("adyen", text.replace(",Settled,", ",Reserved,").replace(A, "x").as_bytes())
            .expect_err("B is ours"),
        "line 3: \"Reserved\" is no kind of movement that we know, and it carries a key of ours"
    );
    let fees = text.replace("0.10,0.10,0.20", "0.101,0.10,0.20");
    assert_eq!(all("adyen:fees=none", fees.as_bytes()).expect("not looked at").1[0].fee_minor, 40);
}

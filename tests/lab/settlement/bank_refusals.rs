//! Banks' files of ours with one thing wrong in each: contradictions, and what attackers do with XML.

use super::refusals::{Wrong, check};
use super::{all, fixture};

const fn contradicts(from: &'static str, to: &'static str, told: &'static str) -> Wrong {
    ("camt.053", "camt.053.001.02.xml", from, to, told)
}

const CONTRADICTIONS: &[Wrong] = &[
    contradicts("camt.053.001.02", "camt.052.001.02", "line 2: this is not a camt.053 document"),
    contradicts("BkToCstmrStmt>", "BkToCstmrAcctRpt>", "line 3: this is not a camt.053 document"),
    contradicts(
        "<NbOfNtries>6<",
        "<NbOfNtries>7<",
        "line 13: the number of entries: the file says 7, and its lines come to 6",
    ),
    contradicts(
        "<NbOfNtries>2<",
        "<NbOfNtries>3<",
        "line 14: the number of credits: the file says 3, and its lines come to 2",
    ),
    contradicts(
        "<NbOfNtries>4<",
        "<NbOfNtries>x<",
        "line 15: the NbOfNtries of TtlDbtNtries cannot be \"x\"",
    ),
    contradicts(
        "<Sum>49.50<",
        "<Sum>49.51<",
        "line 13: the sum of the entries in minor units of EUR: the file says 4951, and its lines come to 4950",
    ),
    contradicts(
        "<Sum>36.50<",
        "<Sum>36.51<",
        "line 15: the sum of the debits in minor units of EUR: the file says 3651, and its lines come to 3650",
    ),
    contradicts(
        "<TtlNetNtryAmt>23.50<",
        "<TtlNetNtryAmt>23.51<",
        "line 13: the net of the entries in minor units of EUR: the file says 2351, and its lines come to 2350",
    ),
    contradicts(
        "\"EUR\">976.50<",
        "\"EUR\">976.51<",
        "line 63: the closing balance in minor units of EUR: the file says 97651, and its lines come to 97650",
    ),
    contradicts(
        "<NbOfTxs>2<",
        "<NbOfTxs>3<",
        "line 41: the NbOfTxs of a batch: the file says 3, and its lines come to 2",
    ),
    contradicts(
        "<TtlAmt Ccy=\"EUR\">25.00<",
        "<TtlAmt Ccy=\"EUR\">25.01<",
        "line 41: the TtlAmt of a batch in minor units: the file says 2501, and its lines come to 2500",
    ),
    contradicts(
        "<Amt Ccy=\"EUR\">25.00<",
        "<Amt Ccy=\"EUR\">26.00<",
        "line 42: the amount of the entry in minor units: the file says -2600, and its lines come to -2500",
    ),
    contradicts(
        "<TxAmt><Amt Ccy=\"EUR\">10.00<",
        "<TxAmt><Amt Ccy=\"EUR\">11.00<",
        "line 21: the amount of the entry in minor units: the file says 1000, and its lines come to 1100",
    ),
    contradicts(
        "<TxAmt><Amt Ccy=\"EUR\">20.00",
        "<TxAmt><Amt Ccy=\"USD\">20.00",
        "line 37: the transaction's amount in the account's currency is missing",
    ),
    contradicts(
        "<Amt Ccy=\"EUR\">10.00</Amt><CdtDbtInd>DBIT",
        "<Amt>10.00</Amt><CdtDbtInd>DBIT",
        "line 18: the Ccy of the Amt of Ntry is missing",
    ),
    contradicts(
        "<Amt Ccy=\"EUR\">10.00</Amt><CdtDbtInd>DBIT",
        "<Amt Ccy=\"EUR\">10.00</Amt><Amt Ccy=\"EUR\">10.00</Amt><CdtDbtInd>DBIT",
        "line 18: the Amt of Ntry is there twice",
    ),
    contradicts(
        "<Amt Ccy=\"EUR\">10.00</Amt><CdtDbtInd>DBIT",
        "<Amt Ccy=\"EUR\">-10.00</Amt><CdtDbtInd>DBIT",
        "line 18: the Amt of Ntry cannot be \"-10.00\"",
    ),
    contradicts(
        "<Amt Ccy=\"EUR\">10.00</Amt><CdtDbtInd>DBIT",
        "<CdtDbtInd>DBIT",
        "line 21: the amount of the entry is missing",
    ),
    contradicts(
        "<Amt Ccy=\"EUR\">0.50",
        "<Amt Ccy=\"XAU\">0.50",
        "line 54: the Amt of Ntry names no currency that we know: \"XAU\"",
    ),
    contradicts(
        "<CdtDbtInd>DBIT</CdtDbtInd><Sts>BOOK",
        "<CdtDbtInd>DEBIT</CdtDbtInd><Sts>BOOK",
        "line 18: the CdtDbtInd of Ntry cannot be \"DEBIT\"",
    ),
    contradicts("<Sts>BOOK</Sts>", "<Sts>DONE</Sts>", "line 18: the status of the entry cannot be \"DONE\""),
    contradicts("<Sts>BOOK</Sts>", "", "line 21: the status of the entry is missing"),
    contradicts(
        "<BookgDt><Dt>2026-11-28</Dt></BookgDt><ValDt><Dt>2026-11-28</Dt></ValDt>",
        "",
        "line 21: the booking date of the entry is missing",
    ),
    contradicts(
        "<BookgDt><Dt>2026-11-28<",
        "<BookgDt><Dt>28.11.2026<",
        "line 19: BookgDt cannot be \"28.11.2026\"",
    ),
    contradicts("<RvslInd>true<", "<RvslInd>yes<", "line 44: RvslInd cannot be \"yes\""),
    contradicts(
        "<EndToEndId>NOTPROVIDED",
        "<EndToEndId>a</EndToEndId><EndToEndId>b",
        "line 51: EndToEndId is there twice",
    ),
    contradicts("<Id>STMT-2026-11-28</Id>", "", "line 63: Id is missing"),
    contradicts("2026-11-28T10:00:01Z", "2026-11-28", "line 24: RltdDts cannot be \"2026-11-28\""),
];

#[test]
fn a_bank_s_file_is_refused_where_it_contradicts_itself() {
    check(CONTRADICTIONS);
    check(&[
        (
            "camt.054",
            "camt.054.001.08.xml",
            "<Amt Ccy=\"EUR\">4.00",
            "<Amt Ccy=\"EUR\">5.00",
            "line 1: the amount of the entry in minor units: the file says 700, and its lines come to 800",
        ),
        (
            "camt.053",
            "camt.053.001.08.xml",
            "<c:CdtDbtInd>DBIT</c:CdtDbtInd>\n",
            "<c:CdtDbtInd>CRDT</c:CdtDbtInd>\n",
            "line 14: the CdtDbtInd of the entry: the file says debit, and its lines come to credit",
        ),
    ]);
    let none =
        "<Document xmlns=\"urn:iso:std:iso:20022:tech:xsd:camt.053.001.02\"><BkToCstmrStmt/></Document>";
    assert_eq!(all("camt.053", none.as_bytes()).expect_err("empty"), "line 1: Stmt is missing");
}

const fn hostile(from: &'static str, to: &'static str, told: &'static str) -> Wrong {
    ("camt.053", "camt.053.001.02.xml", from, to, told)
}

const HOSTILE: &[Wrong] = &[
    hostile(
        "<Document",
        "<!DOCTYPE Document [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]>\n<Document",
        "line 2: it declares a document type, which a report never does",
    ),
    hostile(
        "<Document",
        "<!DOCTYPE Document SYSTEM \"file:///etc/passwd\">\n<Document",
        "line 2: it declares a document type, which a report never does",
    ),
    hostile("17 &amp; more", "17 &more;", "line 25: the entity \"more\" is not one of XML's own five"),
    hostile(
        "17 &amp; more",
        "17 & more",
        "line 25: not well-formed XML: ill-formed document: entity or character reference not close…",
    ),
    hostile(
        "17 &amp; more",
        "17 &#0; more",
        "line 25: not well-formed XML: invalid character reference: 0x0 character is not permitted …",
    ),
    hostile("17 &amp; more", "17 &#7; more", "line 25: a control character stands in a text"),
    hostile("17 &amp; more", "17 \0 more", "line 25: a control character stands in a text"),
    hostile(
        "encoding=\"UTF-8\"",
        "encoding=\"ISO-8859-1\"",
        "line 1: this is not UTF-8: save the file as UTF-8",
    ),
    hostile("version=\"1.0\"", "version=\"1.1\"", "line 1: the version of XML cannot be \"1.1\""),
    hostile(
        "<GrpHdr>",
        "<?xml version=\"1.0\"?><GrpHdr>",
        "line 4: not well-formed XML: a declaration stands in the middle",
    ),
    hostile(
        "</Sts>",
        "</Amt>",
        "line 18: not well-formed XML: ill-formed document: expected `</Sts>`, but `</Amt>` was fou…",
    ),
    hostile("<Sts>", "Pay me<Sts>", "line 18: text stands between the elements of Ntry"),
    hostile(
        "<Amt Ccy=\"EUR\">10.00",
        "<Amt Ccy=\"EUR\" Ccy=\"USD\">10.00",
        "line 18: not well-formed XML: error while parsing attribute: position 14: duplicated attri…",
    ),
    hostile("<Sts>", "<x:Sts>", "line 18: not well-formed XML: the prefix \"x\" is not declared"),
    hostile("</Document>", "", "line 66: the file is cut short: the element Document is not closed"),
    hostile("</Document>", "</Document>x", "line 65: something follows the end of the report"),
    hostile("</Document>", "</Document><Document/>", "line 65: something follows the end of the report"),
    hostile(
        " xmlns=\"urn:iso:std:iso:20022:tech:xsd:camt.053.001.02\"",
        "",
        "line 2: the namespace of the root is missing",
    ),
];

#[test]
fn hostile_xml_is_refused_on_its_line() {
    check(HOSTILE);
    let text = String::from_utf8(fixture("camt.053.001.02.xml")).expect("text");
    let deep = text.replacen("<RmtInf>", &"<RmtInf>".repeat(50), 1);
    assert_eq!(
        all("camt.053", deep.as_bytes()).expect_err("deep"),
        "line 25: its elements are nested deeper than a report's"
    );
    let foreign = text.replacen("<RmtInf>", &format!("<x:a xmlns:x=\"y\">{}", "<x:a>".repeat(50)), 1);
    assert_eq!(
        all("camt.053", foreign.as_bytes()).expect_err("deep"),
        "line 25: its elements are nested deeper than a report's"
    );
    let long = text.replacen("Order 17", &"x".repeat(20_000), 1);
    assert_eq!(
        all("camt.053", long.as_bytes()).expect_err("long"),
        "line 25: a text is longer than a report may have"
    );
    for piece in [
        "x".repeat(200_000),
        format!("<a b=\"{}\"/>", "x".repeat(200_000)),
        format!("<!--{}-->", "x".repeat(200_000)),
    ] {
        let long = text.replacen("Order 17", &piece, 1);
        assert_eq!(
            all("camt.053", long.as_bytes()).expect_err("long"),
            "line 25: a piece of markup or text is longer than a report may have"
        );
    }
    let latin: Vec<u8> = text
        .replacen("Order 17", "\u{1}", 1)
        .bytes()
        .map(|byte| if byte == 1 { 0xe9 } else { byte })
        .collect();
    assert_eq!(
        all("camt.053", latin.as_slice()).expect_err("latin"),
        "line 25: this is not UTF-8: save the file as UTF-8"
    );
    assert_eq!(all("camt.053", &b"hello"[..]).expect_err("text"), "line 1: this is not XML");
    assert_eq!(
        all("camt.053", &b"<!-- nothing -->\n"[..]).expect_err("empty"),
        "line 2: the file is cut short: it has no element"
    );
}

#[test]
fn a_statement_s_balances_are_kept_up_to_a_bound() {
    let text = String::from_utf8(fixture("camt.053.001.02.xml")).expect("text");
    let with = |more: usize| text.replacen("<Bal>", &format!("{}<Bal>", "<Bal></Bal>".repeat(more)), 1);
    assert!(all("camt.053", with(998).as_bytes()).is_ok(), "a thousand in all");
    assert_eq!(
        all("camt.053", with(999).as_bytes()).map(drop).expect_err("one more"),
        "line 11: the list of balances is longer than a report may have"
    );
}

//! Settlement files written from lines, for whoever reads them back: our readers and other people's.
//!
//! Written apart from the readers: it shares their types and nothing of how they read, amounts included.

use chrono::NaiveDate;
use punctual::domain::money::Currency;
use punctual::domain::settlement::{Kind, Line};
use std::fmt::Write;

/// A line without what its file gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booked {
    pub key: Option<String>,
    pub gateway_ref: Option<String>,
    pub charge_ref: Option<String>,
    pub kind: Kind,
    pub gross_minor: i64,
    pub currency: Currency,
    pub fee_minor: i64,
    pub net_minor: i64,
    pub net_currency: Currency,
    pub booked_on: NaiveDate,
    pub executed_on: Option<NaiveDate>,
}

impl From<Line> for Booked {
    fn from(line: Line) -> Self {
        Self {
            key: line.key,
            gateway_ref: line.gateway_ref,
            charge_ref: line.charge_ref,
            kind: line.kind,
            gross_minor: line.gross_minor,
            currency: line.currency,
            fee_minor: line.fee_minor,
            net_minor: line.net_minor,
            net_currency: line.net_currency,
            booked_on: line.booked_on,
            executed_on: line.executed_on,
        }
    }
}

/// Major units as a bank writes them.
pub fn major(minor: i64, currency: Currency) -> String {
    let scale = 10_u64.pow(u32::from(currency.exponent()));
    let (whole, rest) = (minor.unsigned_abs() / scale, minor.unsigned_abs() % scale);
    let sign = if minor < 0 { "-" } else { "" };
    match usize::from(currency.exponent()) {
        0 => format!("{sign}{whole}"),
        places => format!("{sign}{whole}.{rest:0places$}"),
    }
}

/// A cell of a CSV file.
fn cell(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn row(cells: &[&str], end: &str) -> String {
    cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(",") + end
}

/// The sandbox's report of a day.
pub fn sandbox(day: NaiveDate, lines: &[Booked]) -> String {
    let mut text = String::new();
    for line in lines {
        let mut object = serde_json::json!({
            "key": line.key, "kind": line.kind.as_str(), "gross": line.gross_minor, "fee": line.fee_minor,
            "net": line.net_minor, "currency": line.currency.as_str(), "executedOn": line.executed_on, "bookedOn": day,
        });
        for (name, value) in [("gatewayRef", &line.gateway_ref), ("chargeRef", &line.charge_ref)] {
            if let Some(value) = value {
                object[name] = value.as_str().into();
            }
        }
        writeln!(text, "{object}").expect("a string");
    }
    let end = serde_json::json!({ "end": { "day": day, "lines": lines.len(), "complete": true } });
    writeln!(text, "{end}").expect("a string");
    text
}

/// Does a row of totals stand at the end?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sums {
    Absent,
    Present,
}

/// Every currency of the account with the sums of three columns.
fn sums(lines: &[Booked], of: impl Fn(&Booked) -> [i64; 3]) -> Vec<(Currency, [i64; 3])> {
    let mut all: Vec<(Currency, [i64; 3])> = Vec::new();
    for line in lines {
        if !all.iter().any(|(currency, _)| *currency == line.net_currency) {
            all.push((line.net_currency, [0; 3]));
        }
        for (currency, sums) in &mut all {
            if *currency == line.net_currency {
                for (sum, more) in sums.iter_mut().zip(of(line)) {
                    *sum += more;
                }
            }
        }
    }
    all
}

/// Stripe's itemised report, of charges, refunds and fees. Gross of the account is fee and net.
pub fn stripe(lines: &[Booked], with: Sums, end: &str) -> String {
    let mut text = row(
        &[
            "balance_transaction_id",
            "created_utc",
            "currency",
            "gross",
            "fee",
            "net",
            "reporting_category",
            "source_id",
            "description",
            "customer_facing_amount",
            "customer_facing_currency",
            "charge_id",
            "payment_metadata[punctual_payment]",
        ],
        end,
    );
    for (at, line) in lines.iter().enumerate() {
        let account = line.net_currency;
        let code = account.as_str().to_lowercase();
        let (source, charge) = match &line.charge_ref {
            Some(charge) => (line.gateway_ref.clone(), Some(charge.clone())),
            None => (line.gateway_ref.clone(), line.gateway_ref.clone()),
        };
        text += &row(
            &[
                &format!("txn_{at}"),
                &format!("{} 12:34:56", line.booked_on),
                &code,
                &major(line.fee_minor + line.net_minor, account),
                &major(line.fee_minor, account),
                &major(line.net_minor, account),
                line.kind.as_str(),
                &source.unwrap_or_default(),
                "a \"description\", over\ntwo lines",
                &major(line.gross_minor, line.currency),
                &line.currency.as_str().to_lowercase(),
                &charge.unwrap_or_default(),
                line.key.as_deref().unwrap_or(""),
            ],
            end,
        );
    }
    if with == Sums::Present {
        for (currency, [gross, fee, net]) in
            sums(lines, |line| [line.fee_minor + line.net_minor, line.fee_minor, line.net_minor])
        {
            let sum = |minor| major(minor, currency);
            let code = currency.as_str();
            text += &row(
                &["Total", "", code, &sum(gross), &sum(fee), &sum(net), "", "", "", "", "", "", ""],
                end,
            );
        }
    }
    text
}

/// Adyen's settlement details, its clock an hour east of Greenwich; credits are charges.
pub fn adyen(lines: &[Booked], with: Sums, end: &str) -> String {
    let mut text = row(
        &[
            "Company Account",
            "Psp Reference",
            "Merchant Reference",
            "Creation Date",
            "TimeZone",
            "Type",
            "Modification Reference",
            "Gross Currency",
            "Gross Debit (GC)",
            "Gross Credit (GC)",
            "Net Currency",
            "Net Debit (NC)",
            "Net Credit (NC)",
            "Commission (NC)",
            "Modification Merchant Reference",
        ],
        end,
    );
    let sides = |minor: i64, currency| {
        let amount = major(minor.abs(), currency);
        if minor < 0 { (amount, String::new()) } else { (String::new(), amount) }
    };
    for line in lines {
        let (gross_debit, gross_credit) = sides(line.gross_minor, line.currency);
        let (net_debit, net_credit) = sides(line.net_minor, line.net_currency);
        let own = line.gateway_ref.clone().unwrap_or_default();
        let (psp, modification) =
            line.charge_ref.clone().map_or((own.clone(), String::new()), |charge| (charge, own));
        let (of_payment, of_refund) = match line.kind {
            Kind::Refund => ("", line.key.as_deref().unwrap_or("")),
            _ => (line.key.as_deref().unwrap_or(""), ""),
        };
        text += &row(
            &[
                "Acme, \"EU\"",
                &psp,
                of_payment,
                &format!("{} 12:34:56", line.booked_on),
                "CET",
                if line.kind == Kind::Refund { "Refunded" } else { "Settled" },
                &modification,
                line.currency.as_str(),
                &gross_debit,
                &gross_credit,
                line.net_currency.as_str(),
                &net_debit,
                &net_credit,
                &major(line.fee_minor, line.net_currency),
                of_refund,
            ],
            end,
        );
    }
    if with == Sums::Present {
        for (currency, [debit, credit, _]) in
            sums(lines, |line| [(-line.net_minor).max(0), line.net_minor.max(0), 0])
        {
            let (debit, credit) = (major(debit, currency), major(credit, currency));
            let code = currency.as_str();
            text += &row(&["Total", "", "", "", "", "", "", "", "", "", code, &debit, &credit, "", ""], end);
        }
    }
    text
}

/// How a bank writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    Statement,
    Notification,
}

/// How a bank writes its statements.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub message: Message,
    /// 2 to 14.
    pub version: u8,
    /// Transactions that are booked as one entry.
    pub batch: usize,
    /// In front of every name, with its colon.
    pub prefix: &'static str,
    /// Between elements.
    pub blank: &'static str,
}

/// A bank's file with totals and, in a statement, balances. All lines are of one currency of the account, charges
/// are debits.
pub fn camt(style: Style, day: NaiveDate, lines: &[Booked]) -> String {
    let (element, part, message) = match style.message {
        Message::Statement => ("BkToCstmrStmt", "Stmt", "053"),
        Message::Notification => ("BkToCstmrDbtCdtNtfctn", "Ntfctn", "054"),
    };
    let account = lines
        .first()
        .map_or_else(|| Currency::from_code("EUR").expect("in the table"), |line| line.net_currency);
    let batches: Vec<&[Booked]> = batches(lines, style.batch);
    let mut body = format!(
        "<GrpHdr><MsgId>MSG</MsgId><CreDtTm>{day}T23:59:59</CreDtTm></GrpHdr><{part}><Id>ID-{day}</Id>"
    );
    body += &format!(
        "<CreDtTm>{day}T23:59:59</CreDtTm><Acct><Id><IBAN>DE89370400440532013000</IBAN></Id><Ccy>{account}</Ccy></Acct>"
    );
    let sum = |of: &dyn Fn(i64) -> bool| {
        let amounts: Vec<i64> =
            batches.iter().map(|batch| batch.iter().map(|line| -line.net_minor).sum()).collect();
        let those: Vec<i64> = amounts.into_iter().filter(|amount| of(*amount)).collect();
        (those.len(), those.iter().map(|amount| amount.abs()).sum::<i64>(), those.iter().sum::<i64>())
    };
    let (all, credits, debits) = (sum(&|_| true), sum(&|amount| amount >= 0), sum(&|amount| amount < 0));
    if style.message == Message::Statement {
        body += &balance("OPBD", 0, account, day);
        body += &balance("CLBD", all.2, account, day);
    }
    let major = |minor| major(minor, account);
    let net = format!("{}{}", amount_of("Amt", &major(all.2.abs())), side(all.2));
    let net = if style.version < 4 {
        format!("{}{}", amount_of("TtlNetNtryAmt", &major(all.2.abs())), side(all.2))
    } else {
        format!("<TtlNetNtry>{net}</TtlNetNtry>")
    };
    body += &format!(
        "<TxsSummry><TtlNtries><NbOfNtries>{}</NbOfNtries><Sum>{}</Sum>{net}</TtlNtries>",
        all.0,
        major(all.1)
    );
    for (name, (count, sum, _)) in [("TtlCdtNtries", credits), ("TtlDbtNtries", debits)] {
        body += &format!("<{name}><NbOfNtries>{count}</NbOfNtries><Sum>{}</Sum></{name}>", major(sum));
    }
    body += "</TxsSummry>";
    for batch in batches {
        body += &entry(batch, style.version, account);
    }
    body += &format!("</{part}>");
    let namespace = format!("urn:iso:std:iso:20022:tech:xsd:camt.{message}.001.{:02}", style.version);
    let body = format!("<{element}>{body}</{element}>");
    let body = body.replace("</", "\u{1}").replace('<', &format!("{}<{}", style.blank, style.prefix));
    let body = body.replace('\u{1}', &format!("</{}", style.prefix));
    let (colon, prefix) =
        if style.prefix.is_empty() { ("", "") } else { (":", style.prefix.trim_end_matches(':')) };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{0}Document xmlns{colon}{prefix}=\"{namespace}\">{body}</{0}Document>\n",
        style.prefix
    )
}

/// Runs of lines that may be booked together: one day, one side, one currency of what was asked.
fn batches(lines: &[Booked], most: usize) -> Vec<&[Booked]> {
    let mut all = Vec::new();
    let mut from = 0;
    for at in 1..=lines.len() {
        let fits = at < lines.len()
            && at - from < most
            && lines[at].booked_on == lines[from].booked_on
            && (lines[at].net_minor < 0) == (lines[from].net_minor < 0);
        if !fits {
            all.push(&lines[from..at]);
            from = at;
        }
    }
    all
}

fn amount_of(name: &str, text: &str) -> String {
    format!("<{name}>{text}</{name}>")
}

fn side(credited: i64) -> &'static str {
    if credited < 0 { "<CdtDbtInd>DBIT</CdtDbtInd>" } else { "<CdtDbtInd>CRDT</CdtDbtInd>" }
}

fn balance(code: &str, minor: i64, currency: Currency, day: NaiveDate) -> String {
    format!(
        "<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp><Amt Ccy=\"{currency}\">{}</Amt>{}<Dt><Dt>{day}</Dt></Dt></Bal>",
        major(minor.abs(), currency),
        side(minor)
    )
}

fn entry(batch: &[Booked], version: u8, account: Currency) -> String {
    let credited: i64 = batch.iter().map(|line| -line.net_minor).sum();
    let status = if version < 7 { "<Sts>BOOK</Sts>" } else { "<Sts><Cd>BOOK</Cd></Sts>" };
    let amount = major(credited.abs(), account);
    let mut text = format!("<Ntry><Amt Ccy=\"{account}\">{amount}</Amt>{}{status}", side(credited));
    text += &format!("<BookgDt><Dt>{0}</Dt></BookgDt><ValDt><Dt>{0}</Dt></ValDt>", batch[0].booked_on);
    text += "<BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>ICDT</Cd><SubFmlyCd>ESCT</SubFmlyCd></Fmly></Domn></BkTxCd><NtryDtls>";
    if batch.len() > 1 {
        text += &format!(
            "<Btch><NbOfTxs>{}</NbOfTxs><TtlAmt Ccy=\"{account}\">{amount}</TtlAmt></Btch>",
            batch.len()
        );
    }
    for line in batch {
        text += &transaction(line, version, account);
    }
    text + "</NtryDtls></Ntry>"
}

fn transaction(line: &Booked, version: u8, account: Currency) -> String {
    let reference = line.gateway_ref.as_deref().unwrap_or("NONE");
    let key = line.key.as_deref().unwrap_or("NOTPROVIDED");
    let net = major(line.net_minor.abs(), account);
    let mut text =
        format!("<TxDtls><Refs><AcctSvcrRef>{reference}</AcctSvcrRef><EndToEndId>{key}</EndToEndId></Refs>");
    let instructed = (line.currency != account).then(|| {
        format!(
            "<InstdAmt><Amt Ccy=\"{}\">{}</Amt></InstdAmt>",
            line.currency,
            major(line.gross_minor.abs(), line.currency)
        )
    });
    if version < 3 {
        let instructed = instructed.unwrap_or_default();
        text += &format!("<AmtDtls>{instructed}<TxAmt><Amt Ccy=\"{account}\">{net}</Amt></TxAmt></AmtDtls>");
    } else {
        text += &format!("<Amt Ccy=\"{account}\">{net}</Amt>{}", side(-line.net_minor));
        text += &instructed.map(|amount| format!("<AmtDtls>{amount}</AmtDtls>")).unwrap_or_default();
    }
    if let Some(day) = line.executed_on {
        text += &format!("<RltdDts><AccptncDtTm>{day}T12:00:00Z</AccptncDtTm></RltdDts>");
    }
    text + "</TxDtls>"
}

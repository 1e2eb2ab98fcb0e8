//! Settlement files read by other people's readers too: two of Python's and ISO's own schemas.
//!
//! What they cannot judge, and so nothing here does but our own tests: CSV and the sandbox's lines; `pycamt` reads no
//! notifications and no prefixes, and gives each transaction the entry's currency; `camt053` gives amounts of entries
//! and no transaction's; neither holds totals or balances against entries, as the last figures show.

use crate::figures::{Figures, Holds, Verdict};
use crate::support::settlement::{self as csv, Booked, Message, Style, camt, major};
use chrono::{DateTime, NaiveDate};
use punctual::domain::ids::PaymentId;
use punctual::domain::money::Currency;
use punctual::domain::settlement::{Kind, bank_key};
use punctual::reconcile::read::{Format, read};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/evidence/outcomes/other_readers.py");
const PACKAGES: [&str; 2] = ["pycamt==1.1.1", "camt053==0.0.23"];
/// Lines read from no file at all.
const COUNT: usize = 1_000_000;
/// Lines of each file.
const LINES: usize = 2_000;

/// A file, how it was written, and the lines that it was written from.
struct Written {
    path: PathBuf,
    style: Style,
    lines: Vec<Booked>,
}

/// Compares entries, counts and sums.
pub async fn other_readers_see_the_same(figures: &mut Figures) {
    figures.part("Readers of settlement files: a million lines each");
    memory(figures);
    figures.part("Other readers of settlement files");
    let home = tempfile::tempdir().expect("a folder");
    let Some(python) = python(home.path()) else {
        let bound = "python3 with venv and a registry of packages";
        return figures.line("pycamt and camt053", "cannot be installed here", bound, Verdict::Unknown);
    };
    let files = written(home.path());
    let seen = ask(&python, &files);
    let count = |at: &dyn Fn(&Written, &Value) -> Option<bool>| {
        let answers: Vec<bool> = files.iter().zip(&seen).filter_map(|(file, seen)| at(file, seen)).collect();
        (answers.len(), answers.iter().filter(|is_so| **is_so).count())
    };
    let mut figure = |name: &str, (asked, agreed): (usize, usize)| {
        let holds = Holds(asked > 0 && agreed == asked);
        figures.holds(name, format!("{agreed} of {asked} files"), "all of them", holds);
    };
    figure(
        "valid by ISO's schemas (versions 2 to 14, both messages)",
        count(&|_, seen| Some(seen["invalid"].is_null())),
    );
    figure(
        "our reader gives back what was written",
        count(&|file, _| Some(ours(file).as_ref() == Ok(&file.lines))),
    );
    figure(
        "camt053: the same keys, entries, sums and balances",
        count(&|file, seen| Some(camt053_agrees(file, seen))),
    );
    figure("pycamt: the same keys, amounts, sides and days", count(&pycamt_agrees));
    blind_spots(figures, &python, home.path());
}

/// A file that nobody wrote: a head, the same piece again and again, a foot.
struct Repeated<'a> {
    pieces: [&'a [u8]; 3],
    left: [usize; 3],
    at: usize,
    given: u64,
}

impl Read for Repeated<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let Some(which) = self.left.iter().position(|left| *left > 0) else { return Ok(0) };
        let rest = &self.pieces[which][self.at..];
        let taken = rest.len().min(into.len());
        into[..taken].copy_from_slice(&rest[..taken]);
        self.at += taken;
        self.given += taken as u64;
        if self.at == self.pieces[which].len() {
            self.at = 0;
            self.left[which] -= 1;
        }
        Ok(taken)
    }
}

/// What this process holds in memory, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it is there");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

/// Of one format: head, piece and foot.
fn one_million(figures: &mut Figures, format: &str, pieces: [&str; 3]) {
    let once = |text: &str| usize::from(!text.is_empty());
    let left = [once(pieces[0]), COUNT, once(pieces[2])];
    let mut from = Repeated { pieces: pieces.map(str::as_bytes), left, at: 0, given: 0 };
    let before = resident();
    let mut most = before;
    let began = std::time::Instant::now();
    let read =
        read(&format.parse::<Format>().expect("a format"), std::io::BufReader::new(&mut from), |line| {
            if line.number % 50_000 == 0 {
                most = most.max(resident());
            }
            Ok::<(), std::convert::Infallible>(())
        });
    let (took, grown) = (began.elapsed(), most - before);
    let came = match read {
        Ok(report) if usize::try_from(report.lines) == Ok(COUNT) => format!("{} MiB", from.given / 1_048_576),
        Ok(report) => format!("{} lines", report.lines),
        Err(stopped) => stopped.to_string(),
    };
    let value = format!("{came} in {:.1} s, {grown} KiB more memory", took.as_secs_f64());
    let holds = Holds(came.ends_with("MiB") && grown <= 8_192 && took.as_secs() < 15);
    figures.holds(&format!("a million lines of {format}"), value, "≤ 8 MiB, < 15 s", holds);
}

/// A million lines of each format, the bank's as one entry, from no file at all.
fn memory(figures: &mut Figures) {
    let id = lines(1, 1)[0].key.clone().expect("a key");
    let row = format!(
        "{{\"key\":\"{id}\",\"gatewayRef\":\"ch_1\",\"kind\":\"charge\",\"gross\":100,\"fee\":1,\"net\":99,\"currency\":\"EUR\",\
         \"executedOn\":\"2026-11-28\",\"bookedOn\":\"2026-11-28\"}}\n"
    );
    let end = format!("{{\"end\":{{\"day\":\"2026-11-28\",\"lines\":{COUNT},\"complete\":true}}}}\n");
    let one = Booked { gross_minor: 100, net_minor: 100, currency: euro(), ..lines(2, 1).remove(0) };
    let one = Booked { kind: Kind::Charge, ..one };
    let (stripe, adyen) = (
        csv::stripe(std::slice::from_ref(&one), csv::Sums::Absent, "\n"),
        csv::adyen(std::slice::from_ref(&one), csv::Sums::Absent, "\n"),
    );
    let statement = camt(
        Style { message: Message::Statement, version: 8, batch: 1, prefix: "", blank: "\n" },
        day(),
        std::slice::from_ref(&one),
    );
    let (start, end_at) =
        (statement.find("<TxDtls>").expect("one"), statement.find("</TxDtls>").expect("its end") + 9);
    // Amounts of the whole, of its entry and of its balance; the transaction keeps its own.
    let whole = |text: &str| text.replace(">1.00<", ">1000000.00<");
    let (head, foot) = (whole(&statement[..start]), whole(&statement[end_at..]));
    let cut = |text: &str| text.find('\n').map(|at| at + 1).expect("a headline");
    // The description of a row goes over two lines.
    let (stripe_at, adyen_at) = (cut(&stripe), cut(&adyen));
    let files = [
        ("sandbox", "", row.as_str(), end.as_str()),
        ("stripe", &stripe[..stripe_at], &stripe[stripe_at..], ""),
        ("adyen", &adyen[..adyen_at], &adyen[adyen_at..], ""),
        ("camt.053", head.as_str(), &statement[start..end_at], foot.as_str()),
    ];
    for (format, head, piece, foot) in files {
        one_million(figures, format, [head, piece, foot]);
    }
}

/// An environment with the two readers.
fn python(home: &Path) -> Option<PathBuf> {
    let venv = home.join("venv");
    let made = Command::new("python3").args(["-m", "venv"]).arg(&venv).status().ok()?;
    let python = venv.join("bin/python");
    let installed = made.success().then(|| {
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(PACKAGES)
            .status()
    })?;
    installed.ok()?.success().then_some(python)
}

fn written(home: &Path) -> Vec<Written> {
    let mut files = Vec::new();
    for version in 2..=14 {
        for (message, name) in [(Message::Statement, "053"), (Message::Notification, "054")] {
            let batch = if version % 2 == 0 { 1 } else { 7 };
            let prefix = if version % 3 == 0 { "ns1:" } else { "" };
            let style = Style { message, version, batch, prefix, blank: if version > 8 { "\n" } else { "" } };
            let lines = lines(u64::from(version), LINES);
            let path = home.join(format!("camt.{name}.001.{version:02}.xml"));
            std::fs::write(&path, camt(style, day(), &lines)).expect("a file");
            files.push(Written { path, style, lines });
        }
    }
    files
}

fn euro() -> Currency {
    Currency::from_code("EUR").expect("in the table")
}

fn day() -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 11, 28).expect("a day")
}

/// Charges and refunds of an account in euro, every fifth asked for in another currency, amounts of every size.
fn lines(seed: u64, count: usize) -> Vec<Booked> {
    let codes = ["EUR", "EUR", "JPY", "EUR", "KWD", "EUR", "EUR", "CLF", "EUR", "EUR"];
    let code = |code: &str| Currency::from_code(code).expect("in the table");
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let line = |at: usize| {
        let due_at =
            DateTime::from_timestamp_millis(1_795_824_000_000 + i64::try_from(at).expect("small") * 40_000);
        let mut intent = [0; 10];
        intent[..8].copy_from_slice(&draw().to_be_bytes());
        let id = PaymentId::new(due_at.expect("in range"), intent).expect("in range");
        let sign = if draw() % 8 == 0 { -1 } else { 1 };
        let digits = u32::try_from(draw() % 9).expect("small");
        let amount = |drawn: u64| i64::try_from(drawn % 10_u64.pow(digits + 1)).expect("small") + 1;
        let (gross, net, currency) = (amount(draw()), amount(draw()), code(codes[at % codes.len()]));
        let is_converted = currency != code("EUR");
        Booked {
            key: Some(bank_key(id)),
            gateway_ref: Some(format!("BANK-{at}")),
            charge_ref: None,
            kind: if sign > 0 { Kind::Charge } else { Kind::Refund },
            gross_minor: sign * gross,
            currency,
            fee_minor: 0,
            net_minor: sign * if is_converted { net } else { gross },
            net_currency: code("EUR"),
            booked_on: day(),
            executed_on: at.is_multiple_of(2).then(day),
        }
    };
    (0..count).map(line).collect()
}

/// One answer a file, in their order.
fn ask(python: &Path, files: &[Written]) -> Vec<Value> {
    let paths = files.iter().map(|file| &file.path);
    let output = Command::new(python).arg(SCRIPT).args(paths).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("JSON");
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn ours(file: &Written) -> Result<Vec<Booked>, String> {
    let format = match file.style.message {
        Message::Statement => "camt.053",
        Message::Notification => "camt.054",
    };
    let format: Format = format.parse().expect("a format");
    let from = std::io::BufReader::new(std::fs::File::open(&file.path).expect("a file"));
    let mut lines = Vec::new();
    let report = read(&format, from, |line| {
        lines.push(Booked::from(line));
        Ok::<(), std::convert::Infallible>(())
    });
    report.map(|_| lines).map_err(|stopped| stopped.to_string())
}

/// What is credited, from a text of two decimals.
fn credited(entry: &Value) -> Option<i64> {
    let amount: i64 = entry["amount"].as_str()?.replace('.', "").parse().ok()?;
    match entry["side"].as_str()? {
        "CRDT" => Some(amount),
        "DBIT" => Some(-amount),
        _ => None,
    }
}

fn camt053_agrees(file: &Written, seen: &Value) -> bool {
    let Ok(ours) = ours(file) else { return false };
    let seen = &seen["camt053"];
    let keys = || {
        seen["keys"].as_array()?.iter().map(|key| key.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    };
    let entries = seen["entries"].as_array().map_or(&[][..], Vec::as_slice);
    let sum = entries.iter().map(credited).sum::<Option<i64>>();
    let of_the_day =
        entries.iter().all(|entry| entry["day"] == day().to_string() && entry["currency"] == "EUR");
    let closing =
        seen["balances"].as_array().and_then(|all| credited(all.iter().find(|it| it["code"] == "CLBD")?));
    let total: i64 = ours.iter().map(|line| -line.net_minor).sum();
    let is_closed = file.style.message == Message::Notification || closing == Some(total);
    keys() == ours.iter().map(|line| line.key.clone()).collect()
        && sum == Some(total)
        && of_the_day
        && is_closed
}

/// `None` for what it cannot judge.
fn pycamt_agrees(file: &Written, seen: &Value) -> Option<bool> {
    if file.style.message == Message::Notification || !file.style.prefix.is_empty() {
        return None;
    }
    let Ok(ours) = ours(file) else { return Some(false) };
    let seen = seen["pycamt"].as_array().map_or(&[][..], Vec::as_slice);
    let is_same = |(line, seen): (&Booked, &Value)| {
        // It takes the first amount inside a transaction: what was instructed, before version 3.
        let takes_gross = file.style.version < 3 && line.currency != line.net_currency;
        let (minor, currency) =
            if takes_gross { (line.gross_minor, line.currency) } else { (line.net_minor, line.net_currency) };
        seen["key"].as_str() == line.key.as_deref()
            && seen["amount"] == major(minor.abs(), currency)
            && seen["side"] == if line.net_minor > 0 { "DBIT" } else { "CRDT" }
            && seen["day"] == line.booked_on.to_string()
    };
    Some(seen.len() == ours.len() && ours.iter().zip(seen).all(is_same))
}

/// A statement that lost an entry: still well-formed and valid, and only its totals say so.
fn blind_spots(figures: &mut Figures, python: &Path, home: &Path) {
    let style = Style { message: Message::Statement, version: 8, batch: 1, prefix: "", blank: "" };
    let lines = lines(99, 50);
    let text = camt(style, day(), &lines);
    let start = text.match_indices("<Ntry>").nth(20).expect("an entry").0;
    let end = start + text[start..].find("</Ntry>").expect("its end") + "</Ntry>".len();
    let path = home.join("lost.xml");
    std::fs::write(&path, format!("{}{}", &text[..start], &text[end..])).expect("a file");
    let file = Written { path, style, lines };
    let seen = ask(python, std::slice::from_ref(&file)).remove(0);
    let told = ours(&file).err().unwrap_or_else(|| "read".into());
    let is_refused = told.contains("the number of entries: the file says 50, and its lines come to 49");
    let value = if is_refused { "refused with its line" } else { "not refused" };
    figures.holds("a statement that lost an entry on the way", value, "refused", Holds(is_refused));
    let count = |of: &Value| of.as_array().map_or(0, Vec::len);
    println!(
        "  pycamt reads {} entries of it and camt053 {}, and neither says a word; the schema finds it {}",
        count(&seen["pycamt"]),
        count(&seen["camt053"]["entries"]),
        if seen["invalid"].is_null() { "valid" } else { "invalid" },
    );
}

//! `punctual reconcile`: our ledger against the gateway's own report, both ways, and what people do about the rest.
//!
//! `run` works straight on the database, like `audit check`: a report may be a file of gigabytes, and whoever
//! loads one holds the installation's settings anyway. Everything else is a client of the API, so that what a
//! person repairs or dismisses is on record under their own name, with a second person where one is not enough.

pub(crate) mod sheet;

use sheet::{headline, rows};

use super::Ended;
use super::output::{Column, Face, List, Output, Reader, at, items, money, print, put, say};
use super::payment::walked;
use super::remote::{Act, Remote, acted, confirm, listed, looked_up, of_client, page_of};
use crate::platform::config::Config;
use crate::reconcile::read::{Format, NoSuchFormat};
use chrono::NaiveDate;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Reconciliation.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Reconcile {
    /// Load a day's settlement report, compare it with the schedule both ways, repair what may be repaired.
    #[command(after_long_help = RUN_HELP)]
    Run(Box<ReconcileRun>),
    /// What was loaded and compared, the newest day first.
    List(Listed),
    /// How each gateway stands: the newest day that was compared, and what is open.
    Status {
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// One of them, with its counts per class and its sums.
    Show {
        /// As `list` shows it.
        #[arg(value_name = "RECONCILIATION_ID")]
        id: String,
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// What differs: each with both values, the line that says so, and where it stands.
    #[command(after_long_help = ITEMS_HELP)]
    Items(Box<Items>),
    /// One item, with its evidence and what may be done.
    Item {
        /// As `items` shows it.
        #[arg(value_name = "ITEM")]
        id: u64,
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Payments, attempts, history and settlement side by side: sums for each day, gateway and currency.
    #[command(after_long_help = SUMS_HELP)]
    Sums {
        /// The first day.
        #[arg(long, value_name = "DAY")]
        from: NaiveDate,
        /// The last day; without it the first one.
        #[arg(long, value_name = "DAY")]
        to: Option<NaiveDate>,
        /// Only of this gateway.
        #[arg(long, value_name = "NAME")]
        gateway: Option<String>,
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Move the payment to where the gateway's line proves that it is.
    #[command(after_long_help = REPAIR_HELP)]
    Repair {
        /// As `items` shows it.
        #[arg(value_name = "ITEM")]
        id: u64,
        /// The payment's version that was looked at; refused if anything was written about it since.
        #[arg(long, value_name = "NUMBER")]
        payment_version: Option<u32>,
        #[command(flatten)]
        act: Act,
    },
    /// Close an item that needs no repair; nothing of the payment changes, and the reason is kept.
    Dismiss {
        /// As `items` shows it.
        #[arg(value_name = "ITEM")]
        id: u64,
        #[command(flatten)]
        act: Act,
    },
    /// Take a wrong report out: its lines count no more. Run its day again with the right one.
    #[command(after_long_help = WITHDRAW_HELP)]
    Withdraw {
        /// As `list` shows it.
        #[arg(value_name = "RECONCILIATION_ID")]
        id: String,
        #[command(flatten)]
        act: Act,
    },
}

const RUN_HELP: &str = "\
Without --file the report is fetched from the gateway (gateway.settlement_url). A report is used whole or not at \
all: one that was cut short or is malformed changes nothing, and its line is named. The same report again changes \
nothing either; a newer one of the same day takes the older one's place, a shorter one only with \
--even-if-shorter; one that was withdrawn stays out, unless --even-if-withdrawn says that it is right. A report of a day that still goes on is compared for what it has, and nothing is called \
missing for it.

Examples:
  punctual reconcile run --gateway sandbox --day 2030-01-31
  punctual reconcile run --gateway bank --day 2030-01-31 --file statement.xml --format camt.053
  punctual reconcile run --gateway sandbox --day 2030-01-31 --dry-run -o json

Exit codes: 0 nothing is left for people; 10 items wait for them; 11 the day's report is not complete; 1 no report, \
or a malformed one; 2 the command line; 6 a shorter report than the one on record, or one that was withdrawn.";

const ITEMS_HELP: &str = "\
--csv is for spreadsheets: amounts stay numbers, and no text in it can run as a formula.

Examples:
  punctual reconcile items --status open --all
  punctual reconcile items --class missing_there --day 2030-01-31 --csv --all > missing.csv";

const SUMS_HELP: &str = "\
By the day on which payments are due. APART is true unless payments and history agree, attempts and what was \
completed by people's or a report's word make up the history, and the report's charges and those that are late do \
too. Exit code 10 if any line is apart.";

const REPAIR_HELP: &str = "\
The payment's own guard decides on the locked row: one that moved meanwhile is left alone. What was FAILED or \
CANCELLED for us and charged at the gateway needs a second person.

Exit codes: 0 done; 4 a second person must agree, or the key may not; 5 no such item; 6 its state, or the payment's, \
does not allow it.";

const WITHDRAW_HELP: &str = "\
What only this report raised is closed, what only it explained is open to question again, and the same file does not \
come back by itself. A report that explains money needs a second person: if a line of it agrees with a payment, or \
repaired one. Payments that it repaired stay as they are.

Exit codes: 0 done; 4 a second person must agree, or the key may not; 5 no such report; 6 it does not count.";

/// Which report, and how it is read.
#[derive(Debug, Clone, Args)]
pub struct ReconcileRun {
    /// The gateway whose report it is.
    #[arg(long, value_name = "NAME")]
    pub gateway: String,
    /// The day that the report is of, in UTC.
    #[arg(long, value_name = "DAY")]
    pub day: NaiveDate,
    /// The report; without it the gateway is asked for it.
    #[arg(long, value_name = "FILE", requires = "format")]
    pub file: Option<PathBuf>,
    /// How the file is written: sandbox, stripe, adyen, camt.053 or camt.054, perhaps with options.
    #[arg(long, value_name = "FORMAT", value_parser = format, requires = "file")]
    pub format: Option<Format>,
    /// Tells it from other reports of the day in the same format, where the file does not say so itself.
    #[arg(long, value_name = "NAME", requires = "file")]
    pub source: Option<String>,
    /// Take it although it has fewer lines than the one on record for this day.
    #[arg(long)]
    pub even_if_shorter: bool,
    /// Take it although people withdrew the very same file before.
    #[arg(long)]
    pub even_if_withdrawn: bool,
    /// Say what it would find, and keep nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print what waits for people as CSV instead.
    #[arg(long, conflicts_with = "output")]
    pub csv: bool,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

fn format(text: &str) -> Result<Format, String> {
    text.parse().map_err(|error: NoSuchFormat| error.to_string())
}

/// Which reconciliations.
#[derive(Debug, Clone, Args)]
pub(super) struct Listed {
    /// Only of this gateway.
    #[arg(long, value_name = "NAME")]
    gateway: Option<String>,
    /// Of this day or later.
    #[arg(long, value_name = "DAY")]
    from: Option<NaiveDate>,
    /// Of this day or earlier.
    #[arg(long, value_name = "DAY")]
    to: Option<NaiveDate>,
    /// Only where they stand so, such as compared.
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Most of them.
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// All of them, however many.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Which items.
#[derive(Debug, Clone, Args)]
pub(super) struct Items {
    /// Only of this class, such as missing_there.
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Only in this state, such as open.
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only of this gateway.
    #[arg(long, value_name = "NAME")]
    gateway: Option<String>,
    /// Only of this day.
    #[arg(long, value_name = "DAY")]
    day: Option<NaiveDate>,
    /// Only of this payment.
    #[arg(long, value_name = "PAYMENT_ID")]
    payment: Option<String>,
    /// Most of them.
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// All of them, however many.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Print them as CSV.
    #[arg(long, conflicts_with = "output")]
    csv: bool,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

const RUNS: &[Column] = &[
    Column { head: "RECONCILIATION", of: |item| at(item, "/reconciliationId") },
    Column { head: "GATEWAY", of: |item| at(item, "/gateway") },
    Column { head: "DAY", of: |item| at(item, "/day") },
    Column { head: "STATUS", of: |item| at(item, "/status") },
    Column { head: "LINES", of: |item| at(item, "/lines") },
    Column { head: "MATCHED", of: |item| at(item, "/counts/matched") },
    Column { head: "COMPLETE", of: |item| at(item, "/complete") },
    Column { head: "FORMAT", of: |item| at(item, "/format") },
    Column { head: "STARTED AT", of: |item| at(item, "/startedAt") },
    Column { head: "BY", of: |item| at(item, "/askedBy") },
    Column { head: "NOTE", of: |item| at(item, "/note") },
];

/// The columns of items.
pub(crate) const ITEMS: &[Column] = &[
    Column { head: "ITEM", of: |item| at(item, "/itemId") },
    Column { head: "CLASS", of: |item| at(item, "/class") },
    Column { head: "STATUS", of: |item| at(item, "/status") },
    Column { head: "DAY", of: |item| at(item, "/day") },
    Column { head: "PAYMENT", of: |item| at(item, "/paymentId") },
    Column { head: "FIELD", of: |item| at(item, "/field") },
    Column { head: "OURS", of: |item| at(item, "/ours") },
    Column { head: "THEIRS", of: |item| at(item, "/theirs") },
    Column { head: "AT STAKE", of: at_stake },
    Column { head: "REFERENCE", of: |item| at(item, "/gatewayReference") },
    Column { head: "LINE", of: |item| at(item, "/line") },
];

const STANDING: &[Column] = &[
    Column { head: "GATEWAY", of: |item| at(item, "/gateway") },
    Column { head: "LAST DAY", of: |item| at(item, "/lastDay") },
    Column { head: "LAST SUCCESS AT", of: |item| at(item, "/lastSuccessAt") },
    Column { head: "OPEN", of: |item| told(item.get("open")) },
    Column { head: "WAITING", of: |item| at(item, "/waiting") },
];

/// Numbers under names, in words; `none` where there is none.
pub(crate) fn told(counts: Option<&Value>) -> String {
    let pairs = counts.and_then(Value::as_object).into_iter().flatten();
    let words: Vec<String> = pairs.map(|(name, count)| format!("{count} {name}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

const SUMS: &[Column] = &[
    Column { head: "DAY", of: |item| at(item, "/day") },
    Column { head: "GATEWAY", of: |item| at(item, "/gateway") },
    Column { head: "CURRENCY", of: |item| at(item, "/currency") },
    Column { head: "PAYMENTS", of: |item| sum(item, "payments") },
    Column { head: "ATTEMPTS", of: |item| sum(item, "attempts") },
    Column { head: "BY WORD", of: |item| sum(item, "byWord") },
    Column { head: "HISTORY", of: |item| sum(item, "ledger") },
    Column { head: "SETTLED", of: |item| sum(item, "settlement") },
    Column { head: "LATE", of: |item| sum(item, "late") },
    Column { head: "GIVEN BACK", of: |item| sum(item, "givenBack") },
    Column { head: "APART", of: |item| at(item, "/apart") },
];

/// An amount of either sign with its currency.
fn at_stake(item: &Value) -> String {
    let minor = item.get("amount").and_then(Value::as_i64);
    let code = at(item, "/currency");
    match (minor, crate::domain::money::Currency::from_code(&code)) {
        (Some(minor), Some(currency)) => format!("{} {code}", sheet::decimal(minor, currency)),
        (Some(_), None) | (None, _) => money(item),
    }
}

/// How many, and how much in minor units; a dash where nobody knows.
fn sum(item: &Value, of: &str) -> String {
    let number = |name: &str| item.pointer(&format!("/{of}/{name}")).and_then(Value::as_i64);
    match (number("count"), number("amount")) {
        (Some(count), Some(amount)) => {
            let currency = crate::domain::money::Currency::from_code(&at(item, "/currency"));
            let amount = currency.map_or_else(|| amount.to_string(), |known| sheet::decimal(amount, known));
            format!("{count} = {amount}")
        }
        (Some(_), None) | (None, _) => "-".to_owned(),
    }
}

/// Runs all but `run`, which speaks to the database.
///
/// # Errors
/// See the exit codes of each.
pub(super) async fn run(command: Reconcile, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    match command {
        // Taken before.
        Reconcile::Run(_) => Ok(()),
        Reconcile::List(asked) => {
            let query = chosen([
                ("gateway", asked.gateway),
                ("from", asked.from.map(|day| day.to_string())),
                ("to", asked.to.map(|day| day.to_string())),
                ("status", asked.status),
            ]);
            let most = if asked.all { u64::MAX } else { asked.limit };
            let list = List::new(asked.output, Face::of_stdout(), RUNS);
            walked(&remote, &["ops", "reconciliations"], query, most, list).await
        }
        Reconcile::Status { output } => {
            listed(remote.client.call("GET", &["ops", "reconciliation-standing"]), output, STANDING).await
        }
        Reconcile::Show { id, output } => {
            looked_up(remote.client.call("GET", &["ops", "reconciliations", &id]), output).await
        }
        Reconcile::Items(asked) => list_items(&remote, *asked).await,
        Reconcile::Item { id, output } => {
            looked_up(remote.client.call("GET", &["ops", "reconciliation-items", &id.to_string()]), output)
                .await
        }
        Reconcile::Sums { from, to, gateway, output } => {
            let query = chosen([
                ("from", Some(from.to_string())),
                ("to", to.map(|day| day.to_string())),
                ("gateway", gateway),
            ]);
            sums(&remote, &query, output).await
        }
        Reconcile::Repair { id, payment_version, act } => {
            confirm(act.yes, &format!("Repair the payment of item {id}"))?;
            let mut body = json!({"reason": act.reason});
            if let Some(version) = payment_version {
                body["version"] = version.into();
            }
            let path = ["ops", "reconciliation-items", &id.to_string(), "repair"];
            acted(remote.client.call("POST", &path).json(&body), act.output).await
        }
        Reconcile::Dismiss { id, act } => {
            confirm(act.yes, &format!("Dismiss item {id}"))?;
            let path = ["ops", "reconciliation-items", &id.to_string(), "dismiss"];
            acted(remote.client.call("POST", &path).json(&json!({"reason": act.reason})), act.output).await
        }
        Reconcile::Withdraw { id, act } => {
            confirm(act.yes, &format!("Withdraw report {id}"))?;
            let path = ["ops", "reconciliations", &id, "withdraw"];
            acted(remote.client.call("POST", &path).json(&json!({"reason": act.reason})), act.output).await
        }
    }
}

/// Those of the parameters that were given.
fn chosen<const N: usize>(all: [(&'static str, Option<String>); N]) -> Vec<(&'static str, String)> {
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

async fn sums(remote: &Remote, query: &[(&'static str, String)], output: Output) -> Result<(), Ended> {
    let page = remote.client.call("GET", &["ops", "reconciliation-sums"]).query(query);
    let page = page_of(page.send().await.map_err(of_client)?.body)?;
    let mut list = List::new(output, Face::of_stdout(), SUMS);
    if list.page(items(&page))? == Reader::Reads {
        list.end()?;
    }
    let apart = items(&page).iter().filter(|line| line["apart"] == true).count();
    if apart == 0 { Ok(()) } else { Err(differ(&format!("{apart} lines are apart"))) }
}

/// What a comparison that found something ends with.
pub(crate) fn differ(what: &str) -> Ended {
    Ended::with(crate::platform::exit::Exit::Differences, what)
}

async fn list_items(remote: &Remote, asked: Items) -> Result<(), Ended> {
    let query = chosen([
        ("class", asked.class),
        ("status", asked.status),
        ("gateway", asked.gateway),
        ("day", asked.day.map(|day| day.to_string())),
        ("paymentId", asked.payment),
    ]);
    let most = if asked.all { u64::MAX } else { asked.limit };
    if asked.csv {
        return as_sheet(remote, query, most).await;
    }
    let list = List::new(asked.output, Face::of_stdout(), ITEMS);
    walked(remote, &["ops", "reconciliation-items"], query, most, list).await
}

/// Page after page, printed as they come.
async fn as_sheet(remote: &Remote, query: Vec<(&'static str, String)>, most: u64) -> Result<(), Ended> {
    let mut left = usize::try_from(most).unwrap_or(usize::MAX);
    let mut cursor: Option<String> = None;
    print(&headline())?;
    loop {
        let mut query = query.clone();
        query.push(("limit", left.min(MOST_PER_PAGE).to_string()));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let call = remote.client.call("GET", &["ops", "reconciliation-items"]).query(&query);
        let page = page_of(call.send().await.map_err(of_client)?.body)?;
        let found = items(&page);
        let found = &found[..found.len().min(left)];
        left -= found.len();
        cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        if put(&rows(found))? == Reader::Left || cursor.is_none() {
            return Ok(());
        }
        if left == 0 {
            say("there are more: ask for all, or for more with --limit");
            return Ok(());
        }
    }
}

/// Items a page, as the API has it.
const MOST_PER_PAGE: usize = 200;

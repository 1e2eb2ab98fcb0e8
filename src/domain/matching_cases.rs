//! Lines of charges and rows of ours, with what they come to: run over [`super::matching::classify`] and over the
//! statement that compares. **Promise**: each class that a line can have, each state, each order of two differences.

use super::ids::GatewayName;
use super::matching::{Class, Name, Ours, Place, Theirs};
use super::money::{Currency, Minor, Money};
use super::state::Status;

/// One case.
#[derive(Debug, Clone)]
pub struct MatchCase {
    /// What it is about.
    pub name: &'static str,
    /// The line.
    pub theirs: Theirs,
    /// Our row.
    pub ours: Option<Ours>,
    /// What they come to.
    pub expect: Option<(Class, &'static str)>,
}

fn currency(code: &str) -> Currency {
    Currency::from_code(code).unwrap_or_else(|| unreachable!("a code of the table: {code}"))
}

/// Ten euros that the gateway `sandbox` charged.
fn line() -> Theirs {
    Theirs {
        is_ours: true,
        place: Place::Counts,
        name: Name::Fits,
        gateway: GatewayName("sandbox".into()),
        gross_minor: 1_000,
        currency: currency("EUR"),
        adds_up: true,
    }
}

/// A payment of ten euros at the gateway `sandbox`.
fn row(status: Status) -> Option<Ours> {
    let minor = Minor::new(1_000).unwrap_or_else(|| unreachable!("above zero"));
    let amount = Money { minor, currency: currency("EUR") };
    Some(Ours { status, gateway: GatewayName("sandbox".into()), amount })
}

/// All of them.
#[must_use]
pub fn cases() -> Vec<MatchCase> {
    let mut all = by_row();
    all.extend(by_line());
    all.extend(by_name());
    all
}

fn case(
    name: &'static str,
    theirs: Theirs,
    ours: Option<Ours>,
    expect: Option<(Class, &'static str)>,
) -> MatchCase {
    MatchCase { name, theirs, ours, expect }
}

/// The line that fits, with every row.
fn by_row() -> Vec<MatchCase> {
    let elsewhere = GatewayName("elsewhere".into());
    let moved = |to: &GatewayName| row(Status::Completed).map(|ours| Ours { gateway: to.clone(), ..ours });
    vec![
        case("completed as charged", line(), row(Status::Completed), None),
        case("charged and given back", line(), row(Status::Refunded), None),
        case("pending", line(), row(Status::Pending), Some((Class::MissingHere, "status"))),
        case("in flight", line(), row(Status::Processing), Some((Class::MissingHere, "status"))),
        case("unknown", line(), row(Status::Unknown), Some((Class::MissingHere, "status"))),
        case("failed", line(), row(Status::Failed), Some((Class::MissingHere, "status"))),
        case("cancelled", line(), row(Status::Cancelled), Some((Class::MissingHere, "status"))),
        case("parked", line(), row(Status::Parked), Some((Class::MissingHere, "status"))),
        case("an id that nobody made", line(), None, Some((Class::MissingHere, "payment"))),
        case("another gateway's", line(), moved(&elsewhere), Some((Class::MissingHere, "gateway"))),
    ]
}

/// Lines of a charge that we know by another name.
fn by_name() -> Vec<MatchCase> {
    let another = || Theirs { name: Name::Another, ..line() };
    vec![
        case(
            "the only line, of another charge than ours",
            another(),
            row(Status::Completed),
            Some((Class::DuplicateCharge, "charge")),
        ),
        case(
            "another charge than the one that was given back, and of another amount",
            Theirs { gross_minor: 1, ..another() },
            row(Status::Refunded),
            Some((Class::DuplicateCharge, "charge")),
        ),
        case(
            "another name, and nobody calls it charged",
            another(),
            row(Status::Parked),
            Some((Class::MissingHere, "status")),
        ),
    ]
}

/// Lines that do not fit.
fn by_line() -> Vec<MatchCase> {
    vec![
        case(
            "one cent less",
            Theirs { gross_minor: 999, ..line() },
            row(Status::Completed),
            Some((Class::AmountMismatch, "amount")),
        ),
        case(
            "one cent more",
            Theirs { gross_minor: 1_001, ..line() },
            row(Status::Refunded),
            Some((Class::AmountMismatch, "amount")),
        ),
        case(
            "dollars",
            Theirs { currency: currency("USD"), ..line() },
            row(Status::Completed),
            Some((Class::CurrencyMismatch, "currency")),
        ),
        case(
            "fewer dollars",
            Theirs { currency: currency("USD"), gross_minor: 900, ..line() },
            row(Status::Completed),
            Some((Class::CurrencyMismatch, "currency")),
        ),
        case(
            "a fee that does not add up",
            Theirs { adds_up: false, ..line() },
            row(Status::Completed),
            Some((Class::AmountMismatch, "net")),
        ),
        case(
            "less, and it does not add up",
            Theirs { adds_up: false, gross_minor: 1, ..line() },
            row(Status::Completed),
            Some((Class::AmountMismatch, "amount")),
        ),
        case(
            "failed, and of another amount",
            Theirs { gross_minor: 1, ..line() },
            row(Status::Failed),
            Some((Class::MissingHere, "status")),
        ),
        case(
            "a second charge",
            Theirs { place: Place::Extra, ..line() },
            row(Status::Completed),
            Some((Class::DuplicateCharge, "charge")),
        ),
        case(
            "a second charge of what failed",
            Theirs { place: Place::Extra, ..line() },
            row(Status::Failed),
            Some((Class::DuplicateCharge, "charge")),
        ),
        case(
            "a second charge of nobody's id",
            Theirs { place: Place::Extra, ..line() },
            None,
            Some((Class::DuplicateCharge, "charge")),
        ),
        case(
            "a key that is not ours",
            Theirs { is_ours: false, ..line() },
            None,
            Some((Class::Foreign, "key")),
        ),
    ]
}

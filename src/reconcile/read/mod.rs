//! Reports of gateways and banks, read as a stream: one line at a time, memory flat in the file's size.
//!
//! **Promises.** Amounts are exact: decimals become minor units by our own table of currencies, and what would
//! have to be rounded is refused; there is no float anywhere. A file that is cut short, malformed or contradicts
//! itself is [`Refused`] with the line that says so, and then nothing of it may be used, the lines already handed
//! out included: whoever takes them keeps them apart until [`read`] has answered `Ok`. No file makes it hold more
//! than a bounded line, whatever it contains.
//!
//! **Relies on** nobody: no clock, no database. **Why this way**: a report decides about money that has moved, so
//! it is read as strictly as an answer of a gateway, and whoever made it is told where it is wrong.

mod adyen;
mod camt;
mod camt_entry;
mod camt_fields;
mod camt_sums;
mod camt_values;
mod csv_rows;
mod format;
mod hand;
mod report;
mod sandbox;
mod stripe;
mod tap;
mod totals;
mod values;
mod why;
mod xml;

pub use format::{AdyenColumns, CamtTerms, Format, NoSuchFormat, Side, StripeColumns, Totals};
pub use report::{Refused, Report, Stopped, Sum};
pub use why::Why;

use crate::domain::settlement::Line;
use hand::Hand;
use std::io::BufRead;
use tap::Tap;

/// Reads a report and hands out each of its lines in the file's order. It blocks while `from` does.
///
/// # Errors
/// [`Stopped::Refused`]: the file is not what it should be; [`Stopped::Unread`]: it could not be read to its end,
/// which says nothing about it; [`Stopped::By`]: `each` did not want to go on.
pub fn read<R: BufRead, E>(
    format: &Format,
    from: R,
    each: impl FnMut(Line) -> Result<(), E>,
) -> Result<Report, Stopped<E>> {
    let (tap, hand) = (Tap::new(from)?, Hand::new(each));
    match format {
        Format::Sandbox => sandbox::read(tap, hand),
        Format::StripeBalance(columns) => stripe::read(tap, hand, columns),
        Format::AdyenSettlement(columns) => adyen::read(tap, hand, columns),
        Format::Camt053(terms) => camt::read(tap, hand, camt::STATEMENT, *terms),
        Format::Camt054(terms) => camt::read(tap, hand, camt::NOTIFICATION, *terms),
    }
}

//! The lines of a report as `COPY` takes them.
//!
//! **Promise**: each field is one field, whatever somebody else wrote into it. The key of a line is read here, once: of
//! which payment it is, or which refund it may be.

use super::reconcile::NewReport;
use super::statements;
use crate::domain::settlement::{Kind, Line, has_own_names, payment_of, refund_of};
use sqlx::{Error, PgConnection};
use std::fmt::Write as _;

/// Lines as COPY takes them: a line each, fields between tabs, `\\N` for what is not there.
fn as_text(report: &NewReport, lines: &[Line]) -> String {
    let mut text = String::with_capacity(lines.len() * 320);
    for line in lines {
        write_line(&mut text, report, line);
    }
    text
}

fn write_line(text: &mut String, report: &NewReport, line: &Line) {
    let key = line.key.as_deref();
    // The key of a refund may be its own or its payment's, and both look alike.
    let (payment, named) = match line.kind {
        Kind::Refund => (None, key.and_then(refund_of)),
        Kind::Charge | Kind::Chargeback | Kind::Fee | Kind::Payout | Kind::Other => {
            (key.and_then(payment_of), None)
        }
    };
    let mut field = |value: Option<&dyn std::fmt::Display>| {
        // Writing into a text does not fail.
        let _never = match value {
            Some(value) => write!(text, "{value}\t"),
            None => write!(text, "\\N\t"),
        };
    };
    field(Some(&report.id));
    field(Some(&report.day));
    field(Some(&line.booked_on));
    field(line.executed_on.as_ref().map(|day| day as _));
    field(payment.as_ref().map(|(_, epoch)| &epoch.0 as _));
    field(Some(&line.number));
    field(Some(&line.at_line));
    field(Some(&line.gross_minor));
    field(Some(&line.fee_minor));
    field(Some(&line.net_minor));
    field(payment.as_ref().map(|(payment, _)| payment as _));
    field(named.as_ref().map(|refund| refund as _));
    field(Some(&line.kind.as_str()));
    field(Some(&line.currency));
    field(Some(&line.net_currency));
    for foreign in [&line.key, &line.gateway_ref, &line.charge_ref] {
        match foreign {
            Some(foreign) => push_escaped(text, foreign),
            None => text.push_str("\\N"),
        }
        text.push('\t');
    }
    text.push_str(if has_own_names(&report.format) { "t\t" } else { "f\t" });
    text.push_str("\\\\x");
    for byte in line.raw_hash {
        let _never = write!(text, "{byte:02x}");
    }
    text.push('\n');
}

/// What somebody else wrote, so that it is one field. NUL, which Postgres cannot hold, no reader hands out.
fn push_escaped(text: &mut String, field: &str) {
    for character in field.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\0' => text.push('\u{fffd}'),
            other => text.push(other),
        }
    }
}

/// Writes them down, as text: half the time of arrays.
pub(super) async fn load(
    transaction: &mut PgConnection,
    report: &NewReport,
    lines: &[Line],
) -> Result<(), Error> {
    let mut copying = transaction.copy_in_raw(statements::LOAD_LINES).await?;
    if let Err(error) = copying.send(as_text(report, lines).as_bytes()).await {
        copying.abort("it could not be sent").await?;
        return Err(error);
    }
    copying.finish().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_wrote_stays_one_field() {
        let mut text = String::new();
        push_escaped(&mut text, "a\tb\nc\\d\re\0");
        assert_eq!(text, "a\\tb\\nc\\\\d\\re\u{fffd}");
    }
}

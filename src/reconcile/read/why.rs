//! What can be wrong with a file, each with the sentence that a person reads.
//!
//! **Promise**: a sentence names the field, what the file says and what it should say, never more of the file than
//! [`SHOWN_MAX`] characters, and never a control character of it.

use super::report::Stopped;
use crate::domain::money::BadAmount;

/// Most characters of a file's own text that a sentence repeats.
const SHOWN_MAX: usize = 60;

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// No byte.
    #[error("the file is empty")]
    Empty,
    /// Nothing of it is what the format begins with.
    #[error("this is not {expected}")]
    NotThisFormat {
        /// What the format begins with.
        expected: &'static str,
    },
    /// It ends where it must not.
    #[error("the file is cut short: {missing}")]
    CutShort {
        /// What should have come.
        missing: String,
    },
    /// Something stands behind the end of the report.
    #[error("something follows the end of the report")]
    AfterEnd,
    /// Another encoding.
    #[error("this is not UTF-8: save the file as UTF-8")]
    NotUtf8,
    /// A character that no text has.
    #[error("a control character stands in {what}")]
    ControlCharacter {
        /// Where.
        what: &'static str,
    },
    /// More than is read.
    #[error("{what} is longer than a report may have")]
    TooLong {
        /// What.
        what: &'static str,
    },
    /// More minor units, or more records, than 64 bits hold.
    #[error("{what} is larger than 64 bits hold")]
    TooLarge {
        /// What.
        what: String,
    },
    /// A needed field is not there.
    #[error("{field} is missing")]
    Missing {
        /// Which.
        field: String,
    },
    /// One that may be there once.
    #[error("{field} is there twice")]
    Twice {
        /// Which.
        field: String,
    },
    /// A text that the field cannot have.
    #[error("{field} cannot be {value:?}")]
    BadValue {
        /// Which.
        field: String,
        /// What it is.
        value: String,
    },
    /// Not an exact amount of its currency.
    #[error("{field} cannot be {value:?}: {why}")]
    BadAmount {
        /// Which.
        field: String,
        /// What it is.
        value: String,
        /// Why not.
        why: BadAmount,
    },
    /// Not a code of the table.
    #[error("{field} names no currency that we know: {value:?}")]
    NoSuchCurrency {
        /// Which.
        field: String,
        /// What it is.
        value: String,
    },
    /// A clock of nobody knows where.
    #[error("{field}: the zone {value:?} is not known, or is the name of several")]
    NoSuchZone {
        /// Which.
        field: String,
        /// What it is.
        value: String,
    },
    /// A movement under a key of ours that is of no kind we know.
    #[error("{value:?} is no kind of movement that we know, and it carries a key of ours")]
    UnknownKind {
        /// What it is called.
        value: String,
    },
    /// Money moved in the other direction than the kind of the movement says.
    #[error("a {kind} of {gross_minor} minor units is against its own direction")]
    WrongSign {
        /// The kind.
        kind: &'static str,
        /// Its amount.
        gross_minor: i64,
    },
    /// Numbers of the file that must be equal and are not.
    #[error("{what}: the file says {said}, and its lines come to {found}")]
    Differs {
        /// Which number.
        what: String,
        /// As it stands there.
        said: String,
        /// As it comes out.
        found: String,
    },
    /// A booking of another day than the report's.
    #[error("it is booked on {booked}, in a report of {day}")]
    WrongDay {
        /// The line's day.
        booked: String,
        /// The report's day.
        day: String,
    },
    /// Not JSON of this shape.
    #[error("not a line of this format: {0}")]
    Json(String),
    /// A record with another number of cells than the headline.
    #[error("it has {cells} cells, and the headline has {columns}")]
    RowLength {
        /// Of the record.
        cells: usize,
        /// Of the headline.
        columns: usize,
    },
    /// A quote that is not where CSV has one.
    #[error("a quote stands where none can: inside a cell it is written twice, with quotes around the cell")]
    Quote,
    /// A cell that goes over lines and may have taken rows for text.
    #[error("a cell of it holds what looks like a row: a quote before that is not closed")]
    SwallowsRow,
    /// Not well-formed.
    #[error("not well-formed XML: {0}")]
    Xml(String),
    /// A declaration of types or entities, which no bank needs and attackers do.
    #[error("it declares a document type, which a report never does")]
    DocumentType,
    /// An entity of the file's own.
    #[error("the entity {value:?} is not one of XML's own five")]
    Entity {
        /// Its name.
        value: String,
    },
    /// More elements inside each other than a report has.
    #[error("its elements are nested deeper than a report's")]
    TooDeep,
    /// Text between elements.
    #[error("text stands between the elements of {element}")]
    StrayText {
        /// Inside which.
        element: String,
    },
}

impl Why {
    /// A text of the file, short and harmless enough for a sentence.
    pub(super) fn shown(text: &str) -> String {
        let harmless = |c: char| if c.is_control() { '\u{fffd}' } else { c };
        let mut shown: String = text.chars().take(SHOWN_MAX).map(harmless).collect();
        if text.chars().nth(SHOWN_MAX).is_some() {
            shown.push('…');
        }
        shown
    }

    pub(super) fn missing(field: &str) -> Self {
        Self::Missing { field: field.to_owned() }
    }

    pub(super) fn bad(field: &str, value: &str) -> Self {
        Self::BadValue { field: field.to_owned(), value: Self::shown(value) }
    }

    pub(super) fn cut_short(missing: &str) -> Self {
        Self::CutShort { missing: missing.to_owned() }
    }

    pub(super) fn differs(what: &str, said: &dyn ToString, found: &dyn ToString) -> Self {
        Self::Differs { what: what.to_owned(), said: said.to_string(), found: found.to_string() }
    }
}

/// Says where it is wrong.
pub(super) trait At<T> {
    fn at<E>(self, line: u64) -> Result<T, Stopped<E>>;
}

impl<T> At<T> for Result<T, Why> {
    fn at<E>(self, line: u64) -> Result<T, Stopped<E>> {
        self.map_err(|why| Stopped::refused(line, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_repeats_little_of_the_file_and_nothing_that_a_terminal_obeys() {
        let why = Why::bad("currency", &format!("\u{1b}[2J{}", "x".repeat(500)));
        let told = why.to_string();
        assert!(told.starts_with("currency cannot be \"\u{fffd}[2Jxxx") && told.ends_with("…\""), "{told}");
        assert!(told.chars().count() < 100 && !told.contains('\u{1b}'));
    }
}

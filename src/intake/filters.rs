//! What a list asks for.
//!
//! A span has its first instant in it and its last one not, so that neighbouring spans share nothing; a
//! range of the filter `q` has both of its ends (`domain/filter.rs`).

use super::headers;
use super::instant::Instant;
use super::parameters::{self, at};
use super::problem::{Code, Problem};
use crate::domain::filter::{Between, Conditions, Filter};
use crate::domain::state::Status;
use crate::schedule::{ListFilter, ListOrder, LookUp, Span};
use axum::http::Uri;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeSet;

/// Payments on a page, where the query does not say.
const USUAL_LIMIT: usize = 50;
/// Most payments on a page.
const MOST_LIMIT: usize = 200;

/// What a query asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) filter: ListFilter,
    pub(super) order: ListOrder,
    /// One payment by a name of its own, instead of a walk.
    pub(super) by: Option<LookUp>,
    pub(super) limit: usize,
    pub(super) cursor: Option<String>,
    /// The filter `q` in its printed form.
    q: String,
}

/// The parameters while they are being read.
#[derive(Default)]
struct Parameters {
    statuses: BTreeSet<Status>,
    due: (Option<DateTime<Utc>>, Option<DateTime<Utc>>),
    created: (Option<DateTime<Utc>>, Option<DateTime<Utc>>),
    by: Option<LookUp>,
    q: Filter,
    limit: Option<usize>,
    cursor: Option<String>,
}

impl Asked {
    /// Reads the query of a request.
    ///
    /// # Errors
    /// 400, for the first parameter that is wrong.
    pub(super) fn read(uri: &Uri) -> Result<Self, Problem> {
        let mut parameters = Parameters::default();
        parameters::read(uri, |name, value| parameters.take(name, value))?;
        let mut conditions = parameters.q.conditions();
        let by = parameters.by.or_else(|| named_by(&conditions));
        if by.is_some() && parameters.cursor.is_some() {
            let why = "A look-up by a name has one page; send no cursor with it.";
            return Err(at("cursor", Code::ConflictingParameters, why));
        }
        let asked_due = std::mem::replace(&mut conditions.due.between, Between::ALL);
        let order = match (parameters.due, asked_due) {
            ((None, None), Between { from: None, to: None }) => ListOrder::NewestFirst,
            _ => ListOrder::DueFirst,
        };
        Ok(Self {
            filter: ListFilter {
                created: span("createdTo", parameters.created)?,
                due: narrowed(span("dueTo", parameters.due)?, asked_due),
                statuses: parameters.statuses.into_iter().collect(),
                conditions,
            },
            order,
            by,
            limit: parameters.limit.unwrap_or(USUAL_LIMIT),
            cursor: parameters.cursor,
            q: parameters.q.to_string(),
        })
    }

    /// Order and filters in one text, equal for equal meaning: what a cursor is bound to.
    pub(super) fn canonical(&self) -> String {
        let order = match self.order {
            ListOrder::NewestFirst => "newest_first",
            ListOrder::DueFirst => "due_first",
        };
        let ends = |span: Span| format!("{}..{}", span.from.timestamp_micros(), span.to.timestamp_micros());
        let statuses: Vec<&str> = self.filter.statuses.iter().map(|status| status.as_str()).collect();
        let (created, due) = (ends(self.filter.created), ends(self.filter.due));
        let q = if self.q.is_empty() { String::new() } else { format!(" q {}", self.q) };
        format!("{order} created {created} due {due} status {}{q}", statuses.join(","))
    }
}

impl Parameters {
    fn take(&mut self, name: &str, value: &str) -> Result<(), Problem> {
        match name {
            "status" => self.statuses = statuses(value)?,
            "dueFrom" => self.due.0 = Some(time(name, value)?),
            "dueTo" => self.due.1 = Some(time(name, value)?),
            "createdFrom" => self.created.0 = Some(time(name, value)?),
            "createdTo" => self.created.1 = Some(time(name, value)?),
            "externalId" => self.name_by(name, LookUp::ExternalId(text(name, value, 180)?))?,
            "idempotencyKey" => self.name_by(name, LookUp::IdempotencyKey(key(name, value)?))?,
            "gatewayReference" => self.name_by(name, LookUp::GatewayReference(text(name, value, 255)?))?,
            "q" => self.q = filter(value)?,
            "limit" => self.limit = Some(parameters::limit(value, MOST_LIMIT)?),
            "cursor" => self.cursor = Some(value.to_owned()),
            _ => return Err(parameters::unknown(name)),
        }
        Ok(())
    }

    fn name_by(&mut self, name: &str, by: LookUp) -> Result<(), Problem> {
        if self.by.replace(by).is_none() {
            return Ok(());
        }
        let why =
            "externalId, idempotencyKey and gatewayReference each name one payment; send one of them, once.";
        Err(at(name, Code::ConflictingParameters, why))
    }
}

fn filter(value: &str) -> Result<Filter, Problem> {
    let read: Filter = value.parse().map_err(|error: crate::domain::filter::FilterError| {
        let told = format!("At character {}: {}.", error.at, error.why);
        Problem::at(Code::InvalidParameter, "/q", told)
    })?;
    if read.conditions().actors.is_any() {
        return Ok(read);
    }
    let why = "A list has one actor, the one whose key asks; actor: is for operators.";
    Err(at("q", Code::InvalidParameter, why))
}

/// Where the filter names payments, they are looked up and no list is walked.
fn named_by(conditions: &Conditions) -> Option<LookUp> {
    if let Some(ids) = &conditions.ids.only {
        return Some(LookUp::Ids(ids.iter().copied().collect()));
    }
    let references = conditions.references.only.as_ref()?;
    let only = references.first().filter(|_| references.len() == 1)?;
    Some(LookUp::GatewayReference(only.clone()))
}

/// The part of a span that a filter's range leaves; of nothing, nothing.
fn narrowed(span: Span, range: Between<DateTime<Utc>>) -> Span {
    let after = |to: DateTime<Utc>| to.checked_add_signed(TimeDelta::microseconds(1)).unwrap_or(to);
    let from = range.from.map_or(span.from, |from| span.from.max(from));
    let to = range.to.map_or(span.to, |to| span.to.min(after(to)));
    Span { from, to: to.max(from) }
}

fn statuses(value: &str) -> Result<BTreeSet<Status>, Problem> {
    let why = "Expected PENDING, PROCESSING, UNKNOWN, COMPLETED, FAILED, CANCELLED, PARKED or REFUNDED; \
               several with commas.";
    let read = value.split(',').map(Status::from_text).collect::<Option<_>>();
    read.ok_or_else(|| at("status", Code::InvalidParameter, why))
}

/// Rounded up: of what is kept in microseconds, the first that is not before it.
pub(super) fn time(name: &str, value: &str) -> Result<DateTime<Utc>, Problem> {
    let why = "Expected an RFC 3339 time with an offset, such as 2030-01-31T09:00:00Z; in a query + is written %2B.";
    let read = Instant::read(value).and_then(Instant::rounded_up);
    read.ok_or_else(|| at(name, Code::InvalidTime, why))
}

fn span(last: &str, (from, to): (Option<DateTime<Utc>>, Option<DateTime<Utc>>)) -> Result<Span, Problem> {
    if from.zip(to).is_some_and(|(from, to)| from >= to) {
        let why = "The end of a span lies after its start; the start belongs to it and the end does not.";
        return Err(at(last, Code::InvalidParameter, why));
    }
    Ok(Span { from: from.unwrap_or(Span::EVER.from), to: to.unwrap_or(Span::EVER.to) })
}

fn text(name: &str, value: &str, most: usize) -> Result<String, Problem> {
    let fits = (1..=most).contains(&value.chars().count()) && !value.chars().any(char::is_control);
    let why =
        "Expected a text of at least one character, not longer than such a name can be, without controls.";
    if fits { Ok(value.to_owned()) } else { Err(at(name, Code::InvalidParameter, why)) }
}

/// Bare or quoted, as the header takes it.
fn key(name: &str, value: &str) -> Result<String, Problem> {
    let why = "A key has 1 to 255 visible ASCII characters.";
    headers::key_as_written(value.as_bytes()).map_err(|_| at(name, Code::InvalidParameter, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Asked, Problem> {
        Asked::read(&format!("/v1/scheduled-payments?{query}").parse().unwrap())
    }

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn without_parameters_all_is_asked_for_newest_first() {
        for asked in [read("").unwrap(), Asked::read(&"/v1/scheduled-payments".parse().unwrap()).unwrap()] {
            assert_eq!(
                (asked.order, asked.limit, asked.by, asked.cursor),
                (ListOrder::NewestFirst, 50, None, None)
            );
            assert_eq!((asked.filter.created, asked.filter.due), (Span::EVER, Span::EVER));
            assert_eq!(asked.filter.statuses, []);
        }
    }

    #[test]
    fn a_due_filter_orders_by_due_time_and_a_created_filter_does_not() {
        let asked = read("dueFrom=2030-01-31T09:00:00%2B02:00").unwrap();
        assert_eq!((asked.order, asked.filter.due.from), (ListOrder::DueFirst, at("2030-01-31T07:00:00Z")));
        assert_eq!(asked.filter.due.to, Span::EVER.to);
        assert_eq!(read("dueTo=2030-01-31T09:00:00Z").unwrap().order, ListOrder::DueFirst);
        let asked = read("createdFrom=2030-01-01T00:00:00Z&createdTo=2030-01-02T00:00:00Z").unwrap();
        assert_eq!(asked.order, ListOrder::NewestFirst);
        assert_eq!(asked.filter.created.to, at("2030-01-02T00:00:00Z"));
    }

    #[test]
    fn both_ends_of_a_span_are_rounded_up_so_that_neighbours_share_nothing() {
        let asked =
            read("createdFrom=2030-01-01T00:00:00.0000001Z&createdTo=2030-01-01T00:00:01.0000001Z").unwrap();
        assert_eq!(asked.filter.created.from, at("2030-01-01T00:00:00.000001Z"));
        assert_eq!(asked.filter.created.to, at("2030-01-01T00:00:01.000001Z"));
    }

    #[test]
    fn statuses_names_and_limits_are_read() {
        let asked = read("status=UNKNOWN,PENDING,UNKNOWN&limit=200").unwrap();
        assert_eq!(asked.filter.statuses, [Status::Pending, Status::Unknown]);
        assert_eq!(asked.limit, 200);
        assert_eq!(read("externalId=inv%201").unwrap().by, Some(LookUp::ExternalId("inv 1".into())));
        assert_eq!(read("idempotencyKey=a%22b").unwrap().by, Some(LookUp::IdempotencyKey("a\"b".into())));
        assert_eq!(read("idempotencyKey=%22ab%22").unwrap().by, Some(LookUp::IdempotencyKey("ab".into())));
        assert_eq!(read("gatewayReference=ch_1").unwrap().by, Some(LookUp::GatewayReference("ch_1".into())));
    }

    #[test]
    fn every_wrong_parameter_is_named_with_what_is_wrong() {
        use Code::{
            ConflictingParameters, DuplicateParameter, InvalidParameter, InvalidTime, UnknownParameter,
        };
        let long = "x".repeat(256);
        for (query, code, pointer) in [
            ("stauts=PENDING", UnknownParameter, Some("/stauts")),
            ("Status=PENDING", UnknownParameter, Some("/Status")),
            ("=", UnknownParameter, None),
            ("status=PENDING&status=UNKNOWN", DuplicateParameter, Some("/status")),
            ("limit=1&limit=1", DuplicateParameter, Some("/limit")),
            ("status=", InvalidParameter, Some("/status")),
            ("status=pending", InvalidParameter, Some("/status")),
            ("status=PENDING,", InvalidParameter, Some("/status")),
            ("limit=0", InvalidParameter, Some("/limit")),
            ("limit=201", InvalidParameter, Some("/limit")),
            ("limit=-1", InvalidParameter, Some("/limit")),
            ("limit=%2B5", InvalidParameter, Some("/limit")),
            ("limit=5.0", InvalidParameter, Some("/limit")),
            ("limit=", InvalidParameter, Some("/limit")),
            ("limit=99999999999999999999999", InvalidParameter, Some("/limit")),
            ("dueFrom=2030-01-31", InvalidTime, Some("/dueFrom")),
            ("dueTo=2030-01-31T09:00:00", InvalidTime, Some("/dueTo")),
            // An unescaped + is a space.
            ("createdFrom=2030-01-31T09:00:00+02:00", InvalidTime, Some("/createdFrom")),
            ("createdTo=", InvalidTime, Some("/createdTo")),
            ("dueFrom=2030-01-02T00:00:00Z&dueTo=2030-01-01T00:00:00Z", InvalidParameter, Some("/dueTo")),
            (
                "createdFrom=2030-01-01T00:00:00Z&createdTo=2030-01-01T00:00:00Z",
                InvalidParameter,
                Some("/createdTo"),
            ),
            ("externalId=", InvalidParameter, Some("/externalId")),
            ("externalId=a%00b", InvalidParameter, Some("/externalId")),
            ("idempotencyKey=a%20b", InvalidParameter, Some("/idempotencyKey")),
            (&format!("idempotencyKey={long}"), InvalidParameter, Some("/idempotencyKey")),
            (&format!("gatewayReference={long}"), InvalidParameter, Some("/gatewayReference")),
            ("externalId=a&idempotencyKey=b", ConflictingParameters, Some("/idempotencyKey")),
            ("externalId=a&cursor=b", ConflictingParameters, Some("/cursor")),
        ] {
            let problem = read(query).expect_err(query);
            let pointed = problem.errors.first().map(|error| error.pointer.as_str());
            assert_eq!((problem.code, problem.code.http(), pointed), (code, 400, pointer), "{query}");
        }
    }

    #[test]
    fn a_filter_bounds_the_walk_by_its_due_times_and_names_payments_by_id_and_reference() {
        let asked = read("q=due:2030-01-31+status:PARKED&limit=3").unwrap();
        assert_eq!(asked.order, ListOrder::DueFirst);
        assert_eq!(asked.filter.due.from, at("2030-01-31T00:00:00Z"));
        assert_eq!(asked.filter.due.to, at("2030-02-01T00:00:00Z"));
        assert!(asked.filter.conditions.due.is_any(), "the walk's bounds say it all");
        assert_eq!(asked.filter.statuses, [], "a filter's states stand in its conditions");
        let both = read("q=due:2030-01-01..2030-01-31&dueFrom=2030-01-20T00:00:00Z").unwrap();
        assert_eq!(both.filter.due.from, at("2030-01-20T00:00:00Z"));
        let none = read("q=due:2030-01-01&dueFrom=2030-01-20T00:00:00Z").unwrap();
        assert_eq!(none.filter.due.from, none.filter.due.to);
        assert_eq!(read("q=-due:2030-01-31").unwrap().order, ListOrder::NewestFirst);
        assert_eq!(read("q=ref:ch_1").unwrap().by, Some(LookUp::GatewayReference("ch_1".into())));
        assert_eq!(read("q=ref:ch_1,ch_2").unwrap().by, None);
        let id = "01a2283e-8820-8aaa-9bbb-0123456789ab";
        let named = Some(LookUp::Ids(vec![id.parse().unwrap()]));
        assert_eq!(read(&format!("q=id:{id}")).unwrap().by, named);
        assert_ne!(read("q=status:PARKED").unwrap().canonical(), read("").unwrap().canonical());
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_refused_with_its_place() {
        for (query, told) in [
            ("q=status:PARKED+stauts:1", "At character 15: no such name"),
            ("q=actor:shop", "A list has one actor"),
            ("q=-actor:shop", "A list has one actor"),
        ] {
            let problem = read(query).expect_err(query);
            assert_eq!((problem.code, problem.errors[0].pointer.as_str()), (Code::InvalidParameter, "/q"));
            assert!(problem.errors[0].detail.starts_with(told), "{:?}", problem.errors[0].detail);
        }
        let problem = read("q=id:01a2283e-8820-8aaa-9bbb-0123456789ab&cursor=x").unwrap_err();
        assert_eq!(problem.code, Code::ConflictingParameters);
    }

    #[test]
    fn equal_meaning_has_one_canonical_text_and_other_meaning_another() {
        let canonical = |query: &str| read(query).unwrap().canonical();
        assert_eq!(
            canonical("status=PENDING,UNKNOWN&limit=3"),
            canonical("limit=9&status=UNKNOWN,PENDING&cursor=x")
        );
        assert_eq!(
            canonical("dueFrom=2030-01-01T00:00:00Z"),
            canonical("dueFrom=2030-01-01T01:00:00%2B01:00")
        );
        let queries = [
            "",
            "status=PENDING",
            "status=UNKNOWN",
            "dueFrom=2030-01-01T00:00:00Z",
            "dueTo=2030-01-01T00:00:00Z",
            "createdFrom=2030-01-01T00:00:00Z",
            "createdTo=2030-01-01T00:00:00Z",
            // The same filter as none, and another order.
            "dueFrom=1970-01-01T00:00:00Z",
        ];
        let texts: BTreeSet<String> = queries.iter().map(|query| canonical(query)).collect();
        assert_eq!(texts.len(), queries.len(), "{texts:?}");
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_query_says_it_is_read_or_refused_as_400(
            name in "status|dueFrom|createdTo|externalId|q|limit|cursor|[a-z]{1,9}",
            value in "[0-9A-Z:.,%+=&?T_-]{0,40}",
        ) {
            if let Err(problem) = read(&format!("{name}={value}")) {
                proptest::prop_assert_eq!(problem.code.http(), 400);
            }
        }
    }
}

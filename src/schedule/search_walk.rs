//! The paths of a search: where the next candidates come from, in its order.
//!
//! **Why several.** What people look for by a state is nearly always what is rare: parked, unknown, under way. Each of
//! these has an index or a table of its own, and so has one actor's list; only what is left walks the days' primary
//! keys. [`Path::of`] chooses by the filter alone, so that each page of a walk takes the same.
//!
//! **Promises.** A path drops nothing that passes, and brings its candidates in one order, which is that of the ids;
//! but one actor's list, which is ordered by due time to the microsecond and by id. If this dies here, nobody has a page.

use super::list::{Place, Span};
use super::parked::{first_id, whole_ms};
use super::search::{FoundPayment, SearchOrder, outline};
use super::{days, row, statements};
use crate::domain::filter::{Among, Conditions};
use crate::domain::ids::PaymentId;
use crate::domain::state::Status;
use chrono::{DateTime, Days, NaiveDate, TimeDelta, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, Row};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Days that one statement of a walk names, but for the first: each is a partition to be planned for.
const SPAN: Days = Days::new(30);

/// Where candidates come from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Path {
    /// These themselves.
    Named(BTreeSet<PaymentId>),
    /// Those that carry these references, of whichever gateway.
    References(BTreeSet<String>),
    /// Those that are parked, unknown or under way, as far as asked for.
    Rare(BTreeSet<Status>),
    /// This actor's, by name.
    Actor(String),
    /// All, by due time.
    Due,
}

/// The states of which there are few at any time.
const RARE: [Status; 3] = [Status::Parked, Status::Unknown, Status::Processing];

impl Path {
    fn of(asked: &Conditions) -> Self {
        if let Some(ids) = &asked.ids.only {
            return Self::Named(ids.clone());
        }
        if let Some(references) = &asked.references.only {
            return Self::References(references.clone());
        }
        let states: BTreeSet<Status> =
            Status::ALL.into_iter().filter(|status| asked.statuses.holds(Some(status))).collect();
        if states.iter().all(|status| RARE.contains(status)) {
            return Self::Rare(states);
        }
        let one = |actors: &Among<String>| {
            let only = actors.only.as_ref().filter(|only| only.len() == 1)?;
            only.first().cloned()
        };
        one(&asked.actors).map_or(Self::Due, Self::Actor)
    }
}

/// Where a walk stands, and within which ids.
pub(super) struct Walk {
    path: Path,
    order: SearchOrder,
    /// More than this.
    low: Uuid,
    /// Less than this.
    high: Uuid,
    /// In an actor's list, whose order is finer than that of the ids: the place passed last.
    place: Option<Place>,
}

/// Candidates in the walk's order.
pub(super) struct Chunk {
    pub(super) rows: Vec<FoundPayment>,
    /// How many were examined for it.
    pub(super) examined: usize,
    /// What was examined last.
    pub(super) last: Option<Place>,
    /// Nothing is behind them.
    pub(super) is_end: bool,
}

impl Chunk {
    /// There are no others.
    fn all(rows: Vec<FoundPayment>) -> Self {
        Self { examined: rows.len(), rows, last: None, is_end: true }
    }

    fn of(rows: Vec<FoundPayment>, is_end: bool) -> Self {
        Self { examined: rows.len(), last: rows.last().map(place), rows, is_end }
    }
}

fn place(of: &FoundPayment) -> Place {
    Place { at: of.due_at, payment: of.payment }
}

impl Walk {
    pub(super) async fn new(
        connection: &mut PgConnection,
        asked: &Conditions,
        order: SearchOrder,
        after: Option<PaymentId>,
    ) -> Result<Self, Error> {
        let due = asked.due.between;
        let behind = |at: DateTime<Utc>| at.checked_add_signed(TimeDelta::milliseconds(1)).unwrap_or(at);
        let mut walk = Self {
            path: Path::of(asked),
            order,
            // Ids carry whole milliseconds; what is finer is asked of each payment.
            low: due.from.map_or(Uuid::nil(), |from| first_id(whole_ms(from))),
            high: due.to.map_or(Uuid::max(), |to| first_id(behind(whole_ms(to)))),
            place: None,
        };
        let Some(after) = after else { return Ok(walk) };
        // Its due time to the microsecond; of one that is archived, what its id says.
        let known = match walk.path {
            Path::Actor(_) => walk.outlines(connection, &[after]).await?.first().map(place),
            Path::Named(_) | Path::References(_) | Path::Rare(_) | Path::Due => None,
        };
        walk.passed(known.unwrap_or_else(|| Place { at: instant(after.as_uuid()), payment: after }));
        Ok(walk)
    }

    /// It stands behind this one now.
    pub(super) fn passed(&mut self, last: Place) {
        match (&self.path, self.order) {
            (Path::Actor(_), _) => self.place = Some(last),
            (_, SearchOrder::DueFirst) => self.low = self.low.max(last.payment.as_uuid()),
            (_, SearchOrder::DueLast) => self.high = self.high.min(last.payment.as_uuid()),
        }
    }

    pub(super) async fn chunk(&self, connection: &mut PgConnection, wanted: usize) -> Result<Chunk, Error> {
        match &self.path {
            Path::Named(ids) => {
                let ids: Vec<PaymentId> = ids.iter().copied().collect();
                Ok(Chunk::all(self.outlines(connection, &ids).await?))
            }
            Path::References(references) => {
                let mut ids = BTreeSet::new();
                for reference in references {
                    let query = sqlx::query(statements::LIST_BY_GATEWAY_REF).bind(reference);
                    let rows = query.fetch_all(&mut *connection).await?;
                    ids.extend(
                        rows.iter()
                            .map(|row| row::payment_id(row, "payment_id"))
                            .collect::<Result<Vec<_>, _>>()?,
                    );
                }
                let ids: Vec<PaymentId> = ids.into_iter().collect();
                Ok(Chunk::all(self.outlines(connection, &ids).await?))
            }
            Path::Rare(states) => self.rare(connection, states, wanted).await,
            Path::Actor(name) => self.of_actor(connection, name, wanted).await,
            Path::Due => self.by_due(connection, wanted).await,
        }
    }

    /// What is known of these, as far as they lie within the walk, in its order.
    async fn outlines(
        &self,
        connection: &mut PgConnection,
        ids: &[PaymentId],
    ) -> Result<Vec<FoundPayment>, Error> {
        let mut found = Vec::with_capacity(ids.len());
        for (day, places) in days::by_day(ids, |id| *id) {
            let of_day: Vec<Uuid> =
                places.into_iter().filter_map(|place| ids.get(place)).map(|id| id.as_uuid()).collect();
            let rows = sqlx::query(statements::OUTLINE_PAYMENTS).bind(day).bind(of_day);
            for row in rows.fetch_all(&mut *connection).await? {
                found.push(outline(&row)?);
            }
        }
        found.retain(|it| self.low < it.payment.as_uuid() && it.payment.as_uuid() < self.high);
        self.sort(&mut found);
        Ok(found)
    }

    fn sort(&self, found: &mut [FoundPayment]) {
        match self.path {
            Path::Actor(_) => found.sort_by_key(|it| (it.due_at, it.payment)),
            Path::Named(_) | Path::References(_) | Path::Rare(_) | Path::Due => {
                found.sort_by_key(|it| it.payment);
            }
        }
        match self.order {
            SearchOrder::DueFirst => {}
            SearchOrder::DueLast => found.reverse(),
        }
    }

    /// The next of those that are parked and of those that are open, merged.
    async fn rare(
        &self,
        connection: &mut PgConnection,
        states: &BTreeSet<Status>,
        wanted: usize,
    ) -> Result<Chunk, Error> {
        let mut rows = Vec::new();
        // Behind the last one of a source that goes on, others of it may come first.
        let mut bounds: Vec<Option<PaymentId>> = Vec::new();
        if states.contains(&Status::Parked) {
            let ids = self.parked_ids(connection, wanted).await?;
            bounds.extend((ids.len() >= wanted).then(|| ids.last().copied()));
            rows.extend(self.outlines(connection, &ids).await?);
        }
        let open: Vec<&str> =
            states.iter().filter(|it| **it != Status::Parked).map(|status| status.as_str()).collect();
        if !open.is_empty() {
            let found = self.open(connection, &open, wanted).await?;
            bounds.extend((found.len() >= wanted).then(|| found.last().map(|last| last.payment)));
            rows.extend(found);
        }
        // One that moved between the two statements is in both.
        self.sort(&mut rows);
        rows.dedup_by_key(|row| row.payment);
        let bounds: Vec<PaymentId> = bounds.into_iter().flatten().collect();
        rows.retain(|row| {
            bounds.iter().all(|bound| match self.order {
                SearchOrder::DueFirst => row.payment <= *bound,
                SearchOrder::DueLast => row.payment >= *bound,
            })
        });
        let is_end = bounds.is_empty() && rows.len() <= wanted;
        rows.truncate(wanted);
        let mut chunk = Chunk::of(rows, is_end);
        if chunk.last.is_none()
            && let Some(bound) = bounds.first()
        {
            chunk.last = Some(Place { at: instant(bound.as_uuid()), payment: *bound });
            chunk.examined = wanted;
        }
        Ok(chunk)
    }

    async fn parked_ids(
        &self,
        connection: &mut PgConnection,
        wanted: usize,
    ) -> Result<Vec<PaymentId>, Error> {
        let (statement, from, to) = match self.order {
            SearchOrder::DueFirst => (statements::LIST_PARKED, self.low, self.high),
            SearchOrder::DueLast => (statements::LIST_PARKED_BACK, self.high, self.low),
        };
        let limit = i64::try_from(wanted).unwrap_or(i64::MAX);
        let rows = sqlx::query(statement).bind(from).bind(to).bind(limit).fetch_all(connection).await?;
        rows.iter().map(|row| row::payment_id(row, "payment_id")).collect()
    }

    async fn open(
        &self,
        connection: &mut PgConnection,
        states: &[&str],
        wanted: usize,
    ) -> Result<Vec<FoundPayment>, Error> {
        let bounds = sqlx::query(statements::OPEN_DAYS).fetch_one(&mut *connection).await?;
        let found = sqlx::query(statements::WALK_OPEN)
            .bind(bounds.try_get::<NaiveDate, _>("oldest_open_day")?)
            .bind(bounds.try_get::<NaiveDate, _>("today")?)
            .bind(self.low)
            .bind(self.high)
            .bind(states)
            .bind(match self.order {
                SearchOrder::DueFirst => "first",
                SearchOrder::DueLast => "last",
            })
            .bind(i64::try_from(wanted).unwrap_or(i64::MAX))
            .fetch_all(connection)
            .await?;
        found.iter().map(outline).collect()
    }

    /// The next of one actor's list.
    async fn of_actor(
        &self,
        connection: &mut PgConnection,
        name: &str,
        wanted: usize,
    ) -> Result<Chunk, Error> {
        let actor: Option<Uuid> =
            sqlx::query_scalar(statements::ACTOR_NAMED).bind(name).fetch_optional(&mut *connection).await?;
        let Some(actor) = actor else { return Ok(Chunk::all(Vec::new())) };
        // One more on each side: what is not within the ids is dropped when it is read.
        let before = instant(self.low) - TimeDelta::milliseconds(1);
        let behind = instant(self.high).checked_add_signed(TimeDelta::milliseconds(1));
        let behind = behind.unwrap_or(Span::EVER.to);
        let given = self.place.map(|place| (place.at, place.payment.as_uuid()));
        let (statement, place, bound) = match self.order {
            SearchOrder::DueFirst => {
                (statements::LIST_BY_DUE, given.unwrap_or((before, Uuid::nil())), behind)
            }
            SearchOrder::DueLast => {
                (statements::LIST_BY_DUE_BACK, given.unwrap_or((behind, Uuid::nil())), before)
            }
        };
        let rows = sqlx::query(statement)
            .bind(actor)
            .bind(place.0)
            .bind(place.1)
            .bind(bound)
            .bind(i64::try_from(wanted).unwrap_or(i64::MAX))
            .fetch_all(&mut *connection)
            .await?;
        let candidate = |row: &PgRow| {
            Ok(Place { at: row.try_get("due_at")?, payment: row::payment_id(row, "payment_id")? })
        };
        let candidates = rows.iter().map(candidate).collect::<Result<Vec<_>, Error>>()?;
        let ids: Vec<PaymentId> = candidates.iter().map(|it| it.payment).collect();
        Ok(Chunk {
            rows: self.outlines(connection, &ids).await?,
            examined: candidates.len(),
            last: candidates.last().copied(),
            is_end: candidates.len() < wanted,
        })
    }

    async fn by_due(&self, connection: &mut PgConnection, wanted: usize) -> Result<Chunk, Error> {
        let attached = sqlx::query(statements::ATTACHED_DAYS).fetch_one(&mut *connection).await?;
        let first: Option<NaiveDate> = attached.try_get("first_day")?;
        let last: Option<NaiveDate> = attached.try_get("last_day")?;
        let (Some(first), Some(last)) = (first, last) else {
            return Ok(Chunk::all(Vec::new()));
        };
        let (mut from, mut to) =
            (first.max(instant(self.low).date_naive()), last.min(instant(self.high).date_naive()));
        let mut rows = Vec::new();
        while from <= to {
            let (begin, end) = match self.order {
                SearchOrder::DueFirst => (from, to.min(from.checked_add_days(SPAN).unwrap_or(to))),
                SearchOrder::DueLast => (from.max(to.checked_sub_days(SPAN).unwrap_or(from)), to),
            };
            let statement = match self.order {
                SearchOrder::DueFirst => statements::WALK_BY_DUE,
                SearchOrder::DueLast => statements::WALK_BY_DUE_BACK,
            };
            let walked = sqlx::query(statement)
                .bind(begin)
                .bind(end)
                .bind(self.low)
                .bind(self.high)
                .bind(i64::try_from(wanted - rows.len()).unwrap_or(i64::MAX))
                .fetch_all(&mut *connection)
                .await?;
            rows.extend(walked.iter().map(outline).collect::<Result<Vec<_>, _>>()?);
            if rows.len() >= wanted {
                return Ok(Chunk::of(rows, false));
            }
            match self.order {
                SearchOrder::DueFirst => from = end.checked_add_days(Days::new(1)).unwrap_or(NaiveDate::MAX),
                SearchOrder::DueLast => to = begin.checked_sub_days(Days::new(1)).unwrap_or(NaiveDate::MIN),
            }
        }
        Ok(Chunk::all(rows))
    }
}

/// The instant that an id begins with.
fn instant(id: Uuid) -> DateTime<Utc> {
    let ms = i64::try_from(id.as_u128() >> 80).unwrap_or(i64::MAX);
    DateTime::from_timestamp_millis(ms).unwrap_or(DateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::filter::Filter;

    #[test]
    fn a_filter_is_served_by_what_has_the_fewest_candidates() {
        let id = "01a2283e-8820-8aaa-9bbb-0123456789ab";
        let rare = |states: &[Status]| Path::Rare(states.iter().copied().collect());
        for (text, path) in [
            ("", Path::Due),
            ("gateway:sandbox amount:5..", Path::Due),
            ("status:FAILED", Path::Due),
            ("status:PARKED,FAILED", Path::Due),
            ("reason:poisoned", Path::Due),
            ("-actor:shop", Path::Due),
            ("actor:shop,other", Path::Due),
            ("actor:shop", Path::Actor("shop".into())),
            ("actor:shop status:FAILED", Path::Actor("shop".into())),
            ("status:PARKED", rare(&[Status::Parked])),
            ("status:PARKED,UNKNOWN actor:shop", rare(&[Status::Parked, Status::Unknown])),
            ("status:UNKNOWN,FAILED,PROCESSING -status:FAILED", rare(&[Status::Processing, Status::Unknown])),
            ("status:PARKED status:FAILED", rare(&[])),
            ("ref:ch_1 status:PARKED", Path::References(BTreeSet::from(["ch_1".into()]))),
            (
                &format!("id:{id} ref:ch_1 status:PARKED"),
                Path::Named(BTreeSet::from([id.parse().expect("an id")])),
            ),
        ] {
            let filter: Filter = text.parse().expect("a filter");
            assert_eq!(Path::of(&filter.conditions()), path, "{text}");
        }
    }

    #[test]
    fn the_instant_of_an_id_is_its_due_time() {
        let at = DateTime::from_timestamp_millis(1_795_960_020_123).expect("in range");
        assert_eq!(instant(PaymentId::new(at, [9; 10]).expect("in range").as_uuid()), at);
        assert_eq!(instant(Uuid::nil()), DateTime::UNIX_EPOCH);
        assert!(instant(Uuid::max()) > at);
    }
}

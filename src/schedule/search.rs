//! Payments of all actors, by the one filter of `domain/filter.rs`: a page at a time, for people.
//!
//! **Promises.** A page is in the order of due times, which the ids carry, and walking it meets each payment once at
//! most. One page examines at most [`MOST_SEARCHED`] payments: a filter that few pass answers a short page *with* the
//! place where it stopped, and a count that says that it is none of all. What a payment must be to pass is said in
//! one place, [`Conditions`], in Rust: the statements bring candidates, and none of them knows a filter.
//!
//! Where the candidates come from is `search_walk.rs`.
//!
//! It reads without a common snapshot, and shows each payment as it stood when it was read.

use super::failure::{before_commit, whole};
use super::port::ScheduleError;
use super::search_walk::Walk;
use super::{Postgres, row, statements};
use crate::domain::filter::{Conditions, Outline};
use crate::domain::ids::{ActorId, GatewayName, PaymentId};
use crate::domain::money::Money;
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgPool, Row};

/// Most payments examined for one page.
pub const MOST_SEARCHED: usize = 5_000;
/// Most matches counted.
pub const MOST_COUNTED: usize = 1_000;
/// Payments examined at once.
const CHUNK: usize = 1_000;

/// In which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchOrder {
    /// By due time, the earliest first.
    DueFirst,
    /// By due time, the latest first.
    DueLast,
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// All of it must hold; actors go by their names.
    pub asked: Conditions,
    /// In which order.
    pub order: SearchOrder,
}

/// One payment, as a list for people has it: nothing that is the client's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPayment {
    /// Which.
    pub payment: PaymentId,
    /// Whose.
    pub actor: ActorId,
    /// The actor's name.
    pub actor_name: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// Why.
    pub reason: Option<Reason>,
    /// Where it is charged.
    pub gateway: GatewayName,
    /// The gateway's reference of its charge.
    pub gateway_ref: Option<String>,
    /// What is charged.
    pub amount: Money,
    /// When it is due.
    pub due_at: DateTime<Utc>,
    /// When it may be claimed next, where it may.
    pub next_attempt_at: DateTime<Utc>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

impl FoundPayment {
    fn passes(&self, asked: &Conditions) -> bool {
        let outline = Outline {
            id: self.payment,
            status: self.status,
            reason: self.reason,
            due_at: self.due_at,
            amount_minor: self.amount.minor.get(),
            gateway: &self.gateway.0,
            gateway_ref: self.gateway_ref.as_deref(),
        };
        asked.holds_of(&outline) && asked.actors.holds(self.actor_name.as_deref())
    }
}

/// How many pass from a page's place on, the page's own among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matches {
    /// So many, and no more.
    Exactly(usize),
    /// So many were met before [`MOST_COUNTED`] or [`MOST_SEARCHED`] ended the counting.
    AtLeast(usize),
}

/// One page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPage {
    /// In the order asked for; may be fewer than asked for.
    pub found: Vec<FoundPayment>,
    /// Go on behind this one, which need not exist; `None`: nothing is left.
    pub next: Option<PaymentId>,
    /// From here on.
    pub matches: Matches,
}

/// What is parked for one reason at one gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedCount {
    /// Why.
    pub reason: String,
    /// Where; `None`: parked by a build that did not write it down.
    pub gateway: Option<String>,
    /// How many.
    pub count: i64,
    /// Since when the oldest of them.
    pub oldest: DateTime<Utc>,
}

impl Postgres {
    /// A page of what passes: at most `limit`, from behind `after`.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn search(
        &self,
        search: &Search,
        after: Option<PaymentId>,
        limit: usize,
    ) -> Result<SearchPage, ScheduleError> {
        let (pool, search) = (self.pool().clone(), search.clone());
        whole(async move { page(&pool, search, after, limit).await.map_err(before_commit) }).await
    }

    /// What is parked, counted among the first `most` entries.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn parked_counts(&self, most: i64) -> Result<Vec<ParkedCount>, ScheduleError> {
        let rows = sqlx::query(statements::PARKED_COUNTS).bind(most).fetch_all(self.pool()).await;
        let count = |row: &PgRow| {
            Ok(ParkedCount {
                reason: row.try_get("reason")?,
                gateway: row.try_get("gateway")?,
                count: row.try_get("count")?,
                oldest: row.try_get("oldest")?,
            })
        };
        rows.and_then(|rows| rows.iter().map(count).collect()).map_err(before_commit)
    }
}

async fn page(
    pool: &PgPool,
    search: Search,
    after: Option<PaymentId>,
    limit: usize,
) -> Result<SearchPage, Error> {
    let mut connection = pool.acquire().await?;
    let Search { asked, order } = search;
    let mut walk = Walk::new(&mut connection, &asked, order, after).await?;
    let mut found = Vec::new();
    let (mut next, mut matched, mut examined) = (None, 0, 0);
    loop {
        // A page of everything is all that is wanted at first; what is counted comes in larger pieces.
        let wanted = if examined == 0 { CHUNK.min(4 * (limit + 1)) } else { CHUNK };
        let chunk = walk.chunk(&mut connection, wanted.min(MOST_SEARCHED - examined)).await?;
        examined += chunk.examined;
        for row in chunk.rows {
            if found.len() < limit {
                next = Some(row.payment);
            }
            if row.passes(&asked) {
                matched += 1;
                if found.len() < limit {
                    found.push(row);
                } else if matched > MOST_COUNTED {
                    return Ok(SearchPage { found, next, matches: Matches::AtLeast(MOST_COUNTED) });
                }
            }
        }
        if chunk.is_end {
            let next = next.filter(|_| matched > found.len());
            return Ok(SearchPage { found, next, matches: Matches::Exactly(matched) });
        }
        if let Some(last) = chunk.last {
            walk.passed(last);
            next = if found.len() < limit { Some(last.payment) } else { next };
        }
        if examined >= MOST_SEARCHED || chunk.last.is_none() {
            return Ok(SearchPage { found, next, matches: Matches::AtLeast(matched) });
        }
    }
}

/// A row of the statements that bring candidates.
pub(super) fn outline(found: &PgRow) -> Result<FoundPayment, Error> {
    // A reason of a later build is no reason to this one.
    let reason: Option<String> = found.try_get("status_reason")?;
    Ok(FoundPayment {
        payment: row::payment_id(found, "id")?,
        actor: ActorId(found.try_get("actor_id")?),
        actor_name: found.try_get("actor_name")?,
        status: row::status(found, "status")?,
        reason: reason.and_then(|text| Reason::from_text(&text)),
        gateway: GatewayName(found.try_get("gateway")?),
        gateway_ref: found.try_get("gateway_ref")?,
        amount: row::money(found)?,
        due_at: found.try_get("due_at")?,
        next_attempt_at: found.try_get("next_attempt_at")?,
        created_at: found.try_get("created_at")?,
    })
}

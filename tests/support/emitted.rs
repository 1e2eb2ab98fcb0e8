//! What a test's database would have told the world: every event of its history, kept for who holds all of them
//! against their schemas, since the database is gone when its test is over.
//!
//! With `PUNCTUAL_EMITTED=folder` each test database leaves three files there: its events and its announcements, a
//! JSON object a line, and how many history rows were not the product's own. Those are rows that a test wrote by
//! hand or changed: their hash does not follow from the row before, which no statement of ours can bring about.

use chrono::{DateTime, Utc};
use punctual::domain::event::{Snapshot, Unpublished, announcement, json};
use punctual::domain::history::{Event, FIRST_PREV, HistoryRow};
use punctual::domain::ids::{ActorId, Epoch, Fence, GatewayName, PaymentId};
use punctual::domain::money::{Currency, Minor, Money};
use punctual::domain::state::Status;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Error, Row};
use std::path::{Path, PathBuf};

const ROWS: &str = "
    SELECT h.payment_id, h.seq, h.was, h.became, h.cause, h.done_by, h.fence, h.attempt, h.epoch, h.at, h.detail,
           h.hash, p.actor_id, p.gateway, p.amount_minor, p.currency, p.due_at, p.execute_before
    FROM payment_history h LEFT JOIN payments p ON p.id = h.payment_id
    ORDER BY h.payment_id, h.seq";

/// Where to, if anybody wants it.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("PUNCTUAL_EMITTED").map(PathBuf::from)
}

/// Writes what the database tells; a failure is written down too, since a test must not fail for it.
pub async fn keep(folder: &Path, database: &str, url: &str) {
    let kept = match told(url).await {
        Ok(Some(told)) => {
            std::fs::create_dir_all(folder).unwrap_or_default();
            let file = |what: &str, lines: &[String]| {
                std::fs::write(folder.join(format!("{database}.{what}")), lines.concat())
            };
            file("events.ndjson", &told.events)
                .and_then(|()| file("parked.ndjson", &told.announcements))
                .and_then(|()| file("foreign", &[told.foreign.to_string()]))
                .map_err(|error| error.to_string())
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = kept {
        // Nobody else would hear of it where the folder itself cannot be written.
        eprintln!("what {database} emitted was not kept: {error}");
        let _ = std::fs::write(folder.join(format!("{database}.failed")), error);
    }
}

#[derive(Default)]
struct Told {
    events: Vec<String>,
    announcements: Vec<String>,
    foreign: usize,
}

/// `None`: it has no history, as one without a schema.
async fn told(url: &str) -> Result<Option<Told>, Error> {
    let mut sql = PgConnection::connect(url).await?;
    let has = "SELECT to_regclass('payment_history') IS NOT NULL";
    if !sqlx::query_scalar::<_, bool>(has).fetch_one(&mut sql).await? {
        return Ok(None);
    }
    let found = sqlx::query(ROWS).fetch_all(&mut sql).await?;
    let (mut told, mut prev, mut of) = (Told::default(), FIRST_PREV, None);
    for found in &found {
        let id: uuid::Uuid = found.try_get("payment_id")?;
        if of != Some(id) {
            (prev, of) = (FIRST_PREV, Some(id));
        }
        let hash: Vec<u8> = found.try_get("hash")?;
        let own = row(found)?.filter(|row| row.hash(&prev)[..] == hash);
        prev = hash.try_into().unwrap_or(FIRST_PREV);
        let Some(row) = own else {
            told.foreign += 1;
            continue;
        };
        let unpublished = Unpublished { row, payment: snapshot(found)? };
        let line = |bytes: Vec<u8>| format!("{}\n", String::from_utf8_lossy(&bytes));
        told.events.push(line(json(&unpublished)));
        told.announcements.extend(announcement(&unpublished).map(line));
    }
    Ok(Some(told))
}

/// `None`: it says what no build of ours can read.
fn row(found: &PgRow) -> Result<Option<HistoryRow>, Error> {
    let was: String = found.try_get("was")?;
    let from = if was == "-" { Some(None) } else { Status::from_text(&was).map(Some) };
    let (became, cause): (String, String) = (found.try_get("became")?, found.try_get("cause")?);
    let payment = PaymentId::from_uuid(found.try_get("payment_id")?).ok();
    let (Some(payment), Some(from), Some(to), Some(event)) =
        (payment, from, Status::from_text(&became), Event::from_text(&cause))
    else {
        return Ok(None);
    };
    Ok(Some(HistoryRow {
        payment,
        seq: found.try_get("seq")?,
        from,
        to,
        event,
        by: found.try_get("done_by")?,
        fence: Fence(found.try_get("fence")?),
        attempt: found.try_get("attempt")?,
        epoch: Epoch(found.try_get("epoch")?),
        at: found.try_get("at")?,
        detail: found.try_get("detail")?,
    }))
}

fn snapshot(found: &PgRow) -> Result<Option<Snapshot>, Error> {
    let Some(actor) = found.try_get::<Option<uuid::Uuid>, _>("actor_id")? else { return Ok(None) };
    let (minor, currency): (i64, String) = (found.try_get("amount_minor")?, found.try_get("currency")?);
    let money = Minor::new(minor).zip(Currency::from_code(&currency));
    let Some((minor, currency)) = money else { return Ok(None) };
    Ok(Some(Snapshot {
        actor: ActorId(actor),
        gateway: GatewayName(found.try_get("gateway")?),
        amount: Money { minor, currency },
        due_at: found.try_get::<DateTime<Utc>, _>("due_at")?,
        execute_before: found.try_get("execute_before")?,
        traceparent: None,
    }))
}

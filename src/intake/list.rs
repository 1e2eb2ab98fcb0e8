//! `GET /v1/scheduled-payments`: an actor's payments, a page at a time.
//!
//! Newest first; by due time, earliest first, where the query bounds the due time. A page holds each
//! payment as it stands, without its attempts, and a cursor that leads on. Few matches among many
//! payments answer a short page, even an empty one, *with* a cursor: what a request examines is
//! bounded, and a client goes on until `nextCursor` is null.
//!
//! The page's tag is a digest of its bytes, so a client that polls a list is sent nothing new for
//! nothing new.

use super::actor::{Caller, Scope};
use super::cursor::{self, Binding};
use super::filters::Asked;
use super::problem::{Code, Problem};
use super::{Intake, headers, limits, read, wire};
use crate::schedule::ListPage;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::HeaderMap;
use axum::http::{Response, Uri};
use sha2::{Digest, Sha256};

pub(super) async fn get(
    State(intake): State<Intake>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let Caller { actor, .. } = intake.authorise(&headers, Scope::Read).await?;
    headers::accepts_json(&headers)?;
    let asked = Asked::read(&uri)?;
    let query = asked.canonical();
    let binding = Binding { secret: intake.schedule.installation_secret(), actor: actor.id, query: &query };
    let after = asked.cursor.as_deref().map(|text| {
        cursor::read(binding, text)
            .ok_or_else(|| Problem::at(Code::InvalidCursor, "/cursor", Code::InvalidCursor.doc()))
    });
    let after = after.transpose()?;
    let page = match &asked.by {
        Some(by) => {
            let found = intake.schedule.look_up(actor.id, by, &asked.filter).await;
            found.map(|payments| ListPage { payments, next: None })
        }
        None => intake.schedule.list(actor.id, &asked.filter, asked.order, after, asked.limit).await,
    };
    let page = page.map_err(limits::trouble)?;
    let body = wire::page(&page.payments, page.next.map(|place| cursor::write(binding, place)));
    let digest = Sha256::digest(&body);
    Ok(read::unless_known(&headers, &format!("W/\"{}\"", hex::encode(&digest[..16])), || body))
}

//! `/v1/ops/api-keys`: keys listed, made, rotated and revoked by whoever has the scope `admin`.
//!
//! **Promises.** A key's text is in the one answer that makes it and nowhere else. Each act is written down with
//! who did it and why, in the transaction that does it. A revoked key is refused at once here and within
//! `api.key_cache` (under 5 s) by other processes. `admin` itself may make a key with any scope: who holds it
//! can do everything, but not unseen.
//!
//! If an answer is lost, the key that it would have shown is in the list, never used: revoke it.

use super::actor::{Caller, Scope, actor_name};
use super::form::Pairs;
use super::instant::Instant;
use super::key::ApiKey;
use super::openapi::{Answer, Operation, Parameter, Place};
use super::problem::{Code, Problem};
use super::read::IdInPath;
use super::wire::utc;
use super::{Intake, act, headers, json, limits};
use crate::schedule::{ApiKeyEntry, KeyMade, KeyRevoked, KeyRotated, NewApiKey, NextApiKey};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::HeaderMap;
use axum::http::{Request, Response, StatusCode, Uri};
use chrono::{DateTime, Utc};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use uuid::Uuid;

/// Longest time for which two keys of a name live.
pub const LONGEST_OVERLAP: Duration = Duration::from_secs(30 * 86_400);
/// The time where a rotation names none.
const USUAL_OVERLAP: Duration = Duration::from_secs(86_400);
/// Most scopes that a request names; there are fewer, so the rest would be repetitions.
const MOST_SCOPES: usize = 32;

/// What a list shows of a key, and what an act answers. The order is the order on the wire.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    key_id: Uuid,
    actor: &'a str,
    name: &'a str,
    hint: &'a str,
    scopes: &'a [String],
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
    last_used_at: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    data: Vec<Shown<'a>>,
    next_cursor: Option<Uuid>,
}

/// A new key, with its text.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Made<'a> {
    api_key: &'a str,
    key_id: Uuid,
    actor_id: Uuid,
    actor: &'a str,
    name: &'a str,
    scopes: &'a [String],
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<Replaced>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replaced {
    key_id: Uuid,
    ends_at: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewKey {
    actor: String,
    scopes: Vec<String>,
    #[serde(default, deserialize_with = "act::present")]
    name: Option<String>,
    #[serde(default, deserialize_with = "act::present")]
    expires_at: Option<String>,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rotation {
    reason: String,
    #[serde(default, deserialize_with = "act::present")]
    overlap_seconds: Option<u64>,
    #[serde(default, deserialize_with = "act::present")]
    expires_at: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Revocation {
    reason: String,
}

pub(super) const TOLD: &[Operation] = &[
    Operation {
        path: "/v1/ops/api-keys",
        id: "listApiKeys",
        summary: "API keys, without what lets anybody in",
        parameters: &[
            Parameter {
                place: Place::Query,
                name: "actor",
                schema: r#"{"type":"string","minLength":1,"maxLength":100}"#,
                about: "Only this actor's.",
            },
            Parameter::LIMIT,
            Parameter::CURSOR,
        ],
        answers: &[Answer::ok("ApiKeyPage", "By actor, name and age.")],
        refusals: &[Code::InvalidCursor],
        ..ABOUT_KEYS
    },
    Operation {
        method: "post",
        path: "/v1/ops/api-keys",
        id: "createApiKey",
        summary: "Make a key",
        about: "Its text is in this answer and nowhere else; of an answer that was lost the key is in the list, \
                never used: revoke it.",
        body: Some("NewApiKey"),
        answers: &[Answer::json(201, "ApiKeyMade", "The key, shown once.")],
        refusals: &[
            Code::ApiKeyNameTaken,
            Code::InvalidName,
            Code::UnknownScope,
            Code::InvalidTime,
            Code::EndInPast,
        ],
        ..ABOUT_KEYS
    },
    Operation {
        method: "post",
        path: "/v1/ops/api-keys/{id}/rotate",
        id: "rotateApiKey",
        summary: "Make the successor of a key",
        about: "It has the name and scopes of the one before, which lives on for the overlap.",
        parameters: &[KEY_ID],
        body: Some("ApiKeyRotation"),
        answers: &[Answer::json(201, "ApiKeyMade", "The new key, shown once.")],
        refusals: &[
            Code::ApiKeyNotFound,
            Code::ApiKeyNotLive,
            Code::RotationUnderWay,
            Code::OutOfRange,
            Code::InvalidTime,
            Code::EndInPast,
        ],
        ..ABOUT_KEYS
    },
    Operation {
        method: "post",
        path: "/v1/ops/api-keys/{id}/revoke",
        id: "revokeApiKey",
        summary: "End a key for good",
        about: "Refused within 5 seconds by every process. May be repeated.",
        parameters: &[KEY_ID],
        body: Some("ActReason"),
        answers: &[Answer::ok("ApiKeyRevoked", "It has ended, now or earlier.")],
        refusals: &[Code::ApiKeyNotFound],
        ..ABOUT_KEYS
    },
];

const ABOUT_KEYS: Operation = Operation { tag: "access", scope: Some(Scope::Admin), ..Operation::BARE };

const KEY_ID: Parameter = Parameter {
    place: Place::Path,
    name: "id",
    schema: r#"{"type":"string","format":"uuid"}"#,
    about: "The key's id, as the list shows it.",
};

pub(super) async fn get(
    State(intake): State<Intake>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    intake.authorise(&headers, Scope::Admin).await?;
    headers::accepts_json(&headers)?;
    let asked = Pairs::read(&uri, &["actor", "limit", "cursor"])?;
    let actor = asked.read_as("actor", "Expected an actor's name.", |text| actor_name(text).ok())?;
    let limit = asked.limit()?;
    let after = asked.text("cursor").map(|text| Uuid::try_parse(text).map_err(|_| bad_cursor()));
    // One more than the page tells whether there are more.
    let most = u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(1);
    let found = intake.schedule.api_keys(actor.as_deref(), after.transpose()?, most).await;
    let mut found = found.map_err(limits::trouble)?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|last| last.key_id);
    written(StatusCode::OK, &Page { data: found.iter().map(shown).collect(), next_cursor })
}

fn bad_cursor() -> Problem {
    Problem::at(Code::InvalidCursor, "/cursor", Code::InvalidCursor.doc())
}

fn shown(key: &ApiKeyEntry) -> Shown<'_> {
    Shown {
        key_id: key.key_id,
        actor: &key.actor,
        name: &key.name,
        hint: &key.hint,
        scopes: &key.scopes,
        created_at: utc(key.created_at),
        expires_at: key.expires_at.map(utc),
        revoked_at: key.revoked_at.map(utc),
        last_used_at: key.last_used_at.map(utc),
    }
}

pub(super) async fn post(
    State(intake): State<Intake>,
    request: Request<Body>,
) -> Result<Response<Body>, Problem> {
    let (caller, asked): (_, NewKey) = asked(&intake, request).await?;
    let by = act::by(&caller, &asked.reason)?;
    let actor = name(&asked.actor, "/actor")?;
    let given = asked.name.as_deref().map(|text| name(text, "/name")).transpose()?;
    let scopes = scopes(&asked.scopes)?;
    let expires_at = end(asked.expires_at.as_deref(), &caller)?;
    let key = ApiKey::generate(&*intake.dice);
    let key_id = intake.dice.claim_id().0;
    let called = given.clone().unwrap_or_else(|| key_id.to_string());
    let new = NewApiKey {
        id: key_id,
        new_actor: intake.dice.claim_id().0,
        actor_name: actor.clone(),
        name: given,
        hash: key.hash(),
        hint: key.hint(),
        scopes: scopes.clone(),
        expires_at,
        by,
    };
    match intake.schedule.make_api_key(new).await.map_err(limits::trouble)? {
        KeyMade::Made(owner) => written(
            StatusCode::CREATED,
            &Made {
                api_key: key.text().expose_secret(),
                key_id,
                actor_id: owner.0,
                actor: &actor,
                name: &called,
                scopes: &scopes,
                expires_at: expires_at.map(utc),
                replaces: None,
            },
        ),
        KeyMade::NameTaken => Err(Problem::new(Code::ApiKeyNameTaken)),
    }
}

pub(super) async fn rotate(
    State(intake): State<Intake>,
    path: IdInPath,
    request: Request<Body>,
) -> Result<Response<Body>, Problem> {
    let (caller, asked): (_, Rotation) = asked(&intake, request).await?;
    let old = key_id(path)?;
    let by = act::by(&caller, &asked.reason)?;
    let overlap = asked.overlap_seconds.map_or(USUAL_OVERLAP, Duration::from_secs);
    if overlap > LONGEST_OVERLAP {
        let why = "overlapSeconds is at most 2592000, 30 days.";
        return Err(Problem::at(Code::OutOfRange, "/overlapSeconds", why));
    }
    let key = ApiKey::generate(&*intake.dice);
    let next = NextApiKey {
        id: intake.dice.claim_id().0,
        hash: key.hash(),
        hint: key.hint(),
        overlap,
        expires_at: end(asked.expires_at.as_deref(), &caller)?,
        by,
    };
    let key_id = next.id;
    match intake.schedule.rotate_api_key(old, next).await.map_err(limits::trouble)? {
        KeyRotated::Rotated(made) => written(
            StatusCode::CREATED,
            &Made {
                api_key: key.text().expose_secret(),
                key_id,
                actor_id: made.actor.0,
                actor: &made.actor_name,
                name: &made.name,
                scopes: &made.scopes,
                expires_at: made.expires_at.map(utc),
                replaces: Some(Replaced { key_id: old, ends_at: utc(made.old_ends_at) }),
            },
        ),
        KeyRotated::NotFound => Err(Problem::new(Code::ApiKeyNotFound)),
        KeyRotated::NotLive => Err(Problem::new(Code::ApiKeyNotLive)),
        KeyRotated::Rotating => Err(Problem::new(Code::RotationUnderWay)),
    }
}

pub(super) async fn revoke(
    State(intake): State<Intake>,
    path: IdInPath,
    request: Request<Body>,
) -> Result<Response<Body>, Problem> {
    let (caller, asked): (_, Revocation) = asked(&intake, request).await?;
    let key = key_id(path)?;
    let by = act::by(&caller, &asked.reason)?;
    match intake.schedule.revoke_api_key(key, by).await.map_err(limits::trouble)? {
        KeyRevoked::Revoked(at) | KeyRevoked::Before(at) => {
            intake.keys.forget(key);
            let told = serde_json::json!({"keyId": key, "revokedAt": utc(at)});
            written(StatusCode::OK, &told)
        }
        KeyRevoked::NotFound => Err(Problem::new(Code::ApiKeyNotFound)),
    }
}

/// Who acts, and what they sent.
async fn asked<T: serde::de::DeserializeOwned>(
    intake: &Intake,
    request: Request<Body>,
) -> Result<(Caller, T), Problem> {
    let (parts, body) = request.into_parts();
    let caller = intake.authorise(&parts.headers, Scope::Admin).await?;
    headers::accepts_json(&parts.headers)?;
    headers::json_body(&parts.headers)?;
    Ok((caller, act::read(body, &parts).await?))
}

fn key_id(path: IdInPath) -> Result<Uuid, Problem> {
    let text = path.map(|Path(text)| text).unwrap_or_default();
    Uuid::try_parse(&text).map_err(|_| Problem::new(Code::ApiKeyNotFound))
}

fn name(text: &str, at: &'static str) -> Result<String, Problem> {
    actor_name(text).map_err(|why| Problem::at(Code::InvalidName, at, why))
}

/// Known ones, each once, in the order of the table.
fn scopes(asked: &[String]) -> Result<Vec<String>, Problem> {
    let known = |text: &String| Scope::ALL.iter().any(|scope| scope.as_str() == text);
    if asked.is_empty() || asked.len() > MOST_SCOPES {
        return Err(Problem::at(Code::Empty, "/scopes", "scopes names at least one, and each once."));
    }
    if let Some(at) = asked.iter().position(|text| !known(text)) {
        let all = Scope::ALL.map(Scope::as_str).join(", ");
        return Err(Problem::at(Code::UnknownScope, format!("/scopes/{at}"), format!("One of {all}.")));
    }
    let held = Scope::ALL.iter().filter(|scope| asked.iter().any(|text| text == scope.as_str()));
    Ok(held.map(|scope| scope.as_str().to_owned()).collect())
}

/// The end of a key, which lies ahead.
fn end(text: Option<&str>, caller: &Caller) -> Result<Option<DateTime<Utc>>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let end = Instant::read(text).map(Instant::rounded_down);
    let end = end.ok_or_else(|| {
        let why = "Expected an RFC 3339 time with an offset, such as 2030-01-31T09:00:00Z.";
        Problem::at(Code::InvalidTime, "/expiresAt", why)
    })?;
    if end <= caller.now {
        return Err(Problem::at(Code::EndInPast, "/expiresAt", "expiresAt has passed."));
    }
    Ok(Some(end))
}

fn written(status: StatusCode, told: &impl Serialize) -> Result<Response<Body>, Problem> {
    // Texts, ids and lists: it cannot fail to be written.
    Ok(json(status, serde_json::to_vec(told).unwrap_or_default()))
}

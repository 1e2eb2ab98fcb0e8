//! The commands of API keys, on the database itself: how the first key is made, before there is one to ask
//! the interface with. A key's text is printed when it is made, and known to nobody afterwards: what is
//! listed, rotated and revoked is its id.

use super::{failed, refused, usage};
use crate::cli::{self, Ended, Keys, Output};
use crate::domain::ids::Operator;
use crate::intake::{ApiKey, LONGEST_OVERLAP};
use crate::platform::config::{Config, Value};
use crate::platform::dice::{Dice, Os};
use crate::platform::exit::Exit;
use crate::schedule::{
    self, Access, ApiKeyEntry, By, KeyMade, KeyRevoked, KeyRotated, NewApiKey, NextApiKey, Postgres,
};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use secrecy::{ExposeSecret, SecretString};
use std::time::Duration;
use uuid::Uuid;

/// Keys read at once for a list.
const PAGE: u32 = 500;

/// Makes, lists, rotates or revokes keys.
///
/// # Errors
/// [`Exit::NotFound`] for a key that is not there, [`Exit::Conflict`] for a name that is taken; otherwise
/// what failed.
pub async fn keys(command: Keys, config: Config) -> Result<(), Ended> {
    config.require(&["database.url"])?;
    let schedule = schedule::connect(&config.database, Access::Owner).await.map_err(refused)?;
    let done = match command {
        Keys::Create { actor, scopes, name, expires, output } => {
            let wanted = Wanted { actor, name, scopes, lifetime: expires.map(Into::into) };
            create(&schedule, wanted, output).await
        }
        Keys::List { actor, output } => list(&schedule, actor.as_deref(), output).await,
        Keys::Rotate { key_id, overlap, expires, output } => {
            rotate(&schedule, key_id, overlap.into(), expires.map(Into::into), output).await
        }
        Keys::Revoke { key_id } => revoke(&schedule, key_id).await,
    };
    schedule.close().await;
    done
}

/// A key as it is asked for.
struct Wanted {
    actor: String,
    name: Option<String>,
    scopes: Vec<String>,
    lifetime: Option<Duration>,
}

async fn create(schedule: &Postgres, wanted: Wanted, output: Output) -> Result<(), Ended> {
    let scopes = wanted.scopes.clone();
    let made = make(schedule, &Os, wanted).await?;
    print(&made.text, made.key_id, made.actor_id, &scopes, made.expires_at, output)
}

fn print(
    text: &SecretString,
    key_id: Uuid,
    actor_id: Uuid,
    scopes: &[String],
    expires_at: Option<DateTime<Utc>>,
    output: Output,
) -> Result<(), Ended> {
    let text = text.expose_secret();
    let document = || {
        serde_json::json!({"apiKey": text, "keyId": key_id, "actorId": actor_id, "scopes": scopes,
            "expiresAt": expires_at.map(shown)})
    };
    cli::print(&output.shown(|| format!("{text}\n"), document))
}

async fn list(schedule: &Postgres, actor: Option<&str>, output: Output) -> Result<(), Ended> {
    let mut found: Vec<ApiKeyEntry> = Vec::new();
    loop {
        let after = found.last().map(|key| key.key_id);
        let page = schedule.api_keys(actor, after, PAGE).await.map_err(failed)?;
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    let table = || found.iter().map(as_line).collect::<String>();
    cli::print(&output.shown(table, || found.iter().map(as_json).collect()))
}

async fn rotate(
    schedule: &Postgres,
    old: Uuid,
    overlap: Duration,
    lifetime: Option<Duration>,
    output: Output,
) -> Result<(), Ended> {
    if overlap > LONGEST_OVERLAP {
        return Err(usage(format!("--overlap is at most {}", LONGEST_OVERLAP.show())));
    }
    let key = ApiKey::generate(&Os);
    let next = NextApiKey {
        id: Os.claim_id().0,
        hash: key.hash(),
        hint: key.hint(),
        overlap,
        expires_at: end(schedule, lifetime).await?,
        by: by(),
    };
    let key_id = next.id;
    match schedule.rotate_api_key(old, next).await.map_err(failed)? {
        KeyRotated::Rotated(made) => {
            print(key.text(), key_id, made.actor.0, &made.scopes, made.expires_at, output)?;
            eprintln!("punctual: {old} ends at {}", shown(made.old_ends_at));
            Ok(())
        }
        KeyRotated::NotFound | KeyRotated::NotLive => Err(none_to("rotated", old)),
        KeyRotated::Rotating => {
            let why =
                format!("two keys of the name of {old} are live; revoke one, or wait until it has ended");
            Err(Ended::with(Exit::Conflict, why))
        }
    }
}

async fn revoke(schedule: &Postgres, key_id: Uuid) -> Result<(), Ended> {
    match schedule.revoke_api_key(key_id, by()).await.map_err(failed)? {
        KeyRevoked::Revoked(_) => cli::print("revoked; APIs believe it for api.key_cache longer\n"),
        KeyRevoked::Before(_) | KeyRevoked::NotFound => Err(none_to("revoked", key_id)),
    }
}

fn none_to(done: &str, key_id: Uuid) -> Ended {
    let why = format!("no key {key_id} that could be {done}; `punctual keys list` shows them");
    Ended::with(Exit::NotFound, why)
}

/// Whoever can connect as the owner; the database's own log knows more of them.
fn by() -> By {
    By { operator: Operator("cli".into()), reason: "from the command line".into() }
}

/// The instant so far ahead, by the database's clock.
async fn end(schedule: &Postgres, lifetime: Option<Duration>) -> Result<Option<DateTime<Utc>>, Ended> {
    let Some(lifetime) = lifetime else { return Ok(None) };
    let now = schedule.database_now().await.map_err(failed)?;
    let end = TimeDelta::from_std(lifetime).ok().and_then(|lifetime| now.checked_add_signed(lifetime));
    end.map(Some).ok_or_else(|| usage("--expires is past the calendar's end"))
}

/// A key that was just made.
#[derive(Debug)]
pub struct MadeKey {
    /// To be shown once.
    pub text: SecretString,
    /// Names it from now on.
    pub key_id: Uuid,
    /// Whose it is.
    pub actor_id: Uuid,
    /// Refused from then on.
    pub expires_at: Option<DateTime<Utc>>,
}

/// Makes and stores a key without a name or an end.
///
/// # Errors
/// The database's word.
pub async fn new_key(
    schedule: &Postgres,
    dice: &dyn Dice,
    actor: &str,
    scopes: &[String],
) -> Result<MadeKey, Ended> {
    let wanted = Wanted { actor: actor.to_owned(), name: None, scopes: scopes.to_vec(), lifetime: None };
    make(schedule, dice, wanted).await
}

async fn make(schedule: &Postgres, dice: &dyn Dice, wanted: Wanted) -> Result<MadeKey, Ended> {
    let key = ApiKey::generate(dice);
    let key_id = dice.claim_id().0;
    let expires_at = end(schedule, wanted.lifetime).await?;
    let new = NewApiKey {
        id: key_id,
        new_actor: dice.claim_id().0,
        actor_name: wanted.actor,
        name: wanted.name,
        hash: key.hash(),
        hint: key.hint(),
        scopes: wanted.scopes,
        expires_at,
        by: by(),
    };
    match schedule.make_api_key(new).await.map_err(failed)? {
        KeyMade::Made(actor) => {
            Ok(MadeKey { text: key.text().clone(), key_id, actor_id: actor.0, expires_at })
        }
        KeyMade::NameTaken => {
            let why = "a live key of this actor has the name; `punctual keys rotate` makes its successor";
            Err(Ended::with(Exit::Conflict, why))
        }
    }
}

fn shown(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn as_json(key: &ApiKeyEntry) -> serde_json::Value {
    serde_json::json!({
        "keyId": key.key_id,
        "actor": key.actor,
        "name": key.name,
        "hint": key.hint,
        "scopes": key.scopes,
        "createdAt": shown(key.created_at),
        "expiresAt": key.expires_at.map(shown),
        "revokedAt": key.revoked_at.map(shown),
        "lastUsedAt": key.last_used_at.map(shown),
    })
}

fn as_line(key: &ApiKeyEntry) -> String {
    let end = match (key.revoked_at, key.expires_at) {
        (Some(at), _) => format!("revoked {}", shown(at)),
        (None, Some(at)) => format!("expires {}", shown(at)),
        (None, None) => "live".to_owned(),
    };
    let used = key.last_used_at.map_or_else(|| "never used".to_owned(), |at| format!("used {}", shown(at)));
    let name = if key.name == key.key_id.to_string() { "-" } else { &key.name };
    let (id, actor, hint, made) = (key.key_id, &key.actor, &key.hint, shown(key.created_at));
    format!("{id}  {actor}  {name}  {hint}  {}  made {made}  {used}  {end}\n", key.scopes.join(","))
}

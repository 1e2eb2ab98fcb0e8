//! The commands of API keys. A key's text is printed when it is made, and known to nobody afterwards:
//! what is listed and revoked is its id.

use super::{failed, refused};
use crate::cli::{self, Ended, Keys, Output};
use crate::intake::ApiKey;
use crate::platform::config::Config;
use crate::platform::dice::{Dice, Os};
use crate::platform::exit::Exit;
use crate::schedule::{self, Access, ApiKeyEntry, NewApiKey, Postgres};
use chrono::{DateTime, SecondsFormat, Utc};
use secrecy::{ExposeSecret, SecretString};
use uuid::Uuid;

/// Makes, lists or revokes keys.
///
/// # Errors
/// [`Exit::NotFound`] for a key that is not there; otherwise what failed.
pub async fn keys(command: Keys, config: Config) -> Result<(), Ended> {
    config.require(&["database.url"])?;
    let schedule = schedule::connect(&config.database, Access::Owner).await.map_err(refused)?;
    let done = match command {
        Keys::Create { actor, scopes, output } => create(&schedule, &actor, &scopes, output).await,
        Keys::List { actor, output } => list(&schedule, actor.as_deref(), output).await,
        Keys::Revoke { key_id } => revoke(&schedule, key_id).await,
    };
    schedule.close().await;
    done
}

async fn create(schedule: &Postgres, actor: &str, scopes: &[String], output: Output) -> Result<(), Ended> {
    let made = new_key(schedule, &Os, actor, scopes).await?;
    let text = made.text.expose_secret();
    match output {
        Output::Json => {
            let (key_id, actor_id) = (made.key_id, made.actor_id);
            let shown =
                serde_json::json!({"apiKey": text, "keyId": key_id, "actorId": actor_id, "scopes": scopes});
            cli::print(&format!("{shown}\n"))
        }
        Output::Table => cli::print(&format!("{text}\n")),
    }
}

async fn list(schedule: &Postgres, actor: Option<&str>, output: Output) -> Result<(), Ended> {
    let found = schedule.api_keys(actor).await.map_err(failed)?;
    match output {
        Output::Json => {
            let keys: Vec<_> = found.iter().map(as_json).collect();
            cli::print(&format!("{}\n", serde_json::json!({"keys": keys})))
        }
        Output::Table => cli::print(&found.iter().map(as_line).collect::<String>()),
    }
}

async fn revoke(schedule: &Postgres, key_id: Uuid) -> Result<(), Ended> {
    if schedule.revoke_api_key(key_id).await.map_err(failed)? {
        cli::print("revoked; APIs believe it for api.key_cache longer\n")
    } else {
        let why = format!("no key {key_id} that could be revoked; `punctual keys list` shows them");
        Err(Ended::with(Exit::NotFound, why))
    }
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
}

/// Makes and stores a key.
///
/// # Errors
/// The database's word.
pub async fn new_key(
    schedule: &Postgres,
    dice: &dyn Dice,
    actor: &str,
    scopes: &[String],
) -> Result<MadeKey, Ended> {
    let key = ApiKey::generate(dice);
    let key_id = dice.claim_id().0;
    let new = NewApiKey {
        id: key_id,
        new_actor: dice.claim_id().0,
        actor_name: actor.to_owned(),
        hash: key.hash(),
        hint: key.hint(),
        scopes: scopes.to_vec(),
    };
    let actor_id = schedule.add_api_key(new).await.map_err(failed)?.0;
    Ok(MadeKey { text: key.text().clone(), key_id, actor_id })
}

fn shown(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn as_json(key: &ApiKeyEntry) -> serde_json::Value {
    serde_json::json!({
        "keyId": key.key_id,
        "actor": key.actor,
        "hint": key.hint,
        "scopes": key.scopes,
        "createdAt": shown(key.created_at),
        "expiresAt": key.expires_at.map(shown),
        "revokedAt": key.revoked_at.map(shown),
    })
}

fn as_line(key: &ApiKeyEntry) -> String {
    let end = match (key.revoked_at, key.expires_at) {
        (Some(at), _) => format!("revoked {}", shown(at)),
        (None, Some(at)) => format!("expires {}", shown(at)),
        (None, None) => "live".to_owned(),
    };
    let scopes = key.scopes.join(",");
    format!("{}  {}  {}  {scopes}  made {}  {end}\n", key.key_id, key.actor, key.hint, shown(key.created_at))
}

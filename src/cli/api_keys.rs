//! `punctual api-keys`: API keys through the API, for who holds the scope `admin`.
//!
//! `punctual keys` does the same straight in the database, for the first key of an installation and for when
//! nobody has one; here every act is in the operators' audit under the name of who did it.

use super::Ended;
use super::output::{Column, Face, List, Output, at};
use super::payment::walked;
use super::remote::{Act, Remote, acted, confirm};
use crate::platform::config::Config;
use clap::{Args, Subcommand};
use serde_json::json;

/// API keys, through the API.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum ApiKeys {
    /// Each with its hint, scopes and ends; never its text.
    List {
        /// Only this actor's.
        #[arg(long)]
        actor: Option<String>,
        /// Most keys.
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
        limit: u64,
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Make one; its text is in the answer, once.
    Create(Create),
    /// Make another for the same actor and scopes; both live until the old one's end.
    Rotate {
        /// As `list` shows it.
        #[arg(value_name = "KEY_ID")]
        id: String,
        /// How long the old one lives on; without it a day.
        #[arg(long, value_name = "LENGTH")]
        overlap: Option<humantime::Duration>,
        /// When the new one ends: RFC 3339 with an offset.
        #[arg(long, value_name = "INSTANT")]
        expires_at: Option<String>,
        #[command(flatten)]
        act: Act,
    },
    /// End one for good.
    Revoke {
        /// As `list` shows it.
        #[arg(value_name = "KEY_ID")]
        id: String,
        #[command(flatten)]
        act: Act,
    },
}

/// For whom, and what it may do.
#[derive(Debug, Clone, Args)]
pub(super) struct Create {
    /// The actor's name; made if it is new.
    #[arg(long)]
    actor: String,
    /// The key's own name among the actor's; without it its id.
    #[arg(long)]
    name: Option<String>,
    /// What the key may do; may be repeated.
    #[arg(long = "scope", value_name = "SCOPE", required = true)]
    scopes: Vec<String>,
    /// When it ends: RFC 3339 with an offset.
    #[arg(long, value_name = "INSTANT")]
    expires_at: Option<String>,
    #[command(flatten)]
    act: Act,
}

const COLUMNS: &[Column] = &[
    Column { head: "KEY", of: |item| at(item, "/keyId") },
    Column { head: "ACTOR", of: |item| at(item, "/actor") },
    Column { head: "NAME", of: |item| at(item, "/name") },
    Column { head: "HINT", of: |item| at(item, "/hint") },
    Column { head: "SCOPES", of: |item| at(item, "/scopes") },
    Column { head: "MADE AT", of: |item| at(item, "/createdAt") },
    Column { head: "LAST USED AT", of: |item| at(item, "/lastUsedAt") },
    Column { head: "EXPIRES AT", of: |item| at(item, "/expiresAt") },
    Column { head: "REVOKED AT", of: |item| at(item, "/revokedAt") },
];

/// Runs it.
///
/// # Errors
/// The API's refusal.
pub(super) async fn run(command: ApiKeys, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    match command {
        ApiKeys::List { actor, limit, output } => {
            let actor = actor.map(|actor| ("actor", actor)).into_iter().collect();
            let list = List::new(output, Face::of_stdout(), COLUMNS);
            walked(&remote, &["ops", "api-keys"], actor, limit, list).await
        }
        ApiKeys::Create(asked) => {
            confirm(asked.act.yes, &format!("Make a key for {}", asked.actor))?;
            let mut body = json!({"actor": asked.actor, "scopes": asked.scopes, "reason": asked.act.reason});
            for (name, value) in [("expiresAt", asked.expires_at), ("name", asked.name)] {
                if let Some(value) = value {
                    body[name] = value.into();
                }
            }
            acted(remote.client.call("POST", &["ops", "api-keys"]).json(&body), asked.act.output).await
        }
        ApiKeys::Rotate { id, overlap, expires_at, act } => {
            confirm(act.yes, &format!("Make another key in the place of {id}"))?;
            let mut body = json!({"reason": act.reason});
            if let Some(overlap) = overlap {
                body["overlapSeconds"] = overlap.as_secs().into();
            }
            if let Some(at) = expires_at {
                body["expiresAt"] = at.into();
            }
            let call = remote.client.call("POST", &["ops", "api-keys", &id, "rotate"]);
            acted(call.json(&body), act.output).await
        }
        ApiKeys::Revoke { id, act } => {
            confirm(act.yes, &format!("End the key {id} for good"))?;
            let call = remote.client.call("POST", &["ops", "api-keys", &id, "revoke"]);
            acted(call.json(&json!({"reason": act.reason})), act.output).await
        }
    }
}

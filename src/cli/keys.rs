//! The command line of `punctual keys`: what has no other way to its first key speaks to the database.

use super::Output;
use crate::intake::{Scope, actor_name};
use clap::Subcommand;

/// API key commands.
#[derive(Debug, Clone, Subcommand)]
pub enum Keys {
    /// Make a key for an actor and print it, once.
    Create {
        /// The actor's name; made if it is new.
        #[arg(long, value_parser = actor_name)]
        actor: String,
        /// What the key may do; may be repeated. Without it: read and write the actor's payments.
        #[arg(long = "scope", value_name = "SCOPE", value_parser = scopes(), default_values_t = client_scopes())]
        scopes: Vec<String>,
        /// What people call it; at most one live key of an actor has a name, two while one is rotated.
        /// Without it the key's id.
        #[arg(long, value_parser = actor_name)]
        name: Option<String>,
        /// It ends after so long, for example 90d; without it, when it is revoked.
        #[arg(long, value_name = "LENGTH", value_parser = life)]
        expires: Option<humantime::Duration>,
        /// How to print it; as JSON it is `{"apiKey": …, "keyId": …, "actorId": …, "scopes": […], "expiresAt": …}`.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Show keys with their ids, hints and ends; never their texts.
    List {
        /// Only this actor's.
        #[arg(long)]
        actor: Option<String>,
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Make a second key with the name and scopes of this one, and print it, once; the old one ends
    /// after the overlap. Exit code 5 if there is no such live key, 6 if two of its name are live.
    Rotate {
        /// As `keys list` shows it.
        #[arg(value_name = "KEY_ID")]
        key_id: uuid::Uuid,
        /// How long the old one lives on: the time to change it wherever it is used; at most 30d.
        #[arg(long, value_name = "LENGTH", default_value = "1d")]
        overlap: humantime::Duration,
        /// The new one ends after so long; without it, it lives as long as the old one was made for.
        #[arg(long, value_name = "LENGTH", value_parser = life)]
        expires: Option<humantime::Duration>,
        /// How to print it; as JSON as `keys create` does.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// End a key for good; exit code 5 if there is none to end.
    Revoke {
        /// As `keys list` shows it.
        #[arg(value_name = "KEY_ID")]
        key_id: uuid::Uuid,
    },
}

/// A key that has ended when it is made is no key.
fn life(text: &str) -> Result<humantime::Duration, String> {
    let length: humantime::Duration = text.parse().map_err(|error| format!("{error}"))?;
    if length.is_zero() {
        Err("end_in_past: the key would have ended when it is made".to_owned())
    } else {
        Ok(length)
    }
}

fn client_scopes() -> Vec<String> {
    Scope::OF_CLIENTS.iter().map(|scope| scope.as_str().to_owned()).collect()
}

fn scopes() -> clap::builder::PossibleValuesParser {
    Scope::ALL.map(Scope::as_str).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::platform::exit::Exit;
    use clap::Parser;

    #[test]
    fn a_key_is_made_only_for_a_sane_name_and_with_known_scopes() {
        let create = |rest: &[&str]| Cli::try_parse_from(["punctual", "keys", "create"].iter().chain(rest));
        let cli = create(&["--actor", "shop"]).unwrap();
        let Command::Keys(Keys::Create { scopes, .. }) = cli.command else { panic!("keys create") };
        assert_eq!(scopes, ["payments:read", "payments:write"]);
        assert!(create(&["--actor", "shop", "--scope", "payments:read"]).is_ok());
        for (rest, told) in [
            (&["--actor", "shop", "--scope", "payments:raed"][..], "payments:read, payments:write"),
            (&["--actor", "shop", "--scope", ""], "payments:read, payments:write"),
            (&["--actor", "shop", "--expires", "0s"], "end_in_past"),
            (&["--actor", ""], "1 to 100 characters"),
            (&["--actor", "a\nb"], "1 to 100 characters"),
            (&["--actor", &"x".repeat(101)], "1 to 100 characters"),
        ] {
            let error = create(rest).unwrap_err();
            assert_eq!(error.exit_code(), i32::from(Exit::Usage.code()), "{rest:?}");
            assert!(error.to_string().contains(told), "{error}");
        }
    }
}

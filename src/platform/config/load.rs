//! The layers: defaults, then the file, then the environment, then the command line.
//!
//! Reading the host ([`Inputs::from_host`]) is apart from deciding ([`load`]), so that every rule
//! here is tested on values. All errors are collected; none hides behind another.
//!
//! An unknown name in the file or the environment is a warning, because both may be shared with
//! another version during a rollout; the same on the command line is an error, because somebody
//! typed it for this very run.

use super::{Config, SETTINGS, Setting, check};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Variables that are not named like their setting and that people expect to work. They lose to those that
/// are.
const USUAL_VARIABLES: [(&str, &str); 5] = [
    ("DATABASE_URL", "database.url"),
    ("KAFKA_BOOTSTRAP_SERVERS", "kafka.bootstrap_servers"),
    ("SANDBOX_URL", "gateway.url"),
    ("PUNCTUAL_URL", "client.url"),
    ("PUNCTUAL_API_KEY", "client.api_key"),
];

/// The file that is read from the working directory if `--config` names none.
const USUAL_FILE: &str = "punctual.toml";

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The table in the code.
    Default,
    /// A TOML file, by path.
    File(String),
    /// An environment variable, by name.
    Environment(String),
    /// `--set`.
    CommandLine,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => f.write_str(path),
            Self::Environment(variable) => f.write_str(variable),
            Self::CommandLine => f.write_str("--set"),
        }
    }
}

/// One thing that is wrong, for people. Never holds the value of a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Problem {
    /// The setting or settings, with their source where one is known.
    pub what: String,
    /// What is wrong, and what would be right.
    pub why: String,
}

impl Problem {
    pub(super) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }
}

/// Everything that is wrong; the process does not start (exit code 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    /// What must change; never empty.
    pub refused: Vec<Problem>,
    /// What is suspicious too: a name that is not known may be the value that is missing.
    pub warnings: Vec<Problem>,
}

impl Problems {
    pub(super) fn refused(refused: Vec<Problem>) -> Self {
        Self { refused, warnings: Vec::new() }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = self.refused.iter().map(ToString::to_string);
        let warnings = self.warnings.iter().map(|warning| format!("warning: {warning}"));
        f.write_str(&refused.chain(warnings).collect::<Vec<_>>().join("\n"))
    }
}

impl std::error::Error for Problems {}

/// A configuration file, read.
#[derive(Debug, Clone)]
pub struct FileText {
    /// As given, for messages.
    pub path: String,
    /// TOML.
    pub text: String,
}

/// What the host offers, before anything is decided.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// At most one file.
    pub file: Option<FileText>,
    /// Variables in any order; those that do not concern us are ignored.
    pub environment: Vec<(String, String)>,
    /// `name=value` from `--set`, in order; the last one of a name wins.
    pub sets: Vec<String>,
}

impl Inputs {
    /// Reads the file (`path`, or `punctual.toml` in the working directory if there is one) and the
    /// environment.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn from_host(path: Option<&Path>, sets: Vec<String>) -> Result<Self, Problems> {
        let chosen = path.unwrap_or(Path::new(USUAL_FILE));
        let file = match std::fs::read_to_string(chosen) {
            Ok(text) => Some(FileText { path: chosen.display().to_string(), text }),
            Err(error) if path.is_none() && error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                let what = chosen.display().to_string();
                let why = format!("cannot be read: {error}");
                return Err(Problems::refused(vec![Problem::new(what, why)]));
            }
        };
        // A variable that is not UTF-8 is none of ours: all our names and values are text.
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Ok(Self { file, environment, sets })
    }
}

/// Settings that are each legal and legal together.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// What is suspicious but not refused, for people.
    pub warnings: Vec<Problem>,
    sources: BTreeMap<&'static str, Source>,
}

impl Loaded {
    /// Where the value of that setting came from.
    #[must_use]
    pub fn source(&self, setting: &Setting) -> &Source {
        self.sources.get(setting.name).unwrap_or(&Source::Default)
    }
}

/// Puts the layers over each other and checks the result.
///
/// # Errors
/// Everything that is wrong, in the order of the layers, then the combinations.
pub fn load(inputs: &Inputs) -> Result<Loaded, Problems> {
    let mut layers = Layers::default();
    if let Some(file) = &inputs.file {
        layers.file(file);
    }
    layers.environment(&inputs.environment);
    for set in &inputs.sets {
        layers.set(set);
    }
    // Combinations are judged even when single values are wrong, with the defaults in their place:
    // one run of `config check` should be enough.
    let (refused, warned) = check(&layers.config);
    layers.problems.extend(refused);
    layers.warnings.extend(warned);
    if layers.problems.is_empty() {
        Ok(Loaded { config: layers.config, warnings: layers.warnings, sources: layers.sources })
    } else {
        Err(Problems { refused: layers.problems, warnings: layers.warnings })
    }
}

#[derive(Default)]
struct Layers {
    config: Config,
    sources: BTreeMap<&'static str, Source>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Layers {
    fn file(&mut self, file: &FileText) {
        let source = Source::File(file.path.clone());
        let table = match file.text.parse::<toml::Table>() {
            Ok(table) => table,
            Err(error) => {
                // Only the message and the line: the parser's own display repeats the text around
                // the mistake, which may be a password.
                let line = error.span().map_or(1, |span| line_of(&file.text, span.start));
                let what = format!("{} line {line}", file.path);
                self.problems.push(Problem::new(what, error.message()));
                return;
            }
        };
        for (section, fields) in &table {
            let toml::Value::Table(fields) = fields else {
                self.unknown(section, &source);
                continue;
            };
            for (field, value) in fields {
                let name = format!("{section}.{field}");
                match text_of(value) {
                    _ if Setting::named(&name).is_none() => self.unknown(&name, &source),
                    Ok(text) => self.assign(&name, &text, source.clone()),
                    Err(why) => self.problems.push(Problem::new(format!("{name} ({source})"), why)),
                }
            }
        }
    }

    fn environment(&mut self, variables: &[(String, String)]) {
        for (usual, name) in USUAL_VARIABLES {
            let value = variables.iter().find(|(variable, _)| variable == usual);
            // Compose files hand on empty variables for "not set".
            if let Some((variable, value)) = value.filter(|(_, value)| !value.is_empty()) {
                self.assign(name, value, Source::Environment(variable.clone()));
            }
        }
        let mut ours: Vec<_> =
            variables.iter().filter(|(variable, _)| variable.starts_with("PUNCTUAL_")).collect();
        ours.sort();
        for (variable, value) in ours {
            let source = Source::Environment(variable.clone());
            match SETTINGS.iter().find(|setting| setting.variable() == *variable) {
                Some(setting) => self.assign(setting.name, value, source),
                None => {
                    let name =
                        variable.trim_start_matches("PUNCTUAL_").replace("__", ".").to_ascii_lowercase();
                    // PUNCTUAL_LOG and its like are no settings and no mistakes.
                    if name.contains('.') || nearest(&name).is_some() {
                        self.unknown(&name, &source);
                    }
                }
            }
        }
    }

    fn set(&mut self, set: &str) {
        let Some((name, value)) = set.split_once('=') else {
            // Without `=` nobody can tell what part of it is a value, so nothing is repeated.
            self.problems.push(Problem::new("--set", "write it as name=value, for example worker.lease=30s"));
            return;
        };
        let name = name.trim();
        if Setting::named(name).is_some() {
            self.assign(name, value, Source::CommandLine);
        } else {
            self.problems.push(unknown(name, &Source::CommandLine));
        }
    }

    fn assign(&mut self, name: &str, text: &str, source: Source) {
        let Some(setting) = Setting::named(name) else {
            self.unknown(name, &source);
            return;
        };
        match (setting.set)(&mut self.config, text) {
            Ok(()) => drop(self.sources.insert(setting.name, source)),
            Err(why) => self.problems.push(Problem::new(format!("{name} ({source})"), why)),
        }
    }

    fn unknown(&mut self, name: &str, source: &Source) {
        self.warnings.push(unknown(name, source));
    }
}

fn unknown(name: &str, source: &Source) -> Problem {
    let advice = nearest(name).map_or_else(String::new, |near| format!("; did you mean {near}?"));
    Problem::new(format!("{name} ({source})"), format!("no such setting{advice}"))
}

/// The known name that a mistyped one most likely meant.
fn nearest(name: &str) -> Option<&'static str> {
    // A separator mistaken for another (`worker_lease`) is no distance at all.
    let plain = |text: &str| text.replace(['.', '_', '-'], "").to_ascii_lowercase();
    let wanted = plain(name);
    SETTINGS
        .iter()
        .map(|setting| (distance(&wanted, &plain(setting.name)), setting.name))
        .min()
        .filter(|(distance, _)| *distance <= 3 && *distance * 3 <= wanted.len())
        .map(|(_, name)| name)
}

/// Levenshtein distance, in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

/// A TOML value in the text form that the table reads.
fn text_of(value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Boolean(truth) => Ok(truth.to_string()),
        toml::Value::Array(items) => {
            items.iter().map(text_of).collect::<Result<Vec<_>, _>>().map(|texts| texts.join(","))
        }
        toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Table(_) => {
            Err("takes a text, a whole number, true or false, or a list".to_owned())
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;

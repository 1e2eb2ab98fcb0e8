//! The settings as people see them: a table, JSON, and the README's own section.

use super::load::Loaded;
use super::{Config, SETTINGS};
use serde_json::{Map, Value, json};

/// Name, value and source of every setting, aligned, one a line.
#[must_use]
pub fn shown_as_table(loaded: &Loaded) -> String {
    let rows: Vec<[String; 3]> = SETTINGS
        .iter()
        .map(|setting| {
            let value = (setting.get)(&loaded.config);
            [setting.name.to_owned(), value, loaded.source(setting).to_string()]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    rows.iter().map(|[name, value, source]| format!("{name:<first$}  {value:<second$}  {source}\n")).collect()
}

/// `{"worker.lease": {"value": "30s", "source": "default"}, …}`; values in the form that is read.
#[must_use]
pub fn shown_as_json(loaded: &Loaded) -> Value {
    let settings: Map<String, Value> = SETTINGS
        .iter()
        .map(|setting| {
            let value = (setting.get)(&loaded.config);
            (setting.name.to_owned(), json!({"value": value, "source": loaded.source(setting).to_string()}))
        })
        .collect();
    Value::Object(settings)
}

/// The README's table of settings; a test holds the README equal to it.
#[must_use]
pub fn reference_markdown() -> String {
    let defaults = Config::default();
    let mut text = String::from("| setting | default | kind | meaning |\n|---|---|---|---|\n");
    for setting in SETTINGS {
        let default = (setting.get)(&defaults);
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let doc = setting.doc.replace('|', "\\|");
        text.push_str(&format!("| `{}` | {default} | {} | {doc} |\n", setting.name, setting.kind));
    }
    text
}

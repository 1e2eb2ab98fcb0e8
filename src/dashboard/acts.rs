//! The operators' log: who did what to what, and why; the newest first.

use super::api::{Listed, way};
use super::show::{self, Shown};
use super::{Frame, Place, Ui, Viewer};
use crate::domain::ids::PaymentId;
use crate::intake::Pairs;
use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

/// One act.
#[derive(Debug, Deserialize)]
pub(super) struct Act {
    pub(super) at: DateTime<Utc>,
    pub(super) operator: String,
    pub(super) act: String,
    subject: String,
    pub(super) reason: String,
    detail: Value,
}

/// For the templates.
impl Act {
    /// The payment that it was done to.
    pub(super) fn payment(&self) -> Option<PaymentId> {
        self.subject.parse().ok()
    }

    /// What else was kept, a field a line; nothing where nothing was.
    pub(super) fn more(&self) -> String {
        match &self.detail {
            Value::Object(fields) if fields.is_empty() => String::new(),
            Value::Object(fields) => {
                let lines = fields.iter().map(|(name, value)| format!("{name}: {}", plain(value)));
                lines.collect::<Vec<_>>().join("\n")
            }
            other => plain(other),
        }
    }
}

/// A value as people read it: texts bare, lists with room to break between their items.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

#[derive(Template)]
#[template(path = "acts.html")]
struct Page {
    frame: Frame,
    subject: String,
    operator: String,
    acts: Vec<Act>,
    next: Option<String>,
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer, uri: Uri) -> Shown {
    let pairs = Pairs::read(&uri, &["subject", "operator", "cursor"])?;
    let text = |name: &str| pairs.text(name).map(str::trim).filter(|text| !text.is_empty());
    let (subject, operator, cursor) = (text("subject"), text("operator"), text("cursor"));
    let query = |cursor| [("subject", subject), ("operator", operator), ("cursor", cursor)];
    let listed: Listed<Act> = ui.look(&viewer, &way("/v1/ops/acts", &query(cursor))).await?;
    show::page(&Page {
        frame: ui.frame(&viewer, Place::Acts).await,
        subject: subject.unwrap_or_default().to_owned(),
        operator: operator.unwrap_or_default().to_owned(),
        acts: listed.data,
        next: listed.next_cursor.as_deref().map(|cursor| way("/ui/acts", &query(Some(cursor)))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn more(detail: Value) -> String {
        let act: Act = serde_json::from_value(json!({
            "at": "2026-12-01T04:45:38Z", "operator": "key:ana", "act": "api_key_made",
            "subject": "api_key:7", "reason": "from the command line", "detail": detail,
        }))
        .unwrap();
        act.more()
    }

    #[test]
    fn what_else_was_kept_is_a_field_a_line() {
        assert_eq!(more(json!({})), "");
        assert_eq!(
            more(json!({"actor": "shop", "expiresAt": null, "scopes": ["ops:read", "ops:refund"]})),
            "actor: shop\nexpiresAt: none\nscopes: ops:read, ops:refund"
        );
        assert_eq!(more(json!({"filter": {}, "ratePerS": 10})), "filter: {}\nratePerS: 10");
    }
}

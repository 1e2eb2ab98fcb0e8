//! What a person saw who says what became of money: the same for a parked payment and for a refund.

use super::output::minor_units;
use clap::Args;
use serde_json::{Map, Value, json};

/// Where it was seen, and what. The argument that says what became of it is called `found` in every command.
#[derive(Debug, Clone, Args)]
pub(super) struct Evidence {
    /// Where that was seen.
    #[arg(long, value_name = "TEXT")]
    source: String,
    /// The gateway's own name of the charge, or of the refund.
    #[arg(
        long,
        value_name = "REFERENCE",
        required_if_eq_any([("found", "charged"), ("found", "refunded")])
    )]
    gateway_reference: Option<String>,
    /// How much it was, in minor units.
    #[arg(
        long,
        value_name = "MINOR",
        value_parser = minor_units,
        allow_negative_numbers = true,
        requires = "currency",
        required_if_eq_any([("found", "charged"), ("found", "refunded")])
    )]
    amount: Option<i64>,
    /// Of what.
    #[arg(long, value_name = "CODE", requires = "amount")]
    currency: Option<String>,
    /// More about it.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

impl Evidence {
    /// As the API takes it; what was not said is left out.
    pub(super) fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("source".to_owned(), json!(self.source));
        let texts = [
            ("gatewayReference", &self.gateway_reference),
            ("currency", &self.currency),
            ("note", &self.note),
        ];
        body.extend(
            texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text.as_ref()?)))),
        );
        body.extend(self.amount.map(|amount| ("amount".to_owned(), json!(amount))));
        Value::Object(body)
    }
}

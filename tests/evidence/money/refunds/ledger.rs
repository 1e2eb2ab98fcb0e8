//! What was given back, by the sandbox's own ledger, and what the rows say of it.

use crate::support::installation::Installation;
use crate::support::records::look;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Read once.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Physical requests to give back.
    pub(super) requests: usize,
    /// Amounts given back, by the refund's key.
    pub(super) keys: BTreeMap<String, Vec<i64>>,
    /// Their sums, by the gateway's name of the charge.
    pub(super) by_charge: BTreeMap<String, i64>,
}

impl Given {
    pub(super) async fn read(site: &Installation) -> Self {
        let mut given = Self::default();
        for line in site.ledger().await.iter().filter(|line| line["request"] == "refund") {
            given.requests += 1;
            if line["verdict"] == "refunded" {
                let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
                let amount = line["amount"].as_i64().unwrap_or(i64::MAX);
                given.keys.entry(text("key")).or_default().push(amount);
                *given.by_charge.entry(text("charge")).or_default() += amount;
            }
        }
        given
    }

    /// How often this refund gave money back.
    pub(super) fn times(&self, refund: &str) -> usize {
        self.keys.get(refund).map_or(0, Vec::len)
    }

    /// Once, and this amount.
    pub(super) fn is_exactly(&self, refund: &str, amount: i64) -> bool {
        self.keys.get(refund).is_some_and(|amounts| *amounts == [amount])
    }
}

/// Where each refund stands, by its id.
pub(super) async fn statuses(site: &Installation) -> BTreeMap<String, String> {
    let rows: Vec<(Uuid, String)> = sqlx::query_as("SELECT id, status FROM refunds")
        .fetch_all(&mut look(&site.database.url).await)
        .await
        .expect("the database answers");
    rows.into_iter().map(|(id, status)| (id.to_string(), status)).collect()
}

//! `GET /v1/scheduled-payments/{id}/history/proof`: the history with what verifies it.
//!
//! **Promises.** The chain is verified here, and everything that this took is in the answer, so nobody has to
//! believe it: a client hashes `prev` (32 bytes) followed by `input` (UTF-8) of each row with SHA-256, finds
//! `hash`, finds that each `prev` is the `hash` before it (32 zero bytes before the first), and finds the last
//! one in `head`. `input` holds the row's eleven fields, each after its length in bytes and a colon
//! (`domain/history.rs` lists them).
//!
//! What it proves: nobody changed, removed or added a row without making every later hash anew. A client that
//! keeps a `head` can tell that as well.

use super::actor::Scope;
use super::openapi::{Answer, Operation};
use super::problem::{Code, Problem};
use super::read::{ID_IN_PATH, IF_NONE_MATCH, IdInPath, asked, unless_known};
use super::{Intake, limits};
use crate::domain::history::FIRST_PREV;
use crate::domain::ids::PaymentId;
use crate::schedule::HistoryProof;
use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::http::header::HeaderMap;
use serde::Serialize;

/// The order of fields is the order on the wire.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    payment_id: PaymentId,
    version: i32,
    algorithm: &'static str,
    /// The rows verify, and the payment agrees with the last of them.
    verified: bool,
    /// What is wrong, where they do not.
    broken: Option<String>,
    first_prev: String,
    head: String,
    data: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    seq: i32,
    input: String,
    prev: String,
    hash: String,
}

pub(super) const TOLD: &[Operation] = &[Operation {
    path: "/v1/scheduled-payments/{id}/history/proof",
    id: "proveHistory",
    tag: "payments",
    summary: "The history with what verifies it",
    about: "For each row the SHA-256 of prev (32 bytes) and input (UTF-8) is hash, and each prev is the hash before \
            it; the last one is head.",
    scope: Some(Scope::Read),
    parameters: &[ID_IN_PATH, IF_NONE_MATCH],
    answers: &[
        Answer { headers: &["ETag"], ..Answer::ok("HistoryProof", "Oldest first.") },
        Answer::UNCHANGED,
    ],
    refusals: &[Code::PaymentNotFound],
    ..Operation::BARE
}];

pub(super) async fn get(
    State(intake): State<Intake>,
    path: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let (actor, id) = asked(&intake, path, &headers, Scope::Read).await?;
    let found = intake.schedule.history_proof(actor, id).await.map_err(limits::trouble)?;
    let proof = found.ok_or_else(|| Problem::new(Code::PaymentNotFound))?;
    let shown = shown(id, &proof);
    Ok(unless_known(&headers, &format!("W/\"{}\"", shown.version), || {
        // Texts and numbers: serde_json fails on none of them.
        serde_json::to_vec(&shown).unwrap_or_default()
    }))
}

fn shown(payment_id: PaymentId, proof: &HistoryProof) -> Shown {
    let last = proof.entries.last();
    let is_cut = last.map_or(FIRST_PREV, |last| last.hash) != proof.head;
    let cut = is_cut.then(|| "the last row is not the one that the payment names".to_owned());
    let broken = proof.broken.map(|broken| broken.to_string()).or(cut);
    Shown {
        payment_id,
        version: last.map_or(0, |last| last.row.seq),
        algorithm: "sha256(prev || input)",
        verified: broken.is_none(),
        broken,
        first_prev: hex::encode(FIRST_PREV),
        head: hex::encode(proof.head),
        data: proof
            .entries
            .iter()
            .map(|entry| Row {
                seq: entry.row.seq,
                input: entry.row.form(),
                prev: hex::encode(entry.prev),
                hash: hex::encode(entry.hash),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::history::{Event, HistoryRow, verify};
    use crate::domain::ids::{Epoch, Fence};
    use crate::domain::state::{Cause, Status};
    use crate::schedule::HistoryEntry;
    use sha2::{Digest, Sha256};

    const ID: &str = "01a2283e-8820-8aaa-9bbb-0123456789ab";

    fn row(seq: i32, from: Option<Status>, cause: Cause, to: Status) -> HistoryRow {
        HistoryRow {
            payment: ID.parse().unwrap(),
            seq,
            from,
            to,
            event: Event::Moved(cause),
            by: "worker-ü".into(),
            fence: Fence(0),
            attempt: 0,
            epoch: Epoch(0),
            at: "2030-01-31T09:00:00.000001Z".parse().unwrap(),
            detail: "{}".into(),
        }
    }

    fn proof() -> HistoryProof {
        let rows = [
            row(1, None, Cause::Created, Status::Pending),
            row(2, Some(Status::Pending), Cause::Cancelled, Status::Cancelled),
        ];
        let mut prev = FIRST_PREV;
        let entries: Vec<HistoryEntry> = rows
            .into_iter()
            .map(|row| {
                let hash = row.hash(&prev);
                HistoryEntry { row, prev: std::mem::replace(&mut prev, hash), hash }
            })
            .collect();
        HistoryProof { entries, head: prev, broken: None }
    }

    #[test]
    fn a_client_can_verify_it_with_what_the_answer_holds() {
        let shown = shown(ID.parse().unwrap(), &proof());
        assert!(shown.verified && shown.broken.is_none() && shown.version == 2);
        let mut prev = shown.first_prev.clone();
        for row in &shown.data {
            assert_eq!(row.prev, prev);
            let input = [hex::decode(&row.prev).unwrap(), row.input.clone().into_bytes()].concat();
            prev = hex::encode(Sha256::digest(input));
            assert_eq!(row.hash, prev);
        }
        assert_eq!(shown.head, prev);
    }

    #[test]
    fn a_chain_that_was_cut_or_changed_is_not_called_verified() {
        let mut cut = proof();
        cut.entries.pop();
        let told = shown(ID.parse().unwrap(), &cut);
        assert!(!told.verified && told.broken.unwrap().contains("last row"));
        let mut changed = proof();
        changed.entries[0].row.by.push('x');
        changed.broken = verify(changed.entries.iter().map(|entry| (&entry.row, entry.hash))).err();
        let told = shown(ID.parse().unwrap(), &changed);
        assert!(!told.verified && told.broken.unwrap().contains("row 1"));
    }
}

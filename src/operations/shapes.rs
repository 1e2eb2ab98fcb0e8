//! What people are shown, as JSON. No payee, no description, no metadata: those are the client's.

use super::Rules;
use crate::domain::money::Money;
use crate::domain::parked::{Act, WhyNot};
use crate::domain::reason::Reason;
use crate::intake::utc;
use crate::schedule::{ActEntry, Approval, AttemptView, Bulk, ParkedEntry, ParkedView};
use serde::Serialize;
use serde_json::{Value, json};

/// A page of anything.
pub(super) fn page(entries: Vec<Value>, next_cursor: Option<String>) -> Vec<u8> {
    bytes(&json!({"data": entries, "nextCursor": next_cursor}))
}

/// One parked payment as the list shows it.
pub(super) fn entry(entry: &ParkedEntry) -> Value {
    json!({
        "paymentId": entry.payment,
        "parkedReason": entry.reason,
        "parkedAt": utc(entry.parked_at),
        "actorId": entry.actor,
        "actor": entry.actor_name,
        "gateway": entry.gateway,
        "amount": entry.amount.map(minor),
        "currency": entry.amount.map(currency),
        "dueDay": entry.payment.due_day().to_string(),
    })
}

fn minor(money: Money) -> i64 {
    money.minor.get()
}

fn currency(money: Money) -> &'static str {
    money.currency.as_str()
}

/// An act, and whether it is possible now.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct May {
    act: &'static str,
    possible: bool,
    becomes: Option<&'static str>,
    needs_approval: bool,
    why_not: Option<&'static str>,
    explanation: Option<&'static str>,
}

fn may(act: Act, view: &ParkedView, rules: &Rules) -> May {
    let said = view.said(&rules.retryable_codes);
    let found = act.may(&view.payment, &said, view.lineage, view.now);
    let why = found.err();
    May {
        act: act.as_str(),
        possible: found.is_ok(),
        becomes: found.ok().map(|status| status.as_str()),
        needs_approval: found.is_ok() && rules.needs_approval(act, view.payment.amount),
        why_not: why.map(WhyNot::as_str),
        explanation: why.map(WhyNot::explanation),
    }
}

impl Rules {
    /// Is one person not enough for this act?
    pub(super) fn needs_approval(&self, act: Act, amount: Money) -> bool {
        match act {
            Act::Redrive => amount.minor.get() > self.approve_above_minor,
            Act::RedriveNewEpoch => true,
            Act::ResolveCharged | Act::ResolveNotCharged => false,
        }
    }
}

/// Everything that is known of one payment, and what may be done about it.
pub(super) fn record(view: &ParkedView, rules: &Rules) -> Vec<u8> {
    let payment = &view.payment;
    let reason = payment.reason;
    // Written as JSON by ourselves; anything else is shown as the text it is.
    let evidence =
        view.evidence.as_deref().map(|text| serde_json::from_str(text).unwrap_or_else(|_| json!(text)));
    let may: Vec<May> = Act::ALL.into_iter().map(|act| may(act, view, rules)).collect();
    bytes(&json!({
        "paymentId": payment.id,
        "status": payment.status,
        "statusReason": reason.map(Reason::as_str),
        "parkedReason": view.parked_at.and(reason).map(Reason::as_str),
        "explanation": reason.map(Reason::explanation),
        "parkedAt": view.parked_at.map(utc),
        "actorId": payment.actor,
        "actor": view.actor_name,
        "externalId": view.external_id,
        "gateway": payment.gateway,
        "gatewayAccount": payment.gateway_account,
        "gatewayReference": payment.gateway_ref,
        "amount": minor(payment.amount),
        "currency": currency(payment.amount),
        "dueAt": utc(payment.due_at),
        "executeBefore": payment.execute_before.map(utc),
        "nextAttemptAt": payment.status.is_claimable().then(|| utc(payment.next_attempt_at)),
        "cancelRequestedAt": payment.cancel_wish_at.map(utc),
        "epoch": payment.epoch,
        "keyFirstSentAt": payment.epoch_first_sent_at.map(utc),
        "openSends": payment.unanswered,
        "sends": payment.sends,
        "maxSends": payment.retry.max_sends,
        "version": payment.history_seq,
        "evidence": evidence,
        "attempts": view.attempts.iter().map(attempt).collect::<Vec<_>>(),
        "may": may,
        "approval": view.approval.as_ref().map(approval),
    }))
}

fn attempt(attempt: &AttemptView) -> Value {
    json!({
        "attempt": attempt.attempt,
        "epoch": attempt.epoch,
        "fence": attempt.fence,
        "worker": attempt.worker,
        "claimedAt": utc(attempt.claimed_at),
        "settledAt": attempt.settled_at.map(utc),
        "outcome": attempt.verdict,
        "code": attempt.code,
        "httpStatus": attempt.http_status,
        "tookMs": attempt.took_ms,
        "note": attempt.note,
        "late": attempt.fenced,
    })
}

/// One approval.
pub(super) fn approval(approval: &Approval) -> Value {
    json!({
        "approvalId": approval.id,
        "kind": approval.kind.as_str(),
        "paymentId": approval.payment,
        "status": approval.status.as_str(),
        "askedBy": approval.asked_by,
        "reason": approval.reason,
        "request": approval.request,
        "askedAt": utc(approval.asked_at),
        "expiresAt": utc(approval.expires_at),
        "decidedBy": approval.decided_by,
        "decidedReason": approval.decided_reason,
        "decidedAt": approval.decided_at.map(utc),
    })
}

/// One bulk re-drive.
pub(super) fn bulk(bulk: &Bulk) -> Value {
    json!({
        "bulkId": bulk.id,
        "status": bulk.status.as_str(),
        "askedBy": bulk.by,
        "reason": bulk.reason,
        "filter": bulk.filter,
        "ratePerS": bulk.rate_per_s,
        "preview": bulk.preview,
        "createdAt": utc(bulk.created_at),
        "startedAt": bulk.started_at.map(utc),
        "finishedAt": bulk.finished_at.map(utc),
        "outcomes": bulk.outcomes,
    })
}

/// One act on record.
pub(super) fn act(act: &ActEntry) -> Value {
    json!({
        "id": act.id,
        "at": utc(act.at),
        "operator": act.operator,
        "act": act.act,
        "subject": act.subject,
        "reason": act.reason,
        "detail": act.detail,
    })
}

/// A JSON answer's bytes.
pub(super) fn bytes(body: &Value) -> Vec<u8> {
    // A value always has a text.
    serde_json::to_vec(body).unwrap_or_default()
}

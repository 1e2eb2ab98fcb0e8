//! Both stores in one comparable form, and the first difference between them.

use super::stores::Stores;
use chrono::{DateTime, Utc};
use punctual::domain::bucket::shard;
use punctual::domain::declines::destination;
use punctual::domain::ids::PaymentId;
use punctual::domain::payment::{OnExhausted, OnSoftDecline, Payment};
use punctual::schedule::{AttemptRow, ClaimAnswer, Claimed, How, Memory};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use std::fmt::Debug;

/// What one store said and the other did not.
pub type Difference = String;

const PAYMENTS: &str = "SELECT jsonb_build_object('id', p.id, 'actor', p.actor_id, 'status', p.status,
    'reason', p.status_reason, 'due_at', us(p.due_at), 'execute_before', us(p.execute_before),
    'next_attempt_at', us(p.next_attempt_at), 'gateway', p.gateway, 'amount', p.amount_minor,
    'currency', p.currency, 'attempt', p.attempt, 'sends', p.sends, 'held_back', p.held_back,
    'held_back_since', us(p.held_back_since), 'asks', p.asks, 'epoch', p.epoch,
    'first_sent_at', us(p.epoch_first_sent_at), 'unanswered', p.unanswered,
    'request_hash', encode(p.request_hash, 'hex'), 'account', p.gateway_account, 'renderer', p.renderer,
    'intent_ref', p.intent_ref, 'gateway_ref', p.gateway_ref, 'fence', p.fence,
    'cancel_wish_at', us(p.cancel_wish_at), 'max_sends', p.max_sends, 'on_soft_decline', p.on_soft_decline,
    'on_exhausted', p.on_exhausted, 'lane', p.lane, 'created_at', us(p.created_at),
    'last_moved_at', us(p.last_moved_at), 'history_seq', p.history_seq, 'claim_id', p.claim_id,
    'lease_until', us(p.lease_until), 'hash', encode(p.history_hash, 'hex'))
    FROM payments p ORDER BY p.id";

const HISTORY: &str = "SELECT jsonb_build_object('payment', h.payment_id, 'seq', h.seq, 'was', h.was,
    'became', h.became, 'event', h.cause, 'by', h.done_by, 'fence', h.fence, 'attempt', h.attempt,
    'epoch', h.epoch, 'at', us(h.at), 'detail', h.detail, 'hash', encode(h.hash, 'hex'))
    FROM payment_history h ORDER BY h.payment_id, h.seq";

const ATTEMPTS: &str = "SELECT jsonb_build_object('payment', t.payment_id, 'attempt', t.attempt,
    'epoch', t.epoch, 'claim_id', t.claim_id, 'fence', t.fence, 'worker', t.worker, 'was', t.was,
    'claimed_at', us(t.claimed_at), 'settled_at', us(t.settled_at), 'settled_to', t.settled_to,
    'verdict', t.verdict, 'how', t.how, 'http_status', t.http_status, 'took_ms', t.took_ms, 'note', t.note,
    'fenced', t.fenced)
    FROM attempts t ORDER BY t.payment_id, t.attempt";

const OUTBOX: &str = "SELECT jsonb_build_object('payment', d.payment_id, 'attempt', d.attempt,
    'not_before', us(d.not_before), 'due_at', us(d.due_at), 'gateway', d.gateway, 'lane', d.lane,
    'shard', d.shard)
    FROM due_notices d ORDER BY d.payment_id, d.attempt, d.not_before";

const DECLINES: &str =
    "SELECT jsonb_build_object('destination', encode(d.destination, 'hex'), 'hour', us(d.hour),
    'declines', d.declines) FROM destination_declines d ORDER BY encode(d.destination, 'hex'), d.hour";

/// Equal answers, or the difference.
pub fn same<T: PartialEq + Debug>(what: &str, postgres: &T, memory: &T) -> Result<(), Difference> {
    if postgres == memory {
        return Ok(());
    }
    Err(format!("{what}\n  Postgres: {postgres:?}\n  memory:   {memory:?}"))
}

/// Rows and outbox.
pub async fn rows(stores: &mut Stores, memory: &Memory) -> Result<(), Difference> {
    let payments = memory.payments();
    let rows: Vec<Value> = payments.iter().map(|row| payment(memory, row)).collect();
    compare("payments", &read(stores, PAYMENTS).await, &rows)?;
    let mut notices = memory.open_notices();
    notices.sort_by_key(|notice| (notice.payment, notice.attempt, notice.not_before));
    let notices = notices.iter().map(|notice| {
        json!({"payment": notice.payment.to_string(), "attempt": notice.attempt,
            "not_before": us(notice.not_before), "due_at": us(notice.due_at), "gateway": notice.gateway.0,
            "lane": notice.lane, "shard": shard(notice.payment)})
    });
    compare("outbox", &read(stores, OUTBOX).await, &notices.collect::<Vec<_>>())
}

/// Everything.
pub async fn whole(stores: &mut Stores, memory: &Memory) -> Result<(), Difference> {
    rows(stores, memory).await?;
    let ids: Vec<PaymentId> = memory.payments().iter().map(|row| row.id).collect();
    let histories: Vec<Value> = ids.iter().flat_map(|id| history(memory, *id)).collect();
    compare("history", &read(stores, HISTORY).await, &histories)?;
    let attempts = ids.iter().flat_map(|id| memory.attempts(*id).into_iter().map(|row| attempt(*id, &row)));
    compare("attempts", &read(stores, ATTEMPTS).await, &attempts.collect::<Vec<_>>())?;
    compare("declines", &read(stores, DECLINES).await, &declines(stores, memory))?;
    memory.verify_histories();
    Ok(())
}

async fn read(stores: &mut Stores, query: &'static str) -> Vec<Value> {
    sqlx::query_scalar(query).fetch_all(&mut stores.sql).await.expect("the rows")
}

fn compare(what: &str, postgres: &[Value], memory: &[Value]) -> Result<(), Difference> {
    same(&format!("rows of {what}"), &postgres.len(), &memory.len())?;
    for (ours, theirs) in postgres.iter().zip(memory) {
        let (Value::Object(ours), Value::Object(theirs)) = (ours, theirs) else { unreachable!() };
        for (column, value) in ours {
            let row = format!("{what}.{column} of {ours:?}");
            same(&row, value, theirs.get(column).unwrap_or(&Value::Null))?;
        }
    }
    Ok(())
}

/// Named as the database must have named them.
fn declines(stores: &Stores, memory: &Memory) -> Vec<Value> {
    let secret = stores.worker.installation_secret();
    let counts = memory.declines().into_iter().map(|(account, payee, hour, declines)| {
        (hex::encode(destination(secret, &account, &payee.into())), us(hour), declines)
    });
    let mut counts: Vec<_> = counts.collect();
    counts.sort();
    let counts = counts.into_iter();
    counts.map(|(name, hour, count)| json!({"destination": name, "hour": hour, "declines": count})).collect()
}

fn us(at: DateTime<Utc>) -> i64 {
    at.timestamp_micros()
}

fn payment(memory: &Memory, row: &Payment) -> Value {
    let holding = memory.holding(row.id);
    let soft = match row.retry.on_soft_decline {
        OnSoftDecline::Retry => "retry",
        OnSoftDecline::Fail => "fail",
    };
    let exhausted = match row.retry.on_exhausted {
        OnExhausted::Park => "park",
        OnExhausted::Fail => "fail",
    };
    let mut columns = json!({"id": row.id.to_string(), "actor": row.actor.0, "status": row.status.as_str(),
        "reason": row.reason.map(|reason| reason.as_str()), "due_at": us(row.due_at),
        "execute_before": row.execute_before.map(us), "next_attempt_at": us(row.next_attempt_at),
        "gateway": row.gateway.0, "amount": row.amount.minor.get(), "currency": row.amount.currency.as_str(),
        "attempt": row.attempt, "sends": row.sends, "held_back": row.held_back,
        "held_back_since": row.held_back_since.map(us), "asks": row.asks, "epoch": row.epoch.0,
        "first_sent_at": row.epoch_first_sent_at.map(us), "unanswered": row.unanswered});
    let rest = json!({"request_hash": row.request_hash.map(hex::encode), "account": row.gateway_account,
        "renderer": row.renderer, "intent_ref": row.intent_ref, "gateway_ref": row.gateway_ref,
        "fence": row.fence.0, "cancel_wish_at": row.cancel_wish_at.map(us), "max_sends": row.retry.max_sends,
        "on_soft_decline": soft, "on_exhausted": exhausted, "lane": row.lane,
        "created_at": us(row.created_at), "last_moved_at": us(row.last_moved_at),
        "history_seq": row.history_seq, "claim_id": holding.map(|held| held.claim_id.0),
        "lease_until": holding.map(|held| us(held.lease_until)),
        "hash": memory.history_hashes(row.id).last().map(hex::encode)});
    if let (Value::Object(columns), Value::Object(rest)) = (&mut columns, rest) {
        columns.extend(rest);
    }
    columns
}

fn history(memory: &Memory, id: PaymentId) -> Vec<Value> {
    let rows = memory.history(id);
    let rows = rows.iter().zip(memory.history_hashes(id)).map(|(row, hash)| {
        json!({"payment": id.to_string(), "seq": row.seq, "was": row.from.map_or("-", |from| from.as_str()),
            "became": row.to.as_str(), "event": row.event.as_str(), "by": row.by, "fence": row.fence.0,
            "attempt": row.attempt, "epoch": row.epoch.0, "at": us(row.at), "detail": row.detail,
            "hash": hex::encode(hash)})
    });
    rows.collect()
}

fn attempt(id: PaymentId, row: &AttemptRow) -> Value {
    let answer = row.answer.as_ref();
    let how = answer.map(|answer| match answer.how {
        How::Sent => "sent",
        How::LookedUp => "looked_up",
        How::Voided => "void",
        How::NotStarted => "not_started",
    });
    json!({"payment": id.to_string(), "attempt": row.attempt, "epoch": row.epoch.0, "claim_id": row.claim_id.0,
        "fence": row.fence.0, "worker": row.worker.0, "was": row.was.as_str(), "claimed_at": us(row.claimed_at),
        "settled_at": row.settled_at.map(us), "settled_to": row.entered.map(|status| status.as_str()),
        "verdict": answer.map(|answer| answer.verdict.as_str()), "how": how,
        "http_status": answer.and_then(|answer| answer.http_status),
        "took_ms": answer.and_then(|answer| answer.took).map(|took| u64::try_from(took.as_millis()).unwrap()),
        "note": answer.and_then(|answer| answer.note.clone()), "fenced": row.fenced})
}

/// Everything that a claim hands out.
pub fn claimed(claimed: &Claimed) -> String {
    format!(
        "claimed {:?} from {:?} at {} asked {:?} key {:?} payee {} declines {:?} {:?}",
        claimed.claim_id(),
        claimed.was(),
        claimed.claimed_at(),
        claimed.asked_at(),
        claimed.key_age(),
        claimed.payee().expose_secret(),
        claimed.declines(),
        claimed.payment(),
    )
}

/// One answer of `claim`.
pub fn answered(answer: &ClaimAnswer) -> String {
    match answer {
        ClaimAnswer::Claimed(ours) => claimed(ours),
        ClaimAnswer::Early { until, why } => format!("early {why:?} until {until}"),
        ClaimAnswer::Refused(proof) => format!("refused {:?}", proof.why()),
    }
}

//! `POST /v1/scheduled-payments/batch`: up to a thousand payments in one request, each under a key of its own.
//!
//! **Promises.** What a single create promises holds for each payment. Each has its own answer, in the order of
//! the request, and one that is refused disturbs no other; with `"atomic": true` all are created or none is.
//! A batch has no key of its own and needs none: sent again, it answers what it made.
//!
//! **Bounds.** The body is cut into its payments without being taken apart, and one past the thousandth ends
//! the reading, so that eight megabytes of brackets cost eight megabytes; and only so many batches are read at
//! once, and fewer of one client (`batch_places`): the others wait with their bodies in their own sockets.

use super::actor::{Caller, Scope};
use super::canonical;
use super::create::{How, judged_in_time, new_payment, told};
use super::envelope::RequestId;
use super::node::NotJson;
use super::openapi::{Answer, Operation};
use super::problem::{Code, FieldError, Problem};
use super::rules::Request;
use super::wire::{self, Draft};
use super::{Intake, headers, json, limits};
use crate::schedule::{Actor, AskedKey, BatchAnswer, CreateAnswer, NewPayment, Together};
use axum::extract::State;
use axum::http::{self, StatusCode};
use axum::response::Response;
use chrono::{DateTime, Utc};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// Most payments of a batch.
pub(super) const MOST_ITEMS: usize = 1_000;

pub(super) const PATH: &str = "/v1/scheduled-payments/batch";

pub(super) const TOLD: &[Operation] = &[Operation {
    method: "post",
    path: PATH,
    id: "createPayments",
    tag: "payments",
    summary: "Schedule up to a thousand payments",
    about: "Each payment has a key of its own and an answer of its own. With `atomic` all are created or none is.",
    scope: Some(Scope::Write),
    body: Some("NewBatch"),
    answers: &[Answer::ok("BatchAnswer", "What became of each, in the order of the request.")],
    refusals: &[
        Code::WrongType,
        Code::UnknownField,
        Code::DuplicateField,
        Code::MissingField,
        Code::InvalidIdempotencyKey,
        Code::TooManyItems,
        Code::DuplicateItemKey,
        Code::BatchRefused,
        Code::ScheduleNotReady,
    ],
    ..Operation::BARE
}];

pub(super) async fn post(
    State(intake): State<Intake>,
    request: http::Request<axum::body::Body>,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let Caller { actor, now, .. } = intake.authorise(&parts.headers, Scope::Write).await?;
    headers::accepts_json(&parts.headers)?;
    headers::json_body(&parts.headers)?;
    if parts.headers.contains_key(headers::IDEMPOTENCY_KEY) {
        let why = "A batch has no key of its own: each of its payments has an idempotencyKey.";
        return Err(Problem::new(Code::InvalidIdempotencyKey).detail(why));
    }
    let _place = intake.batches.take(actor.id).await?;
    let arrival = parts.extensions.get::<limits::Arrival>().cloned().unwrap_or_default();
    let body = limits::read_batch(body, &arrival).await?;
    let batch = Batch::read(&body)?;
    let judge = Judge { intake: &intake, actor: &actor, now, traceparent: headers::trace_context(&parts) };
    let items: Vec<Item> = batch.payments.iter().map(|raw| judge.item(raw.get())).collect();
    distinct_keys(&items)?;
    let id = parts.extensions.get::<RequestId>().cloned().unwrap_or_default();
    match batch.together {
        Together::Each => Ok(answered(&each(&intake, &actor, items).await?, &id)),
        Together::All => Ok(answered(&all(&intake, &actor, items).await?, &id)),
    }
}

/// A body cut into its payments.
struct Batch<'a> {
    payments: Vec<&'a RawValue>,
    together: Together,
}

impl<'a> Batch<'a> {
    fn read(body: &'a [u8]) -> Result<Self, Problem> {
        let mut refused = None;
        let mut reader = serde_json::Deserializer::from_slice(body);
        let read = reader.deserialize_any(Whole { refused: &mut refused });
        let read = read.and_then(|batch| reader.end().map(|()| batch));
        read.map_err(|error| {
            refused
                .unwrap_or_else(|| Problem::new(Code::MalformedJson).detail(NotJson::of(&error).sentence()))
        })
    }
}

/// Reads the outermost object. What is well-formed JSON and no batch is told by `refused`.
struct Whole<'r> {
    refused: &'r mut Option<Problem>,
}

impl Whole<'_> {
    fn refuse<E: serde::de::Error>(&mut self, problem: Problem) -> E {
        *self.refused = Some(problem);
        E::custom("refused")
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = Batch<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut pairs: A) -> Result<Batch<'de>, A::Error> {
        let (mut payments, mut atomic) = (None, None);
        while let Some(name) = pairs.next_key::<String>()? {
            let pointer = super::node::pointer("", &name);
            let is_twice = match name.as_str() {
                "payments" => payments.is_some(),
                "atomic" => atomic.is_some(),
                _ => {
                    return Err(self.refuse(Problem::at(
                        Code::UnknownField,
                        pointer,
                        "This field is not known.",
                    )));
                }
            };
            if is_twice {
                return Err(self.refuse(Problem::at(
                    Code::DuplicateField,
                    pointer,
                    "This field appears twice.",
                )));
            }
            let raw = pairs.next_value::<&'de RawValue>()?;
            if name == "atomic" {
                atomic = Some(match raw.get() {
                    "true" => Together::All,
                    "false" => Together::Each,
                    _ => {
                        return Err(self.refuse(Problem::at(
                            Code::WrongType,
                            pointer,
                            "Expected true or false.",
                        )));
                    }
                });
            } else {
                payments = Some(items(raw).map_err(|problem| self.refuse(problem))?);
            }
        }
        let missing = || Problem::at(Code::MissingField, "/payments", "payments is required.");
        match payments {
            Some(payments) => Ok(Batch { payments, together: atomic.unwrap_or(Together::Each) }),
            None => Err(self.refuse(missing())),
        }
    }
}

/// The elements of a list, at most [`MOST_ITEMS`].
fn items(raw: &RawValue) -> Result<Vec<&RawValue>, Problem> {
    struct Few;
    impl<'de> Visitor<'de> for Few {
        type Value = Option<Vec<&'de RawValue>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
            let mut few = Vec::new();
            while let Some(item) = all.next_element::<&'de RawValue>()? {
                if few.len() == MOST_ITEMS {
                    // The rest of the list is not read; nor is anything after it.
                    return Ok(None);
                }
                few.push(item);
            }
            Ok(Some(few))
        }
    }
    let mut reader = serde_json::Deserializer::from_str(raw.get());
    if !raw.get().starts_with('[') {
        return Err(Problem::at(Code::WrongType, "/payments", "Expected an array of payments."));
    }
    let many = || Problem::at(Code::TooManyItems, "/payments", "A batch has at most 1000 payments.");
    // It was read as one value before, so what stops the reading is its length.
    reader.deserialize_seq(Few).ok().flatten().ok_or_else(many)
}

/// A payment of a batch, before the schedule is asked.
enum Item {
    /// It can be created.
    Ready(Box<NewPayment>),
    /// It cannot be created now, and may have been created earlier; or else, where nothing but its due time has
    /// passed, be one that a restore lost.
    Earlier(AskedKey, Problem, Option<Box<NewPayment>>),
    /// It cannot be created. The key, where it has a usable one.
    Refused(Option<String>, Problem),
}

impl Item {
    fn key(&self) -> Option<&str> {
        match self {
            Self::Ready(new) => Some(&new.idempotency_key),
            Self::Earlier(asked, ..) => Some(&asked.key),
            Self::Refused(key, _) => key.as_deref(),
        }
    }
}

struct Judge<'a> {
    intake: &'a Intake,
    actor: &'a Actor,
    now: DateTime<Utc>,
    traceparent: Option<String>,
}

impl Judge<'_> {
    fn item(&self, raw: &str) -> Item {
        if raw.len() > limits::MAX_BODY {
            return Item::Refused(None, Problem::new(Code::BodyTooLarge));
        }
        let keyed = |(key, draft): (String, _)| Ok((headers::key_as_written(key.as_bytes())?, draft));
        let read = Draft::read_item(raw).and_then(keyed);
        match read {
            Ok((key, draft)) => {
                self.draft(key.clone(), draft).unwrap_or_else(|problem| Item::Refused(Some(key), problem))
            }
            Err(problem) => Item::Refused(None, problem),
        }
    }

    /// The same steps as for a single create.
    fn draft(&self, key: String, draft: Draft) -> Result<Item, Problem> {
        let (actor, terms) = (self.actor, &self.intake.terms);
        let secret = self.intake.schedule.installation_secret();
        let request = Request::with_defaults(draft, actor, terms)?;
        let digests = canonical::digests(secret, actor.id, &request);
        match request.judge(terms, self.now) {
            Ok(allowed) => {
                let traceparent = self.traceparent.clone();
                let new = new_payment(secret, actor.id, key, request, allowed, digests, traceparent)?;
                Ok(Item::Ready(Box::new(new)))
            }
            Err(broken) if broken.only_now() => {
                let asked = AskedKey {
                    key: key.clone(),
                    request_hash: digests.request_hash,
                    field_digests: digests.fields.clone(),
                };
                let in_time = broken.only_for_having_passed().then(|| judged_in_time(&request, terms));
                let lost = match in_time {
                    Some(Ok(allowed)) => {
                        let traceparent = self.traceparent.clone();
                        let new = new_payment(secret, actor.id, key, request, allowed, digests, traceparent);
                        new.ok().map(Box::new)
                    }
                    Some(Err(_)) | None => None,
                };
                Ok(Item::Earlier(asked, broken.problem(), lost))
            }
            Err(broken) => Err(broken.problem()),
        }
    }
}

fn distinct_keys(items: &[Item]) -> Result<(), Problem> {
    let mut seen = HashSet::new();
    for (place, item) in items.iter().enumerate() {
        if item.key().is_some_and(|key| !seen.insert(key)) {
            let why = "An earlier payment of the batch has this key.";
            return Err(Problem::at(
                Code::DuplicateItemKey,
                format!("/payments/{place}/idempotencyKey"),
                why,
            ));
        }
    }
    Ok(())
}

/// What is told of one payment.
type Told = Result<CreateAnswer, Problem>;

/// What items come to before any is created: refusals and what was created earlier by place, and the rest.
struct Sorted {
    told: BTreeMap<usize, Told>,
    ready: Vec<(usize, NewPayment)>,
}

async fn sorted(intake: &Intake, actor: &Actor, items: Vec<Item>) -> Result<Sorted, Problem> {
    let mut sorted = Sorted { told: BTreeMap::new(), ready: Vec::new() };
    let (mut asked, mut otherwise) = (Vec::new(), Vec::new());
    for (place, item) in items.into_iter().enumerate() {
        match item {
            Item::Ready(new) => sorted.ready.push((place, *new)),
            Item::Earlier(key, problem, lost) => {
                asked.push(key);
                otherwise.push((place, problem, lost));
            }
            Item::Refused(_, problem) => drop(sorted.told.insert(place, Err(problem))),
        }
    }
    let earlier = intake.schedule.replays(actor.id, asked).await.map_err(limits::trouble)?;
    let mut passed = Vec::new();
    for (found, (place, problem, lost)) in earlier.into_iter().zip(otherwise) {
        match (found, lost) {
            (None, Some(lost)) => passed.push((place, problem, lost)),
            (found, _) => drop(sorted.told.insert(place, found.ok_or(problem))),
        }
    }
    again(intake, passed, &mut sorted).await?;
    Ok(sorted)
}

/// Rule R18, as a single create has it: what a restore lost after it was charged is taken once more although its due
/// time has passed.
async fn again(
    intake: &Intake,
    passed: Vec<(usize, Problem, Box<NewPayment>)>,
    sorted: &mut Sorted,
) -> Result<(), Problem> {
    let ids: Vec<_> = passed.iter().map(|(_, _, new)| new.id).collect();
    let lost = intake.schedule.lost_charges(&ids).await.map_err(limits::trouble)?;
    for (place, problem, new) in passed {
        match lost.get(&new.id) {
            Some(lost) if lost.charged_as != new.id => {
                sorted.told.insert(place, Ok(CreateAnswer::ChargedBefore { payment: lost.charged_as }));
            }
            Some(lost) if lost.is_open => sorted.ready.push((place, *new)),
            Some(_) | None => drop(sorted.told.insert(place, Err(problem))),
        }
    }
    sorted.ready.sort_by_key(|(place, _)| *place);
    Ok(())
}

async fn each(intake: &Intake, actor: &Actor, items: Vec<Item>) -> Result<Vec<Told>, Problem> {
    let Sorted { mut told, ready } = sorted(intake, actor, items).await?;
    let (places, new): (Vec<usize>, Vec<NewPayment>) = ready.into_iter().unzip();
    let made = intake.schedule.create_batch(new, Together::Each).await.map_err(limits::trouble)?;
    if let BatchAnswer::Done(answers) = made {
        told.extend(places.into_iter().zip(answers.into_iter().map(Ok)));
    }
    Ok(told.into_values().collect())
}

async fn all(intake: &Intake, actor: &Actor, items: Vec<Item>) -> Result<Vec<Told>, Problem> {
    let Sorted { told: mut found, ready } = sorted(intake, actor, items).await?;
    twice(&ready, &mut found);
    let in_the_way: BTreeMap<usize, Problem> =
        found.iter().filter_map(|(place, one)| Some((*place, problem_of(one)?))).collect();
    if !in_the_way.is_empty() {
        return Err(refusal(in_the_way));
    }
    let (places, new): (Vec<usize>, Vec<NewPayment>) = ready.into_iter().unzip();
    match intake.schedule.create_batch(new, Together::All).await.map_err(limits::trouble)? {
        BatchAnswer::Done(answers) => {
            found.extend(places.into_iter().zip(answers.into_iter().map(Ok)));
            Ok(found.into_values().collect())
        }
        BatchAnswer::Refused(refused) => {
            let problem =
                |(at, answer): (usize, CreateAnswer)| Some((*places.get(at)?, told(&answer).err()?));
            Err(refusal(refused.into_iter().filter_map(problem).collect()))
        }
    }
}

/// Why this one has no payment; what has one is counted when it is answered.
fn problem_of(one: &Told) -> Option<Problem> {
    match one {
        Ok(CreateAnswer::Created(_) | CreateAnswer::Replayed(_)) => None,
        Ok(refused) => told(refused).err(),
        Err(problem) => Some(problem.clone()),
    }
}

/// Of two payments with one external id the second cannot be created beside the first.
fn twice(ready: &[(usize, NewPayment)], found: &mut BTreeMap<usize, Told>) {
    let mut names = HashSet::new();
    for (place, new) in ready {
        if new.external_id.as_ref().is_some_and(|name| !names.insert(name.as_str())) {
            let why = "An earlier payment of the batch has this externalId.";
            found.insert(*place, Err(Problem::at(Code::ExternalIdConflict, "/externalId", why)));
        }
    }
}

/// All that stands in the way of an atomic batch, pointed at from the batch's own beginning.
fn refusal(in_the_way: BTreeMap<usize, Problem>) -> Problem {
    if in_the_way.values().all(|problem| problem.code == Code::ScheduleNotReady) {
        return Problem::new(Code::ScheduleNotReady).retry_after(30);
    }
    let mut refusal = Problem::new(Code::BatchRefused);
    for (place, problem) in in_the_way {
        let at = |pointer: &str| format!("/payments/{place}{pointer}");
        if problem.errors.is_empty() {
            let detail = problem.detail.clone().unwrap_or_else(|| problem.code.doc().into());
            refusal.errors.push(FieldError { pointer: at(""), code: problem.code, detail });
        }
        let inner = problem.errors.iter();
        refusal.errors.extend(inner.map(|error| FieldError { pointer: at(&error.pointer), ..error.clone() }));
    }
    refusal
}

fn answered(items: &[Told], id: &RequestId) -> Response {
    let mut data: Vec<u8> = Vec::new();
    let (mut created, mut replayed, mut refused) = (0_usize, 0_usize, 0_usize);
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            data.push(b',');
        }
        match item.as_ref().map_err(Problem::clone).and_then(told) {
            Ok((view, how)) => {
                let is_replayed = how == How::Replayed;
                created += usize::from(!is_replayed);
                replayed += usize::from(is_replayed);
                data.extend(format!("{{\"status\":201,\"replayed\":{is_replayed},\"payment\":").into_bytes());
                data.extend(wire::creation(view));
            }
            Err(problem) => {
                refused += 1;
                data.extend(format!("{{\"status\":{},\"problem\":", problem.code.http()).into_bytes());
                data.extend(problem.write(&format!("{PATH}#/payments/{place}"), &id.0));
            }
        }
        data.push(b'}');
    }
    let counts = format!("],\"created\":{created},\"replayed\":{replayed},\"refused\":{refused}}}");
    json(StatusCode::OK, [&b"{\"data\":["[..], &data, counts.as_bytes()].concat())
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;

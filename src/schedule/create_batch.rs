//! Many payments of one actor at once, each under a key of its own.
//!
//! **Promises.** For each payment what `create.rs` promises for one. Those that can be created are, by one
//! statement that is its own transaction; or, where the client asked for all or nothing, all of them or none.
//!
//! **Why tries.** The statement makes every row whose key is free, and refuses as a whole if an external id is
//! taken or a day has no partition. What stood in the way is then looked up, answered, and left out of the
//! next try; a row that alone makes the statement fail is found by halving and goes the way of a single
//! create, which knows an answer for everything. In the usual case there is one round trip, whatever the
//! number of rows. Rows are tried in their order, so that a daily cap is used up by the first of them, as it
//! would be by single creates; those that do not fit are named after one look at what is left of it.
//!
//! **If this dies here** some payments may exist: the client repeats all of them, and those are replayed.

use super::cancel::acknowledge;
use super::create::{self, TRIES, differing, view_of};
use super::create_obstacles::{beyond_caps, charged_before, external_ids_taken, on_missing_days};
use super::failure::{
    at_commit, before_commit, commit, daily_cap, is_bad_data, is_charged_before, is_external_id_taken,
    is_missing_partition,
};
use super::list::{self, ListFilter};
use super::port::ScheduleError;
use super::records::{CreateAnswer, NewPayment, PaymentView};
use super::{days, row, statements};
use crate::domain::bucket::shard;
use crate::domain::ids::{ActorId, PaymentId};
use crate::domain::state::Status;
use crate::domain::window::Window;
use secrecy::ExposeSecret;
use sqlx::types::Json;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use uuid::Uuid;

/// What becomes of the others where one cannot be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Together {
    /// Each stands alone.
    Each,
    /// None is created.
    All,
}

/// What a batch did.
#[derive(Debug)]
pub enum BatchAnswer {
    /// What became of each, in order. Of [`Together::All`] each is created or replayed.
    Done(Vec<CreateAnswer>),
    /// Of [`Together::All`]: nothing was created, because of these, by their place.
    Refused(BTreeMap<usize, CreateAnswer>),
}

/// A request under a key, as far as a repetition is told from another request.
#[derive(Debug, Clone)]
pub struct AskedKey {
    /// The idempotency key.
    pub key: String,
    /// Digest of the whole request.
    pub request_hash: [u8; 32],
    /// Digests by JSON pointer.
    pub field_digests: BTreeMap<String, String>,
}

impl AskedKey {
    pub(super) fn of(new: &NewPayment) -> Self {
        let key = new.idempotency_key.clone();
        Self { key, request_hash: new.request_hash, field_digests: new.field_digests.clone() }
    }
}

pub(super) async fn create_batch(
    pool: PgPool,
    new: Vec<NewPayment>,
    together: Together,
) -> Result<BatchAnswer, ScheduleError> {
    match together {
        _ if new.is_empty() => Ok(BatchAnswer::Done(Vec::new())),
        Together::Each => Ok(BatchAnswer::Done(each(&pool, &new).await?)),
        Together::All => all(&pool, &new).await,
    }
}

/// How a statement for some rows ended that was its own transaction.
enum Round {
    /// These are open still; the others are answered.
    Left(Vec<usize>),
    /// One of them, or more, cannot be written with the others.
    Split,
}

async fn each(pool: &PgPool, new: &[NewPayment]) -> Result<Vec<CreateAnswer>, ScheduleError> {
    let mut answers: Vec<Option<CreateAnswer>> = Vec::new();
    answers.resize_with(new.len(), || None);
    let mut names = HashSet::new();
    // A second payment with one external id waits for what becomes of the first.
    let (first, alone): (Vec<usize>, Vec<usize>) = (0..new.len())
        .partition(|place| new[*place].external_id.as_ref().is_none_or(|name| names.insert(name.as_str())));
    let mut work = vec![(first, TRIES)];
    let mut unknown = None;
    while let Some((rows, tries)) = work.pop() {
        if rows.len() == 1 || tries == 0 {
            one_by_one(pool, new, &rows, &mut unknown, &mut answers).await?;
            continue;
        }
        match round(pool, new, &rows, &mut answers).await {
            Ok(Round::Left(left)) if left.is_empty() => {}
            Ok(Round::Left(left)) => work.push((left, tries - 1)),
            Ok(Round::Split) => {
                let (one, two) = rows.split_at(rows.len() / 2);
                // The last is taken first.
                work.extend([(two.to_vec(), tries), (one.to_vec(), tries)]);
            }
            Err(ScheduleError::CommitUnknown(source)) => {
                unknown = Some(source);
                work.push((rows, tries - 1));
            }
            Err(error) => return Err(after(unknown, error)),
        }
    }
    one_by_one(pool, new, &alone, &mut unknown, &mut answers).await?;
    let open = || ScheduleError::Defect("a payment of a batch is without an answer".into());
    answers.into_iter().map(|answer| answer.ok_or_else(open)).collect()
}

type Source = Box<dyn std::error::Error + Send + Sync>;

async fn one_by_one(
    pool: &PgPool,
    new: &[NewPayment],
    rows: &[usize],
    unknown: &mut Option<Source>,
    answers: &mut [Option<CreateAnswer>],
) -> Result<(), ScheduleError> {
    for place in rows {
        let made = create::create(pool.clone(), new[*place].clone()).await;
        answers[*place] = Some(made.map_err(|error| after(unknown.take(), error))?);
    }
    Ok(())
}

/// After an unknown COMMIT, "not reachable" does not mean "nothing happened".
fn after(unknown: Option<Source>, error: ScheduleError) -> ScheduleError {
    match (unknown, error) {
        (Some(source), ScheduleError::Unavailable(_)) => ScheduleError::CommitUnknown(source),
        (_, error) => error,
    }
}

async fn round(
    pool: &PgPool,
    new: &[NewPayment],
    rows: &[usize],
    answers: &mut [Option<CreateAnswer>],
) -> Result<Round, ScheduleError> {
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    match insert(&mut connection, new, rows).await {
        Ok(mut made) => {
            drop(connection);
            let (created, taken): (Vec<usize>, Vec<usize>) =
                rows.iter().copied().partition(|place| made.contains_key(&new[*place].id.as_uuid()));
            for place in created {
                let view = made.remove(&new[place].id.as_uuid());
                answers[place] = view.map(|view| CreateAnswer::Created(Box::new(view)));
            }
            for (place, answer) in made_earlier(pool, new, &taken).await? {
                answers[place] = Some(answer);
            }
        }
        Err(error) if is_external_id_taken(&error) => {
            let found = external_ids_taken(&mut connection, new, rows).await.map_err(before_commit)?;
            for (place, answer) in found {
                answers[place] = Some(answer);
            }
        }
        Err(error) if daily_cap(&error).is_some() => {
            drop(connection);
            for (place, answer) in beyond_caps(pool, new, rows).await? {
                answers[place] = Some(answer);
            }
        }
        Err(error) if is_charged_before(&error) => {
            drop(connection);
            for (place, answer) in charged_before(pool, new, rows).await? {
                answers[place] = Some(answer);
            }
        }
        Err(error) if is_missing_partition(&error) => {
            drop(connection);
            for (place, answer) in on_missing_days(pool, new, rows).await? {
                answers[place] = Some(answer);
            }
        }
        Err(error) if is_bad_data(&error) => return Ok(Round::Split),
        // The statement was its own transaction.
        Err(error) => return Err(at_commit(error)),
    }
    Ok(Round::Left(rows.iter().copied().filter(|place| answers[*place].is_none()).collect()))
}

async fn all(pool: &PgPool, new: &[NewPayment]) -> Result<BatchAnswer, ScheduleError> {
    let rows: Vec<usize> = (0..new.len()).collect();
    let mut unknown = None;
    for _ in 0..TRIES {
        match once(pool, new, &rows).await {
            Ok(Some(answer)) => return Ok(answer),
            // A key or an external id was freed between two looks, or a cap was raised.
            Ok(None) => {}
            Err(ScheduleError::CommitUnknown(source)) => unknown = Some(source),
            Err(error) => return Err(after(unknown, error)),
        }
    }
    let error = ScheduleError::Unavailable("keys or external ids keep changing hands, or caps change".into());
    Err(after(unknown, error))
}

/// One transaction for all of them; `None`: try again.
async fn once(
    pool: &PgPool,
    new: &[NewPayment],
    rows: &[usize],
) -> Result<Option<BatchAnswer>, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let mut made = match insert(&mut transaction, new, rows).await {
        Ok(made) => made,
        Err(error) => {
            transaction.rollback().await.map_err(before_commit)?;
            return refused(pool, new, rows, error).await;
        }
    };
    let taken: Vec<usize> =
        rows.iter().copied().filter(|place| !made.contains_key(&new[*place].id.as_uuid())).collect();
    let asked = taken.iter().map(|place| (*place, AskedKey::of(&new[*place]))).collect();
    let found = found(&mut transaction, new[0].actor, asked).await.map_err(before_commit)?;
    if found.len() < taken.len() || !found.values().all(is_replay) {
        transaction.rollback().await.map_err(before_commit)?;
        let in_the_way: BTreeMap<_, _> = found.into_iter().filter(|(_, answer)| !is_replay(answer)).collect();
        return Ok((!in_the_way.is_empty()).then_some(BatchAnswer::Refused(in_the_way)));
    }
    if made.is_empty() {
        acknowledge(&mut transaction).await?;
    }
    commit(transaction).await?;
    let mut found = found;
    let answer = |place: &usize| {
        let created = made.remove(&new[*place].id.as_uuid());
        created.map(|view| CreateAnswer::Created(Box::new(view))).or_else(|| found.remove(place))
    };
    let answers: Vec<CreateAnswer> = rows.iter().filter_map(answer).collect();
    Ok(Some(BatchAnswer::Done(answers)))
}

fn is_replay(answer: &CreateAnswer) -> bool {
    matches!(answer, CreateAnswer::Replayed(_))
}

/// What stood in the way of a statement that was rolled back; `None`: nothing does any more.
async fn refused(
    pool: &PgPool,
    new: &[NewPayment],
    rows: &[usize],
    error: Error,
) -> Result<Option<BatchAnswer>, ScheduleError> {
    let mut found = BTreeMap::new();
    if is_external_id_taken(&error) {
        let mut connection = pool.acquire().await.map_err(before_commit)?;
        found.extend(external_ids_taken(&mut connection, new, rows).await.map_err(before_commit)?);
    } else if is_missing_partition(&error) {
        let missing = on_missing_days(pool, new, rows).await?;
        found.extend(missing.into_iter().filter(|(_, answer)| !is_replay(answer)));
    } else if is_charged_before(&error) {
        let before = charged_before(pool, new, rows).await?;
        found.extend(before.into_iter().filter(|(_, answer)| !is_replay(answer)));
    } else if daily_cap(&error).is_some() {
        let beyond = beyond_caps(pool, new, rows).await?;
        found.extend(beyond.into_iter().filter(|(_, answer)| !is_replay(answer)));
    } else {
        return Err(before_commit(error));
    }
    Ok((!found.is_empty()).then_some(BatchAnswer::Refused(found)))
}

/// Makes those whose keys are free; answers them by their ids.
async fn insert(
    connection: &mut PgConnection,
    new: &[NewPayment],
    rows: &[usize],
) -> Result<HashMap<Uuid, PaymentView>, Error> {
    let rows: Vec<&NewPayment> = rows.iter().filter_map(|place| new.get(*place)).collect();
    let Some(first) = rows.first() else { return Ok(HashMap::new()) };
    let policies: Vec<_> = rows.iter().map(|it| row::choices(it.retry)).collect();
    let made = sqlx::query(statements::CREATE_BATCH)
        .bind(first.actor.0)
        .bind(first.lane)
        .bind(&first.traceparent)
        .bind(column(&rows, |it| it.idempotency_key.as_str()))
        .bind(column(&rows, |it| it.request_hash.to_vec()))
        .bind(column(&rows, |it| it.id.as_uuid()))
        .bind(column(&rows, |it| it.id.due_day()))
        .bind(column(&rows, |it| it.due_at))
        .bind(column(&rows, |it| it.execute_before))
        .bind(column(&rows, |it| it.execute_within.map(Window::seconds)))
        .bind(column(&rows, |it| it.first_attempt_at()))
        .bind(column(&rows, |it| it.gateway.0.as_str()))
        .bind(column(&rows, |it| it.amount.minor.get()))
        .bind(column(&rows, |it| it.amount.currency.as_str()))
        .bind(column(&rows, |it| it.retry.max_sends))
        .bind(policies.iter().map(|(soft, _)| *soft).collect::<Vec<_>>())
        .bind(policies.iter().map(|(_, exhausted)| *exhausted).collect::<Vec<_>>())
        .bind(column(&rows, |it| it.payee.expose_secret().as_bytes().to_vec()))
        .bind(column(&rows, |it| it.description.clone()))
        .bind(column(&rows, |it| Json(&it.metadata)))
        .bind(column(&rows, |it| it.external_id.clone()))
        .bind(column(&rows, |it| Json(&it.field_digests)))
        .bind(column(&rows, |it| shard(it.id)))
        .fetch_all(connection)
        .await?;
    let by_id: HashMap<Uuid, &NewPayment> = rows.into_iter().map(|it| (it.id.as_uuid(), it)).collect();
    let mut views = HashMap::with_capacity(made.len());
    for row in &made {
        let id = row::payment_id(row, "id")?.as_uuid();
        // The statement answers what it was given.
        if let Some(new) = by_id.get(&id) {
            views.insert(id, view_of(row, new)?);
        }
    }
    Ok(views)
}

fn column<'a, T>(rows: &[&'a NewPayment], of: impl Fn(&'a NewPayment) -> T) -> Vec<T> {
    rows.iter().map(|row| of(row)).collect()
}

/// What these keys made earlier, acknowledged by a COMMIT of its own (rule R3); one that is missing made
/// nothing after all.
pub(super) async fn made_earlier(
    pool: &PgPool,
    new: &[NewPayment],
    rows: &[usize],
) -> Result<BTreeMap<usize, CreateAnswer>, ScheduleError> {
    if rows.is_empty() {
        return Ok(BTreeMap::new());
    }
    let asked = rows.iter().map(|place| (*place, AskedKey::of(&new[*place]))).collect();
    acknowledged(pool, new[0].actor, asked).await
}

async fn acknowledged(
    pool: &PgPool,
    actor: ActorId,
    asked: BTreeMap<usize, AskedKey>,
) -> Result<BTreeMap<usize, CreateAnswer>, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let made = found(&mut transaction, actor, asked).await.map_err(before_commit)?;
    acknowledge(&mut transaction).await?;
    commit(transaction).await?;
    Ok(made)
}

/// As `create.rs` finds one.
async fn found(
    connection: &mut PgConnection,
    actor: ActorId,
    asked: BTreeMap<usize, AskedKey>,
) -> Result<BTreeMap<usize, CreateAnswer>, Error> {
    let keys: Vec<&str> = asked.values().map(|it| it.key.as_str()).collect();
    let rows =
        sqlx::query(statements::FOUND_KEYS).bind(actor.0).bind(keys).fetch_all(&mut *connection).await?;
    let mut made: HashMap<String, (PaymentId, Vec<u8>)> = HashMap::new();
    for row in &rows {
        let payment = row::payment_id(row, "payment_id")?;
        made.insert(row.try_get("key")?, (payment, row.try_get("request_hash")?));
    }
    let (mut same, mut other) = (Vec::new(), Vec::new());
    for (place, it) in &asked {
        match made.get(&it.key) {
            Some((payment, hash)) if hash.as_slice() == it.request_hash.as_slice() => {
                same.push((*place, *payment))
            }
            Some((payment, _)) => other.push((*place, *payment)),
            None => {}
        }
    }
    let mut answers = BTreeMap::new();
    let ids: Vec<PaymentId> = same.iter().map(|(_, payment)| *payment).collect();
    let (mut views, _) = list::read(connection, actor, &ids, &ListFilter::default()).await?;
    for (place, payment) in same {
        let view = views.remove(&payment);
        answers.extend(view.map(|view| (place, CreateAnswer::Replayed(Box::new(view)))));
    }
    let stored = digests(connection, other.iter().map(|(_, payment)| *payment)).await?;
    for (place, payment) in other {
        let (Some((status, stored)), Some(it)) = (stored.get(&payment), asked.get(&place)) else { continue };
        let differs = differing(stored, &it.field_digests);
        answers.insert(place, CreateAnswer::KeyReused { payment, status: *status, differs });
    }
    Ok(answers)
}

type Digests = BTreeMap<String, String>;

async fn digests(
    connection: &mut PgConnection,
    of: impl Iterator<Item = PaymentId>,
) -> Result<HashMap<PaymentId, (Status, Digests)>, Error> {
    // Two keys make two payments.
    let ids: Vec<PaymentId> = of.collect::<BTreeSet<_>>().into_iter().collect();
    let mut found = HashMap::new();
    for (day, places) in days::by_day(&ids, |id| *id) {
        let ids: Vec<Uuid> =
            places.iter().filter_map(|place| ids.get(*place)).map(|id| id.as_uuid()).collect();
        let query = sqlx::query(statements::FOUND_DIGESTS_OF_DAY).bind(day).bind(ids);
        for row in &query.fetch_all(&mut *connection).await? {
            let stored: Json<Digests> = row.try_get("field_digests")?;
            found.insert(row::payment_id(row, "id")?, (row::status(row, "status")?, stored.0));
        }
    }
    Ok(found)
}

pub(super) async fn replays(
    pool: PgPool,
    actor: ActorId,
    asked: Vec<AskedKey>,
) -> Result<Vec<Option<CreateAnswer>>, ScheduleError> {
    let count = asked.len();
    if count == 0 {
        return Ok(Vec::new());
    }
    let keys: Vec<&str> = asked.iter().map(|it| it.key.as_str()).collect();
    // Waits for creates of these keys that are in flight, and is always rolled back.
    let mut probe = pool.begin().await.map_err(before_commit)?;
    let free: Vec<String> = sqlx::query_scalar(statements::AWAIT_KEYS)
        .bind(actor.0)
        .bind(keys)
        .fetch_all(&mut *probe)
        .await
        .map_err(before_commit)?;
    probe.rollback().await.map_err(before_commit)?;
    let free: HashSet<String> = free.into_iter().collect();
    let taken: BTreeMap<usize, AskedKey> =
        asked.into_iter().enumerate().filter(|(_, it)| !free.contains(&it.key)).collect();
    let mut found =
        if taken.is_empty() { BTreeMap::new() } else { acknowledged(&pool, actor, taken).await? };
    Ok((0..count).map(|place| found.remove(&place)).collect())
}

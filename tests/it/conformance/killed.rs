//! Verbs whose connection dies on the way. Memory meets the fault that Postgres met, which the database
//! itself shows afterwards; then both go on with the verb's own recovery.

use super::chance::{claim_ids, one_of, request, terms};
use super::compare::{Difference, same};
use super::operations::{expected, made};
use super::relays::PARTITIONS;
use super::sequence::{Batch, Sequence};
use super::stores::Kill;
use crate::schedule::world::ACTOR;
use crate::support::proxy;
use punctual::schedule::{Fault, Schedule, ScheduleError, Verb};
use rand::Rng;

const KILLS: [Kill; 3] = [Kill::AnswerCut, Kill::BeforeCommit, Kill::WhileWaiting];

fn name(kill: Kill) -> &'static str {
    match kill {
        Kill::AnswerCut => "killed: answer cut",
        Kill::BeforeCommit => "killed: before COMMIT",
        Kill::WhileWaiting => "killed: while waiting",
    }
}

impl Sequence<'_> {
    pub async fn killed(&mut self) -> Result<(), Difference> {
        let mut kill = one_of(&mut self.chance, &KILLS);
        if self.quarantined && kill == Kill::WhileWaiting {
            // In quarantine a claim locks nothing, and so waits for nobody.
            kill = Kill::BeforeCommit;
        }
        match self.chance.random_range(0..10) {
            0..4 => self.killed_claim(kill).await,
            4..7 => self.killed_settle(kill).await,
            7..9 => self.killed_mark(kill).await,
            _ => self.killed_create(kill).await,
        }
    }

    /// What memory has to meet, by the error and by what the database shows.
    async fn fault(
        &mut self,
        kill: Kill,
        error: &ScheduleError,
        before: &str,
    ) -> Result<Option<Fault>, Difference> {
        self.saw(name(kill));
        let performed = self.stores.fingerprint().await != before;
        self.tell(format!("{kill:?}: {error:?}, performed: {performed}"));
        match (kill, error, performed) {
            (Kill::WhileWaiting, ScheduleError::Unavailable(_), false) => Ok(Some(Fault::ErrorBefore)),
            (Kill::BeforeCommit, ScheduleError::CommitUnknown(_), false) => Ok(Some(Fault::NeverArrived)),
            (Kill::AnswerCut, ScheduleError::CommitUnknown(_), _) => Ok(Some(Fault::PerformedThenLost)),
            (_, ScheduleError::Defect(_), _) => Err(format!("{kill:?}: {error:?}")),
            (_, ScheduleError::Unavailable(_) | ScheduleError::CommitUnknown(_), _) => {
                Err(format!("{kill:?} was answered {error:?}, and performed: {performed}"))
            }
        }
    }

    async fn killed_claim(&mut self, kill: Kill) -> Result<(), Difference> {
        let terms = terms(&mut self.chance);
        let mut notices = self.pick_notices(4);
        notices.retain(|it| self.memory.payment(it.payment).is_some());
        notices.sort_by_key(|it| it.payment);
        notices.dedup_by_key(|it| it.payment);
        let Some(first) = notices.first() else { return Ok(()) };
        let lock = format!("SELECT 1 FROM payments WHERE id = '{}' FOR UPDATE", first.payment);
        let ids = claim_ids(&mut self.chance, notices.len());
        self.tell(format!("{kill:?} claim {terms:?} {notices:?} {ids:?}"));
        let before = self.stores.fingerprint().await;
        let (worker, asked) = (self.stores.worker.clone(), (terms.clone(), notices.clone(), ids.clone()));
        let verb = async move { worker.claim(&asked.0, &asked.1, &asked.2).await };
        let error = match self.stores.killed(kill, &lock, verb).await {
            Ok(answers) => return self.claimed_in_postgres(&terms, notices, ids, answers).await,
            Err(error) => error,
        };
        let Some(fault) = self.fault(kill, &error, &before).await? else { return Ok(()) };
        self.memory.inject_next(Verb::Claim, [fault]);
        let theirs = self.memory.claim(&terms, &notices, &ids).await.err();
        same("a killed claim", &kind(Some(&error)), &kind(theirs.as_ref()))?;
        if fault == Fault::ErrorBefore {
            let answers = expected("claim again", self.stores.worker.claim(&terms, &notices, &ids).await)?;
            return self.claimed_in_postgres(&terms, notices, ids, answers).await;
        }
        let pairs: Vec<_> = notices.iter().map(|it| it.payment).zip(ids).collect();
        let recovered = self.recover_these(&terms, &pairs).await?;
        if fault == Fault::NeverArrived && !recovered.is_empty() {
            return Err("a claim that never arrived was recovered".to_owned());
        }
        self.tickets.extend(recovered);
        Ok(())
    }

    async fn killed_settle(&mut self, kill: Kill) -> Result<(), Difference> {
        let places = self.pick_tickets();
        let Some(first) = places.first() else { return Ok(()) };
        let id = self.tickets[*first].payment().id;
        let lock = format!("SELECT 1 FROM payments WHERE id = '{id}' FOR UPDATE");
        self.tell(format!("{kill:?} settle"));
        self.tell_settle(&places);
        let before = self.stores.fingerprint().await;
        let batch = places.iter().map(|place| self.tickets[*place].answered()).collect();
        let worker = self.stores.worker.clone();
        let verb = async move { worker.settle(batch).await };
        let failed = match self.stores.killed(kill, &lock, verb).await {
            Ok(settled) => {
                let settled: Vec<_> = settled.iter().map(|it| it.result()).collect();
                return self.settled_in_postgres(&places, &settled).await;
            }
            Err(failed) => failed,
        };
        let Some(fault) = self.fault(kill, &failed.error, &before).await? else { return Ok(()) };
        self.memory.inject_next(Verb::Settle, [fault]);
        let batch = places.iter().map(|place| self.tickets[*place].answered()).collect();
        let theirs = self.memory.settle(batch).await.err();
        let theirs = theirs.as_ref().map(|failed| &failed.error);
        same("a killed settle", &kind(Some(&failed.error)), &kind(theirs))?;
        // The batch was handed back, and comes again as it is.
        let again = expected("settle", self.stores.worker.settle(failed.batch).await.map_err(|it| it.error))?;
        self.settled_in_postgres(&places, &again.iter().map(|it| it.result()).collect::<Vec<_>>()).await
    }

    async fn killed_mark(&mut self, kill: Kill) -> Result<(), Difference> {
        let Some(Batch { lease, postgres, memory }) = self.pick_batch().await? else { return Ok(()) };
        let row = format!(
            "FROM relay_shards WHERE partitions = {PARTITIONS} AND residue = {} AND holder = '{}' AND epoch = {}",
            lease.residue, lease.holder, lease.epoch
        );
        // A mark under a lost lease, or of nothing, waits for nobody.
        let held = self.stores.count(&format!("SELECT count(*) {row}")).await == 1;
        let kill = if held && !postgres.is_empty() { kill } else { Kill::AnswerCut };
        self.tell(format!("{kill:?} mark {lease:?} {}", postgres.len()));
        let before = self.stores.fingerprint().await;
        let (worker, asked) = (self.stores.worker.clone(), (lease.clone(), postgres.clone()));
        let verb = async move { worker.mark(&asked.0, &asked.1).await };
        let answer = self.stores.killed(kill, &format!("SELECT 1 {row} FOR UPDATE"), verb).await;
        if let Err(error) = &answer {
            let Some(fault) = self.fault(kill, error, &before).await? else { return Ok(()) };
            self.memory.inject_next(Verb::Mark, [fault]);
            let theirs = self.memory.mark(&lease, &memory).await.err();
            same("a killed mark", &kind(Some(error)), &kind(theirs.as_ref()))?;
        }
        let ours = match answer {
            Ok(held) => held,
            Err(_) => expected("mark again", self.stores.worker.mark(&lease, &postgres).await)?,
        };
        let theirs = expected("mark again", self.memory.mark(&lease, &memory).await)?;
        same("mark", &ours, &theirs)
    }

    /// A create asks again by itself, under its key.
    async fn killed_create(&mut self, kill: Kill) -> Result<(), Difference> {
        let now = self.now();
        let new = request(&mut self.chance, self.requests.len(), now);
        self.requests.push(new.clone());
        let key = new.idempotency_key.clone();
        self.tell(format!("{kill:?} create {key} {:?}", new.id));
        let (api, asked) = (self.stores.api.clone(), new.clone());
        let verb = async move { api.create(&asked).await };
        let fault = if kill == Kill::WhileWaiting { Fault::NeverArrived } else { Fault::PerformedThenLost };
        let answer = if kill == Kill::WhileWaiting {
            let lock = format!(
                "INSERT INTO idempotency_keys VALUES ('{}', '{key}', decode(repeat('00', 32), 'hex'), '{}',
                 'epoch', 'epoch')",
                ACTOR.0,
                new.id.as_uuid()
            );
            self.stores.killed(kill, &lock, verb).await
        } else {
            // Its one statement is its own transaction, so there is no COMMIT to wait for.
            self.stores.proxy.set(proxy::Fault::CutAfter(key.into_bytes())).await;
            let answer = verb.await;
            self.stores.proxy.set(proxy::Fault::Pass).await;
            answer
        };
        self.saw("killed: create");
        let postgres = made(expected("create", answer)?);
        self.memory.inject_next(Verb::Create, [fault]);
        let lost = self.memory.request(&new).await.err();
        same("a killed create", &kind(lost.as_ref()), &"commit unknown")?;
        same("create", &postgres, &expected("create", self.memory.request(&new).await)?)
    }
}

fn kind(error: Option<&ScheduleError>) -> &'static str {
    match error {
        None => "no error",
        Some(ScheduleError::Unavailable(_)) => "unavailable",
        Some(ScheduleError::CommitUnknown(_)) => "commit unknown",
        Some(ScheduleError::Defect(_)) => "defect",
    }
}

//! What clients, workers and the keeper do, on both stores at the same instant.

use super::chance::{MARGIN, answer, claim_ids, conflicting, facts, one_of, request, terms};
use super::compare::{Difference, answered, claimed, same};
use super::sequence::{Sequence, Ticket, pick, whole_ties};
use crate::schedule::world::ACTOR;
use punctual::domain::guard::{CancelGuard, Lineage, is_asked_about};
use punctual::domain::ids::{ActorId, ClaimId, PaymentId};
use punctual::domain::notice::Notice;
use punctual::domain::payment::Payment;
use punctual::domain::reason::Reason;
use punctual::domain::retry::{Ladders, PerMille};
use punctual::domain::state::Status;
use punctual::domain::switches::{Switch, SwitchKind, Turned};
use punctual::outcome::{View, decide};
use punctual::schedule::{
    CancelAnswer, ClaimAnswer, ClaimTerms, Claimed, CreateAnswer, Loss, LossKind, OpenClaim, Renewed,
    Schedule, ScheduleError,
};
use rand::Rng;
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

/// An answer that should have come.
pub fn expected<T>(what: &str, answer: Result<T, ScheduleError>) -> Result<T, Difference> {
    answer.map_err(|error| format!("{what}: {error:?}"))
}

/// The answer of Postgres in memory's form.
pub fn made(answer: CreateAnswer) -> CreateAnswer<Payment> {
    match answer {
        CreateAnswer::Created(view) => CreateAnswer::Created(Box::new(view.payment)),
        CreateAnswer::Replayed(view) => CreateAnswer::Replayed(Box::new(view.payment)),
        CreateAnswer::KeyReused { payment, status, differs } => {
            CreateAnswer::KeyReused { payment, status, differs }
        }
        CreateAnswer::ExternalIdTaken { payment } => CreateAnswer::ExternalIdTaken { payment },
        CreateAnswer::DayNotReady => panic!("the days around today are made"),
        CreateAnswer::DailyCapReached(_) => panic!("no actor has a cap here"),
        CreateAnswer::ChargedBefore { .. } => panic!("no charge is lost here"),
    }
}

impl Sequence<'_> {
    pub async fn create(&mut self) -> Result<(), Difference> {
        let now = self.now();
        let number = self.requests.len();
        let known = pick(&mut self.chance, &self.requests);
        let new = match (known, self.chance.random_range(0..10)) {
            (Some(known), 0..2) => known,
            (Some(known), 2..4) => conflicting(&mut self.chance, &known),
            _ => {
                let new = request(&mut self.chance, number, now);
                self.requests.push(new.clone());
                new
            }
        };
        self.tell(format!("create {} {:?} {:?}", new.idempotency_key, new.id, new.external_id));
        let postgres = made(expected("create", self.stores.api.create(&new).await)?);
        let memory = expected("create", self.memory.request(&new).await)?;
        self.saw(match &postgres {
            CreateAnswer::Created(_) => "created",
            CreateAnswer::Replayed(_) => "replayed",
            CreateAnswer::KeyReused { .. } => "key reused",
            CreateAnswer::ExternalIdTaken { .. } => "external id taken",
            CreateAnswer::DayNotReady => "day not ready",
            CreateAnswer::DailyCapReached(_) => "daily cap reached",
            CreateAnswer::ChargedBefore { .. } => "charged before",
        });
        same("create", &postgres, &memory)
    }

    pub async fn claim(&mut self) -> Result<(), Difference> {
        let terms = terms(&mut self.chance);
        let mut notices = self.pick_notices(6);
        if let Some(twice) = pick(&mut self.chance, &notices)
            && self.chance.random_bool(0.1)
        {
            notices.push(twice);
        }
        let ids = claim_ids(&mut self.chance, notices.len());
        self.tell(format!("claim {terms:?} {notices:?} {ids:?}"));
        let postgres = expected("claim", self.stores.worker.claim(&terms, &notices, &ids).await)?;
        self.claimed_in_postgres(&terms, notices, ids, postgres).await
    }

    /// The same claim in memory, and the comparison.
    pub async fn claimed_in_postgres(
        &mut self,
        terms: &ClaimTerms,
        notices: Vec<Notice>,
        mut ids: Vec<ClaimId>,
        mut postgres: Vec<ClaimAnswer>,
    ) -> Result<(), Difference> {
        // Of two equal notices in one batch either may win; here it is the first.
        for place in 0..postgres.len() {
            let first = notices.iter().position(|other| *other == notices[place]).unwrap_or(place);
            if matches!(postgres[place], ClaimAnswer::Claimed(_)) {
                ids.swap(first, place);
                postgres.swap(first, place);
            }
        }
        let memory = expected("claim", self.memory.claim(terms, &notices, &ids).await)?;
        let said = |answers: &[ClaimAnswer]| answers.iter().map(answered).collect::<Vec<_>>();
        same("claim", &said(&postgres), &said(&memory))?;
        for answer in &postgres {
            use punctual::domain::guard::{Early, RefusedBecause};
            self.saw(match answer {
                ClaimAnswer::Claimed(_) => "claimed",
                ClaimAnswer::Early { why: Early::NotDue, .. } => "early",
                ClaimAnswer::Early { why: Early::Quarantined, .. } => "quarantined",
                ClaimAnswer::Early { why: Early::Contended, .. } => "contended",
                ClaimAnswer::Early { why: Early::SwitchedOff, .. } => "switched off",
                ClaimAnswer::Refused(proof) => match proof.why() {
                    RefusedBecause::Stale => "stale",
                    RefusedBecause::HeldByAnother => "held by another",
                    RefusedBecause::OtherGateway => "other gateway",
                    RefusedBecause::AheadOfRow => "ahead of row",
                    RefusedBecause::NoSuchPayment => "no such payment",
                    RefusedBecause::Parked => "refused: parked",
                    RefusedBecause::Cancelled | RefusedBecause::Final(_) => "refused: final",
                },
            });
            if let ClaimAnswer::Claimed(ours) = answer {
                self.tickets.push(Ticket::of(ours));
            }
        }
        Ok(())
    }

    pub async fn claim_late(&mut self) -> Result<(), Difference> {
        let terms = terms(&mut self.chance);
        let late_by = Duration::from_secs(one_of(&mut self.chance, &[0, 2, 15]));
        let but_lanes = one_of::<&[i16]>(&mut self.chance, &[&[], &[0], &[1, 2]]);
        let late = self.now() - late_by;
        let switches = self.switches.clone();
        let is_late = |row: &Payment| {
            let is_on = !switches.stops_gateway(&row.gateway)
                && !switches.stops_payer(row.actor, row.amount.currency);
            let is_wanted = is_on && row.gateway == terms.gateway && !but_lanes.contains(&row.lane);
            row.status.is_claimable() && is_wanted && row.next_attempt_at <= late
        };
        let mut keys: Vec<_> =
            self.memory.payments().into_iter().filter(is_late).map(|row| row.next_attempt_at).collect();
        keys.sort_unstable();
        let wanted = self.chance.random_range(1..=4);
        let ids = claim_ids(&mut self.chance, whole_ties(&keys, wanted));
        self.tell(format!("claim_late {terms:?} {late_by:?} {but_lanes:?} {ids:?}"));
        let found = self.stores.worker.claim_late(&terms, late_by, but_lanes, &ids).await;
        let postgres = expected("claim_late", found)?;
        // Which claim id a row gets among equally late ones is the store's affair.
        let mut ids_taken: Vec<ClaimId> = postgres.iter().map(Claimed::claim_id).collect();
        let rest: Vec<ClaimId> = ids.into_iter().filter(|id| !ids_taken.contains(id)).collect();
        ids_taken.extend(rest);
        let found = self.memory.claim_late(&terms, late_by, but_lanes, &ids_taken).await;
        let memory = expected("claim_late", found)?;
        let said = |claims: &[Claimed]| claims.iter().map(claimed).collect::<Vec<_>>();
        same("claim_late", &said(&postgres), &said(&memory))?;
        for ours in &postgres {
            self.saw("claimed late");
            self.tickets.push(Ticket::of(ours));
        }
        Ok(())
    }

    /// Places of some tickets, newest first among them, each with its outcome.
    pub fn pick_tickets(&mut self) -> Vec<usize> {
        let places = self.pick_places();
        for place in &places {
            self.learn(*place);
        }
        places
    }

    fn pick_places(&mut self) -> Vec<usize> {
        let mut places = BTreeSet::new();
        for _ in 0..self.chance.random_range(1..=3) {
            let count = self.tickets.len();
            if count == 0 {
                break;
            }
            let newest = count.saturating_sub(4);
            let from = if self.chance.random_bool(0.75) { newest } else { 0 };
            places.insert(self.chance.random_range(from..count));
        }
        places.into_iter().rev().collect()
    }

    /// What the worker of this claim learned, and the product's own decision on it.
    fn learn(&mut self, place: usize) {
        if self.tickets[place].outcome.is_some() {
            return;
        }
        let now = self.now();
        let (facts, jitter) = (facts(&mut self.chance), PerMille(self.chance.random_range(0..1000)));
        let payment = self.tickets[place].payment();
        let answer = answer(&mut self.chance, payment.id, payment.amount);
        let ticket = &mut self.tickets[place];
        let view = View {
            payment: ticket.payment(),
            was: ticket.was,
            key_age: ticket.key_age,
            declines: ticket.declines,
        };
        let decision = decide(&view, &answer, &facts, &Ladders::default(), now, jitter);
        let capped = decision.reason == Some(Reason::DeclinedTooOften);
        let before = ticket.declines.thirty_days > ticket.declines.day;
        ticket.outcome = Some((answer, decision));
        if capped {
            self.saw("declined too often");
        }
        if before {
            self.saw("declines older than a day");
        }
    }

    pub async fn settle(&mut self) -> Result<(), Difference> {
        let mut places = self.pick_tickets();
        if places.is_empty() {
            return Ok(());
        }
        if self.chance.random_bool(0.08) {
            places.push(places[0]);
        }
        self.tell_settle(&places);
        let batch = places.iter().map(|place| self.tickets[*place].answered()).collect();
        let postgres = self.stores.worker.settle(batch).await;
        let postgres = expected("settle", postgres.map_err(|failed| failed.error))?;
        self.settled_in_postgres(&places, &postgres.iter().map(|it| it.result()).collect::<Vec<_>>()).await
    }

    /// Claims of any age, and now and then one under a wrong fence or name.
    pub async fn renew(&mut self) -> Result<(), Difference> {
        let mut claims: Vec<OpenClaim> =
            self.pick_places().into_iter().map(|place| self.open(place)).collect();
        for claim in &mut claims {
            match self.chance.random_range(0..8) {
                0 => claim.fence.0 -= 1,
                1 => claim.claim_id = ClaimId(Uuid::from_u128(self.chance.random())),
                _ => {}
            }
        }
        let length = Duration::from_secs(one_of(&mut self.chance, &[1, 20, 90]));
        self.tell(format!("renew {claims:?} {length:?}"));
        let postgres = expected("renew", self.stores.worker.renew(&claims, length).await)?;
        let memory = expected("renew", self.memory.renew(&claims, length).await)?;
        for answer in &postgres {
            self.saw(match answer {
                Renewed::Held => "renewed",
                Renewed::Lost => "not renewed",
            });
        }
        same("renew", &postgres, &memory)
    }

    fn open(&self, place: usize) -> OpenClaim {
        let ticket = &self.tickets[place];
        let payment = ticket.payment();
        OpenClaim { payment: payment.id, fence: payment.fence, claim_id: ticket.claim_id }
    }

    pub fn tell_settle(&mut self, places: &[usize]) {
        for place in places {
            let ticket = &self.tickets[*place];
            let (id, claim) = (ticket.payment().id, ticket.claim_id);
            let what = format!("settle {id:?} {claim:?} {:?}", ticket.outcome);
            self.tell(what);
        }
    }

    /// The same settle in memory, and the comparison.
    pub async fn settled_in_postgres(
        &mut self,
        places: &[usize],
        postgres: &[punctual::schedule::SettledAs],
    ) -> Result<(), Difference> {
        use punctual::schedule::SettledAs;
        let before: Vec<bool> = places.iter().map(|place| self.is_recorded(*place)).collect();
        let batch = places.iter().map(|place| self.tickets[*place].answered()).collect();
        let memory = self.memory.settle(batch).await;
        let memory = expected("settle", memory.map_err(|failed| failed.error))?;
        let memory: Vec<_> = memory.iter().map(|it| it.result()).collect();
        same("settle", &postgres.to_vec(), &memory)?;
        for (result, again) in postgres.iter().zip(before) {
            self.saw(match (result, again) {
                (SettledAs::Written(_), true) => "written earlier",
                (SettledAs::Written(Status::Completed), false) => "completed",
                (SettledAs::Written(Status::Failed), false) => "failed",
                (SettledAs::Written(Status::Parked), false) => "parked",
                (SettledAs::Written(Status::Pending), false) => "pending again",
                (SettledAs::Written(_), false) => "unknown",
                (SettledAs::Fenced, true) => "fenced again",
                (SettledAs::Fenced, false) => "fenced",
            });
        }
        Ok(())
    }

    fn is_recorded(&self, place: usize) -> bool {
        let ticket = &self.tickets[place];
        let attempts = self.memory.attempts(ticket.payment().id);
        attempts.iter().any(|row| row.claim_id == ticket.claim_id && row.settled_at.is_some())
    }

    pub async fn recover(&mut self) -> Result<(), Difference> {
        let terms = terms(&mut self.chance);
        let mut pairs: BTreeSet<(PaymentId, Uuid)> = BTreeSet::new();
        for _ in 0..3 {
            let Some(row) = pick(&mut self.chance, &self.memory.payments()) else { return Ok(()) };
            let held = self.memory.holding(row.id).map(|held| held.claim_id.0);
            let never = Uuid::from_u128(self.chance.random());
            let claim = held.filter(|_| self.chance.random_bool(0.8)).unwrap_or(never);
            if pairs.iter().all(|(id, _)| *id != row.id) {
                pairs.insert((row.id, claim));
            }
        }
        let pairs: Vec<_> = pairs.into_iter().map(|(id, claim)| (id, ClaimId(claim))).collect();
        self.recover_these(&terms, &pairs).await.map(drop)
    }

    pub async fn recover_these(
        &mut self,
        terms: &ClaimTerms,
        pairs: &[(PaymentId, ClaimId)],
    ) -> Result<Vec<Ticket>, Difference> {
        self.tell(format!("recover {pairs:?}"));
        let postgres = expected("recover", self.stores.worker.recover(terms, pairs).await)?;
        let memory = expected("recover", self.memory.recover(terms, pairs).await)?;
        let said = |claims: &[Claimed]| {
            let mut said: Vec<String> = claims.iter().map(claimed).collect();
            said.sort_unstable();
            said
        };
        same("recover", &said(&postgres), &said(&memory))?;
        for _ in &postgres {
            self.saw("recovered");
        }
        Ok(postgres.iter().map(Ticket::of).collect())
    }

    pub async fn reap(&mut self) -> Result<(), Difference> {
        let margin = one_of(&mut self.chance, &[MARGIN, MARGIN, MARGIN, Duration::ZERO]);
        let now = self.now();
        let rows = self.memory.payments();
        let mut keys: Vec<_> = rows
            .iter()
            .filter_map(|row| self.memory.holding(row.id))
            .map(|held| held.lease_until)
            .filter(|until| *until + margin <= now)
            .collect();
        keys.sort_unstable();
        let wanted = one_of(&mut self.chance, &[1, 2, 50]);
        let limit = u32::try_from(whole_ties(&keys, wanted)).unwrap();
        let limit = if wanted == 50 { 50 } else { limit };
        self.tell(format!("reap {margin:?} {limit}"));
        let postgres = expected("reap", self.stores.worker.reap(margin, limit).await)?;
        let memory = expected("reap", self.memory.reap(margin, limit).await)?;
        for _ in 0..postgres.expired {
            self.saw("lease expired");
        }
        for _ in 0..postgres.deadline_failed {
            self.saw("deadline passed");
        }
        same("reap", &postgres, &memory)
    }

    pub async fn cancel(&mut self) -> Result<(), Difference> {
        let mut rows = self.memory.payments();
        if self.chance.random_bool(0.6) && rows.iter().any(is_asked_about) {
            rows.retain(is_asked_about);
        }
        let Some(row) = pick(&mut self.chance, &rows) else { return Ok(()) };
        if self.chance.random_bool(0.1) {
            let stranger = ActorId(Uuid::from_u128(0xA2));
            let answer = expected("cancel", self.stores.api.cancel(stranger, row.id).await)?;
            return same("a stranger's cancel", &format!("{answer:?}").as_str(), &"NotFound");
        }
        self.tell(format!("cancel {:?}", row.id));
        let postgres = match self.stores.api.cancel(ACTOR, row.id).await {
            Ok(CancelAnswer::Cancelled(_)) if row.status == Status::Cancelled => Some(CancelGuard::Already),
            Ok(CancelAnswer::Cancelled(_)) => Some(CancelGuard::Win),
            Ok(CancelAnswer::Wished(_)) if row.cancel_wish_at.is_some() => Some(CancelGuard::Wished),
            Ok(CancelAnswer::Wished(_)) => Some(CancelGuard::Wish),
            Ok(CancelAnswer::Refused(view)) => Some(CancelGuard::Refused(view.payment.status)),
            Ok(CancelAnswer::NotFound) => None,
            Err(ScheduleError::Unavailable(_)) => Some(CancelGuard::Quarantined),
            Err(error) => return Err(format!("cancel: {error:?}")),
        };
        self.saw(match postgres {
            Some(CancelGuard::Win) => "cancelled",
            Some(CancelGuard::Already) => "cancelled already",
            Some(CancelGuard::Wish) => "wished",
            Some(CancelGuard::Wished) => "wished already",
            _ => "cancel refused",
        });
        same("cancel", &postgres, &self.memory.cancel(row.id))
    }

    pub async fn defer(&mut self) -> Result<(), Difference> {
        let notices = self.pick_notices(4);
        self.tell(format!("defer {notices:?}"));
        let postgres = expected("defer", self.stores.worker.defer(&notices).await)?;
        let memory = expected("defer", self.memory.defer(&notices).await)?;
        let said = |answers: &[Option<_>]| answers.iter().map(Option::is_some).collect::<Vec<_>>();
        for owned in said(&postgres) {
            self.saw(if owned { "deferred" } else { "not deferred" });
        }
        same("defer", &said(&postgres), &said(&memory))
    }

    /// Something is switched off, or everything on again.
    pub async fn switch(&mut self) -> Result<(), Difference> {
        let on: Vec<Switch> = SwitchKind::ALL
            .into_iter()
            .flat_map(|kind| self.switches.values(kind).into_iter().map(move |value| Switch { kind, value }))
            .collect();
        let mut turn = |switch: &Switch, turned| {
            self.memory.turn_switch(switch.clone(), turned);
            self.switches.set(switch.clone(), turned);
        };
        let act = if on.is_empty() {
            let actor = ACTOR.0.to_string();
            let (kind, value) = one_of(
                &mut self.chance,
                &[
                    (SwitchKind::Global, "all"),
                    (SwitchKind::Gateway, "sandbox"),
                    (SwitchKind::Gateway, "other"),
                    (SwitchKind::Actor, actor.as_str()),
                    (SwitchKind::Currency, "EUR"),
                    (SwitchKind::Currency, "JPY"),
                ],
            );
            let switch = Switch { kind, value: value.to_owned() };
            turn(&switch, Turned::Off);
            format!(
                "INSERT INTO kill_switches VALUES ('{}', '{value}', 'key:test', 'chance', now())",
                kind.as_str()
            )
        } else {
            on.iter().for_each(|switch| turn(switch, Turned::On));
            "DELETE FROM kill_switches".to_owned()
        };
        self.tell(format!("switches: {act}"));
        let turned = sqlx::query(sqlx::AssertSqlSafe(act)).execute(&mut self.stores.sql).await;
        turned.map(drop).map_err(|error| error.to_string())
    }

    /// Rule R17, and its end.
    pub async fn quarantine(&mut self) -> Result<(), Difference> {
        self.quarantined = !self.quarantined;
        self.tell(format!("quarantined: {}", self.quarantined));
        if self.quarantined {
            let why = "commits were lost".to_owned();
            let loss = Loss { kind: LossKind::Notice, why, payment: None, seen_at: None };
            expected("quarantine", self.stores.worker.commits_lost(&loss).await)?;
            self.memory.set_lineage(Lineage::Quarantined);
        } else {
            let release = sqlx::query("SELECT release_lineage()").execute(&mut self.stores.sql).await;
            release.map_err(|error| error.to_string())?;
            self.memory.set_lineage(Lineage::Released);
        }
        Ok(())
    }
}

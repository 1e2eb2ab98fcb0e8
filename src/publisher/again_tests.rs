//! Replays and rebuilds, on a history and a topic in memory.

use super::*;
use crate::domain::event_type::EventType;
use crate::domain::ids::{ActorId, GatewayName};
use crate::domain::lease::Mono;
use crate::domain::money::{Currency, Minor, Money};
use crate::platform::clock::{Clock, SharedClock};
use crate::schedule::{ReplayBatch, ReplayBound, ReplayPlace, ReplaySpan, Snapshot};
use futures_util::future::BoxFuture;

impl Past for Memory {
    async fn bound(&self) -> Result<Option<ReplayBound>, ScheduleError> {
        let cursor = self.0.lock().unwrap().cursor;
        let end = HistoryPlace { xid: cursor as u64, seq: 0, payment: Uuid::nil() };
        Ok((cursor > 0).then(|| ReplayBound { system: "7".into(), end, database_now: at() }))
    }

    /// Its places are indexes; it answers what lies between the place and the bound.
    async fn page(
        &self,
        span: &ReplaySpan,
        bound: &ReplayBound,
        after: HistoryPlace,
        limit: u32,
    ) -> Result<ReplayBatch, ScheduleError> {
        let inner = self.0.lock().unwrap();
        let (from, to) = (after.xid as usize, bound.end.xid as usize);
        let left = inner.rows[..to].iter().enumerate().skip(from);
        let wanted = left.filter(|(_, row)| span.payment.is_none_or(|only| only == row.row.payment));
        let found: Vec<_> = wanted.take(limit as usize).map(|(n, row)| (n + 1, row.clone())).collect();
        let end = found.last().map_or(after, |(n, _)| HistoryPlace {
            xid: *n as u64,
            seq: 0,
            payment: Uuid::nil(),
        });
        let is_full = found.len() == limit as usize;
        Ok(ReplayBatch { rows: found.into_iter().map(|(_, row)| row).collect(), end, is_full })
    }
}

/// Time that passes only by sleeping, and what was slept.
#[derive(Default)]
struct Slept(Mutex<Duration>);

impl Clock for Slept {
    fn wall(&self) -> DateTime<Utc> {
        at()
    }

    fn mono(&self) -> Mono {
        Mono(*self.0.lock().unwrap())
    }

    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        *self.0.lock().unwrap() += length;
        Box::pin(std::future::ready(()))
    }
}

fn again(clock: &SharedClock, rate: u32, after: Option<ReplayPlace>) -> Replay {
    Replay {
        span: ReplaySpan { from: None, to: None, payment: None },
        after,
        told: Told::Everything,
        rate,
        batch: 4,
        form: form(),
        clock: clock.clone(),
    }
}

fn hurried() -> (Arc<Slept>, SharedClock) {
    let slept = Arc::new(Slept::default());
    (slept.clone(), slept)
}

/// The first five of six rows are published; the last of payment 1 parks it.
fn published() -> Memory {
    let memory = story();
    {
        let mut inner = memory.0.lock().unwrap();
        inner.cursor = 5;
        let parked = &mut inner.rows[4];
        parked.row.from = Some(Status::Processing);
        parked.row.event = Event::Moved(Cause::Settled);
        parked.row.to = Status::Parked;
        parked.payment = Some(Snapshot {
            actor: ActorId(Uuid::nil()),
            gateway: GatewayName("sandbox".into()),
            amount: Money { minor: Minor::new(1).unwrap(), currency: Currency::from_code("EUR").unwrap() },
            due_at: at(),
            execute_before: None,
            traceparent: None,
        });
    }
    memory
}

#[tokio::test]
async fn a_replay_repeats_what_was_published_in_order_and_leaves_the_rest_to_the_leader() {
    let (memory, kept) = (published(), Kept::default());
    let (_, clock) = hurried();
    let (_stays, shutdown) = Shutdown::manual();
    let done = replay(&again(&clock, 1_000, None), &memory, Some(&kept), &shutdown, |_, _| {}).await.unwrap();
    let mut wanted = ids(&[(1, 1), (2, 1), (3, 1), (1, 2), (1, 3)]);
    wanted.push(format!("announced {}", payment(1)));
    assert_eq!(kept.batches.lock().unwrap().concat(), wanted);
    assert_eq!((done.again.rows, done.again.announcements, done.stopped_at), (5, 1, None));
    assert_eq!(done.again.events[&EventType::Scheduled], 3);
    assert_eq!(memory.0.lock().unwrap().cursor, 5, "no cursor moves");
}

#[tokio::test]
async fn a_dry_run_counts_the_same_and_publishes_nothing() {
    let memory = published();
    let (slept, clock) = hurried();
    let (_stays, shutdown) = Shutdown::manual();
    let all = again(&clock, 2, None);
    let done = replay(&all, &memory, None::<&Kept>, &shutdown, |_, _| {}).await.unwrap();
    assert_eq!((done.again.rows, done.again.announcements), (5, 1));
    assert_eq!(*slept.0.lock().unwrap(), Duration::ZERO, "who sends nothing need not wait");
    let one = Replay {
        span: ReplaySpan { payment: Some(payment(1)), ..all.span.clone() },
        ..again(&clock, 2, None)
    };
    let done = replay(&one, &memory, None::<&Kept>, &shutdown, |_, _| {}).await.unwrap();
    assert_eq!(done.again.rows, 3);
}

#[tokio::test]
async fn a_replay_keeps_to_its_rate_and_goes_on_from_where_it_was_stopped() {
    let (memory, kept) = (published(), Kept::default());
    let (slept, clock) = hurried();
    let (trigger, shutdown) = Shutdown::manual();
    // Two a second: stopped after the first two.
    let done = replay(&again(&clock, 2, None), &memory, Some(&kept), &shutdown, |_, _| trigger.stop())
        .await
        .unwrap();
    let at = done.stopped_at.expect("a place to go on from");
    assert_eq!((done.again.rows, at.to_string().starts_with("7/2/0/")), (2, true));
    let (_stays, shutdown) = Shutdown::manual();
    *slept.0.lock().unwrap() = Duration::ZERO;
    let done = replay(&again(&clock, 2, Some(at)), &memory, Some(&kept), &shutdown, |_, _| {}).await.unwrap();
    assert_eq!((done.again.rows, done.stopped_at), (3, None));
    assert_eq!(*slept.0.lock().unwrap(), Duration::from_secs(1), "the second's worth that was sent, no more");
    let mut wanted = ids(&[(1, 1), (2, 1), (1, 2), (3, 1), (1, 3)]);
    wanted.push(format!("announced {}", payment(1)));
    assert_eq!(kept.batches.lock().unwrap().concat(), wanted, "nothing twice, nothing left out");
}

#[tokio::test]
async fn a_replay_tries_a_refused_batch_again_and_then_says_where_it_stands() {
    let (memory, kept) = (published(), Kept { refused: vec![0], ..Kept::default() });
    let (_, clock) = hurried();
    let (_stays, shutdown) = Shutdown::manual();
    let done = replay(&again(&clock, 1_000, None), &memory, Some(&kept), &shutdown, |_, _| {}).await.unwrap();
    assert_eq!(done.again.rows, 5, "the second try got through");
    let kept = Kept { refused: (0..100).collect(), ..Kept::default() };
    let failed =
        replay(&again(&clock, 1_000, None), &memory, Some(&kept), &shutdown, |_, _| {}).await.unwrap_err();
    assert!(matches!(failed, ReplayFailed::NotAcknowledged { .. }), "{failed}");
    assert_eq!(failed.at().unwrap().place, HistoryPlace::BEGINNING);
    assert_eq!(kept.batches.lock().unwrap().len(), 5);
}

#[tokio::test]
async fn a_place_of_another_server_and_a_history_that_never_went_out_are_refused() {
    let (_, clock) = hurried();
    let (_stays, shutdown) = Shutdown::manual();
    let elsewhere = ReplayPlace { system: "8".into(), place: HistoryPlace::BEGINNING };
    let kept = Kept::default();
    let asked = again(&clock, 1, Some(elsewhere));
    let failed = replay(&asked, &published(), Some(&kept), &shutdown, |_, _| {}).await.unwrap_err();
    assert!(matches!(failed, ReplayFailed::Elsewhere(_)), "{failed}");
    let failed =
        replay(&again(&clock, 1, None), &story(), Some(&kept), &shutdown, |_, _| {}).await.unwrap_err();
    assert!(matches!(failed, ReplayFailed::NothingYet), "{failed}");
    assert!(kept.batches.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_rebuild_publishes_to_the_end_as_the_leader_whatever_fails_on_the_way() {
    let (memory, kept) = (story(), Kept { refused: vec![1, 2], ..Kept::default() });
    let lease = lead(&memory).await;
    let (_, clock) = hurried();
    let (_stays, shutdown) = Shutdown::manual();
    let length = Duration::from_secs(120);
    let (lease, form) = (&lease, &form());
    let how = CatchUp { lease, length, announce_from: at(), batch: 2, rate: 1_000, form, clock: &clock };
    let mut told = Vec::new();
    let ended = catch_up(&how, &memory, &kept, &shutdown, |out| told.push(out)).await.unwrap();
    assert_eq!((ended, told), (Rebuilt::All, vec![2, 4, 6, 6]));
    assert_eq!(memory.0.lock().unwrap().cursor, 6);
}

#[tokio::test]
async fn a_rebuild_announces_what_is_parked_while_it_runs_and_not_what_was_parked_before() {
    for (announce_from, announced) in [(at(), 0), (at() - TimeDelta::minutes(1), 1)] {
        let (memory, kept) = (published(), Kept::default());
        memory.0.lock().unwrap().cursor = 0;
        let lease = lead(&memory).await;
        let (_, clock) = hurried();
        let (_stays, shutdown) = Shutdown::manual();
        let length = Duration::from_secs(120);
        let (lease, form) = (&lease, &form());
        let how = CatchUp { lease, length, announce_from, batch: 9, rate: 1_000, form, clock: &clock };
        catch_up(&how, &memory, &kept, &shutdown, |_| {}).await.unwrap();
        let all = kept.batches.lock().unwrap().concat();
        let found = all.iter().filter(|one| one.starts_with("announced")).count();
        assert_eq!((all.len() - found, found), (6, announced));
    }
}

#[tokio::test]
async fn a_rebuild_that_lost_the_lane_ends_and_moves_nothing() {
    let memory = story();
    let lease = lead(&memory).await;
    memory.0.lock().unwrap().held = false;
    lead(&memory).await;
    let (_, clock) = hurried();
    let (_stays, shutdown) = Shutdown::manual();
    let length = Duration::from_secs(120);
    let (lease, form) = (&lease, &form());
    let how = CatchUp { lease, length, announce_from: at(), batch: 2, rate: 1_000, form, clock: &clock };
    let failed = catch_up(&how, &memory, &Kept::default(), &shutdown, |_| {}).await.unwrap_err();
    assert!(matches!(failed, PassFailed::LeadLost), "{failed}");
    assert_eq!(memory.0.lock().unwrap().cursor, 0);
}

//! Places for batches: how many are read at once, in all and of one client.
//!
//! **Promises.** A batch has a place before its body is read and keeps it until it is answered, so that the places
//! bound what bodies cost. One client has at most [`EACH`] of them, whatever it sends and however slowly, and the
//! others find room. Past that its batches wait with their bodies in their own sockets, in their order; one past
//! [`MOST_ASKING`] is 429.

use super::problem::{Code, Problem};
use super::quota;
use crate::domain::ids::ActorId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Batches that one process reads at once.
const AT_ONCE: usize = 6;
/// Of them one client's.
const EACH: usize = 4;
/// One client's batches that are read or wait: as many as an import sends at once, at most.
const MOST_ASKING: usize = 64;

/// Places, and who asks for them.
#[derive(Debug)]
pub(super) struct Places {
    all: Semaphore,
    actors: Mutex<HashMap<ActorId, Asking>>,
}

#[derive(Debug)]
struct Asking {
    own: Arc<Semaphore>,
    count: usize,
}

/// A place, free again with the value; by its fields in their order, so that the client is forgotten last.
pub(super) struct Place<'a> {
    _all: SemaphorePermit<'a>,
    _own: OwnedSemaphorePermit,
    _turn: Turn<'a>,
}

/// One batch of a client that is read or waits.
struct Turn<'a> {
    places: &'a Places,
    actor: ActorId,
}

impl Default for Places {
    fn default() -> Self {
        Self { all: Semaphore::new(AT_ONCE), actors: Mutex::default() }
    }
}

impl Places {
    /// A place for a batch of this client, once there is one.
    ///
    /// # Errors
    /// 429 where too many of its batches are here.
    pub(super) async fn take(&self, actor: ActorId) -> Result<Place<'_>, Problem> {
        let (turn, own) = self.turn(actor)?;
        // Neither is ever closed; if it were, nothing would be bounded.
        let closed = |_| Problem::new(Code::Internal);
        let own = own.acquire_owned().await.map_err(closed)?;
        let all = self.all.acquire().await.map_err(closed)?;
        Ok(Place { _all: all, _own: own, _turn: turn })
    }

    fn turn(&self, actor: ActorId) -> Result<(Turn<'_>, Arc<Semaphore>), Problem> {
        let mut actors = self.actors();
        let fresh = || Asking { own: Arc::new(Semaphore::new(EACH)), count: 0 };
        let asking = actors.entry(actor).or_insert_with(fresh);
        if asking.count >= MOST_ASKING {
            let why = "So many batches of this API client are being read, or wait for it. Nothing was done.";
            return Err(quota::too_many("batches", Duration::from_secs(1)).detail(why));
        }
        asking.count += 1;
        Ok((Turn { places: self, actor }, Arc::clone(&asking.own)))
    }

    fn actors(&self) -> MutexGuard<'_, HashMap<ActorId, Asking>> {
        // A panic while the lock was held leaves a map that is still whole.
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut actors = self.places.actors();
        let Some(asking) = actors.get_mut(&self.actor) else { return };
        asking.count -= 1;
        if asking.count == 0 {
            actors.remove(&self.actor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use uuid::Uuid;

    fn actor(number: u128) -> ActorId {
        ActorId(Uuid::from_u128(number))
    }

    #[tokio::test]
    async fn one_client_leaves_places_to_others_and_is_refused_only_past_what_may_wait() {
        let places = Places::default();
        let mut held = Vec::new();
        for _ in 0..EACH {
            held.push(places.take(actor(1)).now_or_never().and_then(Result::ok).expect("a place"));
        }
        let mut waiting: Vec<_> = (EACH..MOST_ASKING).map(|_| Box::pin(places.take(actor(1)))).collect();
        assert!(waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        let refused = places.take(actor(1)).await.err().expect("refused");
        assert_eq!((refused.code, refused.retry_after_s), (Code::RateLimited, Some(1)));
        let other = places.take(actor(2)).now_or_never().and_then(Result::ok);
        assert!(other.is_some(), "another client finds room");
        // What ends makes room for the first that waits, and for one more to wait.
        held.pop();
        held.push(waiting[0].as_mut().now_or_never().and_then(Result::ok).expect("the next"));
        assert!(waiting[1].as_mut().now_or_never().is_none());
        assert!(places.take(actor(1)).now_or_never().is_none(), "it waits, and is not refused");
        drop((held, waiting, other));
        assert!(places.actors().is_empty(), "nobody is remembered who has nothing here");
    }
}

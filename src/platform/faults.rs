//! Seeded bugs: one rule of the product left out, by name, while it runs, and only in tests.
//!
//! **Why**: a suite that finds nothing is good or blind, and nobody can tell which. So each bug here is
//! put into the product's own path, at the place where its rule is applied, and the suite must find it
//! by name. A hook is one question, [`sabotaged`], beside the rule that it leaves out.
//!
//! **Promises.** Without the feature `faults` the question is a constant `false`, which the compiler
//! removes with everything behind it: the binary that is released holds neither hooks nor names (a test
//! searches it for them). With it, a bug is seeded for one thread by `seeded`, because a simulated world
//! is one thread's alone, or for a whole process by the variable `PUNCTUAL_SEEDED_BUG=name`; never by
//! accident, since a name that nobody knows ends the process.

macro_rules! bugs {
    ($( $id:ident = $name:literal, $statement:literal; )*) => {
        /// A rule that can be left out.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Sabotage { $( #[doc = $statement] $id, )* }

        impl Sabotage {
            /// Every seeded bug, in the order of the table.
            pub const ALL: &[Self] = &[ $( Self::$id, )* ];

            /// As tests and `PUNCTUAL_SEEDED_BUG` name it.
            #[cfg(feature = "faults")]
            #[must_use]
            pub fn name(self) -> &'static str { match self { $( Self::$id => $name, )* } }
        }
    };
}

bugs! {
    NoFence = "no-fence", "A settle is written whoever holds the payment (against R2).";
    OffsetAtPoll = "offset-at-poll", "Offsets count as complete as soon as a record was read (against R11).";
    CancelFromUnknown = "cancel-from-unknown", "A cancel is granted while the outcome is unknown.";
    LeaseToPending = "lease-to-pending", "An expired lease makes the payment PENDING and clean.";
    KeyPerAttempt = "key-per-attempt", "Each attempt has a gateway key of its own (against R4).";
    EpochAfterUnknown = "epoch-after-unknown", "An unknown outcome opens a new key (against R4).";
    UnknownIsFailed = "unknown-is-failed", "An unknown outcome is called FAILED (against R8).";
    DueByWorkerClock = "due-by-worker-clock", "Only the worker's own clock says what is due (against R9).";
    MarkBeforeAck = "mark-before-ack", "The relay marks a notice before the bus has acknowledged it.";
    CursorWithoutSnapshot = "cursor-without-snapshot", "The publisher passes rows that can still be overtaken.";
    HiddenRetry = "hidden-retry", "The HTTP client repeats a request by itself (against R15).";
    ReaperWithoutCas = "reaper-without-cas", "The reaper writes what it read a moment ago, without looking again.";
    KeyAgeAtClaimOnly = "key-age-at-claim-only", "A key's age is asked at the claim, not before the write (against R6).";
    NotFoundIsProof = "not-found-is-proof", "A look-up that finds nothing proves that nothing was charged (against R7).";
    AgeTakenBack = "age-taken-back", "A claim that sent nothing takes back the age of a key that another one used (against R6).";
    SpentNotice = "spent-notice", "A notice of an earlier claim claims again (against R1).";
    RenewalWithoutFence = "renewal-without-fence", "A lease is renewed for whoever asks (against R14).";
    FalseVoid = "false-void", "A gateway that keeps no tombstones is believed to void.";
    VoidPastKey = "void-past-key", "A void is sent, and believed, however old its key is (against R6).";
    ChargeAfterWish = "charge-after-wish", "A claim that finds a wish to cancel charges as if there were none.";
    WishForgotten = "wish-forgotten", "A wish to cancel waits for the next rung of the ladder.";
    FalseReplay = "false-replay", "A gateway that forgets declines is believed to replay them (against R4, R8).";
    AgelessKey = "ageless-key", "A gateway's keys are believed to live for ever (against R6).";
}

/// Whether this rule is left out here and now.
#[cfg(not(feature = "faults"))]
#[inline(always)]
#[must_use]
pub const fn sabotaged(_bug: Sabotage) -> bool {
    false
}

#[cfg(feature = "faults")]
pub use armed::{Seeded, sabotaged, seeded};

#[cfg(feature = "faults")]
mod armed {
    use super::Sabotage;
    use std::cell::Cell;
    use std::marker::PhantomData;
    use std::sync::OnceLock;

    thread_local! {
        static HERE: Cell<Option<Sabotage>> = const { Cell::new(None) };
    }

    /// Until it is dropped, this thread's product has the bug.
    #[derive(Debug)]
    #[must_use = "the bug is gone when this is dropped"]
    pub struct Seeded {
        before: Option<Sabotage>,
        /// Its thread is the one that must forget.
        stays_here: PhantomData<*const ()>,
    }

    impl Drop for Seeded {
        fn drop(&mut self) {
            HERE.set(self.before);
        }
    }

    /// Seeds a bug, or none, in whatever this thread runs from now on.
    pub fn seeded(bug: Option<Sabotage>) -> Seeded {
        Seeded { before: HERE.replace(bug), stays_here: PhantomData }
    }

    /// Whether this rule is left out here and now.
    #[must_use]
    pub fn sabotaged(bug: Sabotage) -> bool {
        HERE.get().or_else(of_the_process) == Some(bug)
    }

    fn of_the_process() -> Option<Sabotage> {
        static BUG: OnceLock<Option<Sabotage>> = OnceLock::new();
        *BUG.get_or_init(|| {
            let name = std::env::var("PUNCTUAL_SEEDED_BUG").ok()?;
            let bug = Sabotage::ALL.iter().copied().find(|bug| bug.name() == name);
            assert!(bug.is_some(), "PUNCTUAL_SEEDED_BUG={name} is no seeded bug");
            tracing::error!(name, "this process has a bug on purpose");
            bug
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_bug_is_seeded_in_one_thread_until_its_guard_is_dropped() {
            assert!(!sabotaged(Sabotage::NoFence));
            let outer = seeded(Some(Sabotage::NoFence));
            let elsewhere = std::thread::spawn(|| sabotaged(Sabotage::NoFence));
            assert!(sabotaged(Sabotage::NoFence) && !sabotaged(Sabotage::HiddenRetry));
            assert!(!elsewhere.join().unwrap());
            let inner = seeded(None);
            assert!(!sabotaged(Sabotage::NoFence));
            drop(inner);
            assert!(sabotaged(Sabotage::NoFence));
            drop(outer);
            assert!(!sabotaged(Sabotage::NoFence));
        }

        #[test]
        fn names_are_unique() {
            let names: std::collections::BTreeSet<_> = Sabotage::ALL.iter().map(|bug| bug.name()).collect();
            assert_eq!(names.len(), Sabotage::ALL.len());
        }
    }
}

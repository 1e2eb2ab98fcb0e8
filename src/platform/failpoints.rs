//! Places at which a test can freeze this very process: between a claim and its record's offset, where an
//! instant decides what a zombie may still do.
//!
//! **Promises.** With the feature `faults` a process that was told to freezes itself once, exactly at the
//! place it was told, as SIGSTOP from outside never could; without the feature nothing of this exists: no
//! name of a place and no variable is in the binary, which a test searches for them. **Why a stop and not
//! a pause**: a pause leaves the process's other tasks running, its heartbeats and its connections among
//! them, and a zombie is a process of which nothing runs.
//!
//! If this dies here, it dies as anywhere: the claim's lease ends it.

#[cfg(feature = "faults")]
mod armed;

/// A place, in the order in which a claim comes by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The claim's COMMIT was answered; nothing is planned yet.
    AfterClaim,
    /// The plan says that something may be sent; the request is not made yet.
    BeforePrepare,
    /// The request is made; the gate was not asked.
    BeforeGate,
    /// The gate was asked right before the write and said yes; nothing is written yet.
    GatePassed,
    /// The request has been on its way for 300 ms; a gateway that takes longer has not answered.
    AfterSend,
    /// The answer is read; nothing is decided.
    AfterAnswer,
    /// The outcome is decided; the database was not asked to write it.
    BeforeSettle,
    /// The outcome is written in a transaction that is still open.
    MidSettle,
    /// The outcome's COMMIT was answered.
    AfterSettle,
    /// The record is about to be complete.
    BeforeOffset,
}

/// This place is reached. Returns at once unless this process was told to freeze here.
#[inline]
pub fn reach(point: Point) {
    #[cfg(feature = "faults")]
    armed::reach(point);
    #[cfg(not(feature = "faults"))]
    let _nowhere = point;
}

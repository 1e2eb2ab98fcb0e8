//! Punctual pays on time, once.
//!
//! A client says "pay this, then"; Punctual makes exactly one charge at or after that moment, through
//! crashes, retries, duplicate deliveries, clock errors and outages, and can prove it.
//!
//! # The life of one payment
//!
//! The modules stand in the order in which a payment meets them.
//!
//! 1. [`intake`] checks the request and hands it to the schedule. One transaction writes the payment,
//!    its idempotency key, its first history row and its first due notice. Only then is `201` said.
//! 2. [`schedule`] is the truth: the only folder with SQL. One verb is one transaction.
//! 3. [`relay`] reads the due notices of the next minutes, in due order, and publishes them. If it dies
//!    between publishing and marking, notices go out twice; claims refuse the second.
//! 4. [`bucket`] is the Kafka edge: a fixed ring of 60 minute topics, and one for what is already due.
//!    A notice is a hint. Losing all of them loses no payment, because of the late scan.
//! 5. [`worker`] holds a notice until it is due, gets a permit of the gateway, and *claims*: one
//!    conditional update that raises the fence and grants a lease. Then it charges, or asks about an
//!    earlier charge, decides, and *settles* under that fence. Only then is the offset complete.
//! 6. [`gateway`] moves the money: at most one money-moving request for each claim, its bytes frozen,
//!    under a key made of payment and epoch.
//! 7. [`outcome`] says what an answer means for the payment: pure, exhaustive.
//! 8. [`keeper`] watches: an expired lease becomes UNKNOWN, a missed deadline FAILED, partitions are
//!    made ahead.
//! 9. [`publisher`] turns each history row into an event of `payments.events`, in order per payment.
//!
//! Beside the flow: [`domain`] holds the rules (no I/O, no clock), [`platform`] what everything stands
//! on, [`sandbox`] a simulated gateway with its own ledger, [`dev`] everything on one machine,
//! [`roles`] the only place that puts parts together, [`cli`] the command line.
//!
//! # Why a charge happens at most once
//!
//! - **No call without a committed claim**, and one claim at a time: the claim is a compare-and-swap.
//! - **The fence protects our row.** A worker that wakes after its lease cannot write its answer to a
//!   payment that somebody else claimed; the answer is kept as evidence.
//! - **The gateway's key protects the money.** All sends of one epoch carry the same key and the same
//!   bytes, so they collapse into one charge. The epoch grows only with a proven non-charge.
//! - **Unknown is a state.** What may have been charged is asked for; it is never retried under a new
//!   key, never called failed, and cannot be cancelled as if nothing had happened.
//! - **The order is held by types.** [`schedule::Claimed`] is made only by a claim and taken by value
//!   by the charge; [`schedule::Answered`] is taken by value by the settle; an offset takes
//!   [`schedule::Settled`] or [`schedule::Refused`]. Another order does not compile.
//!
//! Other invariants that every part keeps: nothing is charged before its due instant, by the
//! database's clock *and* the worker's; the history of a payment is append-only and chained by hash;
//! a final state moves only by a refund or by a repair with the gateway's own record.
//!
//! # Words
//!
//! One word, one meaning, everywhere.
//!
//! | word | meaning |
//! |---|---|
//! | payment | a scheduled instruction |
//! | actor | the authenticated API client that owns it |
//! | due | the instant before which nothing may be charged |
//! | bucket | the minute topic that carries its notice |
//! | notice | the Kafka record: go and look at this payment |
//! | claim | the conditional update that gives one worker the right to call the gateway |
//! | fence | the number that grows with every claim of that payment |
//! | lease | how long the claim holds, judged by the database clock |
//! | attempt | one claim and what came of it |
//! | epoch | the part of the gateway key that changes only after a proven non-charge |
//! | verdict | what the gateway's answer means |
//! | decision | what we do next |
//! | settle | to write the decision under the fence |
//! | park | to hold for a human |
//! | re-drive | an authorised release from parking |

pub mod domain;
pub mod intake;
pub mod schedule;
pub mod relay;
pub mod bucket;
pub mod worker;
pub mod gateway;
pub mod outcome;
pub mod keeper;
pub mod publisher;

pub mod sandbox;
pub mod dev;
pub mod platform;
pub mod roles;
pub mod client;
pub mod cli;

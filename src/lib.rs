//! Punctual pays on time, once.
//!
//! A client says "pay this, then"; Punctual makes exactly one charge at or after that moment, through
//! crashes, retries, duplicate deliveries, clock errors and outages, and can prove it.
//!
//! # The life of one payment
//!
//! The modules stand in the order in which a payment meets them. In brackets: where to look.
//!
//! 1. [`intake`] turns a request into a [`schedule::NewPayment`], whose id is made from due time, actor
//!    and idempotency key (`intake/create.rs`, `domain/intent.rs`). [`schedule::Postgres::create`] writes
//!    payment, key, first history row and first due notice in one transaction (`schedule/create.rs`,
//!    `schedule/sql/create.sql`). Only then is `201` said.
//! 2. [`schedule`] is the truth: the only folder with SQL. One verb is one transaction, and the verbs
//!    that the flow uses are the trait [`schedule::Schedule`] (`schedule/port.rs`).
//! 3. [`relay`] *stages* the notices of the next minutes in due order, publishes each as a
//!    [`bucket::Envelope`], and *marks* what Kafka acknowledged ([`relay::step`]). If it dies between
//!    the last two, notices go out twice; claims refuse the second.
//! 4. [`bucket`] is the Kafka edge: a fixed ring of 60 minute topics, and one for what is already due.
//!    [`bucket::Ring`] hands out each record with its [`bucket::Position`]; what it carries is a
//!    [`domain::notice::Notice`], a hint. Losing all of them loses no payment, because of the late scan.
//! 5. [`worker`] keeps the notice in [`worker::hold::Hold`] until it is due and a slot of its gateway is
//!    free, and gives it to [`worker::Step::present`] (`worker/step.rs`: one screen, the whole story).
//!    The step *claims*: one conditional update that raises the fence and grants a lease
//!    (`schedule/sql/claim.sql`). It answers [`schedule::ClaimAnswer`]: `Claimed`, `Early` (wait and
//!    present it again) or `Refused` (nothing is left to do).
//! 6. [`outcome::plan()`] says what may be asked of the gateway, and [`gateway::Gateway::charge`] sends it:
//!    at most one money-moving request for each [`schedule::Claimed`], the bytes frozen in a
//!    [`gateway::FrozenRequest`], under a key made of payment and epoch. The
//!    [`domain::lease::SendGate`] is asked a last time when the first byte is wanted
//!    (`gateway/gated_body.rs`). What came back is a [`domain::verdict::Verdict`], inside a
//!    [`schedule::Answered`].
//! 7. [`outcome::decide()`] turns the verdict into a [`domain::decision::Decision`]: pure, exhaustive.
//! 8. The step *settles*: the decision is written under the claim's fence, with history, attempt and,
//!    if it must go on, the next notice (`schedule/sql/settle.sql`). The [`schedule::Settled`] that
//!    comes back completes the record's offset ([`bucket::Offsets::complete`]), and nothing else does.
//! 9. [`keeper`] watches: an expired lease becomes UNKNOWN and is asked about, a missed deadline
//!    FAILED, partitions are made ahead.
//! 10. [`publisher`] turns each history row into an event of `payments.events`, in order per payment, and sends it to
//!     the endpoints that its client named ([`publisher::webhooks`]).
//! 11. [`operations`] is for people: what is parked and what may be done about it, with a second person
//!     where one is not enough. An act moves one row by its own guard (`domain/parked.rs`), as everything does.
//!     [`dashboard`] shows the same to people in a browser, and acts through the same routes.
//! 12. [`reconcile`] reads what gateways and banks say they moved (`reconcile/read`) as
//!     [`domain::settlement::Line`]s, which the schedule holds against the history.
//!
//! Who may use whom is a table in `tests/lab/tidy/imports.rs`. Two edges may surprise: [`bucket`] and
//! [`gateway`] use [`schedule`], because offsets and charges take its proofs by value.
//!
//! Beside the flow: [`domain`] holds the rules (no I/O, no clock), [`platform`] what everything stands
//! on, [`doctor`] looks for what is wrong with an installation, [`story`] tells one payment's life in sentences, [`audit`] asks the promises of what was written down, [`sandbox`] a simulated gateway with its own ledger, [`dev`] everything on one machine,
//! [`roles`] the only place that puts parts together, [`client`] a client of our own API, [`cli`] the
//! command line.
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
//! Comments cite these and their like as rules R1 to R18; the README lists them ("The rules").
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
//!
//! # What does not compile
//!
//! Each pair differs in one line. A charge takes a claim, not a payment:
//!
//! ```compile_fail,E0308
//! use punctual::{domain::lease::SendGate, gateway::{FrozenRequest, Gateway}, schedule::Claimed};
//! async fn pay(gateway: &dyn Gateway, claimed: Claimed, request: FrozenRequest, gate: SendGate) {
//!     let paid = claimed.payment().clone();
//!     gateway.charge(paid, request, gate).await;
//! }
//! ```
//! ```
//! use punctual::{domain::lease::SendGate, gateway::{FrozenRequest, Gateway}, schedule::Claimed};
//! async fn pay(gateway: &dyn Gateway, claimed: Claimed, request: FrozenRequest, gate: SendGate) {
//!     let paid = claimed;
//!     gateway.charge(paid, request, gate).await;
//! }
//! ```
//!
//! A claim is made by `schedule` only; everybody else can give it away:
//!
//! ```compile_fail,E0624
//! use punctual::schedule::Claimed;
//! fn forge() {
//!     let _made = Claimed::new;
//! }
//! ```
//! ```
//! use punctual::schedule::Claimed;
//! fn forge() {
//!     let _made = Claimed::answered;
//! }
//! ```
//!
//! A second charge under one claim is a use of what is gone:
//!
//! ```compile_fail,E0382
//! use punctual::{domain::lease::SendGate, gateway::{FrozenRequest, Gateway}, schedule::Claimed};
//! async fn twice(to: &dyn Gateway, one: Claimed, two: Claimed, request: FrozenRequest, gate: SendGate) {
//!     to.charge(one, request.clone(), gate.clone()).await;
//!     to.charge(one, request, gate).await;
//! }
//! ```
//! ```
//! use punctual::{domain::lease::SendGate, gateway::{FrozenRequest, Gateway}, schedule::Claimed};
//! async fn twice(to: &dyn Gateway, one: Claimed, two: Claimed, request: FrozenRequest, gate: SendGate) {
//!     to.charge(one, request.clone(), gate.clone()).await;
//!     to.charge(two, request, gate).await;
//! }
//! ```
//!
//! And no claim can be copied to get around that (the terms of a claim can):
//!
//! ```compile_fail,E0277
//! use punctual::schedule::{ClaimTerms, Claimed};
//! fn copied<T: Clone>() {}
//! copied::<Claimed>();
//! ```
//! ```
//! use punctual::schedule::{ClaimTerms, Claimed};
//! fn copied<T: Clone>() {}
//! copied::<ClaimTerms>();
//! ```
//!
//! Only what was answered can be settled:
//!
//! ```compile_fail,E0308
//! use punctual::{domain::decision::Decision, schedule::{Answered, Claimed, Schedule}};
//! async fn write(schedule: &impl Schedule, claimed: Claimed, answered: Answered, decision: Decision) {
//!     let _settled = schedule.settle(vec![(claimed, decision)]).await;
//! }
//! ```
//! ```
//! use punctual::{domain::decision::Decision, schedule::{Answered, Claimed, Schedule}};
//! async fn write(schedule: &impl Schedule, claimed: Claimed, answered: Answered, decision: Decision) {
//!     let _settled = schedule.settle(vec![(answered, decision)]).await;
//! }
//! ```
//!
//! And an offset is complete only after the outcome row, never right after the claim:
//!
//! ```compile_fail,E0277
//! use punctual::{bucket::{Offsets, Position}, schedule::{Claimed, Settled}};
//! fn commit(offsets: &mut Offsets, at: Position, claimed: Claimed, settled: Settled) {
//!     offsets.complete(at, claimed);
//! }
//! ```
//! ```
//! use punctual::{bucket::{Offsets, Position}, schedule::{Claimed, Settled}};
//! fn commit(offsets: &mut Offsets, at: Position, claimed: Claimed, settled: Settled) {
//!     offsets.complete(at, settled);
//! }
//! ```
//!
//! (`bucket/offsets.rs` holds the rest: no proof completes two records, and nobody else makes one.)

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
pub mod operations;
pub mod dashboard;
pub mod reconcile;
pub mod doctor;
pub mod story;

pub mod audit;
pub mod sandbox;
#[cfg(any(test, feature = "simulation"))]
#[allow(missing_docs, clippy::unwrap_used, clippy::float_arithmetic)]
pub mod simulation;
pub mod dev;
pub mod platform;
pub mod roles;
pub mod client;
pub mod cli;

//! The commands of people, as processes: what they send, print, say, and end with.

mod acts;
mod contract;
mod examples;
mod import;
mod operators;
mod payments;
mod reconcile;
mod stories;
mod top;
mod webhooks;

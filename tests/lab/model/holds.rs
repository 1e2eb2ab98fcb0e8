//! The protocol holds: each personality of a gateway, with and without look-ups, cancels, deadlines,
//! failovers, deployments, pending charges and a network that repeats itself.

use super::holds;
use super::terms::Terms;
use punctual::domain::facts::Declines::{Forgotten, Replayed};
use punctual::domain::facts::LookupSupport::{ByKey, None as NoLookup};
use punctual::domain::payment::OnExhausted;

#[test]
fn one_charge_at_a_gateway_that_forgets_declines_and_cannot_be_asked() {
    holds(Terms { cancels: true, ..Terms::new("forgets+cancel", Forgotten, NoLookup) });
    holds(Terms { deadline: Some(3), ..Terms::new("forgets+deadline", Forgotten, NoLookup) });
}

#[test]
fn one_charge_at_a_gateway_that_forgets_declines_and_can_be_asked() {
    holds(Terms { cancels: true, ..Terms::new("forgets+lookup+cancel", Forgotten, ByKey) });
    holds(Terms { deadline: Some(3), ..Terms::new("forgets+lookup+deadline", Forgotten, ByKey) });
}

#[test]
fn one_charge_at_a_gateway_that_replays_declines_and_cannot_be_asked() {
    holds(Terms { cancels: true, ..Terms::new("replays+cancel", Replayed, NoLookup) });
    holds(Terms { deadline: Some(3), ..Terms::new("replays+deadline", Replayed, NoLookup) });
}

#[test]
fn one_charge_at_a_gateway_that_replays_declines_and_can_be_asked() {
    holds(Terms { cancels: true, ..Terms::new("replays+lookup+cancel", Replayed, ByKey) });
    holds(Terms { deadline: Some(3), ..Terms::new("replays+lookup+deadline", Replayed, ByKey) });
}

#[test]
fn one_charge_when_every_option_is_on() {
    let all = |name, declines, lookup| Terms {
        cancels: true,
        deadline: Some(3),
        exhausted: OnExhausted::Park,
        ..Terms::new(name, declines, lookup)
    };
    holds(all("forgets+cancel+deadline+park", Forgotten, NoLookup));
    holds(all("replays+lookup+cancel+deadline+park", Replayed, ByKey));
}

#[test]
fn one_charge_when_commits_go_unanswered_and_a_failover_loses_nothing() {
    let claims = |name, declines, lookup| Terms {
        unanswered_claims: true,
        claims: 2,
        ..Terms::new(name, declines, lookup)
    };
    holds(claims("forgets+unanswered-claims", Forgotten, NoLookup));
    holds(claims("replays+lookup+unanswered-claims", Replayed, ByKey));
    let settles = |name, declines, lookup| Terms {
        unanswered_settles: true,
        workers: 2,
        ..Terms::new(name, declines, lookup)
    };
    holds(settles("forgets+unanswered-settles", Forgotten, NoLookup));
    holds(Terms { claims: 2, ..settles("replays+lookup+unanswered-settles", Replayed, ByKey) });
    let fails_over = |name, declines, lookup| Terms {
        failover: true,
        cancels: true,
        claims: 2,
        ..Terms::new(name, declines, lookup)
    };
    holds(fails_over("forgets+cancel+failover", Forgotten, NoLookup));
    holds(fails_over("replays+lookup+cancel+failover", Replayed, ByKey));
}

#[test]
fn one_charge_when_a_claim_holds_longer_than_its_key_may_be_sent() {
    holds(Terms { lease: 3, ..Terms::new("forgets+long-lease", Forgotten, NoLookup) });
    holds(Terms { lease: 3, ..Terms::new("replays+lookup+long-lease", Replayed, ByKey) });
}

#[test]
fn one_charge_when_another_renderer_is_deployed_under_an_open_key() {
    holds(Terms { deploys: true, claims: 2, ..Terms::new("forgets+deploy", Forgotten, NoLookup) });
    holds(Terms { deploys: true, claims: 2, ..Terms::new("replays+lookup+deploy", Replayed, ByKey) });
}

#[test]
fn one_charge_when_the_gateway_knows_some_outcomes_later() {
    holds(Terms { pends: true, claims: 2, ..Terms::new("forgets+lookup+pending", Forgotten, ByKey) });
    holds(Terms { pends: true, claims: 2, ..Terms::new("replays+pending", Replayed, NoLookup) });
}

#[test]
fn one_charge_when_the_network_repeats_requests_and_the_gateway_remembers_every_answer() {
    let repeats = |name, lookup| Terms {
        duplicates: true,
        limits: false,
        claims: 2,
        ..Terms::new(name, Replayed, lookup)
    };
    holds(repeats("replays+duplicates", NoLookup));
    holds(repeats("replays+lookup+duplicates", ByKey));
}

#[test]
fn every_payment_comes_to_its_end_once_faults_end() {
    let heals = |name, declines, lookup| Terms {
        heals: true,
        cancels: true,
        deadline: Some(3),
        claims: 2,
        ..Terms::new(name, declines, lookup)
    };
    holds(heals("forgets+cancel+deadline+heal", Forgotten, NoLookup));
    holds(heals("forgets+lookup+cancel+deadline+heal", Forgotten, ByKey));
    holds(heals("replays+cancel+deadline+heal", Replayed, NoLookup));
    holds(heals("replays+lookup+cancel+deadline+heal", Replayed, ByKey));
}

#[test]
fn one_charge_and_no_cancelled_one_at_a_gateway_whose_void_is_a_tombstone() {
    let voids = |name, declines, lookup| Terms {
        voids: true,
        cancels: true,
        claims: 2,
        workers: 2,
        ..Terms::new(name, declines, lookup)
    };
    holds(Terms { claims: 3, ..voids("forgets+void", Forgotten, NoLookup) });
    holds(voids("replays+lookup+void", Replayed, ByKey));
    holds(Terms { deadline: Some(3), ..voids("forgets+lookup+void+deadline", Forgotten, ByKey) });
    holds(Terms { duplicates: true, limits: false, ..voids("replays+void+duplicates", Replayed, NoLookup) });
    holds(Terms { lease: 3, claims: 3, ..voids("forgets+void+long-lease", Forgotten, NoLookup) });
    holds(Terms { heals: true, horizon: 3, ..voids("forgets+lookup+void+heal", Forgotten, ByKey) });
}

#[test]
fn one_charge_when_a_person_releases_what_is_parked() {
    let released = |name, declines, lookup| Terms {
        redrives: 1,
        workers: 2,
        claims: 4,
        exhausted: OnExhausted::Park,
        ..Terms::new(name, declines, lookup)
    };
    holds(released("forgets+redrive", Forgotten, NoLookup));
    holds(released("forgets+lookup+redrive", Forgotten, ByKey));
    holds(released("replays+lookup+redrive", Replayed, ByKey));
    holds(Terms { deadline: Some(3), ..released("forgets+lookup+redrive+deadline", Forgotten, ByKey) });
    holds(Terms {
        voids: true,
        cancels: true,
        claims: 3,
        ..released("forgets+void+redrive", Forgotten, NoLookup)
    });
}

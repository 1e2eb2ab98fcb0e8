//! Asking, at once: under one key and under several, and who allows it.

use super::{CHARGE, People};
use crate::money::told::Told;
use crate::support::installation::Installation;
use crate::support::people::{Console, Said, shown};
use crate::support::records::look;
use futures_util::StreamExt;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Payments of most rows.
const OF_EACH: usize = 100;
/// Payments about which requests are under way at once.
const SIDE_BY_SIDE: usize = 8;

/// What is done about the refunds of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Asked for twice at once under one key.
    OneKey,
    /// By two people at once under keys of their own, three fifths each.
    TwoKeys,
    /// Four times at once under as many keys, two fifths each.
    FourKeys,
    /// The gateway declines.
    Declined,
    /// It gives back and does not answer.
    TimedOut,
    /// It gives back and resets the connection.
    Reset,
    /// It loses the first request.
    Lost,
    /// The worker is killed with the answer in hand.
    Killed,
}

impl Way {
    pub(super) const ALL: [Self; 8] = [
        Self::OneKey,
        Self::TwoKeys,
        Self::FourKeys,
        Self::Declined,
        Self::TimedOut,
        Self::Reset,
        Self::Lost,
        Self::Killed,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OneKey => "twice at once under one key",
            Self::TwoKeys => "two people at once, 60 % each",
            Self::FourKeys => "four times at once, 40 % each",
            Self::Declined => "the gateway declines",
            Self::TimedOut => "given back and not answered",
            Self::Reset => "given back, connection reset",
            Self::Lost => "the first request is lost",
            Self::Killed => "killed with the answer in hand",
        }
    }

    pub(super) fn payee(self) -> &'static str {
        match self {
            Self::OneKey | Self::TwoKeys | Self::FourKeys | Self::Killed => "sim_ok",
            Self::Declined => "sim_refund_declined",
            Self::TimedOut => "sim_refund_timeout",
            Self::Reset => "sim_refund_reset",
            Self::Lost => "sim_refund_lost",
        }
    }

    fn payments(self) -> usize {
        match self {
            Self::OneKey | Self::TwoKeys | Self::Declined | Self::TimedOut => OF_EACH,
            // Two refunds of each are granted.
            Self::FourKeys => OF_EACH / 2,
            Self::Reset | Self::Lost => OF_EACH / 2,
            Self::Killed => super::killed::REFUNDS,
        }
    }

    /// The way of each payment, mixed.
    pub(super) fn in_turns() -> Vec<Self> {
        let most = Self::ALL.into_iter().map(Self::payments).max().unwrap_or(0);
        (0..most).flat_map(|turn| Self::ALL.into_iter().filter(move |way| turn < way.payments())).collect()
    }
}

/// Payments of one way, each with the gateway's name of its charge.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) way: Way,
    pub(super) payments: Vec<(String, String)>,
}

/// One refund that was granted.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) way: Way,
    pub(super) amount: i64,
    approval: String,
}

/// All ways but that of the killed, mixed, so that time-outs at the gateway are never most of its answers.
pub(super) async fn all_at_once(
    told: &mut Told,
    people: &People,
    groups: &[Group],
) -> BTreeMap<String, Asked> {
    let ours: Vec<&Group> = groups.iter().filter(|group| group.way != Way::Killed).collect();
    let most = ours.iter().map(|group| group.payments.len()).max().unwrap_or(0);
    let mixed = (0..most)
        .flat_map(|turn| ours.iter().filter_map(move |group| Some((group.way, group.payments.get(turn)?))));
    let asked =
        mixed.map(|(way, (id, reference))| async move { (way, ask(people, way, id, reference).await) });
    let asked: Vec<(Way, Vec<Said>)> =
        futures_util::stream::iter(asked).buffered(SIDE_BY_SIDE).collect().await;
    for group in &ours {
        let said: Vec<&Vec<Said>> =
            asked.iter().filter(|(way, _)| *way == group.way).map(|(_, said)| said).collect();
        let met = said.iter().filter(|said| is_as_it_should_be(group.way, said)).count();
        let all = shown(said.iter().copied().flatten());
        told.all_with(&format!("{}: asked", group.way.name()), &all, met, said.len());
    }
    let granted = asked.iter().flat_map(|(way, said)| said.iter().map(move |said| (*way, said)));
    let granted = granted.filter(|(_, said)| said.status == 202);
    granted
        .map(|(way, said)| {
            let amount = said.body["amount"].as_i64().expect("an amount");
            (said.text("refundId"), Asked { way, amount, approval: said.text("approvalId") })
        })
        .collect()
}

async fn ask(people: &People, way: Way, id: &str, reference: &str) -> Vec<Said> {
    let key = |number: usize| format!("{id}-{number}");
    let of = |console: &Console, number: usize, amount: Option<i64>| {
        let (console, key) = (console.clone(), key(number));
        async move { console.refund(&key, id, reference, amount).await }
    };
    let (alice, there, carol) = (&people.alice, &people.alice_there, &people.carol);
    match way {
        Way::OneKey => {
            let part = Some(CHARGE / 5 * 2);
            let (one, other) = futures_util::join!(of(alice, 0, part), of(there, 0, part));
            vec![one, other]
        }
        Way::TwoKeys => {
            let part = Some(CHARGE / 5 * 3);
            let (one, other) = futures_util::join!(of(alice, 0, part), of(carol, 1, part));
            vec![one, other]
        }
        Way::FourKeys => {
            let part = Some(CHARGE / 5 * 2);
            let all = [of(alice, 0, part), of(carol, 1, part), of(there, 2, part), of(carol, 3, part)];
            futures_util::future::join_all(all).await
        }
        Way::Declined | Way::TimedOut | Way::Reset | Way::Lost => vec![of(alice, 0, None).await],
        Way::Killed => vec![of(alice, 0, Some(CHARGE / 5 * 3)).await],
    }
}

/// So many granted as the charge has room for, and the others told so; under one key the same refund.
fn is_as_it_should_be(way: Way, said: &[Said]) -> bool {
    let granted = said.iter().filter(|said| said.status == 202).count();
    let above = said.iter().filter(|said| said.is(409, "refund_above_charge")).count();
    match way {
        Way::OneKey => granted == 2 && said[0].body["refundId"] == said[1].body["refundId"],
        Way::TwoKeys => (granted, above) == (1, 1),
        Way::FourKeys => (granted, above) == (2, 2),
        Way::Declined | Way::TimedOut | Way::Reset | Way::Lost | Way::Killed => granted == 1,
    }
}

/// Asked for by alice, in parts; the ids of refund and approval.
pub(super) async fn by_alice(people: &People, group: &Group) -> Vec<Said> {
    let asked = group.payments.iter().map(|(id, reference)| ask(people, group.way, id, reference));
    let said: Vec<Vec<Said>> = futures_util::stream::iter(asked).buffered(SIDE_BY_SIDE).collect().await;
    said.into_iter().flatten().collect()
}

/// All that is left of each.
pub(super) async fn the_rest(people: &People, group: &Group) -> Vec<Said> {
    let asked = group.payments.iter().map(|(id, reference)| async move {
        people.alice.refund(&format!("{id}-rest"), id, reference, None).await
    });
    futures_util::stream::iter(asked).buffered(SIDE_BY_SIDE).collect().await
}

/// One person's word on each.
pub(super) async fn allow(by: &Console, asked: &[Said]) -> Vec<Said> {
    let allowed = asked.iter().map(|said| async move { by.approve(&said.text("approvalId")).await });
    futures_util::stream::iter(allowed).buffered(SIDE_BY_SIDE).collect().await
}

/// Whoever asked is refused; of two others at once one allows it.
pub(super) async fn allowed_by_one_of_two(
    told: &mut Told,
    people: &People,
    refunds: &BTreeMap<String, Asked>,
) {
    let of_alice: Vec<&Asked> = refunds.values().filter(|asked| asked.way == Way::OneKey).collect();
    let own = of_alice.iter().map(|asked| people.alice.approve(&asked.approval));
    let own: Vec<Said> = futures_util::stream::iter(own).buffered(SIDE_BY_SIDE).collect().await;
    let refused = own.iter().filter(|said| said.is(403, "same_person")).count();
    told.all_with("allowed by who asked: 403", &shown(&own), refused, own.len());
    let both = refunds.values().map(|asked| async move {
        futures_util::join!(people.bob.approve(&asked.approval), people.dave.approve(&asked.approval))
    });
    let both: Vec<(Said, Said)> = futures_util::stream::iter(both).buffered(SIDE_BY_SIDE).collect().await;
    let one = both.iter().filter(|(bob, dave)| {
        let allowed = [bob, dave].iter().filter(|said| said.status == 200).count();
        allowed == 1 && [bob, dave].iter().all(|said| said.status == 200 || said.is(409, "approval_decided"))
    });
    let all = shown(both.iter().flat_map(|(bob, dave)| [bob, dave]));
    told.all_with("allowed by two others at once: one did", &all, one.count(), both.len());
}

/// What a declined refund had reserved can be asked for again; nobody allows it.
pub(super) async fn what_was_declined_is_free_again(told: &mut Told, people: &People, groups: &[Group]) {
    let group = groups.iter().find(|group| group.way == Way::Declined).expect("a group");
    let again = the_rest(people, group).await;
    let whole = again.iter().filter(|said| said.status == 202 && said.body["amount"] == CHARGE).count();
    told.all("declined: all of it can be asked for again", whole, again.len());
}

/// States of payments.
#[derive(Debug)]
pub(super) struct States(BTreeMap<String, String>);

impl States {
    pub(super) fn of(&self, state: &str) -> usize {
        self.0.values().filter(|one| *one == state).count()
    }

    pub(super) fn is(&self, id: &str, state: &str) -> bool {
        self.0.get(id).is_some_and(|one| one == state)
    }
}

pub(super) async fn states(site: &Installation, group: &Group) -> States {
    let ids: Vec<Uuid> = group.payments.iter().map(|(id, _)| id.parse().expect("an id")).collect();
    let rows: Vec<(Uuid, String)> = sqlx::query_as("SELECT id, status FROM payments WHERE id = ANY ($1)")
        .bind(ids)
        .fetch_all(&mut look(&site.database.url).await)
        .await
        .expect("the database answers");
    States(rows.into_iter().map(|(id, status)| (id.to_string(), status)).collect())
}

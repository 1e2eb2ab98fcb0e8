//! What was seen of the ring, judged: its topics, and who reads them. No I/O.

use super::{Check, Finding};
use crate::bucket::topics::Difference;

/// `members` of the workers' group that read this ring.
pub(super) fn workers(members: usize, partitions: i32) -> Finding {
    let saw = format!("{members} in the group, {partitions} partitions a topic");
    if members == 0 {
        Finding::bad(Check::Workers, saw, "nothing is charged", "start some: `punctual worker`")
            .runbook("NothingCompletes")
    } else if members > usize::try_from(partitions).unwrap_or(0) {
        Finding::warn(
            Check::Workers,
            saw,
            "workers without a partition only help with what is late",
            "run fewer workers, or make a new ring with more partitions under another kafka.topic_prefix",
        )
    } else {
        Finding::fine(Check::Workers, saw)
    }
}

/// Topics that differ in the same way.
struct Alike<'a> {
    /// The first of them.
    first: &'a Difference,
    topic: String,
    /// How, without the topic's name.
    how: String,
    topics: usize,
}

/// In the order in which each way of differing is first met; there are a handful.
fn grouped(differences: &[Difference]) -> Vec<Alike<'_>> {
    let mut groups: Vec<Alike<'_>> = Vec::new();
    for first in differences {
        let text = first.to_string();
        // No topic's name has a colon.
        let (topic, how) = text.split_once(": ").unwrap_or(("", &text));
        match groups.iter_mut().find(|group| group.how == how) {
            Some(group) => group.topics += 1,
            None => groups.push(Alike { first, topic: topic.to_owned(), how: how.to_owned(), topics: 1 }),
        }
    }
    groups
}

/// `declared`: how many topics there should be. One finding for all that differ in the same way.
pub(super) fn topics(differences: &[Difference], declared: usize) -> Vec<Finding> {
    let found: Vec<Finding> = grouped(differences).iter().map(|alike| told(alike, declared)).collect();
    if found.is_empty() { vec![Finding::fine(Check::Topics, "as declared")] } else { found }
}

fn told(alike: &Alike<'_>, declared: usize) -> Finding {
    let Alike { first, topic, how, topics } = alike;
    let saw = match topics {
        1 => format!("{topic}: {how}"),
        more => format!("{more} of {declared} topics, {topic} the first of them: {how}"),
    };
    match first {
        Difference::Missing(_) => Finding::bad(
            Check::Topics,
            saw,
            "what belongs there waits for the late scan",
            "`punctual topics apply`",
        )
        .runbook("KafkaAway"),
        Difference::Partitions { found, .. } => {
            let fix = if *topics == declared {
                format!("set kafka.partitions = {found}, or make a new ring under another kafka.topic_prefix")
            } else {
                "once nothing is left to read there, delete what is not as the others (kafka-topics --delete) and run \
                 `punctual topics apply`; or make a new ring under another kafka.topic_prefix"
                    .to_owned()
            };
            let means = "workers and relays refuse to start: keys would go to other readers";
            Finding::bad(Check::Topics, saw, means, fix)
        }
        Difference::Replication { .. } => Finding::warn(
            Check::Topics,
            saw,
            "the loss of a broker may take the topic away",
            "reassign its replicas (kafka-reassign-partitions), or set kafka.replication",
        ),
        Difference::Setting { .. } => Finding::warn(
            Check::Topics,
            saw,
            "the topic behaves differently than it was tested",
            "`punctual topics apply`",
        ),
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;

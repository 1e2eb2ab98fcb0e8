//! Each judgement on the ring, on what is broken and on what is not.

use super::super::Level;
use super::*;
use crate::bucket::topics;
use crate::platform::config::{self, Inputs};

#[test]
fn a_group_without_workers_is_bad_and_one_with_more_than_partitions_a_warning() {
    let of = |members| workers(members, 2).level;
    assert_eq!([of(0), of(1), of(2), of(3)], [Level::Bad, Level::Fine, Level::Fine, Level::Warn]);
    assert_eq!(workers(3, 2).saw, "3 in the group, 2 partitions a topic");
}

#[test]
fn a_topic_that_differs_is_named_with_what_mends_it() {
    let of = |differences: &[Difference]| super::topics(differences, 64);
    let levels = |found: &[Finding]| found.iter().map(|finding| finding.level).collect::<Vec<_>>();
    assert_eq!(levels(&of(&[])), [Level::Fine]);
    let config = config::load(&Inputs::default()).unwrap().config;
    let declared = topics::declared(&config.kafka).unwrap();
    let found = of(&[
        Difference::Missing(declared[0].clone()),
        Difference::Partitions { topic: "t".into(), wanted: 12, found: 3 },
        Difference::Replication { topic: "t".into(), wanted: 3, found: 1 },
        Difference::Setting {
            topic: "t".into(),
            name: "cleanup.policy".into(),
            wanted: "delete".into(),
            found: None,
        },
    ]);
    assert_eq!(levels(&found), [Level::Bad, Level::Bad, Level::Warn, Level::Warn]);
    assert!(found.iter().all(|finding| !finding.means.is_empty() && !finding.fix.is_empty()), "{found:?}");
    assert!(found[0].saw.contains(&declared[0].name) && found[0].fix.contains("topics apply"), "{found:?}");
    assert_eq!(found[1].saw, "t: 3 partitions, declared 12");
}

#[test]
fn topics_that_differ_in_the_same_way_are_one_finding_and_the_odd_one_is_not_made_the_rule() {
    let partitions =
        |topic: usize, found| Difference::Partitions { topic: format!("t{topic}"), wanted: 3, found };
    let all: Vec<Difference> = (0..64).map(|topic| partitions(topic, 2)).collect();
    let found = super::topics(&all, 64);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].saw, "64 of 64 topics, t0 the first of them: 2 partitions, declared 3");
    assert!(found[0].fix.starts_with("set kafka.partitions = 2"), "{found:?}");
    let odd: Vec<Difference> =
        (0..64).map(|topic| partitions(topic, if topic == 7 { 4 } else { 2 })).collect();
    let found = super::topics(&odd, 64);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[1].saw, "t7: 4 partitions, declared 3");
    // No number of partitions is that of all of them.
    assert!(found.iter().all(|finding| !finding.fix.contains("set kafka.partitions")), "{found:?}");
    let one = super::topics(&[partitions(7, 4)], 64);
    assert!(one[0].fix.contains("delete") && one[0].fix.contains("`punctual topics apply`"), "{one:?}");
}

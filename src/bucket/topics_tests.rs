//! What the declarations say, and every kind of difference.

use super::*;

fn kafka() -> Kafka {
    Kafka::default()
}

fn as_declared(topics: &[Topic]) -> BTreeMap<String, Found> {
    let found = topics.iter().map(|topic| {
        let Topic { name, partitions, replication, settings } = topic.clone();
        (name, Found { partitions, replication, settings: Some(settings), set_here: Vec::new() })
    });
    found.collect()
}

#[test]
fn the_files_say_what_the_default_settings_say() {
    for family in families().unwrap() {
        let kafka = kafka();
        assert_eq!(family.partitions, kafka.partitions, "{}", family.name);
        assert_eq!(family.replication, kafka.replication, "{}", family.name);
        let min = family.settings.get("min.insync.replicas");
        assert_eq!(min, Some(&kafka.min_insync_replicas.to_string()), "{}", family.name);
    }
}

#[test]
fn the_ring_and_its_companions_are_declared_once_each() {
    let topics = declared(&kafka()).unwrap();
    let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
    assert_eq!(names.len(), 63);
    let mut ring = crate::bucket::Names::new("payments.").ring();
    ring.extend(["payments.events".to_owned(), "payments.parked".to_owned()]);
    assert_eq!(names, ring);
    let seven = &topics[7];
    assert_eq!(seven.name, "payments.due.m07");
    for (name, value) in [
        ("cleanup.policy", "delete"),
        ("retention.ms", "21600000"),
        ("segment.ms", "3600000"),
        ("segment.bytes", "134217728"),
        ("max.message.bytes", "65536"),
        ("message.timestamp.type", "LogAppendTime"),
        ("min.insync.replicas", "2"),
    ] {
        assert_eq!(seven.settings.get(name).map(String::as_str), Some(value));
    }
}

#[test]
fn another_prefix_is_another_ring_and_a_small_cluster_gets_small_topics() {
    let small = Kafka {
        topic_prefix: "r2.".into(),
        partitions: 2,
        replication: 1,
        min_insync_replicas: 1,
        ..kafka()
    };
    for topic in declared(&small).unwrap() {
        assert!(topic.name.starts_with("r2."), "{}", topic.name);
        assert_eq!((topic.partitions, topic.replication), (2, 1));
        assert_eq!(topic.settings.get("min.insync.replicas").map(String::as_str), Some("1"));
    }
}

#[test]
fn a_cluster_as_declared_shows_no_difference() {
    let topics = declared(&kafka()).unwrap();
    assert_eq!(compare(&topics, &as_declared(&topics)), []);
}

#[test]
fn each_difference_is_named_precisely() {
    let topics = declared(&kafka()).unwrap();
    let mut found = as_declared(&topics);
    found.remove("payments.events");
    found.get_mut("payments.due.m03").unwrap().partitions = 11;
    found.get_mut("payments.due.m04").unwrap().replication = 1;
    let settings = found.get_mut("payments.due.now").unwrap().settings.as_mut().unwrap();
    settings.insert("segment.ms".into(), "604800000".into());
    settings.remove("cleanup.policy");
    let said: Vec<String> = compare(&topics, &found).iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "payments.due.m03: 11 partitions, declared 12",
            "payments.due.m04: 1 replicas, declared 3",
            "payments.due.now: cleanup.policy is unknown, declared delete",
            "payments.due.now: segment.ms is 604800000, declared 3600000",
            "payments.events: missing (declared: 12 partitions, 3 replicas)",
        ]
    );
}

#[test]
fn a_broker_that_does_not_know_min_insync_replicas_is_as_declared() {
    let topics = declared(&kafka()).unwrap();
    let mut found = as_declared(&topics);
    for is in found.values_mut() {
        is.settings.as_mut().unwrap().remove("min.insync.replicas");
    }
    assert_eq!(compare(&topics, &found), []);
    let settings = found.get_mut("payments.due.m59").unwrap().settings.as_mut().unwrap();
    settings.insert("min.insync.replicas".into(), "1".into());
    assert_eq!(compare(&topics, &found).len(), 1);
}

#[test]
fn where_settings_cannot_be_asked_for_only_names_and_partitions_are_compared() {
    let topics = declared(&kafka()).unwrap();
    let mut found = as_declared(&topics);
    for is in found.values_mut() {
        (is.settings, is.replication) = (None, 1);
    }
    assert_eq!(compare(&topics, &found), []);
    found.get_mut("payments.parked").unwrap().partitions = 1;
    assert_eq!(compare(&topics, &found).len(), 1);
}

#[test]
fn every_schema_describes_its_example() {
    let file = |name: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("topics").join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    for family in families().unwrap() {
        let (schema, example) = (file(&family.schema), file(&family.example));
        let properties = schema["properties"].as_object().unwrap();
        for name in schema["required"].as_array().unwrap() {
            assert!(properties.contains_key(name.as_str().unwrap()), "{}: {name}", family.schema);
            assert!(!example[name.as_str().unwrap()].is_null(), "{}: {name}", family.example);
        }
        for (name, value) in example.as_object().unwrap() {
            let described = &properties[name];
            if let Some(wanted) = described.get("const") {
                assert_eq!(value, wanted, "{}: {name}", family.example);
            }
            let kind = match value {
                serde_json::Value::String(_) => "string",
                serde_json::Value::Number(_) => "integer",
                serde_json::Value::Object(_) => "object",
                other => panic!("{}: {name} is {other}", family.example),
            };
            let declared = described.get("type").and_then(|kind| kind.as_str());
            assert!(declared.is_none_or(|declared| declared == kind), "{}: {name}", family.example);
        }
    }
}

#[tokio::test]
async fn the_stand_in_has_every_topic_and_a_wrong_partition_count_refuses_the_start() {
    let clock: SharedClock = Arc::new(crate::platform::clock::Host);
    let stand_in = InProcessKafka::start().unwrap();
    let bootstrap_servers = stand_in.bootstrap_servers().to_owned();
    let kafka = Kafka { partitions: 2, bootstrap_servers, ..kafka() };
    let check = async |kafka: &Kafka| check(kafka, Depth::NamesAndPartitions).await;

    assert!(matches!(check(&kafka).await.unwrap(), Ready::Missing(missing) if missing.len() == 63));
    apply_in_process(&stand_in, &kafka, &clock).await.unwrap();
    assert_eq!(check(&kafka).await.unwrap(), Ready::All);

    let other = Kafka { partitions: 3, ..kafka };
    let refused = check(&other).await.unwrap_err().to_string();
    assert!(refused.starts_with("payments.due.m00: 2 partitions, declared 3"), "{refused}");
}

#[test]
fn more_copies_than_brokers_are_refused_with_the_settings_that_say_so() {
    let refused = |code| TopicsError::Refused { topic: "payments.due.now".into(), code }.to_string();
    assert!(refused(RDKafkaErrorCode::InvalidReplicationFactor).contains("kafka.replication"));
    assert!(!refused(RDKafkaErrorCode::TopicAuthorizationFailed).contains("kafka.replication"));
}

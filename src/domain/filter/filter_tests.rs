//! What is read, what is refused and where, and that printing and reading agree.

use super::*;
use crate::domain::ids::{ActorId, GatewayName};
use crate::domain::money::{Currency, Minor, Money};
use proptest::prelude::*;
use uuid::Uuid;

const ID: &str = "01a2283e-8820-8aaa-9bbb-0123456789ab";

fn read(text: &str) -> Filter {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn only(text: &str) -> Test {
    let filter = read(text);
    assert_eq!((filter.terms.len(), filter.terms[0].sense), (1, Sense::Is), "{text}");
    filter.terms.into_iter().next().unwrap().test
}

fn texts(values: &[&str]) -> BTreeSet<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[test]
fn every_name_is_read() {
    let statuses = BTreeSet::from([Status::Pending, Status::Parked]);
    assert_eq!(only("status:PARKED,PENDING"), Test::Status(statuses));
    assert_eq!(only("reason:declined_soft"), Test::Reason(BTreeSet::from([Reason::DeclinedSoft])));
    assert_eq!(only("gateway:sandbox"), Test::Gateway(texts(&["sandbox"])));
    assert_eq!(only("ref:ch_1,\"a b\",\"q\\\"\\\\\""), Test::Ref(texts(&["ch_1", "a b", "q\"\\"])));
    assert_eq!(only("actor:\"Löwenapotheke am Markt\""), Test::Actor(texts(&["Löwenapotheke am Markt"])));
    assert_eq!(only(&format!("id:{ID}")), Test::Id(BTreeSet::from([ID.parse().unwrap()])));
    assert_eq!(read(""), Filter::default());
    assert_eq!(read("  \t "), Filter::default());
}

#[test]
fn ranges_have_both_of_their_ends_and_a_day_all_of_its_hours() {
    let end = "2030-01-31T23:59:59.999999Z";
    for (text, from, to) in [
        ("due:2030-01-31", Some("2030-01-31T00:00:00Z"), Some(end)),
        ("due:2030-01-31..2030-01-31", Some("2030-01-31T00:00:00Z"), Some(end)),
        ("due:2030-01-30..", Some("2030-01-30T00:00:00Z"), None),
        ("due:..2030-01-31", None, Some(end)),
        ("due:2030-01-31T09:00:00+02:00", Some("2030-01-31T07:00:00Z"), Some("2030-01-31T07:00:00Z")),
        ("due:2030-01-31T09:00:00.000001Z..2030-01-31", Some("2030-01-31T09:00:00.000001Z"), Some(end)),
    ] {
        assert_eq!(only(text), Test::Due(Between { from: from.map(at), to: to.map(at) }), "{text}");
    }
    for (text, from, to) in [
        ("amount:1050", Some(1050), Some(1050)),
        ("amount:1..2", Some(1), Some(2)),
        ("amount:..2", None, Some(2)),
        ("amount:007..", Some(7), None),
    ] {
        assert_eq!(only(text), Test::Amount(Between { from, to }), "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_without_the_text() {
    let long = "x".repeat(MOST_CHARACTERS + 1);
    let many = "amount:1 ".repeat(MOST_TERMS + 1);
    let values = format!("ref:{}", vec!["a"; MOST_VALUES + 1].join(","));
    for (text, place, why) in [
        ("4111111111111111", 1, "a term is name:value"),
        ("status", 1, "a term is name:value"),
        ("-", 2, "a term is name:value"),
        ("Status:PARKED", 1, "a term is name:value"),
        ("stauts:PARKED", 1, "no such name"),
        ("gateway:a  -stauts:PARKED", 13, "no such name"),
        ("status:", 8, "a value is missing"),
        ("status:PARKED,", 15, "a value is missing"),
        ("status:PARKED, PENDING", 15, "a value is missing"),
        ("status:parked", 8, "expected a state"),
        (
            "status:PARKED,LOST",
            15,
            "expected a state in capitals; there are PENDING, PROCESSING, UNKNOWN, COMPLETED, FAILED, CANCELLED, PARKED, REFUNDED",
        ),
        ("reason:bored", 8, "expected a reason"),
        ("gateway:A", 9, "expected a gateway"),
        ("ref:\"\"", 5, "expected 1 to 255"),
        ("ref:\"a\u{7}\"", 5, "expected 1 to 255"),
        ("ref:\"a", 7, "the closing quote"),
        ("ref:\"a\\n\"", 7, "within quotes"),
        ("ref:\"a\"b", 8, "a quote stands around"),
        ("ref:a\"b\"", 6, "a quote stands around"),
        ("id:8e03978e-40d5-43e8-bc93-6894a57f9324", 4, "expected a payment id"),
        ("due:2030-02-30", 5, "expected a day"),
        ("due:2030-01-31T09:00:00", 5, "expected a day"),
        ("due:2030-01-31T23:59:60Z", 5, "expected a day"),
        ("due:2030-01-31T09:00:00.0000001Z", 5, "expected a day"),
        ("due:2030-01-01..tomorrow", 17, "expected a day"),
        ("due:2030-02-01..2030-01-01", 17, "the end of a range"),
        ("due:..", 5, "a range has at least one end"),
        ("amount:-1", 8, "expected minor units"),
        ("amount:10.5", 8, "expected minor units"),
        ("amount:1...2", 11, "expected minor units"),
        ("amount:99999999999999999999", 8, "expected minor units"),
        ("amount:1,2", 10, "a range takes no list"),
        ("ü:1", 1, "a term is name:value"),
        ("ref:ü stauts:1", 7, "no such name"),
        (&long, MOST_CHARACTERS + 1, "a filter has at most 2000"),
        (&many, 181, "a filter has at most 20"),
        (&values, 105, "a term has at most 50"),
    ] {
        let error = text.parse::<Filter>().expect_err(text);
        assert!(error.why.starts_with(why), "{text}: {error}");
        assert_eq!(error.at, place, "{text}: {error}");
    }
}

#[test]
fn as_many_ids_as_a_term_may_have_fit_into_a_filter() {
    let ids = (0..MOST_VALUES).map(|n| format!("01a2283e-8820-8aaa-9bbb-0123456789{n:02}"));
    let text = format!("id:{}", ids.collect::<Vec<_>>().join(","));
    let filter = read(&text);
    assert_eq!(filter.to_string(), text);
    let kept = serde_json::to_value(&filter).unwrap();
    assert_eq!(kept, serde_json::json!(text));
    assert_eq!(serde_json::from_value::<Filter>(kept).unwrap(), filter);
    assert!(serde_json::from_str::<Filter>("\"stauts:PARKED\"").is_err());
}

#[test]
fn terms_about_the_same_thing_hold_together() {
    let all = read("status:PARKED,UNKNOWN status:UNKNOWN,PENDING -status:FAILED due:2030-01-01..2030-01-31 \
                    due:2030-01-15.. -due:2030-01-20 -due:2030-01-22 amount:..100 amount:..50 -gateway:a -gateway:b")
        .conditions();
    assert_eq!(all.statuses.only, Some(BTreeSet::from([Status::Unknown])));
    assert_eq!(all.statuses.never, BTreeSet::from([Status::Failed]));
    assert_eq!(all.due.between.from, Some(at("2030-01-15T00:00:00Z")));
    assert_eq!(all.due.between.to, Some(at("2030-01-31T23:59:59.999999Z")));
    assert_eq!(all.due.never.len(), 2);
    assert_eq!(all.amount.between, Between { from: None, to: Some(50) });
    assert_eq!(all.gateways.never, texts(&["a", "b"]));
    assert!(all.ids.is_any() && all.actors.is_any() && !all.gateways.is_any() && !all.amount.is_any());
    assert_eq!(Filter::default().conditions(), Conditions::default());
    let none = read("status:PARKED status:FAILED").conditions();
    assert_eq!(none.statuses.only, Some(BTreeSet::new()));
}

fn payment() -> Payment {
    let due_at = at("2030-01-31T09:00:00Z");
    let amount = Money { minor: Minor::new(1050).unwrap(), currency: Currency::from_code("EUR").unwrap() };
    let gateway = GatewayName("sandbox".into());
    Payment::created(ID.parse().unwrap(), ActorId(Uuid::nil()), gateway, amount, due_at, due_at)
}

#[test]
fn a_payment_passes_what_is_true_of_it_and_a_missing_value_is_none_of_any() {
    let mut parked = payment();
    parked.status = Status::Parked;
    parked.reason = Some(Reason::Poisoned);
    parked.gateway_ref = Some("ch_1".into());
    for (text, plain, held) in [
        ("", true, true),
        ("status:PENDING", true, false),
        ("-status:PENDING", false, true),
        ("reason:poisoned,declined_soft", false, true),
        ("-reason:poisoned", true, false),
        ("ref:ch_1", false, true),
        ("-ref:ch_1", true, false),
        ("gateway:sandbox", true, true),
        ("gateway:other", false, false),
        ("due:2030-01-31", true, true),
        ("-due:2030-01-31", false, false),
        ("due:..2030-01-30", false, false),
        ("amount:1050..1050", true, true),
        ("amount:1051..", false, false),
        ("-amount:..1049", true, true),
        (&format!("id:{ID}"), true, true),
        (&format!("-id:{ID}"), false, false),
        ("status:PARKED gateway:sandbox amount:..2000", false, true),
    ] {
        let conditions = read(text).conditions();
        assert_eq!((conditions.holds(&payment()), conditions.holds(&parked)), (plain, held), "{text}");
    }
}

fn some<T: Ord + std::fmt::Debug>(of: impl Strategy<Value = T>) -> impl Strategy<Value = BTreeSet<T>> {
    prop::collection::btree_set(of, 1..4)
}

fn ends<T: Ord + Copy + std::fmt::Debug>(
    of: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = Between<T>> {
    (of.clone(), of, 0..4_u8).prop_map(|(one, two, which)| {
        let (low, high) = (one.min(two), one.max(two));
        match which {
            0 => Between { from: Some(low), to: None },
            1 => Between { from: None, to: Some(high) },
            2 => Between { from: Some(low), to: Some(low) },
            _ => Between { from: Some(low), to: Some(high) },
        }
    })
}

fn any_test() -> impl Strategy<Value = Test> {
    let instant = (0..4_102_444_800_000_000_i64).prop_map(|us| DateTime::from_timestamp_micros(us).unwrap());
    let id = (0..(1_i64 << 42), any::<[u8; 10]>())
        .prop_map(|(ms, bits)| PaymentId::new(DateTime::from_timestamp_millis(ms).unwrap(), bits).unwrap());
    // Everything that one line can hold, with what must be quoted more often than by chance.
    let text = || "[a-z ,\"\\\\.:-]{1,9}|\\PC{1,9}";
    prop_oneof![
        some(prop::sample::select(Status::ALL.to_vec())).prop_map(Test::Status),
        some(prop::sample::select(Reason::ALL.to_vec())).prop_map(Test::Reason),
        some("[a-z0-9_-]{1,12}").prop_map(Test::Gateway),
        some(text()).prop_map(Test::Ref),
        some(text()).prop_map(Test::Actor),
        some(id).prop_map(Test::Id),
        ends(instant).prop_map(Test::Due),
        ends(0..i64::MAX).prop_map(Test::Amount),
    ]
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_as_the_same_filter(
        tests in prop::collection::vec((any::<bool>(), any_test()), 0..5),
    ) {
        let term = |(not, test)| Term { sense: if not { Sense::IsNot } else { Sense::Is }, test };
        let filter = Filter { terms: tests.into_iter().map(term).collect() };
        let text = filter.to_string();
        prop_assume!(text.chars().count() <= MOST_CHARACTERS);
        prop_assert_eq!(text.parse::<Filter>(), Ok(filter), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused_within_its_length(text in "\\PC{0,60}|[a-z:,.\" -]{0,60}") {
        match text.parse::<Filter>() {
            Ok(filter) => prop_assert_eq!(filter.to_string().parse::<Filter>(), Ok(filter)),
            Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.at), "{}", error),
        }
    }
}

#[test]
fn a_state_that_is_none_is_answered_with_all_there_are() {
    let all: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
    assert!(parse::STATES.ends_with(&format!("there are {}", all.join(", "))), "{}", parse::STATES);
}

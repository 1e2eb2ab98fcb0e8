//! The payment id: what it carries and what it refuses.

use chrono::{DateTime, Utc};
use proptest::prelude::*;
use punctual::domain::ids::{BadPaymentId, Epoch, PaymentId, gateway_key};
use uuid::Uuid;

fn at_ms(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(ms).expect("inside the calendar")
}

proptest! {
    #[test]
    fn an_id_gives_back_its_due_time_and_survives_its_text(ms in 0_i64..(1 << 48), intent: [u8; 10]) {
        let id = PaymentId::new(at_ms(ms), intent).expect("in range");
        prop_assert_eq!(id.due_ms(), ms);
        prop_assert_eq!(id.due_day(), at_ms(ms).date_naive());
        prop_assert_eq!(id.to_string().parse::<PaymentId>(), Ok(id));
    }

    #[test]
    fn the_same_intent_at_the_same_time_is_the_same_payment(ms in 0_i64..(1 << 48), intent: [u8; 10]) {
        prop_assert_eq!(PaymentId::new(at_ms(ms), intent), PaymentId::new(at_ms(ms), intent));
    }
}

#[test]
fn other_uuids_are_refused_by_what_is_wrong_with_them() {
    assert_eq!("not-a-uuid".parse::<PaymentId>(), Err(BadPaymentId::NotUuid));
    assert_eq!(PaymentId::from_uuid(Uuid::nil()), Err(BadPaymentId::NotVersion8));
    let before_1970 = at_ms(-1);
    assert_eq!(PaymentId::new(before_1970, [0; 10]), Err(BadPaymentId::TimeOutOfRange));
}

#[test]
fn the_gateway_key_changes_with_the_epoch_alone() {
    let id = PaymentId::new(at_ms(1_800_000_000_000), [7; 10]).expect("in range");
    assert_eq!(gateway_key(id, Epoch(0)), id.to_string());
    assert_eq!(gateway_key(id, Epoch(2)), format!("{id}:2"));
}

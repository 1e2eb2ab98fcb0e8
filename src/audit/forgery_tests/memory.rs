//! What the checks take of memory.

use super::*;

#[test]
fn a_payment_with_one_attempt_takes_no_more_memory_than_is_said() {
    let rows = size_of::<PaymentRow>() + size_of::<AttemptRow>() + 3 * size_of::<Told>();
    let others = size_of::<LedgerLine>() + size_of::<Operation>() + size_of::<KeyRow>();
    let topics = size_of::<DumpedNotice>() + 3 * size_of::<DumpedEvent>();
    // Texts are short: a key, a payee, a worker's name, three details of about 100 bytes.
    let texts = 600;
    // Lists grow by doubling, and the index points to each.
    let all = 2 * (rows + others + topics) + texts;
    assert!(
        all <= super::super::BYTES_PER_PAYMENT,
        "{rows} rows, {others} lines, {topics} records, {texts} texts"
    );
}

//! A client and the clock at the same instant.

use super::{in_ms, running, seconds};
use chrono::TimeDelta;
use futures_util::future::join_all;

/// When the `n`th of 40 is cancelled, in ms from due: half of them within 50 ms, the others around.
fn moment(n: i64) -> i64 {
    match n {
        0..10 => -300 + 25 * n,
        10..30 => -50 + 5 * (n - 10),
        _ => 50 + 25 * (n - 30),
    }
}

#[tokio::test]
async fn a_cancel_at_the_due_instant_is_either_granted_and_never_charged_or_refused_and_charged_once() {
    let site = running(&[]).await;
    let due_at = in_ms(5_000);
    let mut ids = Vec::new();
    for n in 0..40 {
        ids.push(site.create(&format!("race-{n}"), "sim_ok", due_at).await);
    }
    let cancels = (0..).zip(&ids).map(|(n, id)| {
        let site = &site;
        async move {
            let at = due_at + TimeDelta::milliseconds(moment(n));
            // Not a wait for a condition: the instant is the test.
            let wait = (at - chrono::Utc::now()).to_std().expect("created in time");
            tokio::time::sleep(wait).await;
            site.cancel(id).await.expect("an answer")
        }
    });
    let answers = join_all(cancels).await;
    let mut granted = 0;
    for (id, (status, body)) in ids.iter().zip(&answers) {
        match status {
            200 => {
                granted += 1;
                assert_eq!(body["status"], "CANCELLED", "{body}");
            }
            409 => {
                site.settled(id, &["COMPLETED"], seconds(20)).await;
            }
            other => panic!("{id}: {other} {body}"),
        }
    }
    assert!(granted > 0 && granted < 40, "{granted} of 40 came in time: no race was run");
    let ledger = site.ledger().await;
    for (id, (status, _)) in ids.iter().zip(&answers) {
        let lines = ledger.iter().filter(|line| line["paymentId"] == id.as_str()).count();
        assert_eq!(lines, usize::from(*status == 409), "{id} answered {status}: {ledger:?}");
        let (_, now) = site.get(id).await.expect("an answer");
        let end = if *status == 200 { "CANCELLED" } else { "COMPLETED" };
        assert_eq!(now["status"], end, "{now}");
    }
}

//! Memory, broken on purpose: a suite that does not find these compares nothing.

use punctual::domain::decision::Decision;
use punctual::domain::ids::PaymentId;
use punctual::domain::notice::Notice;
use punctual::domain::reason::Reason;
use punctual::domain::state::Status;
use punctual::domain::verdict::Verdict;
use punctual::schedule::{Answer, Memory, SettledAs};

/// One rule that memory does not keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Rule R6: a NotSent takes back the key's age although another claim opened the key.
    KeyAgeTakenBackByAnyNotSent,
    /// Rule R2: a late answer moves the payment.
    FencedSettleAccepted,
    /// Rule R1: a spent notice claims.
    ClaimWithoutAttempt,
    /// DESIGN §3: an expired lease returns to PENDING.
    ExpiredLeaseIsPending,
    /// A wish that came under a claim is forgotten by its settle.
    WishForgottenBySettle,
}

impl Broken {
    pub const ALL: [Self; 5] = [
        Self::KeyAgeTakenBackByAnyNotSent,
        Self::FencedSettleAccepted,
        Self::ClaimWithoutAttempt,
        Self::ExpiredLeaseIsPending,
        Self::WishForgottenBySettle,
    ];

    pub fn before_claim(self, memory: &Memory, notices: &mut [Notice]) {
        if self != Self::ClaimWithoutAttempt {
            return;
        }
        for notice in notices {
            notice.attempt = memory.payment(notice.payment).map_or(notice.attempt, |row| row.attempt);
        }
    }

    pub fn after_settle(
        self,
        memory: &Memory,
        id: PaymentId,
        (answer, decision): &(Answer, Decision),
        settled: SettledAs,
    ) {
        match (self, settled) {
            (Self::KeyAgeTakenBackByAnyNotSent, SettledAs::Written(_)) => {
                if matches!(answer.verdict, Verdict::NotSent { .. }) {
                    memory.edit(id, |row| {
                        if row.unanswered == 0 {
                            row.epoch_first_sent_at = None;
                        }
                    });
                }
            }
            (Self::WishForgottenBySettle, SettledAs::Written(_)) => {
                if let Some(next) = decision.next_attempt_at {
                    memory.edit(id, |row| {
                        if row.cancel_wish_at.is_some() {
                            row.next_attempt_at = next;
                        }
                    });
                }
            }
            (Self::FencedSettleAccepted, SettledAs::Fenced) => {
                memory.edit(id, |row| {
                    if row.status == Status::Unknown {
                        row.status = decision.to;
                    }
                });
            }
            _ => {}
        }
    }

    pub fn after_reap(self, memory: &Memory) {
        if self != Self::ExpiredLeaseIsPending {
            return;
        }
        for row in memory.payments() {
            if row.status == Status::Unknown && row.reason == Some(Reason::LeaseExpired) {
                memory.edit(row.id, |row| {
                    row.status = Status::Pending;
                    row.unanswered = 0;
                });
            }
        }
    }
}

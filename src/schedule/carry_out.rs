//! The act that an approval allows, as its kind does it.
//!
//! **Promises.** It is done in the caller's transaction, with the approval or not at all; the act's own guard decides
//! again on the locked rows. If this dies here, neither was written.

use super::approvals::{ActTerms, Approval, ApprovalKind};
use super::reconcile::RepairDone;
use super::refund_resolve::{self, RefundClosed};
use super::refunds::{self, Approving};
use super::release::{self, Redrive};
use super::{reconcile_repair, reconcile_withdraw};
use crate::domain::parked::{KeyWanted, WhyNot};
use crate::domain::refund::RefundId;
use crate::domain::refund_resolution::RefundUnresolved;
use crate::domain::repair::NotRepaired;
use crate::domain::state::Status;
use serde_json::Value;
use sqlx::{Error, PgConnection};
use uuid::Uuid;

/// What an approval did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CarriedOut {
    /// The payment was released into this state.
    Redriven(Status),
    /// A worker sends this refund from here on.
    RefundAllowed(RefundId),
    /// The refund ended by people's word.
    RefundClosed(RefundClosed),
    /// The payment was repaired by a line of a settlement report.
    Repaired(RepairDone),
    /// This settlement report counts no more.
    Withdrawn(Uuid),
}

/// Why an approved act could not be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// Of a parked payment.
    Parked(WhyNot),
    /// The refund was dropped, or allowed, before.
    RefundIsVoid,
    /// Of a refund that waited for people.
    Refund(RefundUnresolved),
    /// Of a repair by a line.
    Repair(NotRepaired),
    /// The report did not count any more.
    ReportDoesNotCount,
    /// The request is not one of this kind: a defect of whoever asked.
    Unreadable,
}

impl Obstacle {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Parked(why) => why.as_str(),
            Self::RefundIsVoid => "refund_is_void",
            Self::Refund(why) => why.as_str(),
            Self::Repair(why) => why.as_str(),
            Self::ReportDoesNotCount => "report_does_not_count",
            Self::Unreadable => "unreadable",
        }
    }
}

/// The act itself, as its kind does it; its own guard decides on the locked rows.
pub(super) async fn carry_out(
    transaction: &mut PgConnection,
    approved: &Approval,
    terms: &ActTerms,
) -> Result<Result<CarriedOut, Obstacle>, Error> {
    match approved.kind {
        ApprovalKind::NewEpoch => redrive(transaction, approved, KeyWanted::New, terms).await,
        ApprovalKind::Redrive => redrive(transaction, approved, KeyWanted::Same, terms).await,
        ApprovalKind::Refund => Ok(match refunds::approve_within(transaction, approved).await? {
            Approving::Approved(id) => Ok(CarriedOut::RefundAllowed(id)),
            Approving::Quarantined => Err(Obstacle::Parked(WhyNot::Quarantined)),
            Approving::Void => Err(Obstacle::RefundIsVoid),
        }),
        ApprovalKind::ResolveRefund => {
            Ok(refund_resolve::close_within(transaction, approved).await?.map_or_else(
                |why| match why {
                    RefundUnresolved::Quarantined => Err(Obstacle::Parked(WhyNot::Quarantined)),
                    why => Err(Obstacle::Refund(why)),
                },
                |closed| Ok(CarriedOut::RefundClosed(closed)),
            ))
        }
        ApprovalKind::Repair => Ok(match reconcile_repair::carry_out(transaction, approved).await? {
            Some(repaired) => repaired.map(CarriedOut::Repaired).map_err(Obstacle::Repair),
            None => Err(Obstacle::Unreadable),
        }),
        ApprovalKind::Withdraw => {
            let withdrawn = reconcile_withdraw::carry_out(transaction, approved).await?;
            Ok(withdrawn.map(CarriedOut::Withdrawn).ok_or(Obstacle::ReportDoesNotCount))
        }
    }
}

async fn redrive(
    transaction: &mut PgConnection,
    approved: &Approval,
    key: KeyWanted,
    terms: &ActTerms,
) -> Result<Result<CarriedOut, Obstacle>, Error> {
    let version = approved.request.get("version").and_then(Value::as_i64);
    let (Some(payment), Some(version)) = (approved.payment, version) else {
        return Ok(Err(Obstacle::Unreadable));
    };
    let order = Redrive {
        payment,
        key,
        by: approved.asked_by.clone(),
        reason: approved.reason.clone(),
        // A version that no row can have fits no row.
        version: Some(i32::try_from(version).unwrap_or(-1)),
        approval: Some(approved.id),
    };
    let released = release::redrive_within(transaction, &order, &terms.retryable_codes).await?;
    Ok(released.map(CarriedOut::Redriven).map_err(Obstacle::Parked))
}

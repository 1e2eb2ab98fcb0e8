//! Where ISO 20022 statements and notifications have what we look at, as paths inside `Stmt` or `Ntfctn`.
//!
//! **Promise**: the paths of versions 2 to 14 of both messages; where versions differ, both stand here: the status of
//! an entry is a text until version 6, then a code inside; the net total is one element until 3, then two; a
//! transaction has an amount and a side of its own from 3 on.

/// One thing that we look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// The id of the statement or notification.
    Id,
    PageNumber,
    IsLastPage,
    From,
    To,
    AccountCurrency,
    Balance,
    BalanceCode,
    BalanceAmount,
    BalanceSide,
    BalanceDay,
    AllCount,
    AllSum,
    AllNet,
    AllNetSide,
    CreditCount,
    CreditSum,
    DebitCount,
    DebitSum,
    Entry,
    EntryAmount,
    EntrySide,
    EntryIsReversal,
    EntryStatus,
    EntryBookedOn,
    EntryValuedOn,
    EntryBankReference,
    EntryFamily,
    Details,
    BatchCount,
    BatchAmount,
    Transaction,
    /// `EndToEndId`.
    Key,
    BankReference,
    Amount,
    Side,
    BookedAmount,
    InstructedAmount,
    Return,
    ExecutedAt,
}

/// What stands at this path, if we look at it.
pub(super) fn field(path: &str) -> Option<Field> {
    if let Some(path) = path.strip_prefix("Ntry/NtryDtls/TxDtls/") {
        return of_transaction(path);
    }
    Some(match path {
        "Id" => Field::Id,
        "StmtPgntn/PgNb" | "NtfctnPgntn/PgNb" => Field::PageNumber,
        "StmtPgntn/LastPgInd" | "NtfctnPgntn/LastPgInd" => Field::IsLastPage,
        "FrToDt/FrDtTm" => Field::From,
        "FrToDt/ToDtTm" => Field::To,
        "Acct/Ccy" => Field::AccountCurrency,
        "Bal" => Field::Balance,
        "Bal/Tp/CdOrPrtry/Cd" => Field::BalanceCode,
        "Bal/Amt" => Field::BalanceAmount,
        "Bal/CdtDbtInd" => Field::BalanceSide,
        "Bal/Dt/Dt" | "Bal/Dt/DtTm" => Field::BalanceDay,
        "TxsSummry/TtlNtries/NbOfNtries" => Field::AllCount,
        "TxsSummry/TtlNtries/Sum" => Field::AllSum,
        "TxsSummry/TtlNtries/TtlNetNtryAmt" | "TxsSummry/TtlNtries/TtlNetNtry/Amt" => Field::AllNet,
        "TxsSummry/TtlNtries/CdtDbtInd" | "TxsSummry/TtlNtries/TtlNetNtry/CdtDbtInd" => Field::AllNetSide,
        "TxsSummry/TtlCdtNtries/NbOfNtries" => Field::CreditCount,
        "TxsSummry/TtlCdtNtries/Sum" => Field::CreditSum,
        "TxsSummry/TtlDbtNtries/NbOfNtries" => Field::DebitCount,
        "TxsSummry/TtlDbtNtries/Sum" => Field::DebitSum,
        "Ntry" => Field::Entry,
        "Ntry/Amt" => Field::EntryAmount,
        "Ntry/CdtDbtInd" => Field::EntrySide,
        "Ntry/RvslInd" => Field::EntryIsReversal,
        // The second closes after the first and leaves no text behind.
        "Ntry/Sts" | "Ntry/Sts/Cd" => Field::EntryStatus,
        "Ntry/BookgDt/Dt" | "Ntry/BookgDt/DtTm" => Field::EntryBookedOn,
        "Ntry/ValDt/Dt" | "Ntry/ValDt/DtTm" => Field::EntryValuedOn,
        "Ntry/AcctSvcrRef" => Field::EntryBankReference,
        "Ntry/BkTxCd/Domn/Fmly/SubFmlyCd" => Field::EntryFamily,
        "Ntry/NtryDtls" => Field::Details,
        "Ntry/NtryDtls/Btch/NbOfTxs" => Field::BatchCount,
        "Ntry/NtryDtls/Btch/TtlAmt" => Field::BatchAmount,
        "Ntry/NtryDtls/TxDtls" => Field::Transaction,
        _ => return None,
    })
}

fn of_transaction(path: &str) -> Option<Field> {
    Some(match path {
        "Refs/EndToEndId" => Field::Key,
        "Refs/AcctSvcrRef" => Field::BankReference,
        "Amt" => Field::Amount,
        "CdtDbtInd" => Field::Side,
        "AmtDtls/TxAmt/Amt" => Field::BookedAmount,
        "AmtDtls/InstdAmt/Amt" => Field::InstructedAmount,
        "RtrInf" => Field::Return,
        "RltdDts/TxDtTm" | "RltdDts/AccptncDtTm" => Field::ExecutedAt,
        _ => return None,
    })
}

impl Field {
    /// For a sentence.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Id => "Id",
            Self::PageNumber => "PgNb",
            Self::IsLastPage => "LastPgInd",
            Self::From => "FrDtTm",
            Self::To => "ToDtTm",
            Self::AccountCurrency => "the Ccy of Acct",
            Self::Balance => "Bal",
            Self::BalanceCode => "the Cd of Bal",
            Self::BalanceAmount => "the Amt of Bal",
            Self::BalanceSide => "the CdtDbtInd of Bal",
            Self::BalanceDay => "the Dt of Bal",
            Self::AllCount => "the NbOfNtries of TtlNtries",
            Self::AllSum => "the Sum of TtlNtries",
            Self::AllNet => "the net amount of TtlNtries",
            Self::AllNetSide => "the CdtDbtInd of TtlNtries",
            Self::CreditCount => "the NbOfNtries of TtlCdtNtries",
            Self::CreditSum => "the Sum of TtlCdtNtries",
            Self::DebitCount => "the NbOfNtries of TtlDbtNtries",
            Self::DebitSum => "the Sum of TtlDbtNtries",
            Self::Entry => "Ntry",
            Self::EntryAmount => "the Amt of Ntry",
            Self::EntrySide => "the CdtDbtInd of Ntry",
            Self::EntryIsReversal => "RvslInd",
            Self::EntryStatus => "Sts",
            Self::EntryBookedOn => "BookgDt",
            Self::EntryValuedOn => "ValDt",
            Self::EntryBankReference => "the AcctSvcrRef of Ntry",
            Self::EntryFamily => "SubFmlyCd",
            Self::Details => "NtryDtls",
            Self::BatchCount => "NbOfTxs",
            Self::BatchAmount => "TtlAmt",
            Self::Transaction => "TxDtls",
            Self::Key => "EndToEndId",
            Self::BankReference => "the AcctSvcrRef of TxDtls",
            Self::Amount => "the Amt of TxDtls",
            Self::Side => "the CdtDbtInd of TxDtls",
            Self::BookedAmount => "the Amt of TxAmt",
            Self::InstructedAmount => "the Amt of InstdAmt",
            Self::Return => "RtrInf",
            Self::ExecutedAt => "RltdDts",
        }
    }
}

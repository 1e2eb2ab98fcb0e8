//! The formats that are read, and how one is named in a setting or on the command line.
//!
//! **Promise**: one text says all that a reader has to know, `name` or `name:option=value,option=value`, and what
//! it does not know is refused before a file is opened. [`Format`] displays as the text that it was read from,
//! options that are as always left out.
//!
//! ```text
//! sandbox
//! stripe:key=payment_metadata[order]           a column that carries our key
//! adyen:charges=credit,totals=required
//! camt.053:charges=debit                       charges leave the account
//! ```

use std::fmt;
use std::str::FromStr;

/// A format of reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// The simulated gateway's JSON lines.
    Sandbox,
    /// Stripe's itemised balance or payout report, CSV.
    StripeBalance(StripeColumns),
    /// Adyen's settlement details report, CSV.
    AdyenSettlement(AdyenColumns),
    /// ISO 20022 `camt.053`, a bank's statement.
    Camt053(CamtTerms),
    /// ISO 20022 `camt.054`, a bank's notification; several of one day add up.
    Camt054(CamtTerms),
}

/// Which side of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Money came in.
    Credit,
    /// Money went out.
    Debit,
}

/// Must a CSV file end with a row of totals? One that need not can lose its last rows without anybody seeing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Totals {
    /// Checked where there is one.
    Optional,
    /// A file without it is refused.
    Required,
}

/// Where Stripe's report has what we need beyond its fixed columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripeColumns {
    /// The column of our key: metadata of the payment.
    pub key: String,
    /// Must the file end with totals?
    pub totals: Totals,
}

/// Where Adyen's report has what we need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdyenColumns {
    /// The column of our key.
    pub key: String,
    /// The column of a refund's key.
    pub refund_key: String,
    /// The column of what is of the account's fees, each; absent ones cost nothing.
    pub fees: Vec<String>,
    /// In which of the two columns a charge's amount stands.
    pub charges: Side,
    /// Must the file end with totals?
    pub totals: Totals,
}

/// What a bank's file means for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CamtTerms {
    /// On which side of the account a charge is booked: debit where payments leave it, credit where it collects.
    pub charges: Side,
}

impl Default for StripeColumns {
    fn default() -> Self {
        Self { key: "payment_metadata[punctual_payment]".into(), totals: Totals::Optional }
    }
}

impl Default for AdyenColumns {
    fn default() -> Self {
        let fees = ["Commission (NC)", "Markup (NC)", "Scheme Fees (NC)", "Interchange (NC)"];
        Self {
            key: "Merchant Reference".into(),
            refund_key: "Modification Merchant Reference".into(),
            fees: fees.map(str::to_owned).into(),
            charges: Side::Credit,
            totals: Totals::Optional,
        }
    }
}

impl Default for CamtTerms {
    /// The actor is the payer: a payment leaves the account.
    fn default() -> Self {
        Self { charges: Side::Debit }
    }
}

/// A text that names no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchFormat {
    /// Another name.
    #[error("{0:?} is no format of reports; there are sandbox, stripe, adyen, camt.053 and camt.054")]
    Name(String),
    /// An option that this format does not have, or has been given.
    #[error("{format} has no option {option:?}, or it is there twice")]
    Option {
        /// The format's name.
        format: &'static str,
        /// The option.
        option: String,
    },
    /// A value that the option cannot have.
    #[error("the option {option} cannot be {value:?}")]
    Value {
        /// The option.
        option: String,
        /// The value.
        value: String,
    },
}

impl Side {
    /// As it stands in an option.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Credit => "credit",
            Self::Debit => "debit",
        }
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Credit => Self::Debit,
            Self::Debit => Self::Credit,
        }
    }
}

impl Format {
    /// Every format with its options as always.
    #[must_use]
    pub fn all() -> [Self; 5] {
        [
            Self::Sandbox,
            Self::StripeBalance(StripeColumns::default()),
            Self::AdyenSettlement(AdyenColumns::default()),
            Self::Camt053(CamtTerms::default()),
            Self::Camt054(CamtTerms::default()),
        ]
    }

    /// The name without options: what is stored beside a report.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::StripeBalance(_) => "stripe",
            Self::AdyenSettlement(_) => "adyen",
            Self::Camt053(_) => "camt.053",
            Self::Camt054(_) => "camt.054",
        }
    }

    fn option(&mut self, name: &str, value: &str) -> Result<(), NoSuchFormat> {
        let refused = || NoSuchFormat::Value { option: name.to_owned(), value: value.to_owned() };
        let text = || if value.is_empty() { Err(refused()) } else { Ok(value.to_owned()) };
        let side = || match value {
            "credit" => Ok(Side::Credit),
            "debit" => Ok(Side::Debit),
            _ => Err(refused()),
        };
        let totals = || match value {
            "optional" => Ok(Totals::Optional),
            "required" => Ok(Totals::Required),
            _ => Err(refused()),
        };
        let format = self.name();
        match (self, name) {
            (Self::StripeBalance(columns), "key") => columns.key = text()?,
            (Self::StripeBalance(columns), "totals") => columns.totals = totals()?,
            (Self::AdyenSettlement(columns), "key") => columns.key = text()?,
            (Self::AdyenSettlement(columns), "refund_key") => columns.refund_key = text()?,
            (Self::AdyenSettlement(columns), "fees") => {
                columns.fees = text()?.split('+').map(str::to_owned).collect();
            }
            (Self::AdyenSettlement(columns), "charges") => columns.charges = side()?,
            (Self::AdyenSettlement(columns), "totals") => columns.totals = totals()?,
            (Self::Camt053(terms) | Self::Camt054(terms), "charges") => terms.charges = side()?,
            _ => return Err(NoSuchFormat::Option { format, option: name.to_owned() }),
        }
        Ok(())
    }
}

impl FromStr for Format {
    type Err = NoSuchFormat;

    fn from_str(text: &str) -> Result<Self, NoSuchFormat> {
        let (name, options) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let named = Self::all().into_iter().find(|format| format.name() == name);
        let mut format = named.ok_or_else(|| NoSuchFormat::Name(name.to_owned()))?;
        let mut seen = Vec::new();
        for option in options.into_iter().flat_map(|options| options.split(',')) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if seen.contains(&name) {
                return Err(NoSuchFormat::Option { format: format.name(), option: name.to_owned() });
            }
            seen.push(name);
            format.option(name, value)?;
        }
        Ok(format)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Vec::new();
        match self {
            Self::Sandbox => {}
            Self::StripeBalance(columns) => {
                let usual = StripeColumns::default();
                options.extend((columns.key != usual.key).then(|| format!("key={}", columns.key)));
                options.extend(required(columns.totals));
            }
            Self::AdyenSettlement(columns) => {
                let usual = AdyenColumns::default();
                options.extend((columns.key != usual.key).then(|| format!("key={}", columns.key)));
                let refund_key = || format!("refund_key={}", columns.refund_key);
                options.extend((columns.refund_key != usual.refund_key).then(refund_key));
                options
                    .extend((columns.fees != usual.fees).then(|| format!("fees={}", columns.fees.join("+"))));
                options.extend((columns.charges != usual.charges).then(|| charges(columns.charges)));
                options.extend(required(columns.totals));
            }
            Self::Camt053(terms) | Self::Camt054(terms) => {
                options.extend((*terms != CamtTerms::default()).then(|| charges(terms.charges)));
            }
        }
        f.write_str(self.name())?;
        if options.is_empty() { Ok(()) } else { write!(f, ":{}", options.join(",")) }
    }
}

fn charges(side: Side) -> String {
    format!("charges={}", side.as_str())
}

fn required(totals: Totals) -> Option<String> {
    (totals == Totals::Required).then(|| "totals=required".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_reads_the_text_that_it_shows() {
        for text in [
            "sandbox",
            "stripe",
            "stripe:key=payment_metadata[order],totals=required",
            "adyen",
            "adyen:key=Order,refund_key=Refund,fees=Commission (NC)+Costs,charges=debit,totals=required",
            "camt.053",
            "camt.053:charges=credit",
            "camt.054:charges=credit",
        ] {
            assert_eq!(text.parse::<Format>().expect(text).to_string(), text);
        }
        assert_eq!("camt.054:charges=debit".parse::<Format>().expect("usual").to_string(), "camt.054");
        assert!(Format::all().iter().all(|format| format.to_string() == format.name()));
    }

    #[test]
    fn what_it_does_not_know_is_refused_by_name() {
        for (text, told) in [
            ("", "\"\" is no format of reports; there are sandbox, stripe, adyen, camt.053 and camt.054"),
            (
                "Stripe",
                "\"Stripe\" is no format of reports; there are sandbox, stripe, adyen, camt.053 and camt.054",
            ),
            ("sandbox:", "sandbox has no option \"\", or it is there twice"),
            ("sandbox:key=a", "sandbox has no option \"key\", or it is there twice"),
            ("stripe:charges=credit", "stripe has no option \"charges\", or it is there twice"),
            ("stripe:key=a,key=b", "stripe has no option \"key\", or it is there twice"),
            ("stripe:key=", "the option key cannot be \"\""),
            ("stripe:totals=yes", "the option totals cannot be \"yes\""),
            ("camt.053:charges=both", "the option charges cannot be \"both\""),
        ] {
            assert_eq!(text.parse::<Format>().expect_err(text).to_string(), told);
        }
    }
}

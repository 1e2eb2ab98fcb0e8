//! What a row of the table becomes: a static with the right number of labels.

use metrics::{Key, Label, Level, Metadata, Unit, with_recorder};
use std::time::Duration;

static METADATA: Metadata<'static> = Metadata::new("punctual", Level::INFO, None);

/// What is measured and how it behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations by size.
    Histogram,
}

/// The values a label may take.
#[derive(Debug, Clone, Copy)]
pub enum Values {
    /// These.
    Closed(&'static [&'static str]),
    /// These, from a table of the domain.
    Computed(fn() -> Vec<&'static str>),
    /// The names of the configured gateways.
    Configured,
    /// Few, and not known before they are seen.
    Open,
}

/// One label.
#[derive(Debug, Clone, Copy)]
pub struct LabelSet {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: Values,
}

/// One row of the table.
#[derive(Debug)]
pub struct Metric {
    /// With prefix and unit.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// Of its values.
    pub unit: Unit,
    /// One sentence.
    pub help: &'static str,
    /// In the order of the call site.
    pub labels: &'static [LabelSet],
    /// Upper bounds, ascending; only histograms have any.
    pub buckets: &'static [f64],
}

impl Metric {
    pub(super) fn key(&self, values: &[&str]) -> Key {
        let labels: Vec<Label> =
            self.labels.iter().zip(values).map(|(label, value)| label.with(value)).collect();
        Key::from_parts(self.name, labels)
    }
}

impl LabelSet {
    fn with(&self, value: &str) -> Label {
        // A listed value is handed on without being copied; so nearly every call allocates nothing
        // but the list itself.
        let listed = match self.values {
            Values::Closed(values) => values.iter().copied().find(|listed| *listed == value),
            Values::Computed(values) => values().into_iter().find(|listed| *listed == value),
            Values::Configured | Values::Open => return Label::new(self.name, value.to_owned()),
        };
        debug_assert!(listed.is_some(), "{value:?} is no declared value of the label {}", self.name);
        listed.map_or_else(
            || Label::new(self.name, value.to_owned()),
            |listed| Label::from_static_parts(self.name, listed),
        )
    }
}

macro_rules! kinds {
    ($( $(#[$doc:meta])* $Kind:ident $register:ident )*) => { $(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $Kind<const N: usize>(pub(super) Metric);

        impl<const N: usize> $Kind<N> {
            /// One series, to be kept where it is used thousands of times a second.
            pub fn series(&self, values: [&str; N]) -> metrics::$Kind {
                let key = self.0.key(&values);
                with_recorder(|recorder| recorder.$register(&key, &METADATA))
            }

            /// Its row.
            #[must_use]
            pub fn metric(&self) -> &Metric {
                &self.0
            }
        }
    )* };
}

kinds! {
    /// A counter with `N` labels.
    Counter register_counter
    /// A gauge with `N` labels.
    Gauge register_gauge
    /// A histogram with `N` labels.
    Histogram register_histogram
}

impl<const N: usize> Counter<N> {
    /// Counts `n` more.
    pub fn add(&self, n: u64, values: [&str; N]) {
        self.series(values).increment(n);
    }
}

impl<const N: usize> Gauge<N> {
    /// Sets it, in the row's unit.
    pub fn set(&self, value: f64, values: [&str; N]) {
        self.series(values).set(value);
    }

    /// Adds to it; negative takes away.
    pub fn shift(&self, by: f64, values: [&str; N]) {
        self.series(values).increment(by);
    }
}

impl<const N: usize> Histogram<N> {
    /// Records one observation.
    pub fn record(&self, length: Duration, values: [&str; N]) {
        self.series(values).record(length.as_secs_f64());
    }
}

macro_rules! metrics {
    ($( $Kind:ident $name:ident = $text:literal, $unit:ident, $help:literal,
        [$( $label:ident : $values:expr ),*], $buckets:expr; )*) => {
        $(
            #[doc = $help]
            pub static $name: $Kind<{ <[&str]>::len(&[$( stringify!($label) ),*]) }> = $Kind(Metric {
                name: concat!("punctual_", $text),
                kind: Kind::$Kind,
                unit: ::metrics::Unit::$unit,
                help: $help,
                labels: &[$( LabelSet { name: stringify!($label), values: $values } ),*],
                buckets: $buckets,
            });
        )*
        /// Every metric, in the order of the table.
        pub static METRICS: &[&Metric] = &[$( &$name.0 ),*];
    };
}
pub(super) use metrics;

//! From the table to `/metrics`: buckets, descriptions, the series that exist from the start, upkeep.
//!
//! A counter that first appears with its first event cannot be alerted on (its rate is unknown), so
//! every series whose labels are known beforehand is written as zero at the start.

use super::declare::{Kind, Metric, Values};
use super::{BUILD_INFO, METRICS, PAYMENT_TRANSITIONS, transitions};
use crate::platform::shutdown::Shutdown;
use metrics::{Recorder, SharedString};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use std::time::Duration;

/// The exporter keeps raw observations until it is asked to fold them; this bounds its memory.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Why nothing will be measured; a defect of the table or of the start-up.
#[derive(Debug, thiserror::Error)]
pub enum NotInstalled {
    /// The table has a histogram without buckets.
    #[error("the table of metrics cannot be built: {0}")]
    Table(#[from] BuildError),
    /// This process already measures.
    #[error("metrics were installed twice")]
    Twice,
}

/// What `/metrics` answers. Cheap to clone.
#[derive(Clone)]
pub struct Exposition(PrometheusHandle);

impl std::fmt::Debug for Exposition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exposition")
    }
}

impl Exposition {
    /// Of a recorder, which a test may have made for itself.
    #[must_use]
    pub fn of(recorder: &PrometheusRecorder) -> Self {
        Self(recorder.handle())
    }

    /// Prometheus text format, version 0.0.4.
    #[must_use]
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Folds observations away every few seconds until shutdown. Run it beside everything else: if
    /// it dies, memory grows with every observation.
    pub async fn upkeep(self, shutdown: Shutdown) {
        let mut ticks = tokio::time::interval(UPKEEP_EVERY);
        loop {
            tokio::select! {
                biased;
                () = shutdown.wait() => return,
                _ = ticks.tick() => self.0.run_upkeep(),
            }
        }
    }
}

/// Measures from now on, for the whole process.
///
/// # Errors
/// See [`NotInstalled`].
pub fn install(gateways: &[&str]) -> Result<Exposition, NotInstalled> {
    let recorder = recorder()?;
    let exposition = Exposition::of(&recorder);
    register(&recorder, gateways);
    metrics::set_global_recorder(recorder).map_err(|_| NotInstalled::Twice)?;
    Ok(exposition)
}

/// A recorder with the table's buckets, without which it would answer summaries.
///
/// # Errors
/// [`NotInstalled::Table`].
pub fn recorder() -> Result<PrometheusRecorder, NotInstalled> {
    let mut builder = PrometheusBuilder::new();
    for metric in METRICS.iter().filter(|metric| metric.kind == Kind::Histogram) {
        builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), metric.buckets)?;
    }
    Ok(builder.build_recorder())
}

/// Describes every metric and writes every series that is known beforehand as zero.
pub fn register(recorder: &dyn Recorder, gateways: &[&str]) {
    for metric in METRICS {
        let (name, unit, help) = (metric.name.into(), Some(metric.unit), SharedString::from(metric.help));
        match metric.kind {
            Kind::Counter => recorder.describe_counter(name, unit, help),
            Kind::Gauge => recorder.describe_gauge(name, unit, help),
            Kind::Histogram => recorder.describe_histogram(name, unit, help),
        }
    }
    metrics::with_local_recorder(recorder, || {
        for metric in METRICS {
            for values in known_series(metric, gateways) {
                touch(recorder, metric, &values);
            }
        }
        BUILD_INFO.set(1.0, [env!("CARGO_PKG_VERSION")]);
    });
}

fn touch(recorder: &dyn Recorder, metric: &Metric, values: &[&str]) {
    let metadata = metrics::Metadata::new("punctual", metrics::Level::INFO, None);
    let key = metric.key(values);
    match metric.kind {
        Kind::Counter => recorder.register_counter(&key, &metadata).absolute(0),
        // A gauge that nobody has set is not zero but unknown: it appears with its first value.
        Kind::Gauge => {}
        // Registered, it appears with empty buckets.
        Kind::Histogram => drop(recorder.register_histogram(&key, &metadata)),
    }
}

/// Every combination of label values, or none where a label is open.
fn known_series<'a>(metric: &Metric, gateways: &[&'a str]) -> Vec<Vec<&'a str>> {
    if metric.name == PAYMENT_TRANSITIONS.metric().name {
        return transitions().into_iter().map(|pair| pair.to_vec()).collect();
    }
    let mut series: Vec<Vec<&'a str>> = vec![Vec::new()];
    for label in metric.labels {
        let values: Vec<&'a str> = match label.values {
            Values::Closed(values) => values.to_vec(),
            Values::Computed(values) => values(),
            Values::Configured => gateways.to_vec(),
            Values::Open => Vec::new(),
        };
        series = series
            .iter()
            .flat_map(|start| values.iter().map(move |value| [start.as_slice(), &[*value]].concat()))
            .collect();
    }
    series
}

/// The README's table of metrics; a test holds the README equal to it.
#[must_use]
pub fn reference_markdown() -> String {
    let mut text = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    for metric in METRICS {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{}`", label.name)).collect();
        text.push_str(&format!("| `{}` | {kind} | {} | {} |\n", metric.name, labels.join(" "), metric.help));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{ATTEMPTS, CLAIMS, PARKED, PAYMENT_LATENESS, PAYMENTS_DUE_OLDEST_AGE};
    use super::*;
    use crate::domain::reason::Reason;
    use std::collections::BTreeSet;

    fn rendered(work: impl FnOnce()) -> String {
        let recorder = recorder().unwrap();
        let handle = recorder.handle();
        register(&recorder, &["sandbox"]);
        metrics::with_local_recorder(&recorder, work);
        handle.run_upkeep();
        handle.render()
    }

    #[test]
    fn counters_exist_as_zero_before_their_first_event() {
        let text = rendered(|| {});
        for line in [
            "punctual_payment_early_total 0",
            "punctual_claims_total{result=\"claimed\"} 0",
            "punctual_attempts_total{gateway=\"sandbox\",verdict=\"unknown\"} 0",
            "punctual_payment_transitions_total{to=\"UNKNOWN\",cause=\"lease_expired\"} 0",
            "punctual_build_info{version=\"0.1.0\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "missing {line} in\n{text}");
        }
        let parked = text.lines().filter(|line| line.starts_with("punctual_parked_total{")).count();
        assert_eq!(parked, Reason::ALL.len());
        assert!(
            !text.contains("punctual_payments_due_oldest_age_seconds{"),
            "a gauge nobody set must not say zero"
        );
        assert!(!text.contains("to=\"PENDING\",cause=\"lease_expired\""), "an illegal move has no series");
    }

    #[test]
    fn a_histogram_has_its_buckets_and_not_a_summary() {
        let text = rendered(|| PAYMENT_LATENESS.record(Duration::from_millis(200), []));
        assert!(text.contains("punctual_payment_lateness_seconds_bucket{le=\"0.1\"} 0"), "{text}");
        assert!(text.contains("punctual_payment_lateness_seconds_bucket{le=\"0.2\"} 1"), "{text}");
        assert!(text.contains("punctual_payment_lateness_seconds_bucket{le=\"60\"} 1"), "{text}");
        assert!(!text.contains("quantile"), "{text}");
    }

    #[test]
    fn a_call_counts_in_the_series_it_names() {
        let text = rendered(|| {
            CLAIMS.add(2, ["stale"]);
            ATTEMPTS.add(1, ["sandbox", "charged"]);
            PARKED.add(1, ["unproven_decline"]);
            PAYMENTS_DUE_OLDEST_AGE.set(3.0, ["sandbox"]);
        });
        for line in [
            "punctual_claims_total{result=\"stale\"} 2",
            "punctual_attempts_total{gateway=\"sandbox\",verdict=\"charged\"} 1",
            "punctual_parked_total{reason=\"unproven_decline\"} 1",
            "punctual_payments_due_oldest_age_seconds{gateway=\"sandbox\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "missing {line} in\n{text}");
        }
    }

    #[test]
    #[should_panic(expected = "no declared value of the label result")]
    fn an_undeclared_value_stops_a_debug_build() {
        CLAIMS.add(1, ["maybe"]);
    }

    #[test]
    fn names_follow_the_conventions_and_are_unique() {
        let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            let counter = metric.kind == Kind::Counter;
            assert_eq!(metric.name.ends_with("_total"), counter, "{}", metric.name);
            let seconds = metric.unit == metrics::Unit::Seconds;
            assert_eq!(metric.name.ends_with("_seconds"), seconds, "{}", metric.name);
            assert_eq!(metric.buckets.is_empty(), metric.kind != Kind::Histogram, "{}", metric.name);
            assert!(metric.buckets.is_sorted(), "{}", metric.name);
            assert!(metric.help.ends_with('.') && !metric.help.contains('|'), "{}", metric.name);
            for label in metric.labels {
                assert!(!label.name.ends_with("id"), "{} has an id as a label", metric.name);
            }
        }
    }
}

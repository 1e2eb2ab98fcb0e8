//! From spans to a collector: by OTLP, protobuf over HTTP, as the standard variables say.
//!
//! Read here: `OTEL_EXPORTER_OTLP_ENDPOINT` and `…_TRACES_ENDPOINT` (one of them turns tracing on),
//! `OTEL_SDK_DISABLED`, `OTEL_TRACES_EXPORTER` (`otlp` or `none`), the protocol (`http/protobuf` alone is spoken),
//! the sampler, and the service's name. Read by the library: headers, time-outs, limits, sizes of batches and
//! attributes of the resource.
//!
//! **Promises.** What is wrong with a variable is said at the start, with its name. A collector that is away costs lost
//! spans, counted, and one line when that begins and one when it ends; at the end of the process a few seconds. A
//! value of `…_HEADERS` is a secret and is printed nowhere.

use super::sampling::{self, sampler};
use super::{TRACER, is_on};
use crate::platform::metrics;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter as Otlp, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Spans that are still here when the process ends are given so long.
const LAST_WORDS: Duration = Duration::from_secs(1);

const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
const DISABLED: &str = "OTEL_SDK_DISABLED";
const SERVICE: &str = "OTEL_SERVICE_NAME";

/// Traces were asked for, and there will be none.
#[derive(Debug, thiserror::Error)]
pub enum NotTracing {
    /// A variable says something that cannot be had.
    #[error("{variable} {why}")]
    Variable {
        /// Which.
        variable: &'static str,
        /// What is wrong with it; never its value, which may be a secret.
        why: String,
    },
    /// What the library says.
    #[error("traces cannot be sent: {0}")]
    Exporter(String),
    /// Something started them before.
    #[error("traces were started twice")]
    Twice,
}

/// Sends spans while it is held; at the end the last ones.
#[derive(Debug)]
pub struct Exporting(Option<SdkTracerProvider>);

/// Starts tracing for the whole process, if the variables name a collector. `part` is what this process is, such as
/// `api`: the service is called `punctual-api` where no variable names it.
///
/// # Errors
/// See [`NotTracing`]; all are for the user (exit code 2).
pub fn start(part: &str) -> Result<Exporting, NotTracing> {
    let set = |variable: &str| std::env::var(variable).ok().filter(|text| !text.is_empty());
    if !wanted(&set)? || is_on() {
        return Ok(Exporting(None));
    }
    let sampler = sampler(set(sampling::SAMPLER).as_deref(), set(sampling::ARGUMENT).as_deref())?;
    let resource = Resource::builder()
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let is_named = set(SERVICE).is_some()
        || set("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|all| all.contains("service.name="));
    let resource =
        if is_named { resource } else { resource.with_service_name(format!("punctual-{part}")) }.build();
    let otlp = Otlp::builder().with_http().with_protocol(opentelemetry_otlp::Protocol::HttpBinary).build();
    let otlp = otlp.map_err(|error| NotTracing::Exporter(error.to_string()))?;
    let provider = SdkTracerProvider::builder()
        .with_sampler(sampler)
        .with_resource(resource)
        .with_batch_exporter(Counted { otlp, is_down: AtomicBool::new(false) })
        .build();
    TRACER.set(provider.tracer("punctual")).map_err(|_| NotTracing::Twice)?;
    Ok(Exporting(Some(provider)))
}

/// Whether the variables ask for traces that this build can send.
fn wanted(set: &impl Fn(&str) -> Option<String>) -> Result<bool, NotTracing> {
    let disabled = set(DISABLED).is_some_and(|text| text.eq_ignore_ascii_case("true"));
    if disabled || ENDPOINTS.iter().all(|variable| set(variable).is_none()) {
        return Ok(false);
    }
    match set(EXPORTER).as_deref() {
        None | Some("otlp") => {}
        Some("none") => return Ok(false),
        Some(_) => {
            let why = "is neither otlp nor none".to_owned();
            return Err(NotTracing::Variable { variable: EXPORTER, why });
        }
    }
    let told = PROTOCOLS.into_iter().find_map(|variable| Some((variable, set(variable)?)));
    match told {
        Some((variable, protocol)) if protocol != "http/protobuf" => Err(NotTracing::Variable {
            variable,
            why: "is not http/protobuf, the one that is spoken here; collectors listen for it at port 4318"
                .to_owned(),
        }),
        _ => Ok(true),
    }
}

impl Exporting {
    /// Whether there is a collector.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Sends what is left, for a few seconds at most. Call it outside of the runtime: it blocks.
    pub fn end(self) {
        if let Some(provider) = self.0 {
            // What could not be sent was said when it began.
            let _ended = provider.shutdown_with_timeout(LAST_WORDS);
        }
    }
}

/// Counts what goes out, and says once that it does not.
#[derive(Debug)]
struct Counted<E> {
    otlp: E,
    is_down: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for Counted<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let sent = self.otlp.export(batch).await;
        match &sent {
            Ok(()) => {
                metrics::TRACE_SPANS.add(spans, ["sent"]);
                if self.is_down.swap(false, Ordering::Relaxed) {
                    tracing::info!("traces are sent again");
                }
            }
            Err(error) => {
                metrics::TRACE_SPANS.add(spans, ["lost"]);
                if !self.is_down.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "traces cannot be sent; until they can, they are lost");
                }
            }
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.otlp.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.otlp.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.otlp.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn asked(variables: &[(&str, &str)]) -> Result<bool, String> {
        let all: BTreeMap<_, _> = variables.iter().copied().collect();
        wanted(&|name: &str| all.get(name).map(|&text| text.to_owned())).map_err(|error| error.to_string())
    }

    #[test]
    fn an_endpoint_turns_traces_on_and_two_variables_turn_them_off_again() {
        let here = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4318/v1/traces");
        assert_eq!(asked(&[]), Ok(false));
        assert_eq!(asked(&[("OTEL_SERVICE_NAME", "pay")]), Ok(false));
        assert_eq!(asked(&[here]), Ok(true));
        assert_eq!(asked(&[traces]), Ok(true));
        assert_eq!(asked(&[here, ("OTEL_TRACES_EXPORTER", "otlp")]), Ok(true));
        assert_eq!(asked(&[here, ("OTEL_TRACES_EXPORTER", "none")]), Ok(false));
        assert_eq!(asked(&[here, ("OTEL_SDK_DISABLED", "TRUE")]), Ok(false));
        assert_eq!(asked(&[here, ("OTEL_SDK_DISABLED", "false")]), Ok(true));
    }

    #[test]
    fn what_cannot_be_had_is_refused_by_its_variable() {
        let here = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        assert_eq!(asked(&[here, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")]), Ok(true));
        for (variable, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
        ] {
            let refused = asked(&[here, (variable, value)]).unwrap_err();
            assert!(
                refused.starts_with(&format!("{variable} is n")) && !refused.contains(value),
                "{refused}"
            );
        }
    }
}

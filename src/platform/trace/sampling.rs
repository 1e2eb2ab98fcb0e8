//! Which traces are kept: by `OTEL_TRACES_SAMPLER`, and so that a payment's traces are kept together.
//!
//! The library's samplers look at a span's parent. A claim has none: it is linked to the POST of hours ago. Sampled by
//! itself at one in a hundred, it would be there for one in ten thousand payments together with its POST. So a
//! span without a parent follows what it is linked to, wherever a span with one would follow that (the `parentbased`
//! samplers, the default among them).

use super::NotTracing;
use opentelemetry::trace::{Link, SpanKind, TraceId, TraceState};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};

/// A variable of OpenTelemetry's specification.
pub(super) const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
/// Another: the part that is kept, from 0 to 1.
pub(super) const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";

/// The sampler that these two name. What is misspelt is refused: everything sent by mistake is a bill.
pub(super) fn sampler(name: Option<&str>, argument: Option<&str>) -> Result<Sampler, NotTracing> {
    let part = || {
        let told = argument.map_or(Ok(1.0), str::parse::<f64>);
        match told {
            Ok(part) if (0.0..=1.0).contains(&part) => Ok(Sampler::TraceIdRatioBased(part)),
            _ => {
                Err(NotTracing::Variable { variable: ARGUMENT, why: "is not a part from 0 to 1".to_owned() })
            }
        }
    };
    let following = |root| Sampler::ParentBased(Box::new(Following { root }));
    match name.unwrap_or("parentbased_always_on") {
        "always_on" => Ok(Sampler::AlwaysOn),
        "always_off" => Ok(Sampler::AlwaysOff),
        "traceidratio" => part(),
        "parentbased_always_on" => Ok(following(Sampler::AlwaysOn)),
        "parentbased_always_off" => Ok(following(Sampler::AlwaysOff)),
        "parentbased_traceidratio" => part().map(following),
        _ => Err(NotTracing::Variable {
            variable: SAMPLER,
            why: "is none of always_on, always_off, traceidratio and parentbased_ with one of these"
                .to_owned(),
        }),
    }
}

/// For spans without a parent: kept if one of those that they are linked to was; judged by `root` if there is none.
#[derive(Debug, Clone)]
struct Following {
    root: Sampler,
}

impl ShouldSample for Following {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace_id: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        if links.is_empty() {
            return self.root.should_sample(parent, trace_id, name, kind, attributes, links);
        }
        let decision = if links.iter().any(|link| link.span_context.is_sampled()) {
            SamplingDecision::RecordAndSample
        } else {
            SamplingDecision::Drop
        };
        SamplingResult { decision, attributes: Vec::new(), trace_state: TraceState::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_names_are_known_and_others_refused() {
        for name in ["always_on", "always_off", "traceidratio", "parentbased_always_on"] {
            assert!(sampler(Some(name), None).is_ok(), "{name}");
        }
        for part in ["0", "0.01", "1"] {
            assert!(sampler(Some("parentbased_traceidratio"), Some(part)).is_ok(), "{part}");
        }
        let refused = sampler(Some("sometimes"), None).unwrap_err().to_string();
        assert!(refused.starts_with("OTEL_TRACES_SAMPLER is none of"), "{refused}");
        for part in ["1.5", "-1", "half", "NaN"] {
            let refused = sampler(Some("traceidratio"), Some(part)).unwrap_err().to_string();
            assert_eq!(refused, "OTEL_TRACES_SAMPLER_ARG is not a part from 0 to 1", "{part}");
        }
    }
}

//! Traces: what one request or one attempt did, by OpenTelemetry, for whoever runs a collector.
//!
//! On where `OTEL_EXPORTER_OTLP_ENDPOINT` (or its form for traces) names one, otherwise off: then a span is `None`,
//! which costs the look at a flag that never changes, no allocation and no clock. Everything else is said by the
//! standard variables too (`export`, `sampling`). A payment waits for hours between its POST and its claim, so these
//! are traces of their own, *linked* through the `traceparent` that the POST stored: a trace that is open for weeks is
//! shown by no tool.
//!
//! **Promises.** Tracing decides nothing, fails nothing and waits for nobody: spans go through a bounded queue to a
//! thread of their own, and what does not fit or cannot be sent is lost and counted. No span carries a payee, a key, a
//! body or anything that a client wrote, but for ids. **Why not a layer over the logs**: spans of a batch have
//! instants and links of their own, and a filter of logs must not decide what is traced. Instants of spans are the
//! host's, read by the library: no rule looks at them, and the simulation traces nothing.
//!
//! **If this dies**, the traces of the last seconds are missing.

mod export;
mod sampling;

pub use export::{Exporting, NotTracing, start};

use opentelemetry::trace::{
    Link, Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
    Tracer,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::{SdkTracer, Span as Live};
use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Whether there is anybody to send spans to. Settled before the first part of the process starts.
#[must_use]
pub fn is_on() -> bool {
    TRACER.get().is_some()
}

/// What a span is about, as seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Answers a request.
    Server,
    /// Asks somebody else.
    Client,
    /// Puts something where somebody takes it up later.
    Producer,
    /// Takes such a thing up.
    Consumer,
    /// Neither.
    Internal,
}

impl Kind {
    fn told(self) -> SpanKind {
        match self {
            Self::Server => SpanKind::Server,
            Self::Client => SpanKind::Client,
            Self::Producer => SpanKind::Producer,
            Self::Consumer => SpanKind::Consumer,
            Self::Internal => SpanKind::Internal,
        }
    }
}

/// Something that is being traced, or nothing. Ends when it is dropped.
#[derive(Default)]
pub struct Span(Option<Box<Live>>);

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Span(on)" } else { "Span(off)" })
    }
}

/// The beginning of a span.
#[derive(Debug)]
pub struct Beginning<'a> {
    name: &'static str,
    kind: Kind,
    parent: Option<SpanContext>,
    links: Vec<Link>,
    ago: Duration,
    tracer: Option<&'a SdkTracer>,
}

/// Begins a trace, or a part of one if a parent is named.
#[must_use]
pub fn span(name: &'static str, kind: Kind) -> Beginning<'static> {
    begin(TRACER.get(), name, kind)
}

fn begin<'a>(tracer: Option<&'a SdkTracer>, name: &'static str, kind: Kind) -> Beginning<'a> {
    Beginning { name, kind, parent: None, links: Vec::new(), ago: Duration::ZERO, tracer }
}

impl Beginning<'_> {
    /// As a part of what another process does, if that was told (W3C Trace Context).
    #[must_use]
    pub fn told_by(mut self, traceparent: Option<&str>) -> Self {
        if self.tracer.is_some() {
            self.parent = traceparent.and_then(read);
        }
        self
    }

    /// Beside these traces, from which it follows; what is no trace context is passed over.
    #[must_use]
    pub fn linked<'t>(mut self, traceparents: impl IntoIterator<Item = Option<&'t str>>) -> Self {
        if self.tracer.is_some() {
            let contexts = traceparents.into_iter().flatten().filter_map(read);
            self.links.extend(contexts.map(Link::with_context));
        }
        self
    }

    /// It began so long before now.
    #[must_use]
    pub fn begun(mut self, ago: Duration) -> Self {
        self.ago = ago;
        self
    }

    /// From now on it is traced.
    #[must_use]
    pub fn start(self) -> Span {
        let Some(tracer) = self.tracer else { return Span(None) };
        let builder = tracer.span_builder(self.name).with_kind(self.kind.told()).with_links(self.links);
        let builder = match SystemTime::now().checked_sub(self.ago) {
            Some(began_at) => builder.with_start_time(began_at),
            None => builder,
        };
        let parent = self.parent.map_or_else(Context::new, |it| Context::new().with_remote_span_context(it));
        Span(Some(Box::new(tracer.build_with_context(builder, &parent))))
    }
}

impl Span {
    /// A part of it.
    #[must_use]
    pub fn child(&self, name: &'static str, kind: Kind) -> Beginning<'static> {
        self.child_of(TRACER.get(), name, kind)
    }

    fn child_of<'a>(&self, tracer: Option<&'a SdkTracer>, name: &'static str, kind: Kind) -> Beginning<'a> {
        let tracer = tracer.filter(|_| self.0.is_some());
        Beginning {
            parent: self.0.as_ref().map(|live| live.span_context().clone()),
            ..begin(tracer, name, kind)
        }
    }

    /// Its context as W3C Trace Context writes it: what a POST stores, and what a link names hours later.
    #[must_use]
    pub fn traceparent(&self) -> Option<String> {
        let context = self.0.as_ref()?.span_context();
        let flags = context.trace_flags() & TraceFlags::SAMPLED;
        context.is_valid().then(|| {
            format!("00-{:032x}-{:016x}-{:02x}", context.trace_id(), context.span_id(), flags.to_u8())
        })
    }

    /// What logs name it by, if it is recorded.
    #[must_use]
    pub fn trace_id(&self) -> Option<String> {
        let live = self.0.as_ref().filter(|live| live.is_recording())?;
        Some(format!("{:032x}", live.span_context().trace_id()))
    }

    /// Adds what `value` says, which is asked only if it is recorded.
    pub fn say<V: Into<Value>>(&mut self, key: &'static str, value: impl FnOnce() -> V) {
        if let Some(live) = self.0.as_mut().filter(|live| live.is_recording()) {
            live.set_attribute(KeyValue::new(key, value()));
        }
    }

    /// Names it anew, once more is known.
    pub fn called(&mut self, name: impl FnOnce() -> String) {
        if let Some(live) = self.0.as_mut().filter(|live| live.is_recording()) {
            live.update_name(name());
        }
    }

    /// It did not go well; fixed words.
    pub fn failed(&mut self, why: &'static str) {
        if let Some(live) = self.0.as_mut() {
            live.set_status(Status::error(why));
        }
    }

    /// Ends now; what is said afterwards is said to nobody.
    pub fn end(&mut self) {
        if let Some(mut live) = self.0.take() {
            live.end();
        }
    }
}

/// A trace context of version 00; anything else is none.
fn read(text: &str) -> Option<SpanContext> {
    let mut parts = text.split('-');
    let mut next = |length| parts.next().filter(|part| part.len() == length);
    let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED,
        true,
        TraceState::default(),
    );
    (version == "00" && parts.next().is_none() && context.is_valid()).then_some(context)
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;

//! Spans as an exporter gets them, from a tracer of the test's own.

use super::*;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use std::sync::{Arc, Mutex};

const POST: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NOT_KEPT: &str = "00-1bf7651916cd43dd8448eb211c80319c-c7ad6b7169203331-00";

#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

fn tracer(name: &str, argument: Option<&str>) -> (SdkTracer, Kept) {
    let kept = Kept::default();
    let sampler = sampling::sampler(Some(name), argument).unwrap();
    let provider =
        SdkTracerProvider::builder().with_sampler(sampler).with_simple_exporter(kept.clone()).build();
    (provider.tracer("test"), kept)
}

fn names(kept: &Kept) -> Vec<String> {
    kept.0.lock().unwrap().iter().map(|span| span.name.to_string()).collect()
}

#[test]
fn without_a_collector_there_is_no_span_and_nothing_is_asked() {
    let mut span = begin(None, "attempt", Kind::Consumer).linked([Some(POST)]).start();
    span.say("payment", || -> String { unreachable!("nobody listens") });
    assert!(span.child_of(None, "charge", Kind::Client).start().0.is_none());
    assert_eq!((span.traceparent(), span.trace_id()), (None, None));
    assert_eq!(format!("{span:?}"), "Span(off)");
    assert_eq!(size_of::<Span>(), size_of::<usize>());
}

#[test]
fn an_attempt_is_a_trace_of_its_own_that_is_linked_to_the_posts() {
    let (tracer, kept) = tracer("parentbased_always_on", None);
    let post = begin(Some(&tracer), "POST /v1/payments", Kind::Server).told_by(Some(POST)).start();
    let stored = post.traceparent().unwrap();
    assert!(
        stored.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && stored.ends_with("-01"),
        "{stored}"
    );
    drop(post);

    let attempt = begin(Some(&tracer), "attempt", Kind::Consumer).linked([Some(stored.as_str()), None]);
    let mut attempt = attempt.begun(Duration::from_secs(2)).start();
    attempt.say("punctual.payment.id", || "p");
    attempt.child_of(Some(&tracer), "charge", Kind::Client).start().end();
    attempt.failed("unknown");
    attempt.end();

    let spans = kept.0.lock().unwrap();
    let [post, charge, attempt] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(post.parent_span_id.to_string(), "b7ad6b7169203331");
    assert!(post.parent_span_is_remote);
    assert_ne!(attempt.span_context.trace_id(), post.span_context.trace_id());
    assert_eq!(attempt.links.links.len(), 1);
    assert_eq!(attempt.links.links[0].span_context.span_id(), post.span_context.span_id());
    assert_eq!(attempt.links.links[0].span_context.trace_id(), post.span_context.trace_id());
    assert_eq!(charge.parent_span_id, attempt.span_context.span_id());
    assert!(attempt.end_time.duration_since(attempt.start_time).unwrap() >= Duration::from_secs(2));
    assert_eq!(attempt.status, Status::error("unknown"));
    assert_eq!(attempt.attributes, [KeyValue::new("punctual.payment.id", "p")]);
}

#[test]
fn what_follows_is_kept_if_what_it_follows_was() {
    let (tracer, kept) = tracer("parentbased_traceidratio", Some("0"));
    drop(begin(Some(&tracer), "of itself", Kind::Server).start());
    drop(begin(Some(&tracer), "of one not kept", Kind::Consumer).linked([Some(NOT_KEPT)]).start());
    drop(begin(Some(&tracer), "of both", Kind::Producer).linked([Some(NOT_KEPT), Some(POST)]).start());
    drop(begin(Some(&tracer), "of a caller", Kind::Server).told_by(Some(POST)).start());
    assert_eq!(names(&kept), ["of both", "of a caller"]);
}

#[test]
fn what_is_not_kept_is_stored_as_that_and_says_nothing() {
    let (tracer, kept) = tracer("parentbased_always_on", None);
    let mut post = begin(Some(&tracer), "POST", Kind::Server).told_by(Some(NOT_KEPT)).start();
    let stored = post.traceparent().unwrap();
    assert!(
        stored.starts_with("00-1bf7651916cd43dd8448eb211c80319c-") && stored.ends_with("-00"),
        "{stored}"
    );
    assert_eq!(post.trace_id(), None);
    post.say("payment", || -> String { unreachable!("it is not recorded") });
    drop(post);
    assert_eq!(names(&kept), [""; 0]);
}

#[test]
fn what_is_no_trace_context_is_passed_over() {
    let (tracer, kept) = tracer("always_on", None);
    for bad in [
        "",
        "00",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
    ] {
        drop(begin(Some(&tracer), "attempt", Kind::Consumer).told_by(Some(bad)).linked([Some(bad)]).start());
        let spans = std::mem::take(&mut *kept.0.lock().unwrap());
        assert!(spans[0].links.links.is_empty() && spans[0].parent_span_id == SpanId::INVALID, "{bad}");
    }
}

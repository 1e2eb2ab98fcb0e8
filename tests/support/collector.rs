//! A collector of traces that a test runs by itself: OTLP as protobuf over HTTP, read with the messages of its own
//! specification. It ends with the value.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

/// A span as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// `service.name` of its process.
    pub service: String,
    pub name: String,
    /// Lower-case hex, all three.
    pub trace: String,
    pub id: String,
    pub parent: String,
    /// Trace and span of each link.
    pub links: Vec<(String, String)>,
    pub attributes: BTreeMap<String, String>,
    /// `true`: it says that it did not go well.
    pub failed: bool,
    /// Nanoseconds since 1970.
    pub began_ns: u64,
    pub ended_ns: u64,
}

impl Told {
    /// What it says under this name; empty if it does not.
    pub fn says(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).map_or("", String::as_str)
    }
}

#[derive(Default)]
struct Got {
    spans: Mutex<Vec<Told>>,
    /// All bytes and headers, for whoever looks for what must not be there.
    raw: Mutex<Vec<u8>>,
    asked: AtomicUsize,
    refuses: AtomicUsize,
}

/// The collector.
pub struct Collector {
    pub url: String,
    got: Arc<Got>,
    serving: JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Collector {
    pub async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let got = Arc::new(Got::default());
        let routes = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&got));
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.expect("it serves") });
        Self { url, got, serving }
    }

    /// From now on answers 503, or takes spans again.
    pub fn refuse(&self, refuses: Refuses) {
        self.got.refuses.store(usize::from(refuses == Refuses::All), Ordering::Relaxed);
    }

    /// How often it was asked to take spans.
    pub fn asked(&self) -> usize {
        self.got.asked.load(Ordering::Relaxed)
    }

    /// Every span so far.
    pub fn spans(&self) -> Vec<Told> {
        self.got.spans.lock().expect("no panic").clone()
    }

    /// Everything so far, byte for byte.
    pub fn raw(&self) -> Vec<u8> {
        self.got.raw.lock().expect("no panic").clone()
    }
}

/// What it does with spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refuses {
    All,
    None,
}

async fn take(State(got): State<Arc<Got>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    got.asked.fetch_add(1, Ordering::Relaxed);
    if got.refuses.load(Ordering::Relaxed) == 1 {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    if headers.get("content-type").is_none_or(|kind| kind != "application/x-protobuf") {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE;
    }
    got.raw.lock().expect("no panic").extend_from_slice(&body);
    let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    let mut spans = got.spans.lock().expect("no panic");
    for of_process in request.resource_spans {
        let resource = of_process.resource.unwrap_or_default();
        let service = texts(&resource.attributes).remove("service.name").unwrap_or_default();
        let all = of_process.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.extend(all.map(|span| told(&service, span)));
    }
    StatusCode::OK
}

fn told(service: &str, span: Span) -> Told {
    Told {
        service: service.to_owned(),
        name: span.name,
        trace: hex::encode(span.trace_id),
        id: hex::encode(span.span_id),
        parent: hex::encode(span.parent_span_id),
        links: span.links.iter().map(|it| (hex::encode(&it.trace_id), hex::encode(&it.span_id))).collect(),
        attributes: texts(&span.attributes),
        failed: span.status.is_some_and(|status| status.code == 2),
        began_ns: span.start_time_unix_nano,
        ended_ns: span.end_time_unix_nano,
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: Option<Value>| match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(yes)) => yes.to_string(),
        other => format!("{other:?}"),
    };
    let pairs = attributes.iter();
    pairs.map(|pair| (pair.key.clone(), text(pair.value.clone().and_then(|any| any.value)))).collect()
}

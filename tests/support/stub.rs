//! An HTTP server that answers as a test tells it and remembers what it was asked, and the binary under
//! test as a client of it: for what commands of people send and say, without any service.

use super::installation::PUNCTUAL;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Request, Response};
use serde_json::Value;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// `GET`
    pub method: String,
    /// With its query.
    pub path: String,
    /// `Idempotency-Key`
    pub key: Option<String>,
    /// `Authorization`
    pub authorization: Option<String>,
    /// Its JSON; null for none.
    pub body: Value,
}

/// What is answered.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Header names and values.
    pub headers: Vec<(&'static str, String)>,
    /// The body, as it is.
    pub body: String,
}

impl Reply {
    /// JSON with this status.
    pub fn json(status: u16, body: &Value) -> Self {
        Self { status, headers: vec![("content-type", "application/json".into())], body: body.to_string() }
    }

    /// A refusal with this code.
    pub fn problem(status: u16, code: &str) -> Self {
        let body =
            serde_json::json!({"status": status, "code": code, "detail": "It is so.", "requestId": "r-1"});
        Self::json(status, &body)
    }

    /// With this header.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

type Answer = Arc<dyn Fn(&Seen, usize) -> Reply + Send + Sync>;

/// A running one; it ends with the test's runtime.
#[derive(Clone)]
pub struct Stub {
    /// `http://host:port`
    pub url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    answer: Answer,
}

impl Stub {
    /// Starts one. `answer` gets the request and how many came before it.
    pub async fn start(answer: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let stub = Self { url, seen: Arc::default(), answer: Arc::new(answer) };
        let routes = Router::new().fallback(take).with_state(stub.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        stub
    }

    /// What was asked so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no handler panicked").clone()
    }

    /// Runs a command as a client of it.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        run(&self.url, arguments).await
    }
}

async fn take(State(stub): State<Stub>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let header = |name: &str| Some(parts.headers.get(name)?.to_str().ok()?.to_owned());
    let bytes = to_bytes(body, 16 << 20).await.unwrap_or_default();
    let seen = Seen {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        key: header("idempotency-key"),
        authorization: header("authorization"),
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    };
    let before = {
        let mut all = stub.seen.lock().expect("no handler panicked");
        all.push(seen.clone());
        all.len() - 1
    };
    let reply = (stub.answer)(&seen, before);
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(reply.body)).expect("a response")
}

/// A command that ended.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code.
    pub code: Option<i32>,
    /// Its answer.
    pub out: String,
    /// What it said about it.
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

/// The binary with nothing of this process's settings, as a client of the API at `url`.
pub fn client(url: &str) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(PUNCTUAL);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("PUNCTUAL_URL", url).env("PUNCTUAL_API_KEY", "pk_test_stub");
    command.current_dir(std::env::temp_dir()).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs it to its end.
pub async fn run(url: &str, arguments: &[&str]) -> Ran {
    client(url).args(arguments).output().await.expect("the binary runs").into()
}

//! `/docs`: the document as a page on which requests can be tried, without any network but this process.
//!
//! The page is Swagger UI, embedded unmodified by `utoipa-swagger-ui` from its vendored copy. Its policy lets it
//! load nothing from elsewhere and run nothing that stands in a page: a key that is typed into it goes to this
//! interface and nowhere else.

use super::openapi::{self, Answer, Operation, Parameter, Place};
use super::problem::{Code, Problem};
use axum::body::Body;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, LOCATION};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use std::sync::Arc;
use utoipa_swagger_ui::Config;

/// Styles may be set by the page's own script, and icons are written as `data:`.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PAGE: Answer = Answer {
    status: 200,
    about: "The page, or what it loads.",
    media: "text/html",
    schema: "",
    headers: &["Content-Security-Policy"],
    leads_to: &[],
};

pub(super) const TOLD: &[Operation] = &[
    Operation {
        path: "/docs",
        id: "docs",
        tag: "about",
        summary: "The way to the page",
        answers: &[Answer {
            status: 308,
            about: "To /docs/, beside which the page finds what it loads.",
            media: "",
            headers: &["Location"],
            ..PAGE
        }],
        ..Operation::BARE
    },
    Operation {
        path: "/docs/",
        id: "docsPage",
        tag: "about",
        summary: "This document as a page",
        answers: &[PAGE],
        ..Operation::BARE
    },
    Operation {
        path: "/docs/{file}",
        id: "docsFile",
        tag: "about",
        summary: "What the page loads",
        parameters: &[Parameter {
            place: Place::Path,
            name: "file",
            schema: r#"{"type":"string","minLength":1,"examples":["swagger-ui.css"]}"#,
            about: "Its name.",
        }],
        answers: &[Answer { media: "*/*", ..PAGE }],
        refusals: &[Code::RouteNotFound],
        ..Operation::BARE
    },
];

pub(super) async fn way() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/docs/"));
    response
}

pub(super) async fn page() -> Response<Body> {
    served("index.html").into_response()
}

pub(super) async fn file(path: Result<Path<String>, PathRejection>) -> Response<Body> {
    let name = path.map(|Path(name)| name).unwrap_or_default();
    served(&name).into_response()
}

fn served(name: &str) -> Result<Response<Body>, Problem> {
    // No badge of a validator on somebody else's server.
    let config = Config::new(["/openapi.json"]).validator_url("none").try_it_out_enabled(true);
    let found = utoipa_swagger_ui::serve(name, Arc::new(config));
    let file = found.ok().flatten().ok_or_else(openapi::nothing_here)?;
    let kind = HeaderValue::from_str(&file.content_type).map_err(|_| openapi::nothing_here())?;
    let mut response = Response::new(Body::from(file.bytes.into_owned()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    async fn text(name: &str) -> String {
        let response = served(name).unwrap_or_else(|problem| panic!("{name}: {problem:?}"));
        assert_eq!(response.headers()[CONTENT_SECURITY_POLICY], POLICY, "{name}");
        String::from_utf8_lossy(&response.into_body().collect().await.unwrap().to_bytes()).into_owned()
    }

    #[tokio::test]
    async fn the_page_and_all_that_it_loads_come_from_here() {
        let page = text("index.html").await;
        let mut loaded = 0;
        for attribute in ["src=\"", "href=\""] {
            for link in page.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(!link.contains("//"), "{link} is elsewhere");
                text(link.trim_start_matches("./")).await;
                loaded += 1;
            }
        }
        assert!(loaded >= 4, "{loaded} links in {page}");
        // What stands in the page itself would not run under the policy.
        for script in page.split("<script").skip(1) {
            let (tag, rest) = script.split_once('>').unwrap();
            assert!(tag.contains("src=") && rest.trim_start().starts_with("</script>"), "{script}");
        }
        assert!(text("swagger-initializer.js").await.contains("/openapi.json"));
        for name in ["..", "../Cargo.toml", "nothing.js"] {
            assert_eq!(served(name).unwrap_err().code, Code::RouteNotFound, "{name:?}");
        }
    }
}

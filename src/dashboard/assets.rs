//! Styles, scripts and the icon: embedded, and served under names that say what is in them.
//!
//! **Promises.** A file's name holds its SHA-256, so a browser keeps it for a year and asks for another one as soon
//! as its text is another. What others wrote lies unmodified in `assets/vendor/`, with its licence and the list of
//! checksums that a test holds (`assets/vendor/SHA256SUMS`); nothing is loaded from elsewhere.

use super::show::Shown;
use crate::intake::{Code, Problem};
use axum::body::Body;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::Response;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// Characters of the checksum in a name.
const SHOWN: usize = 16;

/// Kept for a year: another text has another name.
const FOR_GOOD: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

struct Asset {
    /// As templates name it.
    name: &'static str,
    /// As browsers name it.
    served_as: String,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($( $name:literal = $file:literal, $kind:literal; )*) => {
        static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
            vec![ $( Asset::of($name, $kind, include_bytes!(concat!("assets/", $file))), )* ]
        });
    };
}

assets! {
    "punctual.css" = "punctual.css", "text/css; charset=utf-8";
    "machine.css" = "machine.css", "text/css; charset=utf-8";
    "life.css" = "life.css", "text/css; charset=utf-8";
    "punctual.js" = "punctual.js", "text/javascript; charset=utf-8";
    "icon.svg" = "icon.svg", "image/svg+xml";
    "htmx.js" = "vendor/htmx/htmx.min.js", "text/javascript; charset=utf-8";
    "uplot.js" = "vendor/uplot/uPlot.iife.min.js", "text/javascript; charset=utf-8";
    "uplot.css" = "vendor/uplot/uPlot.min.css", "text/css; charset=utf-8";
}

impl Asset {
    fn of(name: &'static str, kind: &'static str, bytes: &'static [u8]) -> Self {
        let checksum = hex::encode(Sha256::digest(bytes));
        let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
        Self { name, served_as: format!("{stem}.{}.{end}", &checksum[..SHOWN]), kind, bytes }
    }
}

/// The path of a file by the name that templates use.
pub(super) fn way(name: &str) -> String {
    let found = ASSETS.iter().find(|asset| asset.name == name);
    debug_assert!(found.is_some(), "{name} is no asset");
    found.map_or_else(String::new, |asset| format!("/ui/assets/{}", asset.served_as))
}

pub(super) async fn get(path: Result<Path<String>, PathRejection>) -> Shown {
    let name = path.map(|Path(name)| name).unwrap_or_default();
    let found = ASSETS.iter().find(|asset| asset.served_as == name);
    let asset = found.ok_or_else(|| Problem::new(Code::RouteNotFound))?;
    let mut response = Response::new(Body::from(asset.bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    headers.insert(CACHE_CONTROL, FOR_GOOD);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_served_under_the_name_of_its_checksum_alone() {
        let way = way("htmx.js");
        let name = way.strip_prefix("/ui/assets/").unwrap().to_owned();
        assert!(name.starts_with("htmx.") && name.len() == "htmx..js".len() + SHOWN, "{name}");
        let response = get(Ok(Path(name))).await.unwrap();
        assert_eq!(response.headers()[CACHE_CONTROL], FOR_GOOD);
        assert!(get(Ok(Path("htmx.js".into()))).await.is_err());
    }
}

//! A person's browser without scripts: it logs in by the form, keeps its cookies, and times what it is shown.

use crate::support::installation::Installation;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use url::form_urlencoded;

/// A key of this person that may look at everything.
pub(super) fn key_of(site: &Installation, person: &str) -> String {
    let scopes = ["--scope", "ops:read", "--scope", "payments:read", "-o", "json"];
    let made = site.run(&[&["keys", "create", "--actor", person][..], &scopes].concat());
    let made: serde_json::Value = serde_json::from_str(&made).expect("JSON of the key");
    made["apiKey"].as_str().expect("the key's text").to_owned()
}

/// Somebody who is logged in.
#[derive(Debug)]
pub(crate) struct Visitor {
    http: reqwest::Client,
    url: String,
    cookies: BTreeMap<String, String>,
}

/// What was shown.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) status: u16,
    pub(crate) text: String,
    /// From the request to the last byte.
    pub(crate) took: Duration,
}

impl Shown {
    /// What stands between `before` and the next quote, unescaped.
    pub(crate) fn quoted(&self, before: &str) -> Option<String> {
        let (_, rest) = self.text.split_once(before)?;
        let found = rest.split('"').next()?;
        Some(found.replace("&#38;", "&").replace("&amp;", "&"))
    }

    /// What the banner says is wrong: check and what was seen of each.
    pub(crate) fn problems(&self) -> Vec<(String, String)> {
        let Some((_, rest)) = self.text.split_once("<aside id=\"problems\"") else { return Vec::new() };
        let banner = rest.split("</aside>").next().unwrap_or_default();
        let lines = banner.split("<li><strong>").skip(1);
        let found = lines.filter_map(|line| {
            let (check, rest) = line.split_once("</strong> ")?;
            Some((check.to_owned(), rest.split(": ").next()?.to_owned()))
        });
        found.collect()
    }
}

impl Visitor {
    /// Logs in with this key.
    ///
    /// # Panics
    /// Unless the door opens.
    pub(crate) async fn enter(url: &str, key: &str) -> Self {
        let quiet = reqwest::redirect::Policy::none();
        let http = reqwest::Client::builder().no_proxy().redirect(quiet).build().expect("a client");
        let mut visitor = Self { http, url: url.to_owned(), cookies: BTreeMap::new() };
        let token = visitor.open("/ui/login").await.quoted("name=\"csrf\" value=\"").expect("a token");
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("csrf", &token)
            .append_pair("key", key)
            .finish();
        let form = visitor.http.post(format!("{url}/ui/login"));
        let form = form.header("Content-Type", "application/x-www-form-urlencoded").body(body);
        let answer = visitor.send(form).await;
        let leads_to = answer.headers().get(LOCATION).and_then(|way| way.to_str().ok()).unwrap_or_default();
        assert_eq!((answer.status().as_u16(), leads_to), (303, "/ui"), "the log-in");
        visitor
    }

    /// Asks for a page, whatever comes.
    pub(crate) async fn open(&mut self, path: &str) -> Shown {
        let began = Instant::now();
        let answer = self.send(self.http.get(format!("{}{path}", self.url))).await;
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("a body");
        Shown { status, text, took: began.elapsed() }
    }

    /// Opens the stream of looks.
    pub(crate) async fn stream(&mut self) -> reqwest::Response {
        let answer = self.send(self.http.get(format!("{}/ui/stream", self.url))).await;
        assert_eq!(answer.status().as_u16(), 200, "the stream");
        answer
    }

    async fn send(&mut self, request: reqwest::RequestBuilder) -> reqwest::Response {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = if cookies.is_empty() { request } else { request.header(COOKIE, cookies.join("; ")) };
        let answer = request.send().await.expect("the pages answer");
        for cookie in answer.headers().get_all(SET_COOKIE) {
            let pair = cookie.to_str().expect("a text").split(';').next().expect("a cookie");
            let (name, value) = pair.split_once('=').expect("a cookie");
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        answer
    }
}

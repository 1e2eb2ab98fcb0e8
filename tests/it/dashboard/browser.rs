//! A browser without scripts: it keeps cookies, follows redirects one at a time, and submits the forms that a page
//! has with what the page put into them. What every page must be is held on each that is opened.

use crate::support::api::Api;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use std::collections::BTreeMap;
use url::form_urlencoded;

/// One person's browser.
#[derive(Debug)]
pub(crate) struct Browser<'a> {
    api: &'a Api,
    http: reqwest::Client,
    pub(crate) cookies: BTreeMap<String, String>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Page {
    /// Where it leads.
    pub(crate) fn leads_to(&self) -> &str {
        assert_eq!(self.status, 303, "{}", self.text);
        self.header(LOCATION.as_str())
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a text"))
    }

    /// The token that its forms carry.
    pub(crate) fn token(&self) -> String {
        let (_, rest) = self.text.split_once("name=\"csrf\" value=\"").expect("a form with a token");
        rest.split('"').next().expect("a value").to_owned()
    }

    pub(crate) fn says(&self, text: &str) -> bool {
        self.text.contains(text)
    }
}

impl<'a> Browser<'a> {
    pub(crate) fn new(api: &'a Api) -> Self {
        let quiet = reqwest::redirect::Policy::none();
        let http = reqwest::Client::builder().no_proxy().redirect(quiet).build().expect("a client");
        Self { api, http, cookies: BTreeMap::new() }
    }

    /// One that a person of these scopes has logged in with.
    pub(crate) async fn of(api: &'a Api, actor: &str, scopes: &[&str]) -> Self {
        let key = api.new_key(actor, scopes).await;
        let mut browser = Self::new(api);
        let page = browser.log_in(&key).await;
        assert_eq!(page.leads_to(), "/ui");
        browser
    }

    /// Fills in the form of the log-in.
    pub(crate) async fn log_in(&mut self, key: &str) -> Page {
        let token = self.open("/ui/login").await.token();
        self.post("/ui/login", &[("csrf", &token), ("key", key)]).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Page {
        let request = self.http.get(format!("{}{path}", self.api.url));
        self.send(request).await
    }

    /// Opens a page that must be there.
    pub(crate) async fn open(&mut self, path: &str) -> Page {
        let page = self.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        page
    }

    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.http.post(format!("{}{path}", self.api.url));
        self.send(request.header("Content-Type", "application/x-www-form-urlencoded").body(body)).await
    }

    /// Submits a form of the page at `from`, with its token, and opens where that leads.
    pub(crate) async fn act(&mut self, from: &str, path: &str, fields: &[(&str, &str)]) -> Page {
        let token = self.open(from).await.token();
        let fields: Vec<(&str, &str)> =
            [("csrf", token.as_str())].into_iter().chain(fields.iter().copied()).collect();
        let led = self.post(path, &fields).await;
        let next = led.leads_to().to_owned();
        self.open(&next).await
    }

    /// Sends a request with the cookies, and keeps those that come.
    pub(crate) async fn send(&mut self, request: reqwest::RequestBuilder) -> Page {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = if cookies.is_empty() { request } else { request.header(COOKIE, cookies.join("; ")) };
        let answer = request.send().await.expect("the pages answer");
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        for cookie in headers.get_all(SET_COOKIE) {
            let cookie = cookie.to_str().expect("a text");
            let (name, rest) = cookie.split_once('=').expect("a cookie");
            let value = rest.split(';').next().expect("a value");
            assert!(rest.contains("SameSite="), "{cookie}");
            if rest.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        let page = Page { status, headers, text: answer.text().await.expect("a body") };
        hold(&page);
        page
    }

    /// What it sends of its cookies.
    pub(crate) fn cookie_line(&self) -> String {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        cookies.join("; ")
    }

    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.api.url)
    }
}

/// What every answer must be, whatever it shows.
fn hold(page: &Page) {
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    if page.header("content-type").starts_with("text/html") {
        assert_eq!(page.header("cache-control"), "no-store");
        assert!(page.says("<html lang=\"en\"") && page.says("<main id=\"page\""), "{}", page.text);
        for refused in [" style=", "javascript:", "<script>", " onclick=", "http://", "https://"] {
            assert!(!page.says(refused), "{refused} in {}", page.text);
        }
    }
}

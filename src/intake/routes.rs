//! Every route, once: the list that makes the router is the list that tests and documents go by.
//!
//! **Promise.** A route that is served stands in [`ROUTES`] with what a request to it must bring, and
//! `tests/it/access.rs` asks each of them with every kind of wrong key: a new line without a row there
//! fails the build's tests. To add a route: one line here, one row there.
//!
//! The scope on a line is what its handler gives to `authorise`; the test finds a line that says
//! otherwise.

use super::actor::Scope;
use super::{
    Intake, api_keys, batch, callback, cancel, caps, create, crew, docs, events, forecast, history, list,
    openapi, overview, problem, proof, read, stream, webhooks,
};

/// What a request must bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: what is answered is public.
    Nothing,
    /// The gateway's signature.
    Signature,
    /// A key or a token with this scope.
    Scope(Scope),
}

impl Needs {
    /// `payments:read`
    pub const READ: Self = Self::Scope(Scope::Read);
    /// `payments:write`
    pub const WRITE: Self = Self::Scope(Scope::Write);
    /// `ops:read`
    pub const OPERATE: Self = Self::Scope(Scope::Operate);
    /// `ops:redrive`
    pub const REDRIVE: Self = Self::Scope(Scope::Redrive);
    /// `ops:refund`
    pub const REFUND: Self = Self::Scope(Scope::Refund);
    /// `ops:approve`
    pub const APPROVE: Self = Self::Scope(Scope::Approve);
    /// `gateways:write`
    pub const GATEWAYS: Self = Self::Scope(Scope::Gateways);
    /// `admin`
    pub const ADMIN: Self = Self::Scope(Scope::Admin);
}

/// One method of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// `get`, `post`, `put`, `patch` or `delete`.
    pub method: &'static str,
    /// With its parameters in braces.
    pub path: &'static str,
    /// What a request must bring.
    pub needs: Needs,
}

/// The routes of a stage whose handlers have this state: `ROUTES`, and `router` of exactly these.
macro_rules! routes {
    ($state:ty; $( $method:ident $path:literal, $needs:expr, $handler:path; )*) => {
        /// Every route but health and metrics, in the order of the documents.
        pub const ROUTES: &[$crate::intake::Route] =
            &[ $( $crate::intake::Route { method: stringify!($method), path: $path, needs: $needs }, )* ];

        /// The router of exactly these.
        pub(super) fn router() -> axum::Router<$state> {
            axum::Router::new() $( .route($path, axum::routing::$method($handler)) )*
        }
    };
}

pub(crate) use routes;

routes! {
    Intake;
    get "/v1/scheduled-payments", Needs::READ, list::get;
    post "/v1/scheduled-payments", Needs::WRITE, create::post;
    post "/v1/scheduled-payments/batch", Needs::WRITE, batch::post;
    get "/v1/scheduled-payments/{id}", Needs::READ, read::get;
    delete "/v1/scheduled-payments/{id}", Needs::WRITE, cancel::delete;
    get "/v1/scheduled-payments/{id}/history", Needs::READ, history::get;
    get "/v1/scheduled-payments/{id}/history/proof", Needs::READ, proof::get;
    get "/v1/events", Needs::READ, events::get;
    get "/v1/events/stream", Needs::READ, stream::get;
    get "/v1/webhook-endpoints", Needs::READ, webhooks::get;
    post "/v1/webhook-endpoints", Needs::WRITE, webhooks::create;
    get "/v1/webhook-endpoints/{id}", Needs::READ, webhooks::show;
    patch "/v1/webhook-endpoints/{id}", Needs::WRITE, webhooks::change;
    delete "/v1/webhook-endpoints/{id}", Needs::WRITE, webhooks::delete;
    post "/v1/webhook-endpoints/{id}/rotate", Needs::WRITE, webhooks::rotate;
    post "/v1/webhook-endpoints/{id}/disable", Needs::WRITE, webhooks::disable;
    post "/v1/webhook-endpoints/{id}/enable", Needs::WRITE, webhooks::enable;
    post "/v1/webhook-endpoints/{id}/test", Needs::WRITE, webhooks::test;
    get "/v1/webhook-endpoints/{id}/deliveries", Needs::READ, webhooks::deliveries;
    get "/v1/webhook-endpoints/{id}/deliveries/{payment}/{sequence}", Needs::READ, webhooks::delivery;
    post "/v1/webhook-endpoints/{id}/deliveries/{payment}/{sequence}/resend", Needs::WRITE, webhooks::resend;
    post "/v1/webhook-endpoints/{id}/resend", Needs::WRITE, webhooks::resend_failed;
    get "/v1/forecast", Needs::OPERATE, forecast::get;
    get "/v1/ops/overview", Needs::OPERATE, overview::get;
    get "/v1/ops/workers", Needs::OPERATE, crew::workers;
    get "/v1/ops/buckets", Needs::OPERATE, crew::buckets;
    post "/v1/gateway-callbacks/{gateway}", Needs::Signature, callback::post;
    get "/v1/ops/api-keys", Needs::ADMIN, api_keys::get;
    post "/v1/ops/api-keys", Needs::ADMIN, api_keys::post;
    post "/v1/ops/api-keys/{id}/rotate", Needs::ADMIN, api_keys::rotate;
    post "/v1/ops/api-keys/{id}/revoke", Needs::ADMIN, api_keys::revoke;
    get "/v1/ops/actors/{name}/caps", Needs::OPERATE, caps::get;
    put "/v1/ops/actors/{name}/caps", Needs::ADMIN, caps::put;
    get "/problems/{code}", Needs::Nothing, problem::page;
    get "/openapi.json", Needs::Nothing, openapi::get;
    get "/docs", Needs::Nothing, docs::way;
    get "/docs/", Needs::Nothing, docs::page;
    get "/docs/{file}", Needs::Nothing, docs::file;
}

//! Who may do what: the matrix of route, scope and owner that the access test asks, and its size.

use crate::access::{Matrix, files_without_routes, matrix};
use crate::figures::{Figures, Holds};
use punctual::intake::operations;

/// Asks every route with every kind of key. What is not as it must be ends the run there, with the request
/// that met it.
pub async fn every_route_asks_every_kind_of_key(figures: &mut Figures) {
    figures.part("Route × key × owner");
    let looked_at = files_without_routes();
    figures.met("files of the stages that add no route beside the lists", looked_at);
    let Matrix { routes, rows, bad_keys, scopes, owned, requests } = matrix().await;
    let documented = operations().len();
    let shown = format!("{routes} routes, {rows} rows, {documented} in the document");
    let same = routes > 0 && routes == rows && routes == documented;
    figures.holds("the routers' lists, the rows, the document", shown, "the same", Holds(same));
    figures.met("kinds of keys that nobody may believe, each at every route", bad_keys);
    figures.met("scopes: each alone where it is needed, and all the others there", scopes);
    figures.met("routes of one client's payment, asked by another client", owned);
    figures.met("requests, each answered as it must be", requests);
}

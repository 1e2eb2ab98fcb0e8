//! Where a request may go: every address of a name is judged when the connection is made, and it goes to one of those.
//!
//! **Promises.** No connection is opened to an address that `platform/addresses.rs` refuses, however the url spells
//! it, whatever its name said a moment ago, and wherever a redirect points, since none is followed. One refused
//! address refuses the whole name: who mixes public addresses with inner ones waits for us to take the wrong one.
//! Http without TLS goes only where the installation itself allows it, by address.
//!
//! **Why a resolver.** To look a name up, judge it, and let the client look it up again is to be told one thing and
//! to do another: a name that changes between the two (rebinding) gets through. Here the addresses that were judged
//! are those that are connected to. An address in the url asks no resolver, so it is judged before.
//!
//! If this dies, its request does.

use super::decide::Fault;
use crate::platform::addresses::{literal, may_be_called};
use futures_util::future::BoxFuture;
use ipnet::IpNet;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Says which addresses a name has.
pub trait Names: Send + Sync + 'static {
    /// All of them.
    fn look_up(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn look_up(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
        })
    }
}

/// How far a request may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// To the public internet, and to the networks of the installation.
    Public,
    /// To the networks of the installation only.
    Own,
}

/// Why a name was not called.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotCalled {
    /// It has an address that is not called.
    #[error("{0}")]
    Forbidden(String),
    /// It has none.
    #[error("no address")]
    NoAddress,
}

/// The rule, and who says what a name means.
#[derive(Clone)]
pub(super) struct Guard {
    reach: Reach,
    allowed: Arc<[IpNet]>,
    names: Arc<dyn Names>,
}

impl Guard {
    pub(super) fn new(reach: Reach, allowed: Arc<[IpNet]>, names: Arc<dyn Names>) -> Self {
        Self { reach, allowed, names }
    }

    fn judge(&self, address: IpAddr) -> Result<(), NotCalled> {
        if self.reach == Reach::Own {
            let real = address.to_canonical();
            let is_own = self.allowed.iter().any(|network| network.contains(&real));
            let why = || NotCalled::Forbidden(format!("{address} is not called without TLS"));
            return if is_own { Ok(()) } else { Err(why()) };
        }
        may_be_called(address, &self.allowed).map_err(|forbidden| NotCalled::Forbidden(forbidden.to_string()))
    }

    /// Judges the host of a url where it is an address; a name is judged by the resolver.
    pub(super) fn judge_host(&self, url: &Url) -> Result<(), Fault> {
        let host = url.host_str().ok_or(Fault::Url)?;
        match literal(host) {
            Ok(None) => Ok(()),
            Ok(Some(address)) => self.judge(address).map_err(|_| Fault::Forbidden),
            Err(_) => Err(Fault::Url),
        }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        let name = name.as_str().to_owned();
        Box::pin(async move {
            let addresses = guard.names.look_up(name).await?;
            if addresses.is_empty() {
                return Err(NotCalled::NoAddress.into());
            }
            for address in &addresses {
                guard.judge(*address)?;
            }
            // The client puts the url's port in the place of 0.
            let pinned = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(pinned) as Addrs)
        })
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;

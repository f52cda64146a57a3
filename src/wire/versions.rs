//! What one connection's broker offers, intersected with what we speak.

use std::collections::BTreeMap;

use super::Api;

/// An API that broker and program have no version of in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{api}: broker offers {offered}, we speak {min} to {max}", offered = offered(*.broker))]
pub struct NoVersion {
    /// Which API.
    pub api: Api,
    /// What the broker offers, `None` for nothing.
    pub broker: Option<(i16, i16)>,
    /// Lowest version we speak.
    pub min: i16,
    /// Highest version we speak.
    pub max: i16,
}

fn offered(range: Option<(i16, i16)>) -> String {
    range.map_or_else(|| "none".to_owned(), |(min, max)| format!("{min} to {max}"))
}

/// The versions of one connection. Kept per connection, as brokers of one cluster differ while
/// it is upgraded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    offered: BTreeMap<i16, (i16, i16)>,
}

impl Versions {
    /// Takes what a broker offers, by API key.
    #[must_use]
    pub fn new(offered: BTreeMap<i16, (i16, i16)>) -> Self {
        Self { offered }
    }

    /// The highest version of `api` that both sides speak.
    ///
    /// # Errors
    ///
    /// [`NoVersion`] if there is none.
    pub fn choose(&self, api: Api) -> Result<i16, NoVersion> {
        self.choose_at_most(api, i16::MAX)
    }

    /// The highest version of `api` that both sides speak, and not above `limit`.
    ///
    /// # Errors
    ///
    /// [`NoVersion`] if there is none.
    pub fn choose_at_most(&self, api: Api, limit: i16) -> Result<i16, NoVersion> {
        let (min, max) = api.range();
        let max = max.min(limit);
        let broker = self.offered.get(&api.key()).copied();
        match broker {
            Some((low, high)) if low.max(min) <= high.min(max) => Ok(high.min(max)),
            _ => Err(NoVersion { api, broker, min, max }),
        }
    }
}

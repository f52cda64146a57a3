//! Clusters, flows between them, and who leads a partition.

use std::fmt;
use std::sync::Arc;

use super::{LeaderEpoch, NodeId};

/// A cluster's name in the properties file.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterAlias(Arc<str>);

impl ClusterAlias {
    /// Takes any text; MM2 does not restrict aliases.
    #[must_use]
    pub fn new(alias: impl AsRef<str>) -> Self {
        Self(Arc::from(alias.as_ref()))
    }

    /// The alias as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterAlias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClusterAlias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One direction between two clusters; shown as `a->b`, as MM2's keys write it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    /// Where records come from.
    pub source: ClusterAlias,
    /// Where they go.
    pub target: ClusterAlias,
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}->{}", self.source, self.target)
    }
}

impl fmt::Debug for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which end of a flow is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// Where records come from.
    Source,
    /// Where they go.
    Target,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "source",
            Self::Target => "target",
        })
    }
}

/// Who leads a partition, and since which election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The leading broker.
    pub node: NodeId,
    /// Its epoch; unknown from brokers that do not say.
    pub epoch: LeaderEpoch,
}

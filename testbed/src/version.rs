//! The Kafka versions of the test bed.

use std::fmt;
use std::str::FromStr;

use anyhow::bail;

/// A Kafka version whose jars the test bed knows how to fetch and run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// The last 2.x line that people still run; ZooKeeper.
    V2_8_2,
    /// The last version before 4.0; run with KRaft here.
    V3_9_2,
    /// The current one; also the version of every Java client and of MirrorMaker 2 in the test bed.
    V4_3_1,
}

impl Version {
    pub const ALL: [Self; 3] = [Self::V4_3_1, Self::V3_9_2, Self::V2_8_2];

    /// The version of the clients and of MirrorMaker 2.
    pub const CLIENTS: Self = Self::V4_3_1;

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2_8_2 => "2.8.2",
            Self::V3_9_2 => "3.9.2",
            Self::V4_3_1 => "4.3.1",
        }
    }

    /// Whether brokers of this version are run without ZooKeeper.
    pub const fn is_kraft(self) -> bool {
        !matches!(self, Self::V2_8_2)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Version {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match Self::ALL.into_iter().find(|v| v.as_str() == text) {
            Some(version) => Ok(version),
            None => {
                bail!("no Kafka version {text:?} in the test bed: it has 4.3.1, 3.9.2 and 2.8.2")
            }
        }
    }
}

//! Topic configs as a broker tells them, and changes to them.

/// Where a config's value comes from (`DescribeConfigsResponse.ConfigSource`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// Set on the topic.
    Topic,
    /// Set on one broker at run time.
    DynamicBroker,
    /// Set for all brokers at run time.
    DynamicDefaultBroker,
    /// In the broker's properties file.
    StaticBroker,
    /// Kafka's default.
    Default,
    /// Something newer.
    Other(i8),
}

/// One config of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; absent for sensitive ones.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// It cannot be set.
    pub read_only: bool,
    /// It is never shown.
    pub sensitive: bool,
}

/// A change of one config of a topic (KIP-339: `SET` and `DELETE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// Its name.
    pub name: String,
    /// Its new value; `None` takes the topic's own value away.
    pub value: Option<String>,
}

impl std::fmt::Display for ConfigChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.name),
            None => write!(f, "{} removed", self.name),
        }
    }
}

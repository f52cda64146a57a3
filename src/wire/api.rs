//! The APIs we speak, in which versions, and why not in others.

use std::fmt;

/// An API of the Kafka protocol that this program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Api {
    /// Writes batches.
    Produce,
    /// Reads batches.
    Fetch,
    /// Log ends and offsets by time.
    ListOffsets,
    /// Brokers, topics, partitions, leaders.
    Metadata,
    /// Writes offsets of a group.
    OffsetCommit,
    /// Reads offsets of groups.
    OffsetFetch,
    /// Tells which broker keeps a group.
    FindCoordinator,
    /// Tells what a group is, and what the principal may do with it (KIP-430).
    DescribeGroups,
    /// Tells which groups a broker keeps.
    ListGroups,
    /// What versions the broker speaks.
    ApiVersions,
    /// Chooses the mechanism of authentication.
    SaslHandshake,
    /// Makes topics.
    CreateTopics,
    /// Gives out producer ids.
    InitProducerId,
    /// Where an epoch ended in a leader's log (KIP-320).
    OffsetForLeaderEpoch,
    /// Reads topic and broker configs.
    DescribeConfigs,
    /// Carries the tokens of authentication (KIP-152).
    SaslAuthenticate,
    /// Adds partitions to topics.
    CreatePartitions,
    /// Sets and removes topic configs one by one (KIP-339).
    IncrementalAlterConfigs,
    /// Reads access rules.
    DescribeAcls,
    /// Adds access rules.
    CreateAcls,
    /// Takes access rules away.
    DeleteAcls,
    /// Tells who writes to a partition, and whose transaction is open (KIP-664).
    DescribeProducers,
}

struct Row {
    api: Api,
    key: i16,
    name: &'static str,
    /// Lowest and highest version we speak.
    range: (i16, i16),
    /// First version with compact lengths and tagged fields (KIP-482).
    flexible_from: i16,
}

/// Lower limits are what every broker from 2.4 on offers, unless a feature needs more; upper
/// limits are what `kafka-protocol` or our own code knows and a test on a real broker has seen.
const TABLE: &[Row] = &[
    // 8 reports which records were refused. Not 13: it names topics by id, which 2.8 has not.
    Row { api: Api::Produce, key: 0, name: "Produce", range: (8, 12), flexible_from: 9 },
    // 11 carries leader epochs, sessions and rack. 13 and later name topics by id, so that a
    // topic made anew under its old name is not taken for the old one.
    Row { api: Api::Fetch, key: 1, name: "Fetch", range: (11, 17), flexible_from: 12 },
    Row { api: Api::ListOffsets, key: 2, name: "ListOffsets", range: (4, 10), flexible_from: 6 },
    Row { api: Api::Metadata, key: 3, name: "Metadata", range: (8, 13), flexible_from: 9 },
    // Not 10: it names topics by id, and what is committed is about names.
    Row { api: Api::OffsetCommit, key: 8, name: "OffsetCommit", range: (6, 9), flexible_from: 8 },
    // From 8 on several groups are asked for at once. Not 10, as above.
    Row { api: Api::OffsetFetch, key: 9, name: "OffsetFetch", range: (6, 9), flexible_from: 6 },
    // From 4 on several groups are asked for at once.
    Row {
        api: Api::FindCoordinator,
        key: 10,
        name: "FindCoordinator",
        range: (3, 6),
        flexible_from: 3,
    },
    // 3 tells what the principal may do. Not 6: it calls a group that nobody has made an error, and
    // then does not tell.
    Row {
        api: Api::DescribeGroups,
        key: 15,
        name: "DescribeGroups",
        range: (5, 5),
        flexible_from: 5,
    },
    // 4 tells states, 5 also types: whether a group's members are of the protocol of KIP-848.
    Row { api: Api::ListGroups, key: 16, name: "ListGroups", range: (4, 5), flexible_from: 3 },
    // 0 goes on with bare tokens; 1 frames them in SaslAuthenticate. It never became flexible.
    Row {
        api: Api::SaslHandshake,
        key: 17,
        name: "SaslHandshake",
        range: (1, 1),
        flexible_from: i16::MAX,
    },
    Row { api: Api::ApiVersions, key: 18, name: "ApiVersions", range: (0, 4), flexible_from: 3 },
    // 4 lets the broker choose partition count and replication factor.
    Row { api: Api::CreateTopics, key: 19, name: "CreateTopics", range: (4, 7), flexible_from: 5 },
    Row {
        api: Api::InitProducerId,
        key: 22,
        name: "InitProducerId",
        range: (1, 5),
        flexible_from: 2,
    },
    // 3 may be asked with DESCRIBE on the topic; before, it took cluster rights.
    Row {
        api: Api::OffsetForLeaderEpoch,
        key: 23,
        name: "OffsetForLeaderEpoch",
        range: (3, 4),
        flexible_from: 4,
    },
    Row {
        api: Api::DescribeConfigs,
        key: 32,
        name: "DescribeConfigs",
        range: (1, 4),
        flexible_from: 4,
    },
    // 1 tells for how long the session holds (KIP-368).
    Row {
        api: Api::SaslAuthenticate,
        key: 36,
        name: "SaslAuthenticate",
        range: (0, 2),
        flexible_from: 2,
    },
    Row {
        api: Api::CreatePartitions,
        key: 37,
        name: "CreatePartitions",
        range: (1, 3),
        flexible_from: 2,
    },
    // Brokers from 2.3 on. The older AlterConfigs sets all configs of a topic at once, and would
    // take away what was set by hand meanwhile.
    Row {
        api: Api::IncrementalAlterConfigs,
        key: 44,
        name: "IncrementalAlterConfigs",
        range: (0, 1),
        flexible_from: 1,
    },
    // 1 tells literal names from prefixes (KIP-290).
    Row { api: Api::DescribeAcls, key: 29, name: "DescribeAcls", range: (1, 3), flexible_from: 2 },
    Row { api: Api::CreateAcls, key: 30, name: "CreateAcls", range: (1, 3), flexible_from: 2 },
    Row { api: Api::DeleteAcls, key: 31, name: "DeleteAcls", range: (1, 3), flexible_from: 2 },
    Row {
        api: Api::DescribeProducers,
        key: 61,
        name: "DescribeProducers",
        range: (0, 0),
        flexible_from: 0,
    },
];

impl Api {
    /// Every API in the table.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.api)
    }

    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.api == self).expect("every API has a row; a test counts them")
    }

    /// The API's number on the wire.
    #[must_use]
    pub fn key(self) -> i16 {
        self.row().key
    }

    /// The API with this number, if we use it.
    #[must_use]
    pub fn from_key(key: i16) -> Option<Self> {
        TABLE.iter().find(|row| row.key == key).map(|row| row.api)
    }

    /// Lowest and highest version we speak, both inclusive.
    #[must_use]
    pub fn range(self) -> (i16, i16) {
        self.row().range
    }

    /// Whether `version` uses compact lengths and tagged fields (KIP-482).
    #[must_use]
    pub fn is_flexible(self, version: i16) -> bool {
        version >= self.row().flexible_from
    }

    /// The API's name as Kafka writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_api_has_one_row_and_a_version_range_that_is_not_empty() {
        for api in Api::all() {
            let (min, max) = api.range();
            assert!(min <= max, "{api}");
            assert_eq!(Api::from_key(api.key()), Some(api));
            assert_eq!(TABLE.iter().filter(|row| row.key == api.key()).count(), 1, "{api}");
        }
    }
}

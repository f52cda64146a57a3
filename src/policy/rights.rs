//! What a mirror's principal must be allowed to do: every right, and what rests without it.
//!
//! One table. The page for operators (`docs/rights.md`), the commands that `heliograph check`
//! prints, and what a running flow says about a right that is missing all come from here. That it
//! is enough, and that each row is needed, a test shows on brokers with an authorizer
//! (`testbed/tests/mirror_rights.rs`).
//!
//! `DESCRIBE` comes with `READ`, `WRITE` and `ALTER`, and `DESCRIBE_CONFIGS` with `ALTER_CONFIGS`
//! (`AclAuthorizer`, `StandardAuthorizer`). A producer id needs `WRITE` on any topic (KIP-679),
//! and listing groups shows those that may be described, so neither has a row.

use std::fmt::{self, Write as _};

use crate::model::{AclOperation, Side};

/// A part of a flow that can rest alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Topics are made on the target, and grow.
    Topics,
    /// Records are read.
    DataRead,
    /// Records are written.
    DataWrite,
    /// It is kept how far the copy is.
    Progress,
    /// A start finds out what a killed process left on the target.
    Resume,
    /// It is kept where upstream offsets lie on the target.
    OffsetMap,
    /// Topic configs follow the source.
    Configs,
    /// Access rules follow the source.
    Acls,
    /// Offset syncs are written for MM2.
    OffsetSyncs,
    /// Group offsets of what MM2 copied are translated by its offset syncs.
    TakeOver,
    /// Checkpoints are written.
    Checkpoints,
    /// Offsets of groups are committed on the target.
    GroupOffsets,
    /// Heartbeats are written.
    Heartbeats,
}

impl Feature {
    /// Every feature, in the order in which they are shown.
    pub const ALL: [Self; 13] = [
        Self::Topics,
        Self::DataRead,
        Self::DataWrite,
        Self::Progress,
        Self::Resume,
        Self::OffsetMap,
        Self::Configs,
        Self::Acls,
        Self::OffsetSyncs,
        Self::TakeOver,
        Self::Checkpoints,
        Self::GroupOffsets,
        Self::Heartbeats,
    ];

    /// Its name in logs, status, metrics and pages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Topics => "topics",
            Self::DataRead => "data read",
            Self::DataWrite => "data write",
            Self::Progress => "progress",
            Self::Resume => "resume after a crash",
            Self::OffsetMap => "offset map",
            Self::Configs => "config sync",
            Self::Acls => "ACL sync",
            Self::OffsetSyncs => "offset syncs",
            Self::TakeOver => "take-over of groups",
            Self::Checkpoints => "checkpoints",
            Self::GroupOffsets => "group offset sync",
            Self::Heartbeats => "heartbeats",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What rights are held on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Thing {
    /// The topics that are mirrored.
    Topics,
    /// The groups that are mirrored, on the source.
    SourceGroups,
    /// The source cluster itself.
    SourceCluster,
    /// The topic of offset syncs (`offset-syncs.topic.location` moves it to the target).
    OffsetSyncs,
    /// `heartbeats` on the source, for the pair that goes the other way.
    HeartbeatsBack,
    /// The topic of access rules that a flow the other way has added on the source.
    OwnedAclsBack,
    /// The copies of the topics.
    Replicas,
    /// Connect's topic of source offsets.
    SourceOffsets,
    /// Our topic of positions.
    Positions,
    /// Our topic of offset maps.
    OffsetMap,
    /// Our topic of what the sync of configs owns.
    Owned,
    /// Our topic of the access rules that the flow has added.
    OwnedAcls,
    /// The topic of checkpoints.
    Checkpoints,
    /// `heartbeats` on the target.
    Heartbeats,
    /// The groups that are mirrored, on the target.
    TargetGroups,
    /// The target cluster itself.
    TargetCluster,
}

impl Thing {
    /// Which cluster it is on.
    #[must_use]
    pub fn side(self) -> Side {
        match self {
            Self::Topics
            | Self::SourceGroups
            | Self::SourceCluster
            | Self::OffsetSyncs
            | Self::HeartbeatsBack
            | Self::OwnedAclsBack => Side::Source,
            Self::Replicas
            | Self::SourceOffsets
            | Self::Positions
            | Self::OffsetMap
            | Self::Owned
            | Self::OwnedAcls
            | Self::Checkpoints
            | Self::Heartbeats
            | Self::TargetGroups
            | Self::TargetCluster => Side::Target,
        }
    }

    /// What several of it are called, for messages.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Topics => "mirrored topics",
            Self::SourceGroups | Self::TargetGroups => "mirrored groups",
            Self::SourceCluster | Self::TargetCluster => "the cluster",
            Self::OffsetSyncs => "the topic of offset syncs",
            Self::Heartbeats | Self::HeartbeatsBack => "the topic of heartbeats",
            Self::Replicas => "their copies",
            Self::SourceOffsets => "Connect's topic of offsets",
            Self::Positions => "the topic of positions",
            Self::OffsetMap => "the topic of offset maps",
            Self::Owned => "the topic of what the config sync owns",
            Self::OwnedAcls => "the topic of the ACLs that were added",
            Self::OwnedAclsBack => "the topic of the ACLs that came from the target",
            Self::Checkpoints => "the topic of checkpoints",
        }
    }

    /// What it is in a flow `a->b` with the default policy, for the page.
    fn in_words(self) -> &'static str {
        match self {
            Self::Topics => "each mirrored topic; `heartbeats`, if it exists",
            Self::SourceGroups | Self::TargetGroups => "each mirrored group",
            Self::SourceCluster | Self::TargetCluster => "the cluster",
            Self::OffsetSyncs => "topic `mm2-offset-syncs.b.internal` (1)",
            Self::Heartbeats => "topic `heartbeats`",
            Self::HeartbeatsBack => "topic `heartbeats` (2)",
            Self::Replicas => "topics with the prefix `a.` (3)",
            Self::SourceOffsets => "topic `mm2-offsets.a.internal`",
            Self::Positions => "topic `mm2-heliograph-positions.a.internal`",
            Self::OffsetMap => "topic `mm2-heliograph-offset-map.a.internal`",
            Self::Owned => "topic `mm2-heliograph-owned.a.internal`",
            Self::OwnedAcls => "topic `mm2-heliograph-owned-acls.a.internal` (4)",
            Self::OwnedAclsBack => "topic `mm2-heliograph-owned-acls.b.internal` (4)",
            Self::Checkpoints => "topic `a.checkpoints.internal`",
        }
    }
}

/// One right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// On what.
    pub on: Thing,
    /// To do what.
    pub operation: AclOperation,
    /// What needs it.
    pub features: &'static [Feature],
    /// What happens without it.
    pub without: &'static str,
}

const fn right(
    on: Thing,
    operation: AclOperation,
    features: &'static [Feature],
    without: &'static str,
) -> Right {
    Right { on, operation, features, without }
}

const READ: AclOperation = AclOperation::READ;
const WRITE: AclOperation = AclOperation::WRITE;
const CREATE: AclOperation = AclOperation::CREATE;
const ALTER: AclOperation = AclOperation::ALTER;
const DESCRIBE: AclOperation = AclOperation::DESCRIBE;

const NOT_STORED: &str = "nothing is copied until it exists";
const ACLS: &[Feature] = &[Feature::Acls];
const CHECKPOINTS: &[Feature] = &[Feature::Checkpoints];
const CONFIGS: &[Feature] = &[Feature::Configs];
const HEARTBEATS: &[Feature] = &[Feature::Heartbeats];
const MAP: &[Feature] = &[Feature::OffsetMap];
const PROGRESS: &[Feature] = &[Feature::Progress];
const SYNCS: &[Feature] = &[Feature::OffsetSyncs];

/// Every right that a flow with everything on needs, and no other.
pub const RIGHTS: &[Right] = &[
    right(Thing::Topics, READ, &[Feature::DataRead], "the topic is not seen, or not read"),
    right(
        Thing::Topics,
        AclOperation::DESCRIBE_CONFIGS,
        &[Feature::Topics, Feature::Configs],
        "a new topic waits, as its configs are not known; a config that changes is not carried",
    ),
    right(
        Thing::SourceGroups,
        DESCRIBE,
        &[Feature::Checkpoints, Feature::GroupOffsets],
        "the group is not seen",
    ),
    right(Thing::SourceCluster, DESCRIBE, ACLS, "access rules are not read"),
    right(Thing::OwnedAclsBack, READ, ACLS, "access rules are neither added nor taken away"),
    right(Thing::OffsetSyncs, CREATE, SYNCS, "no offset syncs, which only MirrorMaker 2 reads"),
    right(Thing::OffsetSyncs, WRITE, SYNCS, "no offset syncs, which only MirrorMaker 2 reads"),
    right(
        Thing::OffsetSyncs,
        READ,
        &[Feature::TakeOver],
        "group offsets of what MirrorMaker 2 copied are not translated",
    ),
    right(Thing::HeartbeatsBack, CREATE, HEARTBEATS, "no heartbeats, unless the topic exists"),
    right(Thing::HeartbeatsBack, WRITE, HEARTBEATS, "no heartbeats of the way back"),
    right(Thing::Replicas, CREATE, &[Feature::Topics], "a new topic waits"),
    right(Thing::Replicas, WRITE, &[Feature::DataWrite], "records wait"),
    right(
        Thing::Replicas,
        READ,
        &[Feature::GroupOffsets, Feature::Resume],
        "no offsets of groups are committed; after a crash, partitions that were being written wait",
    ),
    right(Thing::Replicas, ALTER, &[Feature::Topics], "partitions that are added wait"),
    right(
        Thing::Replicas,
        AclOperation::ALTER_CONFIGS,
        CONFIGS,
        "configs are those of a topic's creation; changes are not carried",
    ),
    right(Thing::SourceOffsets, CREATE, PROGRESS, NOT_STORED),
    right(Thing::SourceOffsets, READ, PROGRESS, "nothing is copied after a restart"),
    right(
        Thing::SourceOffsets,
        WRITE,
        PROGRESS,
        "MirrorMaker 2 could not go on after this program; copying goes on",
    ),
    right(Thing::Positions, CREATE, PROGRESS, NOT_STORED),
    right(Thing::Positions, READ, PROGRESS, "nothing is copied after a restart"),
    right(
        Thing::Positions,
        WRITE,
        PROGRESS,
        "partitions that are not copied yet wait; a crash compares more of both logs",
    ),
    right(Thing::OffsetMap, CREATE, MAP, "after a restart, group offsets are as exact as MM2's"),
    right(
        Thing::OffsetMap,
        READ,
        &[Feature::OffsetMap, Feature::Progress],
        "nothing is copied after a restart: what is known about offsets would be lost",
    ),
    right(Thing::OffsetMap, WRITE, MAP, "after a restart, group offsets are as exact as MM2's"),
    right(Thing::Owned, CREATE, CONFIGS, "config changes are not carried"),
    right(Thing::Owned, READ, CONFIGS, "config changes are not carried after a restart"),
    right(Thing::Owned, WRITE, CONFIGS, "config changes are not carried"),
    right(Thing::OwnedAcls, CREATE, ACLS, "access rules are neither added nor taken away"),
    right(
        Thing::OwnedAcls,
        READ,
        ACLS,
        "access rules are neither added nor taken away after a restart",
    ),
    right(Thing::OwnedAcls, WRITE, ACLS, "access rules are neither added nor taken away"),
    right(Thing::Checkpoints, CREATE, CHECKPOINTS, "no checkpoints"),
    right(Thing::Checkpoints, READ, CHECKPOINTS, "checkpoints are not written after a restart"),
    right(Thing::Checkpoints, WRITE, CHECKPOINTS, "no checkpoints"),
    right(Thing::Heartbeats, CREATE, HEARTBEATS, "no heartbeats, unless the topic exists"),
    right(Thing::Heartbeats, WRITE, HEARTBEATS, "no heartbeats"),
    right(
        Thing::TargetGroups,
        READ,
        &[Feature::GroupOffsets],
        "no offsets of the group are committed",
    ),
    right(Thing::TargetCluster, ALTER, ACLS, "access rules are neither added nor taken away"),
];

/// The row of a right; `None` for one that nothing needs.
#[must_use]
pub fn find_right(on: Thing, operation: AclOperation) -> Option<&'static Right> {
    RIGHTS.iter().find(|right| right.on == on && right.operation == operation)
}

/// The table as Markdown, for `docs/rights.md`.
#[must_use]
pub fn rights_page() -> String {
    let mut out =
        String::from("| cluster | operation | on | for | without it |\n|---|---|---|---|---|\n");
    for right in RIGHTS {
        let features: Vec<&str> = right.features.iter().map(|feature| feature.name()).collect();
        // Writing into a string cannot fail.
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            right.on.side(),
            right.operation,
            right.on.in_words(),
            features.join(", "),
            right.without
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_right_has_one_row_and_each_feature_needs_some() {
        let rows: BTreeSet<_> = RIGHTS.iter().map(|right| (right.on, right.operation.0)).collect();
        assert_eq!(rows.len(), RIGHTS.len());
        for feature in Feature::ALL {
            assert!(RIGHTS.iter().any(|right| right.features.contains(&feature)), "{feature}");
        }
        assert!(RIGHTS.iter().all(|right| !right.features.is_empty() && !right.without.is_empty()));
    }

    #[test]
    fn operations_are_written_as_kafka_acls_takes_them() {
        let names: BTreeSet<String> =
            RIGHTS.iter().map(|right| right.operation.command_name()).collect();
        let expected =
            ["Alter", "AlterConfigs", "Create", "Describe", "DescribeConfigs", "Read", "Write"];
        assert_eq!(names, expected.map(String::from).into());
    }
}

//! Which of its rights a principal has, as the brokers tell.

use std::collections::{BTreeMap, BTreeSet};

use super::acls::AclSync;
use super::flow::MirrorSettings;
use super::inspect::{Beats, Tried};
use super::rights::{Missing, Resource, grant, is_denied};
use super::topics::Wanted;
use crate::client::{Cluster, RequestError};
use crate::mm2::HEARTBEATS;
use crate::model::{AclOperation, Operations, Side, TopicName};
use crate::policy::{ConfigMode, Feature, RIGHTS, Right, Thing};
use crate::wire::ErrorCode;

/// Names in one command; of more, the rest follows in further ones.
const NAMES_PER_COMMAND: usize = 20;

/// What a broker tells about one right on one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is held, or not needed any more.
    Allowed,
    /// It is not held.
    Missing,
    /// It cannot be told; why not.
    Unknown(&'static str),
}

const NO_TOPIC: &str = "not known before the topic exists";
const NOT_TOLD: &str = "the broker does not tell";
const NOT_SEEN: &str = "not known before the topic may be described";
const NO_GROUPS: &str = "not known before the cluster keeps groups";
const NO_GROUP: &str = "no group is visible: there is none, or none may be described";

/// How one feature stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureAudit {
    /// Which one.
    pub feature: Feature,
    /// Whether the flow uses it.
    pub on: bool,
    /// Rights that it lacks, each on one thing.
    pub missing: BTreeSet<Missing>,
    /// Rights that cannot be told, with the reason: the right, on how many things.
    pub unknown: BTreeMap<String, usize>,
}

/// What a flow's principals may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Every feature.
    pub features: Vec<FeatureAudit>,
    /// The commands that grant what is missing.
    pub grants: Vec<String>,
}

/// Whether the flow uses a feature.
fn is_on(settings: &MirrorSettings, feature: Feature, beats: Beats) -> bool {
    let groups = &settings.groups;
    match feature {
        Feature::Topics
        | Feature::DataRead
        | Feature::DataWrite
        | Feature::Progress
        | Feature::Resume
        | Feature::OffsetMap => true,
        Feature::Configs => settings.configs.is_some(),
        Feature::Acls => settings.acls.is_some(),
        Feature::OffsetSyncs => settings.syncs.is_some(),
        Feature::TakeOver => groups.checkpoints.is_some() || groups.offsets.is_some(),
        Feature::Checkpoints => groups.checkpoints.is_some(),
        Feature::GroupOffsets => groups.offsets.is_some(),
        Feature::Heartbeats => beats.there || beats.back,
    }
}

/// Whether the flow uses a sort of thing at all.
fn is_used(settings: &MirrorSettings, thing: Thing, beats: Beats) -> bool {
    match thing {
        Thing::Heartbeats => beats.there,
        Thing::HeartbeatsBack => beats.back,
        Thing::Owned => settings.rules.configs.mode == ConfigMode::Owned,
        Thing::OwnedAcls | Thing::OwnedAclsBack => owning(settings).is_some(),
        _ => true,
    }
}

/// Asks for every right that the flow needs.
///
/// # Errors
///
/// [`RequestError`] if a cluster does not answer.
pub(super) async fn audit(
    settings: &MirrorSettings,
    (source, target): (&Cluster, &Cluster),
    (copied, tried): (&Wanted, &Tried),
    beats: Beats,
) -> Result<Audit, RequestError> {
    let auditor = Auditor::ask(settings, (source, target), copied, beats).await?;
    let mut features: Vec<FeatureAudit> = Feature::ALL
        .into_iter()
        .map(|feature| FeatureAudit {
            feature,
            on: is_on(settings, feature, beats),
            missing: BTreeSet::new(),
            unknown: BTreeMap::new(),
        })
        .collect();
    let mut lacking: BTreeSet<Missing> = BTreeSet::new();
    for right in RIGHTS.iter().filter(|right| is_used(settings, right.on, beats)) {
        let needed = |one: &FeatureAudit| one.on && right.features.contains(&one.feature);
        if !features.iter().any(needed) {
            continue;
        }
        let cluster = auditor.cluster(right.on);
        for (resource, standing) in auditor.standings(right, copied, tried) {
            let missing = Missing::new(cluster, right.on, right.operation, resource);
            for feature in features.iter_mut().filter(|one| needed(one)) {
                match standing {
                    Standing::Allowed => {}
                    Standing::Missing => {
                        feature.missing.insert(missing.clone());
                    }
                    Standing::Unknown(why) => {
                        let what = format!(
                            "{} on {} of {}: {why}",
                            right.operation,
                            right.on.plural(),
                            cluster.alias()
                        );
                        *feature.unknown.entry(what).or_default() += 1;
                    }
                }
            }
            if standing == Standing::Missing {
                lacking.insert(missing);
            }
        }
    }
    Ok(Audit { features, grants: grants(&auditor, lacking) })
}

/// As few commands as name everything: operations on one thing together, and things that lack the
/// same together.
fn grants(auditor: &Auditor<'_>, lacking: BTreeSet<Missing>) -> Vec<String> {
    let mut by_resource: BTreeMap<(Side, Resource), BTreeSet<AclOperation>> = BTreeMap::new();
    for one in lacking {
        let side = auditor.side(one.thing);
        by_resource.entry((side, one.resource)).or_default().insert(one.operation);
    }
    type Alike = (Side, u8, BTreeSet<AclOperation>);
    let mut alike: BTreeMap<Alike, Vec<Resource>> = BTreeMap::new();
    for ((side, resource), operations) in by_resource {
        let sort = match resource {
            Resource::Cluster => 0,
            Resource::Topic(_) => 1,
            Resource::Prefix(_) => 2,
            Resource::Group(_) => 3,
        };
        alike.entry((side, sort, operations)).or_default().push(resource);
    }
    let mut commands = Vec::new();
    for ((side, _, operations), resources) in alike {
        let cluster = match side {
            Side::Source => auditor.source,
            Side::Target => auditor.target,
        };
        let operations: Vec<AclOperation> = operations.into_iter().collect();
        for resources in resources.chunks(NAMES_PER_COMMAND) {
            commands.push(grant(cluster, &operations, resources));
        }
    }
    commands
}

type Told<K> = BTreeMap<K, Result<Operations, ErrorCode>>;

/// What both clusters told.
struct Auditor<'a> {
    settings: &'a MirrorSettings,
    source: &'a Cluster,
    target: &'a Cluster,
    /// Topics of the source that are mirrored, or would be if they existed.
    mirrored: BTreeSet<TopicName>,
    source_topics: Told<TopicName>,
    target_topics: Told<TopicName>,
    source_groups: Told<String>,
    target_groups: Told<String>,
    source_cluster: Operations,
    target_cluster: Operations,
}

impl<'a> Auditor<'a> {
    async fn ask(
        settings: &'a MirrorSettings,
        (source, target): (&'a Cluster, &'a Cluster),
        copied: &Wanted,
        beats: Beats,
    ) -> Result<Self, RequestError> {
        let topics = &settings.rules.topics;
        let mut mirrored: BTreeSet<TopicName> = copied.keys().cloned().collect();
        let named = topics.filter.include.literals().map(TopicName::new);
        // Those of the way back are mirrored as soon as there are some.
        let back = beats.back.then(|| TopicName::new(HEARTBEATS));
        mirrored.extend(named.chain(back).filter(|name| topics.copies(name)));
        let mut on_source = mirrored.clone();
        let mut on_target: BTreeSet<TopicName> =
            copied.values().map(|(replica, _)| replica.clone()).collect();
        for thing in [
            Thing::OffsetSyncs,
            Thing::HeartbeatsBack,
            Thing::SourceOffsets,
            Thing::Positions,
            Thing::OffsetMap,
            Thing::Owned,
            Thing::OwnedAcls,
            Thing::OwnedAclsBack,
            Thing::Checkpoints,
            Thing::Heartbeats,
        ] {
            let Some(name) = own_name(settings, thing) else { continue };
            match side(settings, thing) {
                Side::Source => on_source.insert(name),
                Side::Target => on_target.insert(name),
            };
        }
        let (on_source, on_target): (Vec<_>, Vec<_>) =
            (on_source.into_iter().collect(), on_target.into_iter().collect());
        let (source_topics, target_topics) =
            tokio::join!(source.topic_operations(&on_source), target.topic_operations(&on_target),);
        let (source_cluster, target_cluster) =
            tokio::join!(source.cluster_operations(), target.cluster_operations());
        let groups = Self::groups(settings, source).await?;
        let (source_groups, target_groups) =
            tokio::join!(source.group_operations(&groups), target.group_operations(&groups));
        Ok(Self {
            settings,
            source,
            target,
            mirrored,
            source_topics: source_topics?,
            target_topics: target_topics?,
            source_groups: source_groups?,
            target_groups: target_groups?,
            source_cluster: source_cluster?,
            target_cluster: target_cluster?,
        })
    }

    /// Groups that are mirrored: those that may be seen, and those that the file names.
    async fn groups(
        settings: &MirrorSettings,
        source: &Cluster,
    ) -> Result<Vec<String>, RequestError> {
        let rules = &settings.groups;
        if rules.checkpoints.is_none() && rules.offsets.is_none() {
            return Ok(Vec::new());
        }
        let (listed, _) = source.list_groups().await?;
        let listed = listed.into_iter().filter(|group| group.consumes()).map(|group| group.id);
        let named = rules.groups.include.literals().map(ToOwned::to_owned);
        let all: BTreeSet<String> =
            listed.chain(named).filter(|id| rules.groups.accepts(id) == Ok(true)).collect();
        Ok(all.into_iter().collect())
    }

    fn side(&self, thing: Thing) -> Side {
        side(self.settings, thing)
    }

    fn cluster(&self, thing: Thing) -> &'a Cluster {
        match self.side(thing) {
            Side::Source => self.source,
            Side::Target => self.target,
        }
    }

    fn topics(&self, side: Side) -> &Told<TopicName> {
        match side {
            Side::Source => &self.source_topics,
            Side::Target => &self.target_topics,
        }
    }

    fn of_topic(
        &self,
        side: Side,
        name: &TopicName,
        operation: AclOperation,
        tried: &Tried,
    ) -> Standing {
        let configs = [AclOperation::DESCRIBE_CONFIGS, AclOperation::ALTER_CONFIGS];
        match self.topics(side).get(name) {
            // What exists need not be made.
            Some(Ok(_)) if operation == AclOperation::CREATE => Standing::Allowed,
            Some(Ok(operations)) => allowed(*operations, operation),
            Some(Err(_)) if operation == AclOperation::CREATE => {
                match tried.get(&(side, name.clone())) {
                    Some(Err((code, _))) if is_denied(*code) => Standing::Missing,
                    Some(_) => Standing::Allowed,
                    None => Standing::Unknown(NO_TOPIC),
                }
            }
            Some(Err(code)) if is_denied(*code) && configs.contains(&operation) => {
                Standing::Unknown(NOT_SEEN)
            }
            // Each of the others brings DESCRIBE along, and that is not there.
            Some(Err(code)) if is_denied(*code) => Standing::Missing,
            Some(Err(code)) if code.0 == 3 => Standing::Unknown(NO_TOPIC),
            Some(Err(_)) | None => Standing::Unknown(NOT_TOLD),
        }
    }

    /// How a right stands on everything that it is needed on.
    fn standings(
        &self,
        right: &Right,
        copied: &Wanted,
        tried: &Tried,
    ) -> Vec<(Resource, Standing)> {
        let operation = right.operation;
        match right.on {
            Thing::SourceCluster => {
                vec![(Resource::Cluster, allowed(self.source_cluster, operation))]
            }
            Thing::TargetCluster => {
                vec![(Resource::Cluster, allowed(self.target_cluster, operation))]
            }
            Thing::SourceGroups => Self::of_groups(&self.source_groups, operation),
            Thing::TargetGroups => Self::of_groups(&self.target_groups, operation),
            Thing::Topics => self
                .mirrored
                .iter()
                .map(|name| {
                    let resource = Resource::Topic(name.as_str().to_owned());
                    (resource, self.of_topic(Side::Source, name, operation, tried))
                })
                .collect(),
            Thing::Replicas => copied
                .values()
                .map(|(name, _)| {
                    let resource = Resource::replica(&self.settings.rules.topics, name.as_str());
                    (resource, self.of_topic(Side::Target, name, operation, tried))
                })
                .collect(),
            thing => {
                let Some(name) = own_name(self.settings, thing) else { return Vec::new() };
                let side = self.side(thing);
                let standing = self.of_topic(side, &name, operation, tried);
                // MM2's syncs are read where there are some.
                // The same with what a flow the other way has added.
                let useless = matches!(thing, Thing::OffsetSyncs | Thing::OwnedAclsBack)
                    && operation == AclOperation::READ
                    && matches!(self.topics(side).get(&name), Some(Err(code)) if code.0 == 3);
                let standing = if useless { Standing::Allowed } else { standing };
                vec![(Resource::Topic(name.as_str().to_owned()), standing)]
            }
        }
    }

    fn of_groups(told: &Told<String>, operation: AclOperation) -> Vec<(Resource, Standing)> {
        if told.is_empty() {
            return vec![(Resource::Group("*".into()), Standing::Unknown(NO_GROUP))];
        }
        let one = |(group, told): (&String, &Result<Operations, ErrorCode>)| {
            let standing = match told {
                Ok(operations) => allowed(*operations, operation),
                Err(code) if is_denied(*code) => Standing::Missing,
                Err(_) if operation == AclOperation::DESCRIBE => Standing::Allowed,
                Err(_) => Standing::Unknown(NO_GROUPS),
            };
            (Resource::Group(group.clone()), standing)
        };
        told.iter().map(one).collect()
    }
}

/// How ACLs are kept in step, if it is kept whose they are.
fn owning(settings: &MirrorSettings) -> Option<&AclSync> {
    settings.acls.as_ref().filter(|acls| acls.owns())
}

/// The cluster that a thing is on; offset syncs may have been moved.
fn side(settings: &MirrorSettings, thing: Thing) -> Side {
    if thing == Thing::OffsetSyncs && settings.syncs_on_target() {
        Side::Target
    } else {
        thing.side()
    }
}

/// The name of a topic of the flow's own.
fn own_name(settings: &MirrorSettings, thing: Thing) -> Option<TopicName> {
    let flow = &settings.flow;
    match thing {
        Thing::OffsetSyncs => Some(settings.groups.syncs_topic.clone()),
        Thing::Heartbeats | Thing::HeartbeatsBack => Some(TopicName::new(HEARTBEATS)),
        Thing::SourceOffsets => Some(flow.offsets_topic.clone()),
        Thing::Positions => Some(flow.positions_topic.clone()),
        Thing::OffsetMap => Some(flow.map_topic.clone()),
        Thing::Owned => settings.configs.as_ref().map(|configs| configs.owned.name.clone()),
        Thing::OwnedAcls => owning(settings).map(|acls| acls.owned.name.clone()),
        Thing::OwnedAclsBack => owning(settings).map(AclSync::back),
        Thing::Checkpoints => Some(settings.groups.topic.name.clone()),
        Thing::Topics
        | Thing::Replicas
        | Thing::SourceGroups
        | Thing::TargetGroups
        | Thing::SourceCluster
        | Thing::TargetCluster => None,
    }
}

fn allowed(operations: Operations, operation: AclOperation) -> Standing {
    match operations.allow(operation) {
        Some(true) => Standing::Allowed,
        Some(false) => Standing::Missing,
        None => Standing::Unknown(NOT_TOLD),
    }
}

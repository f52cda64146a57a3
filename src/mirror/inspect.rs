//! What a flow would do if it were started now, found out without changing anything.
//!
//! Topics are selected, starts decided and rights named by what a running flow itself uses. Rights
//! are asked for (KIP-430) and not tried; whether a topic could be made, the target says to a
//! request that only validates.

use std::collections::{BTreeMap, BTreeSet};

use super::acls::{AclForecast, AclsRound};
use super::audit::{Audit, audit};
use super::flow::MirrorSettings;
use super::internal_topics::InternalTopic;
use super::rights::is_denied;
use super::topics::{Selected, pairs, select, unmatched};
use crate::client::{Cluster, CreateTopic, RequestError};
use crate::flow::{Foreseen, foresee};
use crate::mm2::HEARTBEATS;
use crate::model::{FlowId, Side, TopicName};
use crate::wire::ErrorCode;

/// Topics that are tried out in one request.
const TRIED_AT_ONCE: usize = 200;

/// What would become of a flow.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Which one.
    pub flow: FlowId,
    /// Source topics and what they are called on the target.
    pub copied: BTreeMap<TopicName, TopicName>,
    /// Those among them that a rename rule names.
    pub renamed: BTreeMap<TopicName, TopicName>,
    /// Target topics that would be made.
    pub to_make: BTreeSet<TopicName>,
    /// Partitions that would be added to target topics that exist.
    pub to_add: usize,
    /// Source topics that are left out, and by which rule.
    pub left_out: BTreeMap<TopicName, String>,
    /// Elements of `topics` that match no topic of the source.
    pub unmatched: Vec<String>,
    /// Each partition; or why progress cannot be read.
    pub starts: Result<Vec<Foreseen>, String>,
    /// Target topics that could not be made, for another reason than a missing right.
    pub refused: BTreeMap<TopicName, String>,
    /// What the first ACLs round would do, or why it would do nothing; `None` if there is none.
    pub acls: Option<Result<AclForecast, String>>,
    /// What our principal may do.
    pub audit: Audit,
}

/// Which pairs' heartbeats are written, besides what a flow itself does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beats {
    /// Those of the flow itself, on its target.
    pub there: bool,
    /// Those of the way back, on its source.
    pub back: bool,
}

/// What the target says about making topics.
pub(super) type Tried = BTreeMap<(Side, TopicName), Result<(), (ErrorCode, String)>>;

/// Looks at both clusters, which must have answered before, and at `offsets`, which holds the topic of
/// offsets that Connect keeps (the target, but for a connector in a Connect cluster).
///
/// # Errors
///
/// [`RequestError`] if a cluster does not answer.
pub async fn inspect(
    settings: &MirrorSettings,
    (source, target): (&Cluster, &Cluster),
    offsets: &Cluster,
    beats: Beats,
) -> Result<Inspection, RequestError> {
    source.refresh(None).await?;
    target.refresh(None).await?;
    let Selected { copied, left_out } = select(&settings.rules.topics, &source.view());
    let unmatched = unmatched(settings.rules.topics.filter.include.elements(), &source.view());
    let there = target.view();
    let to_make: BTreeSet<TopicName> = copied
        .values()
        .map(|(replica, _)| replica)
        .filter(|replica| !there.topics.contains_key(*replica))
        .cloned()
        .collect();
    let all = copied.values().map(|(_, topic)| topic.partitions.len()).sum::<usize>();
    let planned = pairs(&copied, &there, true);
    let starts = foresee(&settings.flow, (source, target), offsets, &planned, &to_make).await;
    let replicas = copied.values().filter(|(replica, _)| to_make.contains(replica));
    let replicas = replicas.map(|(replica, topic)| CreateTopic {
        name: replica.clone(),
        partitions: i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
        replication_factor: settings.rules.replication_factor,
        configs: BTreeMap::new(),
    });
    let (on_source, on_target) = own_topics(settings, beats);
    let wanted: Vec<CreateTopic> = replicas.chain(on_target).collect();
    let mut tried = Tried::new();
    try_out((Side::Target, target), wanted, &mut tried).await?;
    try_out((Side::Source, source), on_source, &mut tried).await?;
    let audit = audit(settings, (source, target), (&copied, &tried), beats).await?;
    let acls = match &settings.acls {
        Some(sync) => {
            let foreseen = AclsRound::new(sync.clone(), source, target).foresee().await;
            Some(foreseen.map_err(|trouble| trouble.to_string()))
        }
        None => None,
    };
    let refused = tried.into_iter().filter_map(|((_, name), outcome)| match outcome {
        Err((code, words)) if !is_denied(code) => Some((name, words)),
        _ => None,
    });
    let names = &settings.rules.topics.names;
    let copied: BTreeMap<TopicName, TopicName> =
        copied.into_iter().map(|(name, (replica, _))| (name, replica)).collect();
    let renamed = copied.iter().filter(|(name, _)| names.is_by_rule(name.as_str()));
    Ok(Inspection {
        flow: settings.flow.id.clone(),
        renamed: renamed.map(|(name, replica)| (name.clone(), replica.clone())).collect(),
        copied,
        to_add: all - planned.len(),
        to_make,
        left_out,
        unmatched,
        starts: starts.map_err(|error| format!("progress cannot be read: {error}")),
        refused: refused.collect(),
        acls,
        audit,
    })
}

/// Wishes for the topics of the flow's own: on the source, and on the target.
fn own_topics(settings: &MirrorSettings, beats: Beats) -> (Vec<CreateTopic>, Vec<CreateTopic>) {
    let heartbeats = || {
        let name = TopicName::new(HEARTBEATS);
        InternalTopic { name, partitions: 1, replication_factor: -1 }.creation()
    };
    let (mut on_source, mut on_target) = (Vec::new(), Vec::new());
    if beats.back {
        on_source.push(heartbeats());
    }
    if beats.there {
        on_target.push(heartbeats());
    }
    if let Some(syncs) = &settings.syncs {
        let to = if settings.syncs_on_target() { &mut on_target } else { &mut on_source };
        to.push(syncs.creation());
    }
    let checkpoints = settings.groups.checkpoints.map(|_| &settings.groups.topic);
    let owned = settings.configs.as_ref().map(|configs| &configs.owned);
    let acls = settings.acls.as_ref().filter(|acls| acls.owns()).map(|acls| &acls.owned);
    let others = settings.internal.iter().chain([&settings.map]).chain(checkpoints);
    let others = others.chain(owned).chain(acls);
    on_target.extend(others.map(InternalTopic::creation));
    (on_source, on_target)
}

/// Has a cluster validate wishes for topics that it does not have.
async fn try_out(
    (side, cluster): (Side, &Cluster),
    mut wishes: Vec<CreateTopic>,
    tried: &mut Tried,
) -> Result<(), RequestError> {
    let view = cluster.view();
    wishes.retain(|wish| !view.topics.contains_key(&wish.name));
    for chunk in wishes.chunks(TRIED_AT_ONCE) {
        for (name, outcome) in cluster.could_create_topics(chunk).await? {
            let outcome = match outcome {
                // It exists, and may not be described; or somebody has just made it.
                Err(error) if error.code.0 == 36 => Ok(()),
                outcome => outcome.map_err(|error| (error.code, error.to_string())),
            };
            tried.insert((side, name), outcome);
        }
    }
    Ok(())
}

//! Consumer groups of a cluster: which there are, what they have committed, committing for them.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::{
    FindCoordinatorRequest, GroupId, ListGroupsRequest, OffsetCommitRequest, OffsetFetchRequest,
    OffsetFetchResponse, TopicName as WireName,
};
use kafka_protocol::protocol::StrBytes;

use super::cluster::{Cluster, RequestError, Route};
use super::retry::Backoff;
use crate::model::{LeaderEpoch, NodeId, Offset, TopicName, TopicPartition};
use crate::wire::{Api, ErrorCode};

/// Groups asked for, or about, in one request: an answer of a group with a few hundred partitions
/// has some ten kilobytes.
const GROUPS_PER_REQUEST: usize = 100;

/// From here on several groups can be named in one request.
const FIND_SEVERAL: i16 = 4;
const FETCH_SEVERAL: i16 = 8;

/// How long one coordinator may take. One dead broker must not hold up the groups of the others;
/// its own have another coordinator soon.
const NODE_PATIENCE: Duration = Duration::from_secs(5);

/// How often a group is asked for again that moves from one coordinator to another.
const ATTEMPTS_MAX: u32 = 5;

/// A group as its coordinator lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// Its name.
    pub id: String,
    /// What its members do (`consumer`, `connect`, ..); empty where offsets are only committed.
    pub protocol_type: String,
    /// `Empty`, `Stable`, `Dead`, ..
    pub state: String,
    /// `classic`, `consumer` (KIP-848), `streams`, `share`; empty before Kafka 3.8, where all are
    /// classic.
    pub kind: String,
}

impl ListedGroup {
    /// Whether nobody is in it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state.eq_ignore_ascii_case("empty") || self.state.eq_ignore_ascii_case("dead")
    }
}

/// What a group has committed for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Next offset that it reads.
    pub offset: Offset,
    /// Epoch of the record before it, if known.
    pub epoch: LeaderEpoch,
    /// What the group wrote beside it.
    pub metadata: String,
}

/// What groups have committed; of a group that cannot be read, the reason.
pub type Offsets = BTreeMap<String, Result<BTreeMap<TopicPartition, Committed>, ErrorCode>>;

fn text(of: &str) -> StrBytes {
    StrBytes::from_string(of.to_owned())
}

impl Cluster {
    /// All groups of all brokers. A broker that does not answer is left out and named.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if no broker answers.
    pub async fn list_groups(&self) -> Result<(Vec<ListedGroup>, Vec<RequestError>), RequestError> {
        let nodes: Vec<NodeId> = self.view().brokers.keys().copied().collect();
        let (mut groups, mut failed) = (Vec::new(), Vec::new());
        for node in &nodes {
            let request = ListGroupsRequest::default();
            let asked = self.request_within(Route::Node(*node), &request, NODE_PATIENCE).await;
            let answer = match asked {
                Ok(answer) if answer.error_code == 0 => answer,
                Ok(answer) => {
                    let code = ErrorCode(answer.error_code);
                    failed.push(self.refused(Api::ListGroups, 1, code));
                    continue;
                }
                Err(error) => {
                    failed.push(error);
                    continue;
                }
            };
            groups.extend(answer.groups.iter().map(|group| ListedGroup {
                id: group.group_id.as_str().to_owned(),
                protocol_type: group.protocol_type.as_str().to_owned(),
                state: group.group_state.as_str().to_owned(),
                kind: group.group_type.as_str().to_owned(),
            }));
        }
        match failed.pop() {
            Some(error) if failed.len() + 1 == nodes.len() => Err(error),
            last => {
                failed.extend(last);
                Ok((groups, failed))
            }
        }
    }

    /// The broker that keeps each group.
    async fn coordinators(
        &self,
        groups: &[String],
    ) -> Result<BTreeMap<String, Result<NodeId, ErrorCode>>, RequestError> {
        let mut found = BTreeMap::new();
        // While a cluster is upgraded its brokers differ: ask the one whose version is known.
        let node = self.view().brokers.keys().next().copied();
        let route = node.map_or(Route::Any, Route::Node);
        let version = self.version(route, Api::FindCoordinator).await?;
        let at_once = if version >= FIND_SEVERAL { GROUPS_PER_REQUEST } else { 1 };
        for groups in groups.chunks(at_once) {
            let mut request = FindCoordinatorRequest::default();
            if version >= FIND_SEVERAL {
                request.coordinator_keys = groups.iter().map(|group| text(group)).collect();
            } else {
                request.key = text(&groups[0]);
            }
            let answer = self.request(route, &request).await?;
            let outcome = |code: i16, node: i32| match ErrorCode(code) {
                code if code.is_error() => Err(code),
                _ => Ok(NodeId(node)),
            };
            if version >= FIND_SEVERAL {
                found.extend(answer.coordinators.iter().map(|one| {
                    (one.key.as_str().to_owned(), outcome(one.error_code, one.node_id.0))
                }));
            } else {
                found.insert(groups[0].clone(), outcome(answer.error_code, answer.node_id.0));
            }
        }
        Ok(found)
    }

    /// What groups have committed, over all partitions.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if no coordinator can be found; a coordinator that does not answer is an
    /// error of its groups alone.
    pub async fn committed_offsets(&self, groups: &[String]) -> Result<Offsets, RequestError> {
        let mut offsets = Offsets::new();
        let mut left = groups.to_vec();
        let mut backoff = Backoff::new(9);
        loop {
            let mut by_node: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
            for (group, found) in self.coordinators(&left).await? {
                match found {
                    Ok(node) => by_node.entry(node).or_default().push(group),
                    Err(code) => drop(offsets.insert(group, Err(code))),
                }
            }
            for (node, groups) in by_node {
                if let Err(error) = self.fetch_from(node, &groups, &mut offsets).await {
                    tracing::debug!(cluster = %self.alias(), %error, "a coordinator does not answer");
                    for group in groups {
                        offsets.entry(group).or_insert(Err(NOT_AVAILABLE));
                    }
                }
            }
            left.retain(|group| has_moved(offsets.get(group)));
            if left.is_empty() || backoff.failures() >= ATTEMPTS_MAX {
                return Ok(offsets);
            }
            offsets.retain(|_, found| !has_moved(Some(found)));
            tokio::time::sleep(backoff.fail()).await;
        }
    }

    async fn fetch_from(
        &self,
        node: NodeId,
        groups: &[String],
        offsets: &mut Offsets,
    ) -> Result<(), RequestError> {
        let version = self.version(Route::Node(node), Api::OffsetFetch).await?;
        let at_once = if version >= FETCH_SEVERAL { GROUPS_PER_REQUEST } else { 1 };
        for groups in groups.chunks(at_once) {
            let mut request = OffsetFetchRequest::default();
            let wire = |group: &String| GroupId(text(group));
            if version >= FETCH_SEVERAL {
                let all = |group| {
                    OffsetFetchRequestGroup::default().with_group_id(wire(group)).with_topics(None)
                };
                request.groups = groups.iter().map(all).collect();
            } else {
                request.group_id = wire(&groups[0]);
                request.topics = None;
            }
            let route = Route::Node(node);
            let answer = self.request_within(route, &request, NODE_PATIENCE).await?;
            if version >= FETCH_SEVERAL {
                take_several(&answer, offsets);
            } else {
                offsets.insert(groups[0].clone(), take_one(&answer));
            }
        }
        Ok(())
    }

    /// Commits offsets for a group in which nobody is. A group that has members refuses
    /// (25, `UNKNOWN_MEMBER_ID`, for each partition).
    ///
    /// # Errors
    ///
    /// [`RequestError`] if its coordinator does not answer.
    pub async fn commit_offsets(
        &self,
        group: &str,
        offsets: &BTreeMap<TopicPartition, Committed>,
    ) -> Result<BTreeMap<TopicPartition, ErrorCode>, RequestError> {
        let mut topics: BTreeMap<&TopicName, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
        for (partition, committed) in offsets {
            topics.entry(&partition.topic).or_default().push(
                OffsetCommitRequestPartition::default()
                    .with_partition_index(partition.partition)
                    .with_committed_offset(committed.offset.0)
                    .with_committed_leader_epoch(committed.epoch.0)
                    .with_committed_metadata(Some(text(&committed.metadata))),
            );
        }
        let topics = topics.into_iter().map(|(name, partitions)| {
            OffsetCommitRequestTopic::default()
                .with_name(WireName(text(name.as_str())))
                .with_partitions(partitions)
        });
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text(group)))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(topics.collect());
        let mut backoff = Backoff::new(8);
        loop {
            let groups = [group.to_owned()];
            let found = self.coordinators(&groups).await?.remove(group);
            let node = match found.unwrap_or(Err(NOT_AVAILABLE)) {
                Ok(node) => node,
                Err(code) if backoff.failures() >= ATTEMPTS_MAX => {
                    return Err(self.refused(Api::FindCoordinator, backoff.failures() + 1, code));
                }
                Err(_) => {
                    tokio::time::sleep(backoff.fail()).await;
                    continue;
                }
            };
            let answer = self.request(Route::Node(node), &request).await?;
            let mut outcome = BTreeMap::new();
            for topic in &answer.topics {
                for partition in &topic.partitions {
                    let of = TopicPartition::new(topic.name.as_str(), partition.partition_index);
                    outcome.insert(of, ErrorCode(partition.error_code));
                }
            }
            let moved = outcome.values().any(|code| moves(*code));
            if !moved || backoff.failures() >= ATTEMPTS_MAX {
                return Ok(outcome);
            }
            tokio::time::sleep(backoff.fail()).await;
        }
    }
}

/// `COORDINATOR_NOT_AVAILABLE`.
const NOT_AVAILABLE: ErrorCode = ErrorCode(15);

/// `COORDINATOR_LOAD_IN_PROGRESS`, `COORDINATOR_NOT_AVAILABLE`, `NOT_COORDINATOR`.
fn moves(code: ErrorCode) -> bool {
    matches!(code.0, 14..=16)
}

fn has_moved(found: Option<&Result<BTreeMap<TopicPartition, Committed>, ErrorCode>>) -> bool {
    matches!(found, Some(Err(code)) if moves(*code))
}

/// Adds what is committed for a partition; one without an offset, or refused, is left out.
fn take(
    found: &mut BTreeMap<TopicPartition, Committed>,
    of: TopicPartition,
    (offset, epoch, code): (i64, i32, i16),
    metadata: Option<&StrBytes>,
) {
    if offset >= 0 && code == 0 {
        let metadata = metadata.map_or_else(String::new, |text| text.as_str().to_owned());
        let committed = Committed { offset: Offset(offset), epoch: LeaderEpoch(epoch), metadata };
        found.insert(of, committed);
    }
}

/// The answer about one group, below version 8.
fn take_one(
    answer: &OffsetFetchResponse,
) -> Result<BTreeMap<TopicPartition, Committed>, ErrorCode> {
    let code = ErrorCode(answer.error_code);
    if code.is_error() {
        return Err(code);
    }
    let mut found = BTreeMap::new();
    for topic in &answer.topics {
        for one in &topic.partitions {
            let of = TopicPartition::new(topic.name.as_str(), one.partition_index);
            let said = (one.committed_offset, one.committed_leader_epoch, one.error_code);
            take(&mut found, of, said, one.metadata.as_ref());
        }
    }
    Ok(found)
}

fn take_several(answer: &OffsetFetchResponse, offsets: &mut Offsets) {
    for group in &answer.groups {
        let code = ErrorCode(group.error_code);
        let mut found = BTreeMap::new();
        for topic in &group.topics {
            for one in &topic.partitions {
                let of = TopicPartition::new(topic.name.as_str(), one.partition_index);
                let said = (one.committed_offset, one.committed_leader_epoch, one.error_code);
                take(&mut found, of, said, one.metadata.as_ref());
            }
        }
        let outcome = if code.is_error() { Err(code) } else { Ok(found) };
        offsets.insert(group.group_id.as_str().to_owned(), outcome);
    }
}

//! Consumer groups of a cluster: which there are, what they have committed, committing for them.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::{
    FindCoordinatorRequest, GroupId, ListGroupsRequest, OffsetCommitRequest, OffsetCommitResponse,
    OffsetFetchRequest, OffsetFetchResponse, TopicName as WireName,
};
use kafka_protocol::protocol::StrBytes;

use super::cluster::{Cluster, RequestError, Route};
use super::retry::Backoff;
use crate::model::{LeaderEpoch, NodeId, Offset, TopicName, TopicPartition};
use crate::wire::{Api, ErrorCode};

/// Groups asked for, or about, in one request: an answer of a group with a few hundred partitions
/// has some ten kilobytes.
const GROUPS_PER_REQUEST: usize = 100;

/// Commits underway at a time, to one coordinator: each is of one group, and on a long link thousands
/// of them one by one would take minutes.
const COMMITS_AT_ONCE: usize = 32;

/// From here on several groups can be named in one request.
const FIND_SEVERAL: i16 = 4;
const FETCH_SEVERAL: i16 = 8;

/// Protocol of groups whose members consume; groups that only commit have none.
const CONSUMERS: &str = "consumer";

/// Groups that MM2 knows: `streams` and `share` groups are not mirrored by it.
const KINDS: [&str; 2] = ["classic", "consumer"];

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
    /// Whether MM2 would mirror its offsets: members that consume, or nobody and only commits, and
    /// no `streams` or `share` group.
    #[must_use]
    pub fn consumes(&self) -> bool {
        let kind = self.kind.to_ascii_lowercase();
        (self.protocol_type.is_empty() || self.protocol_type == CONSUMERS)
            && (kind.is_empty() || KINDS.contains(&kind.as_str()))
    }

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

/// What is to be committed for one group.
type Wanted = BTreeMap<TopicPartition, Committed>;

/// What became of commits, by group and partition; of a group whose coordinator could not be asked,
/// the reason.
pub type Outcomes = BTreeMap<String, Result<BTreeMap<TopicPartition, ErrorCode>, ErrorCode>>;

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

    /// A broker that answers, and the version of `api` it is spoken to in: one that is connected,
    /// else each in turn. While a cluster is upgraded its brokers differ, so the version is this
    /// one's.
    async fn some_broker(&self, api: Api) -> Result<(Route, i16), RequestError> {
        let view = self.view();
        let known = view.brokers.keys().copied();
        let nodes: Vec<NodeId> = self.any_node(0).into_iter().chain(known).collect();
        let mut last = None;
        for node in nodes {
            let route = Route::Node(node);
            match self.version_within(route, api, NODE_PATIENCE).await {
                Ok(version) => return Ok((route, version)),
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) => Err(error),
            None => Ok((Route::Any, self.version(Route::Any, api).await?)),
        }
    }

    /// The broker that keeps each group.
    async fn coordinators(
        &self,
        groups: &[String],
    ) -> Result<BTreeMap<String, Result<NodeId, ErrorCode>>, RequestError> {
        let mut found = BTreeMap::new();
        if groups.is_empty() {
            return Ok(found);
        }
        let (route, version) = self.some_broker(Api::FindCoordinator).await?;
        let at_once = if version >= FIND_SEVERAL { GROUPS_PER_REQUEST } else { 1 };
        for groups in groups.chunks(at_once) {
            let mut request = FindCoordinatorRequest::default();
            if version >= FIND_SEVERAL {
                request.coordinator_keys = groups.iter().map(|group| text(group)).collect();
            } else {
                request.key = text(&groups[0]);
            }
            let answer = self.request_within(route, &request, NODE_PATIENCE).await?;
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

    /// Commits offsets for groups in which nobody is; of each group, what became of each partition.
    /// A group that has members refuses (25, `UNKNOWN_MEMBER_ID`, for each partition). A group
    /// whose coordinator cannot be found, or does not answer, is an error of its own: the others
    /// are committed for all the same.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if no broker can be asked for coordinators.
    pub async fn commit_offsets(
        &self,
        groups: &BTreeMap<String, BTreeMap<TopicPartition, Committed>>,
    ) -> Result<Outcomes, RequestError> {
        let mut outcomes = Outcomes::new();
        let mut left: Vec<String> = groups.keys().cloned().collect();
        let mut backoff = Backoff::new(8);
        loop {
            let mut by_node: BTreeMap<NodeId, Vec<(&str, &Wanted)>> = BTreeMap::new();
            for (group, found) in self.coordinators(&left).await? {
                match (found, groups.get_key_value(&group)) {
                    (Ok(node), Some((group, offsets))) => {
                        by_node.entry(node).or_default().push((group, offsets));
                    }
                    (Err(code), _) => drop(outcomes.insert(group, Err(code))),
                    (Ok(_), None) => {}
                }
            }
            for (node, groups) in by_node {
                self.commit_at(node, &groups, &mut outcomes).await;
            }
            let moved = |outcome: Option<&Result<_, _>>| match outcome {
                Some(Ok(codes)) => BTreeMap::values(codes).any(|code| moves(*code)),
                Some(Err(code)) => moves(*code),
                None => false,
            };
            left.retain(|group| moved(outcomes.get(group)));
            if left.is_empty() || backoff.failures() >= ATTEMPTS_MAX {
                return Ok(outcomes);
            }
            tokio::time::sleep(backoff.fail()).await;
        }
    }

    /// Commits for groups of one coordinator, some at a time. One that does not answer is not asked
    /// for the rest of them.
    async fn commit_at(&self, node: NodeId, groups: &[(&str, &Wanted)], into: &mut Outcomes) {
        let mut dead = false;
        for some in groups.chunks(COMMITS_AT_ONCE) {
            if dead {
                let late = some.iter().map(|(group, _)| ((*group).to_owned(), Err(NOT_AVAILABLE)));
                into.extend(late);
                continue;
            }
            let requests: Vec<_> =
                some.iter().map(|(group, of)| commit_request(group, of)).collect();
            let asked = requests
                .iter()
                .map(|request| self.request_within(Route::Node(node), request, NODE_PATIENCE));
            for ((group, _), answer) in some.iter().zip(join_all(asked).await) {
                let outcome = match answer {
                    Ok(answer) => Ok(committed_codes(&answer)),
                    Err(error) => {
                        tracing::debug!(cluster = %self.alias(), %error, "a coordinator does not answer");
                        dead = true;
                        Err(NOT_AVAILABLE)
                    }
                };
                into.insert((*group).to_owned(), outcome);
            }
        }
    }
}

fn commit_request(group: &str, offsets: &Wanted) -> OffsetCommitRequest {
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
    OffsetCommitRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics.collect())
}

fn committed_codes(answer: &OffsetCommitResponse) -> BTreeMap<TopicPartition, ErrorCode> {
    let mut codes = BTreeMap::new();
    for topic in &answer.topics {
        for partition in &topic.partitions {
            let of = TopicPartition::new(topic.name.as_str(), partition.partition_index);
            codes.insert(of, ErrorCode(partition.error_code));
        }
    }
    codes
}

/// Waits for all of `futures`, which go on beside each other; their outputs in their order.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|cx| {
        let mut all = true;
        for (future, output) in waiting.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(cx) {
                Poll::Ready(ready) => *output = Some(ready),
                Poll::Pending => all = false,
            }
        }
        if all { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    waiting.into_iter().filter_map(|(_, output)| output).collect()
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

//! What a mirror has left on a cluster (`MirrorClient`, `RemoteClusterUtils`).

use std::collections::{BTreeMap, BTreeSet};

use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::app::wiring;
use crate::client::{Clock, Cluster, LogError, RequestError};
use crate::config::MirrorSettings;
use crate::mm2::Checkpoint;
use crate::model::{ClusterAlias, Offset, TopicName, TopicPartition};
use crate::policy::{FlowNames, PolicyKind, ReplicationPolicy};

/// The file has no such cluster, or no flow into it or out of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no flow of the file touches a cluster {0}")]
pub struct UnknownCluster(pub String);

/// A question that could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The cluster does not answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The topic of checkpoints is not there, or cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Where a consumer group goes on on the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The next offset that it reads.
    pub offset: i64,
    /// What the group wrote beside it on the source.
    pub metadata: String,
}

/// Looks at one cluster, usually the target of a mirror.
#[derive(Debug)]
pub struct MirrorClient {
    cluster: Cluster,
    /// Of the flows into it, by where they come from.
    names: BTreeMap<ClusterAlias, FlowNames>,
    _until_dropped: DropGuard,
}

impl MirrorClient {
    /// A client of the cluster with this alias, reached and secured as the file says. Nothing is
    /// sent before the first question.
    ///
    /// # Errors
    ///
    /// [`UnknownCluster`].
    pub fn new(settings: &MirrorSettings, alias: &str) -> Result<Self, UnknownCluster> {
        let alias = ClusterAlias::new(alias);
        let unknown = || UnknownCluster(alias.as_str().to_owned());
        let cluster = settings.clusters.get(&alias).ok_or_else(unknown)?;
        let into = settings.flows.iter().filter(|flow| flow.id.target == alias);
        let names = into.map(|flow| (flow.id.source.clone(), flow.names.clone())).collect();
        let end = CancellationToken::new();
        let tracker = TaskTracker::new();
        let cluster = Cluster::new(wiring::cluster(cluster), Clock::start(), &tracker, end.clone());
        Ok(Self { cluster, names, _until_dropped: end.drop_guard() })
    }

    /// The policy that names of topics are read by; they hold no alias under the identity policy.
    fn policy(&self) -> ReplicationPolicy {
        let default = || ReplicationPolicy::new(PolicyKind::Default, ".", None);
        self.names.values().next().map_or_else(default, |names| names.policy.clone())
    }

    fn policy_of(&self, upstream: &ClusterAlias) -> ReplicationPolicy {
        self.names.get(upstream).map_or_else(|| self.policy(), |names| names.policy.clone())
    }

    async fn topics(&self) -> Result<Vec<TopicName>, RequestError> {
        self.cluster.refresh(None).await?;
        let view = self.cluster.view();
        let all = view.topics.iter().filter(|(_, topic)| !topic.internal);
        Ok(all.map(|(name, _)| name.clone()).collect())
    }

    async fn topics_that(
        &self,
        which: impl Fn(&ReplicationPolicy, &str) -> bool,
    ) -> Result<BTreeSet<TopicName>, ClientError> {
        let policy = self.policy();
        let all = self.topics().await?.into_iter();
        Ok(all.filter(|topic| which(&policy, topic.as_str())).collect())
    }

    /// Topics of heartbeats: the cluster's own, and replicas of those of other clusters.
    ///
    /// # Errors
    ///
    /// [`ClientError::Request`].
    pub async fn heartbeat_topics(&self) -> Result<BTreeSet<TopicName>, ClientError> {
        self.topics_that(ReplicationPolicy::is_heartbeats).await
    }

    /// Topics of checkpoints, one for each source.
    ///
    /// # Errors
    ///
    /// [`ClientError::Request`].
    pub async fn checkpoint_topics(&self) -> Result<BTreeSet<TopicName>, ClientError> {
        self.topics_that(|policy, topic| policy.internal().is_checkpoints(topic)).await
    }

    /// Clusters that records come from, over however many hops: those whose heartbeats arrive.
    ///
    /// # Errors
    ///
    /// [`ClientError::Request`].
    pub async fn upstream_clusters(&self) -> Result<BTreeSet<String>, ClientError> {
        let policy = self.policy();
        let heartbeats = self.heartbeat_topics().await?;
        Ok(heartbeats.iter().flat_map(|topic| sources(&policy, topic.as_str())).collect())
    }

    /// The fewest hops over which records of `upstream` come; `None` if none do.
    ///
    /// # Errors
    ///
    /// [`ClientError::Request`].
    pub async fn replication_hops(&self, upstream: &str) -> Result<Option<u32>, ClientError> {
        let policy = self.policy();
        let heartbeats = self.heartbeat_topics().await?;
        Ok(heartbeats.iter().filter_map(|one| policy.hops_from(upstream, one.as_str())).min())
    }

    /// Topics that are replicas, by their names and by the file's rename rules.
    ///
    /// # Errors
    ///
    /// [`ClientError::Request`].
    pub async fn remote_topics(&self) -> Result<BTreeSet<TopicName>, ClientError> {
        self.topics_that(|policy, topic| origin(&self.names, policy, topic).is_some()).await
    }

    /// Topics that are replicas of topics of `upstream`, over one hop.
    ///
    /// # Errors
    ///
    /// [`ClientError::Request`].
    pub async fn remote_topics_of(
        &self,
        upstream: &str,
    ) -> Result<BTreeSet<TopicName>, ClientError> {
        let from = |topic: &Option<&str>| *topic == Some(upstream);
        self.topics_that(|policy, topic| from(&origin(&self.names, policy, topic))).await
    }

    /// What a topic of this cluster is called on `upstream`, if a flow of the file from there brings
    /// it under that name: what `ReplicationPolicy.upstreamTopic` says, rename rules included.
    #[must_use]
    pub fn upstream_topic(&self, upstream: &str, topic: &str) -> Option<TopicName> {
        self.names.get(&ClusterAlias::new(upstream))?.upstream(topic)
    }

    /// What a topic of `upstream` is called on this cluster, if a flow of the file from there can
    /// bring it: what `ReplicationPolicy.formatRemoteTopic` says, rename rules included.
    #[must_use]
    pub fn remote_topic(&self, upstream: &str, topic: &str) -> Option<TopicName> {
        let names = self.names.get(&ClusterAlias::new(upstream))?;
        names.on_target(&TopicName::new(topic)).ok()
    }

    /// Where a group of `upstream` goes on here, by the newest checkpoint of each partition; empty
    /// for a group that has none.
    ///
    /// # Errors
    ///
    /// [`ClientError::Log`] if there is no topic of checkpoints, or it cannot be read within a
    /// minute.
    pub async fn translate_offsets(
        &self,
        upstream: &str,
        group: &str,
    ) -> Result<BTreeMap<TopicPartition, Position>, ClientError> {
        let mut all = self.translate_groups(upstream, |one| one == group).await?;
        Ok(all.remove(group).unwrap_or_default())
    }

    /// [`MirrorClient::translate_offsets`] for all groups that `which` picks by name.
    ///
    /// # Errors
    ///
    /// [`ClientError::Log`].
    pub async fn translate_groups(
        &self,
        upstream: &str,
        which: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, BTreeMap<TopicPartition, Position>>, ClientError> {
        let upstream = ClusterAlias::new(upstream);
        let topic = self.policy_of(&upstream).internal().checkpoints(&upstream);
        let mut groups: BTreeMap<String, BTreeMap<TopicPartition, Position>> = BTreeMap::new();
        let take = |record: crate::client::LogRecord| {
            let (Some(key), Some(value)) = (&record.key, &record.value) else { return };
            // What is no checkpoint is passed over, as Java does.
            let Ok(one) = Checkpoint::decode(key, value) else { return };
            if which(&one.group) {
                let Offset(offset) = one.downstream;
                let position = Position { offset, metadata: one.metadata };
                groups.entry(one.group).or_default().insert(one.partition, position);
            }
        };
        self.cluster.read_each(&topic, true, take).await?;
        Ok(groups)
    }
}

/// The cluster that a topic came from over one hop: whose rule gives its name, else as the policy
/// reads it.
fn origin<'a>(
    names: &'a BTreeMap<ClusterAlias, FlowNames>,
    policy: &'a ReplicationPolicy,
    topic: &'a str,
) -> Option<&'a str> {
    let by_rule = names.iter().find(|(_, names)| names.unrenamed(topic).is_some());
    match by_rule {
        Some((alias, _)) => Some(alias.as_str()),
        None => is_remote(policy, topic).then(|| policy.source(topic)).flatten(),
    }
}

fn is_remote(policy: &ReplicationPolicy, topic: &str) -> bool {
    !policy.internal().is_internal(topic) && policy.source(topic).is_some()
}

/// All aliases that a name begins with; an alias that comes again ends the chain.
fn sources(policy: &ReplicationPolicy, topic: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut name = topic;
    while let Some(source) = policy.source(name).filter(|one| !found.iter().any(|f| f == one)) {
        found.push(source.to_owned());
        match policy.upstream(name) {
            Some(upstream) if upstream != name => name = upstream,
            _ => break,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `MirrorClientTest.upstreamClustersTest`, `remoteTopicsTest`.
    #[test]
    fn sources_and_replicas_are_read_from_names_as_in_java() {
        let policy = ReplicationPolicy::new(PolicyKind::Default, ".", None);
        assert_eq!(sources(&policy, "heartbeats"), Vec::<String>::new());
        assert_eq!(sources(&policy, "source1.source2.heartbeats"), ["source1", "source2"]);
        assert_eq!(sources(&policy, "a.b.a.heartbeats"), ["a", "b"], "a chain that comes again");
        for (topic, remote) in [
            ("topic", false),
            ("source1.topic", true),
            ("source1.checkpoints.internal", false),
            ("mm2-offsets.source1.internal", false),
        ] {
            assert_eq!(is_remote(&policy, topic), remote, "{topic}");
        }
        let identity =
            ReplicationPolicy::new(PolicyKind::Identity, ".", Some(ClusterAlias::new("source")));
        assert_eq!(sources(&identity, "backup.heartbeats"), ["backup"]);
        assert!(is_remote(&identity, "topic") && !is_remote(&identity, "heartbeats"));
        assert!(is_remote(&identity, "backup.heartbeats"));
    }

    #[tokio::test]
    async fn renamed_topics_are_replicas_and_lead_back_to_their_topics() {
        let file = "clusters = a, b, c\na.bootstrap.servers = x:1\nb.bootstrap.servers = y:1\n\
            c.bootstrap.servers = z:1\na->c.enabled = true\nb->c.enabled = true\n\
            b->c.topics.rename = orders:orders-of-b, pay.*:b-pay.*\n";
        let settings = crate::embed::settings("x", file.as_bytes()).unwrap();
        let client = MirrorClient::new(&settings, "c").unwrap();
        let policy = client.policy();
        for (topic, from, upstream) in [
            ("a.orders", Some("a"), Some("orders")),
            ("orders-of-b", Some("b"), Some("orders")),
            ("b-pay.in", Some("b"), Some("pay.in")),
            ("b.other", Some("b"), Some("other")),
            ("orders", None, None),
        ] {
            assert_eq!(origin(&client.names, &policy, topic), from, "{topic}");
            let upstream = upstream.map(TopicName::new);
            assert_eq!(client.upstream_topic(from.unwrap_or("b"), topic), upstream, "{topic}");
            if let (Some(from), Some(upstream)) = (from, upstream) {
                assert_eq!(client.remote_topic(from, upstream.as_str()), Some(topic.into()));
            }
        }
        assert_eq!(client.remote_topic("nowhere", "orders"), None);
    }
}

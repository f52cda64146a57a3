//! The topics round: what the source has, what the target should have, and what can be copied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::internal_topics::settle;
use crate::client::{
    Cluster, ConfigEntry, ConfigSource, CreateTopic, MetadataView, RequestError, TopicView,
};
use crate::flow::Pair;
use crate::model::{FlowId, TopicName, TopicPartition};
use crate::policy::{ConfigFilter, FlowTopics, Selection};

/// Topics whose configs are asked for, or that are made, in one request.
///
/// An answer holds about forty configs of each, so this keeps it near a megabyte.
const TOPICS_PER_REQUEST: usize = 200;

/// What a flow mirrors, and how replicas are made.
#[derive(Clone, Debug)]
pub struct TopicRules {
    /// Which topics, and their names on the target.
    pub topics: FlowTopics,
    /// Which topic configs are copied at creation.
    pub configs: ConfigFilter,
    /// Configs that have the source's default become explicit (`use.defaults.from=source`).
    pub source_defaults: bool,
    /// Replicas of new topics; -1 for the target's default.
    pub replication_factor: i16,
}

/// One flow's topics round and what it remembers between two of them.
#[derive(Debug)]
pub(super) struct TopicsRound {
    rules: TopicRules,
    source: Cluster,
    target: Cluster,
    /// Topic configs that the target's release knows; learnt from a topic that it has.
    known_configs: Option<BTreeSet<String>>,
    /// What was complained about, so that it is said once.
    complaints: BTreeMap<TopicName, String>,
    found: BTreeSet<TopicName>,
}

/// A source topic and the target topic it is copied to.
type Wanted = BTreeMap<TopicName, (TopicName, Arc<TopicView>)>;

impl TopicsRound {
    pub(super) fn new(rules: TopicRules, source: &Cluster, target: &Cluster) -> Self {
        Self {
            rules,
            source: source.clone(),
            target: target.clone(),
            known_configs: None,
            complaints: BTreeMap::new(),
            found: BTreeSet::new(),
        }
    }

    /// Looks at both clusters, makes what is missing, and says what can be copied.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if a cluster does not answer; nothing was decided then.
    pub(super) async fn run(&mut self) -> Result<Vec<Pair>, RequestError> {
        self.source.refresh(None).await?;
        self.target.refresh(None).await?;
        let wanted = self.wanted(&self.source.view());
        self.make_missing(&wanted).await?;
        self.grow(&wanted).await?;
        Ok(self.pairs(&wanted))
    }

    fn flow(&self) -> FlowId {
        self.rules.topics.flow.clone()
    }

    /// Says something about a topic once, until something else is to be said.
    fn complain(&mut self, topic: &TopicName, what: String) {
        if self.complaints.get(topic) != Some(&what) {
            tracing::warn!(flow = %self.flow(), %topic, "{what}");
            self.complaints.insert(topic.clone(), what);
        }
    }

    fn wanted(&mut self, view: &MetadataView) -> Wanted {
        let mut wanted = Wanted::new();
        for (name, topic) in view.topics.iter().filter(|(_, topic)| !topic.internal) {
            match self.rules.topics.select(name) {
                Ok(Selection::Copied { as_topic }) => {
                    if self.found.insert(name.clone()) {
                        tracing::info!(flow = %self.flow(), topic = %name, target = %as_topic,
                            partitions = topic.partitions.len(), "topic found");
                    }
                    wanted.insert(name.clone(), (as_topic, Arc::clone(topic)));
                }
                Ok(Selection::Cycle) => {
                    if self.found.insert(name.clone()) {
                        tracing::info!(flow = %self.flow(), topic = %name,
                            "topic left out: it came from the target");
                    }
                }
                Ok(Selection::Filtered | Selection::Internal) => {}
                Err(error) => self.complain(name, format!("topic left out: {error}")),
            }
        }
        let gone: Vec<TopicName> =
            self.found.iter().filter(|name| !view.topics.contains_key(name)).cloned().collect();
        for name in gone {
            tracing::warn!(flow = %self.flow(), topic = %name,
                "topic is gone from the source; its copy stays");
            self.found.remove(&name);
        }
        wanted
    }

    async fn make_missing(&mut self, wanted: &Wanted) -> Result<(), RequestError> {
        let view = self.target.view();
        let missing: Vec<TopicName> = wanted
            .iter()
            .filter(|(_, (target, topic))| {
                !view.topics.contains_key(target) && !topic.partitions.is_empty()
            })
            .map(|(source, _)| source.clone())
            .collect();
        for chunk in missing.chunks(TOPICS_PER_REQUEST) {
            self.learn_known_configs().await;
            let described = self.source.describe_topic_configs(chunk).await?;
            let mut creations = Vec::new();
            for (source, configs) in described {
                let Some((target, topic)) = wanted.get(&source) else { continue };
                match configs {
                    Ok(configs) => creations.push(CreateTopic {
                        name: target.clone(),
                        partitions: i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
                        replication_factor: self.rules.replication_factor,
                        configs: self.copied_configs(&source, configs),
                    }),
                    Err(error) => self.complain(
                        &source,
                        format!(
                            "topic waits: its configs cannot be read on the source ({error}); \
                             DESCRIBE_CONFIGS on it is needed"
                        ),
                    ),
                }
            }
            if creations.is_empty() {
                continue;
            }
            let mut made = Vec::new();
            for (name, outcome) in self.target.create_topics(&creations).await? {
                match outcome {
                    Ok(()) => {
                        tracing::info!(flow = %self.flow(), topic = %name, "topic created");
                        self.complaints.remove(&name);
                        made.push(name);
                    }
                    Err(error) if error.code.0 == 36 => made.push(name),
                    Err(error) => self.complain(
                        &name,
                        format!(
                            "topic waits: the target does not create it ({error}); trying again \
                             at each round"
                        ),
                    ),
                }
            }
            if !made.is_empty() {
                settle(&self.target, &made).await?;
            }
        }
        Ok(())
    }

    /// Which configs the target's release knows, from any topic it has. One that it does not
    /// know would block the whole creation.
    async fn learn_known_configs(&mut self) {
        if self.known_configs.is_some() {
            return;
        }
        let Some(any) = self.target.view().topics.keys().next().cloned() else { return };
        if let Ok(mut described) = self.target.describe_topic_configs(&[any]).await
            && let Some((_, Ok(configs))) = described.pop_first()
        {
            self.known_configs = Some(configs.into_iter().map(|config| config.name).collect());
        }
    }

    /// The source's configs that a new replica gets (MM2: `MirrorSourceConnector`, 4.3).
    fn copied_configs(
        &mut self,
        source: &TopicName,
        configs: Vec<ConfigEntry>,
    ) -> BTreeMap<String, String> {
        let mut copied = BTreeMap::new();
        let mut unknown = Vec::new();
        for config in configs {
            let wanted = match config.source {
                ConfigSource::Topic
                | ConfigSource::DynamicBroker
                | ConfigSource::DynamicDefaultBroker => true,
                ConfigSource::Default => self.rules.source_defaults,
                ConfigSource::StaticBroker | ConfigSource::Other(_) => false,
            };
            if !wanted || config.read_only || config.sensitive {
                continue;
            }
            match self.rules.configs.accepts(&config.name) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    self.complain(source, format!("{} is not copied: {error}", config.name));
                    continue;
                }
            }
            let known =
                self.known_configs.as_ref().is_none_or(|known| known.contains(&config.name));
            match config.value {
                Some(value) if known => drop(copied.insert(config.name, value)),
                Some(_) if config.source == ConfigSource::Topic => unknown.push(config.name),
                Some(_) | None => {}
            }
        }
        if !unknown.is_empty() {
            let names = unknown.join(", ");
            self.complain(
                source,
                format!("configs that the target's release does not know are left out: {names}"),
            );
        }
        copied
    }

    async fn grow(&mut self, wanted: &Wanted) -> Result<(), RequestError> {
        let view = self.target.view();
        let mut grown = BTreeMap::new();
        for (target, topic) in wanted.values() {
            let Some(existing) = view.topics.get(target) else { continue };
            if existing.partitions.len() < topic.partitions.len() {
                let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
                grown.insert(target.clone(), count);
            }
        }
        if grown.is_empty() {
            return Ok(());
        }
        let mut made = Vec::new();
        for (name, outcome) in self.target.create_partitions(&grown).await? {
            let count = grown.get(&name).copied().unwrap_or(0);
            match outcome {
                Ok(()) => {
                    tracing::info!(flow = %self.flow(), topic = %name, partitions = count,
                        "topic grown");
                    self.complaints.remove(&name);
                    made.push(name);
                }
                // Somebody else grew it meanwhile.
                Err(error) if error.code.0 == 37 => made.push(name),
                Err(error) => self.complain(
                    &name,
                    format!(
                        "partitions wait: the target topic has fewer than the source's {count} and \
                         is not grown ({error})"
                    ),
                ),
            }
        }
        if made.is_empty() { Ok(()) } else { settle(&self.target, &made).await }
    }

    /// Partitions that exist on both sides.
    fn pairs(&self, wanted: &Wanted) -> Vec<Pair> {
        let view = self.target.view();
        let mut pairs = Vec::new();
        for (source, (target, topic)) in wanted {
            let Some(existing) = view.topics.get(target) else { continue };
            for partition in topic.partitions.keys() {
                if existing.partitions.contains_key(partition) {
                    pairs.push(Pair {
                        source: TopicPartition { topic: source.clone(), partition: *partition },
                        target: TopicPartition { topic: target.clone(), partition: *partition },
                        source_id: topic.id,
                        target_id: existing.id,
                    });
                }
            }
        }
        pairs
    }
}

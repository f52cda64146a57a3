//! The topics round: what the source has, what the target should have, and what can be copied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::configs::Made;
use super::internal_topics::settle;
use super::rights::{Missing, Resource, is_denied};
use super::rounds::Notes;
use crate::client::{Cluster, CreateTopic, MetadataView, RequestError, TopicError, TopicView};
use crate::flow::Pair;
use crate::model::{AclOperation, ConfigEntry, FlowId, TopicId, TopicName, TopicPartition};
use crate::policy::{ConfigRules, FlowTopics, NameList, Selection, Thing};

/// Topics whose configs are asked for, or that are made, in one request.
///
/// An answer holds about forty configs of each, so this keeps it near a megabyte.
pub(super) const TOPICS_PER_REQUEST: usize = 200;

/// What a flow mirrors, and how replicas are made.
#[derive(Clone, Debug)]
pub struct TopicRules {
    /// Which topics, and their names on the target.
    pub topics: FlowTopics,
    /// Which topic configs are copied, and how.
    pub configs: ConfigRules,
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
    /// Whom to tell what replicas were made with.
    made: Made,
    /// Topics that were copied until they were deleted on the source.
    gone: BTreeSet<TopicName>,
    /// Topics that were copied until the right to describe them was taken away, and on which side.
    denied: BTreeMap<TopicName, String>,
    /// Topics that rename rules leave without a name on the target, and why.
    nameless: BTreeMap<TopicName, String>,
    /// Target topics with more partitions than their source.
    wider: BTreeMap<TopicName, String>,
    /// Elements of `topics` that match no topic of the source; `None` before the first look.
    unmatched: Option<Vec<String>>,
    /// Source topics that exist, or may, and that we may not see.
    hidden: BTreeSet<TopicName>,
    /// Rights that this run lacked.
    missing: BTreeSet<Missing>,
}

/// Topics that one round tells of one by one; of more it tells the number and the first. A start
/// with thousands of topics must not bury what matters.
const TOLD_MAX: usize = 5;

/// Tells of topics, with a line each or with one for all.
fn told(topics: &[TopicName], each: impl Fn(&TopicName), all: impl Fn(usize, &str)) {
    if topics.len() <= TOLD_MAX {
        topics.iter().for_each(each);
    } else {
        let first: Vec<&str> = topics.iter().take(TOLD_MAX).map(TopicName::as_str).collect();
        all(topics.len(), &first.join(", "));
    }
}

/// A source topic and the target topic it is copied to.
pub(super) type Wanted = BTreeMap<TopicName, (TopicName, Arc<TopicView>)>;

/// What a flow does with the topics of its source.
pub(super) struct Selected {
    pub(super) copied: Wanted,
    /// The others, and the rule that leaves each out. Kafka's own are not named.
    pub(super) left_out: BTreeMap<TopicName, String>,
}

/// Those of `elements` of `topics` that match no topic of the source.
pub(super) fn unmatched(elements: &[String], view: &MetadataView) -> Vec<String> {
    let topics = view.topics.iter().filter(|(_, topic)| !topic.internal);
    let topics: Vec<&str> = topics.map(|(name, _)| name.as_str()).collect();
    NameList::unmatched(elements, &topics)
}

/// Selects among the topics of the source.
pub(super) fn select(topics: &FlowTopics, view: &MetadataView) -> Selected {
    let mut selected = Selected { copied: Wanted::new(), left_out: BTreeMap::new() };
    for (name, topic) in view.topics.iter().filter(|(_, topic)| !topic.internal) {
        let rule = match topics.select(name) {
            Ok(Selection::Copied { as_topic }) => {
                selected.copied.insert(name.clone(), (as_topic, Arc::clone(topic)));
                continue;
            }
            Ok(Selection::Cycle) => "it came from the target".to_owned(),
            Ok(Selection::Internal) => "internal".to_owned(),
            Ok(Selection::Filtered) => match topics.filter.include.matches(name.as_str()) {
                Ok(true) => "topics.exclude names it".to_owned(),
                Ok(false) | Err(_) => "topics does not name it".to_owned(),
            },
            Ok(Selection::Nameless(why)) => why.to_string(),
            Err(error) => error.to_string(),
        };
        selected.left_out.insert(name.clone(), rule);
    }
    selected
}

/// Partitions that exist on both sides; with `to_come`, also those whose target would be made.
pub(super) fn pairs(wanted: &Wanted, target: &MetadataView, to_come: bool) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (source, (replica, topic)) in wanted {
        let existing = target.topics.get(replica);
        for partition in topic.partitions.keys() {
            let there = existing.is_some_and(|topic| topic.partitions.contains_key(partition));
            if there || (to_come && existing.is_none()) {
                pairs.push(Pair {
                    source: TopicPartition { topic: source.clone(), partition: *partition },
                    target: TopicPartition { topic: replica.clone(), partition: *partition },
                    source_id: topic.id,
                    target_id: existing.map_or(TopicId::NONE, |topic| topic.id),
                });
            }
        }
    }
    pairs
}

impl TopicsRound {
    pub(super) fn new(
        rules: TopicRules,
        (source, target): (&Cluster, &Cluster),
        made: &Made,
    ) -> Self {
        Self {
            made: made.clone(),
            rules,
            source: source.clone(),
            target: target.clone(),
            known_configs: None,
            complaints: BTreeMap::new(),
            found: BTreeSet::new(),
            gone: BTreeSet::new(),
            denied: BTreeMap::new(),
            nameless: BTreeMap::new(),
            wider: BTreeMap::new(),
            unmatched: None,
            hidden: BTreeSet::new(),
            missing: BTreeSet::new(),
        }
    }

    /// Looks at both clusters, makes what is missing, and says what can be copied.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if a cluster does not answer; nothing was decided then.
    pub(super) async fn run(&mut self) -> Result<(Vec<Pair>, Notes), RequestError> {
        self.source.refresh(None).await?;
        self.target.refresh(None).await?;
        self.missing.clear();
        self.look_for_hidden().await?;
        let wanted = self.wanted(&self.source.view());
        self.look_for_matches(&self.source.view());
        self.look_for_denied(&wanted);
        self.make_missing(&wanted).await?;
        self.grow(&wanted).await?;
        self.look_for_wider(&wanted);
        Ok((pairs(&wanted, &self.target.view(), false), self.notes()))
    }

    /// Says which elements of `topics` match nothing: one wrong character in a pattern, and nothing
    /// is copied while everything looks well.
    fn look_for_matches(&mut self, view: &MetadataView) {
        // A cluster without topics says nothing about patterns.
        if view.topics.values().all(|topic| topic.internal) {
            return;
        }
        let include = &self.rules.topics.filter.include;
        let left = self.unmatched.as_deref().unwrap_or_else(|| include.elements());
        let unmatched = unmatched(left, view);
        if self.unmatched.is_none() {
            for element in &unmatched {
                tracing::warn!(flow = %self.flow(), topics = element,
                    "no topic of the source matches this element of `topics`");
            }
        }
        self.unmatched = Some(unmatched);
    }

    /// Says whose right to be described was taken away, and when it is back.
    fn look_for_denied(&mut self, wanted: &Wanted) {
        let view = self.target.view();
        let mut denied = BTreeMap::new();
        for (name, (target, topic)) in wanted {
            let replica = view.topics.get(target).filter(|replica| replica.denied);
            let (cluster, on, missing) = if topic.denied {
                let read = AclOperation::READ;
                let missing = Missing::on_topic(&self.source, Thing::Topics, read, name.as_str());
                (&self.source, name, missing)
            } else if replica.is_some() {
                let resource = Resource::replica(&self.rules.topics, target.as_str());
                let write = AclOperation::WRITE;
                (&self.target, target, Missing::new(&self.target, Thing::Replicas, write, resource))
            } else {
                continue;
            };
            let what = format!(
                "{on} may not be described any more on {}; to grant the right: {}",
                cluster.alias(),
                missing.grant
            );
            self.missing.insert(missing);
            denied.insert(name.clone(), what);
        }
        for (topic, what) in &denied {
            if self.denied.get(topic) != Some(what) {
                tracing::warn!(flow = %self.flow(), %topic, "{what}");
            }
        }
        for topic in self.denied.keys().filter(|topic| !denied.contains_key(*topic)) {
            tracing::info!(flow = %self.flow(), %topic, "topic may be described again");
        }
        self.denied = denied;
    }

    /// Says which replicas have partitions that nothing is copied to.
    fn look_for_wider(&mut self, wanted: &Wanted) {
        let view = self.target.view();
        let mut wider = BTreeMap::new();
        for (target, topic) in wanted.values() {
            let there = view.topics.get(target).map_or(0, |existing| existing.partitions.len());
            let here = topic.partitions.len();
            if there > here {
                let what = format!(
                    "the target has {there} partitions and the source {here}: nothing is copied to \
                     the others, and whoever chooses partitions by key chooses otherwise there"
                );
                wider.insert(target.clone(), what);
            }
        }
        for (topic, what) in &wider {
            if self.wider.get(topic) != Some(what) {
                tracing::warn!(flow = %self.flow(), %topic, "{what}");
            }
        }
        self.wider = wider;
    }

    /// What was complained about and still holds, and what is gone from the source.
    fn notes(&self) -> Notes {
        let mut notes = Notes::default();
        notes.undone.extend(self.complaints.iter().map(|(topic, what)| format!("{topic}: {what}")));
        let gone = |topic| format!("{topic}: gone from the source; its copy stays");
        notes.left.extend(self.gone.iter().map(gone));
        notes.undone.extend(self.denied.iter().map(|(topic, what)| format!("{topic}: {what}")));
        notes.left.extend(self.wider.iter().map(|(topic, what)| format!("{topic}: {what}")));
        notes.left.extend(self.nameless.iter().map(|(topic, why)| format!("{topic}: {why}")));
        let unmatched = self.unmatched.iter().flatten();
        notes.left.extend(unmatched.map(|one| format!("topics: no topic matches `{one}`")));
        notes.missing = self.missing.clone();
        notes
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

    /// Takes note of what a refusal by the target says is missing; gives the command that grants
    /// it.
    fn way_out(
        &mut self,
        error: &TopicError,
        operation: AclOperation,
        topic: &TopicName,
    ) -> String {
        if !is_denied(error.code) {
            return String::new();
        }
        let resource = Resource::replica(&self.rules.topics, topic.as_str());
        let missing = Missing::new(&self.target, Thing::Replicas, operation, resource);
        let words = format!("; to grant the right: {}", missing.grant);
        self.missing.insert(missing);
        words
    }

    fn lack(&mut self, operation: AclOperation, topic: &TopicName) -> String {
        let missing = Missing::on_topic(&self.source, Thing::Topics, operation, topic.as_str());
        let grant = missing.grant.clone();
        self.missing.insert(missing);
        grant
    }

    /// Asks by name for topics that the source does not list though they are wanted: those that
    /// the file names, and those that were there. Brokers list what may be described; one that
    /// is not listed for want of a right is not gone.
    async fn look_for_hidden(&mut self) -> Result<(), RequestError> {
        let view = self.source.view();
        let named = self.rules.topics.filter.include.literals().map(TopicName::new);
        let unseen: BTreeSet<TopicName> = named
            .chain(self.found.iter().cloned())
            .filter(|name| !view.topics.contains_key(name))
            .filter(|name| matches!(self.rules.topics.select(name), Ok(Selection::Copied { .. })))
            .collect();
        self.hidden.clear();
        if unseen.is_empty() {
            return Ok(());
        }
        let unseen: Vec<TopicName> = unseen.into_iter().collect();
        for (name, told) in self.source.topic_operations(&unseen).await? {
            if told.is_err_and(is_denied) {
                let grant = self.lack(AclOperation::READ, &name);
                self.complain(
                    &name,
                    format!(
                        "topic cannot be seen on the source, if it exists; to grant the right: \
                         {grant}"
                    ),
                );
                self.hidden.insert(name);
            }
        }
        Ok(())
    }

    fn wanted(&mut self, view: &MetadataView) -> Wanted {
        let mut wanted = Wanted::new();
        let (mut found, mut cycles) = (Vec::new(), Vec::new());
        let mut nameless = BTreeMap::new();
        for (name, topic) in view.topics.iter().filter(|(_, topic)| !topic.internal) {
            match self.rules.topics.select(name) {
                Ok(Selection::Copied { as_topic }) => {
                    if self.seen_again(name) {
                        tracing::info!(flow = %self.flow(), topic = %name, "topic is seen again");
                    }
                    if self.found.insert(name.clone()) {
                        found.push(name.clone());
                    }
                    wanted.insert(name.clone(), (as_topic, Arc::clone(topic)));
                }
                Ok(Selection::Cycle) => {
                    if self.found.insert(name.clone()) {
                        cycles.push(name.clone());
                    }
                }
                Ok(Selection::Filtered | Selection::Internal) => {}
                Ok(Selection::Nameless(why)) => {
                    nameless.insert(name.clone(), why.to_string());
                }
                Err(error) => self.complain(name, format!("topic left out: {error}")),
            }
        }
        let flow = self.flow();
        told(
            &found,
            |topic| match wanted.get(topic) {
                Some((target, view)) => {
                    let partitions = view.partitions.len();
                    tracing::info!(%flow, %topic, %target, partitions, "topic found");
                }
                None => tracing::info!(%flow, %topic, "topic found"),
            },
            |topics, first| tracing::info!(%flow, topics, first, "topics found"),
        );
        told(
            &cycles,
            |topic| tracing::info!(%flow, %topic, "topic left out: it came from the target"),
            |topics, first| {
                tracing::info!(%flow, topics, first, "topics left out: they came from the target");
            },
        );
        let gone: Vec<TopicName> = self
            .found
            .iter()
            .filter(|name| !view.topics.contains_key(name) && !self.hidden.contains(name))
            .cloned()
            .collect();
        for name in gone {
            tracing::warn!(flow = %self.flow(), topic = %name,
                "topic is gone from the source; its copy stays");
            self.found.remove(&name);
            self.complaints.remove(&name);
            self.gone.insert(name);
        }
        self.gone.retain(|name| !view.topics.contains_key(name));
        self.tell_nameless(nameless);
        wanted
    }

    /// Says which topics cannot have a name of their own on the target.
    fn tell_nameless(&mut self, nameless: BTreeMap<TopicName, String>) {
        let flow = self.flow();
        let new: Vec<TopicName> =
            nameless.keys().filter(|topic| !self.nameless.contains_key(*topic)).cloned().collect();
        told(
            &new,
            |topic| {
                let why = nameless.get(topic).map_or("", String::as_str);
                tracing::warn!(%flow, %topic, why, "topic left out: it has no name on the target");
            },
            |topics, first| {
                let why = nameless.values().next().map_or("", String::as_str);
                tracing::warn!(%flow, topics, first, why,
                    "topics left out: they have no names on the target");
            },
        );
        self.nameless = nameless;
    }

    /// Whether a topic was complained about as not to be seen.
    fn seen_again(&mut self, topic: &TopicName) -> bool {
        let hidden = |what: &String| what.starts_with("topic cannot be seen");
        let again = self.complaints.get(topic).is_some_and(hidden);
        if again {
            self.complaints.remove(topic);
        }
        again
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
                    Err(error) => {
                        let mut what = format!(
                            "topic waits: its configs cannot be read on the source ({error})"
                        );
                        if is_denied(error.code) {
                            let grant = self.lack(AclOperation::DESCRIBE_CONFIGS, &source);
                            what = format!("{what}; to grant the right: {grant}");
                        }
                        self.complain(&source, what);
                    }
                }
            }
            if creations.is_empty() {
                continue;
            }
            let (mut made, mut created) = (Vec::new(), Vec::new());
            for (name, outcome) in self.target.create_topics(&creations).await? {
                match outcome {
                    Ok(()) => {
                        created.push(name.clone());
                        self.complaints.remove(&name);
                        let with = creations.iter().find(|creation| creation.name == name);
                        self.made.note(with.map(|with| (name.clone(), with.configs.clone())));
                        made.push(name);
                    }
                    Err(error) if error.code.0 == 36 => made.push(name),
                    Err(error) => {
                        let way_out = self.way_out(&error, AclOperation::CREATE, &name);
                        let what = format!(
                            "topic waits: the target does not create it ({error}); trying again \
                             at each round{way_out}"
                        );
                        self.complain(&name, what);
                    }
                }
            }
            let flow = self.flow();
            told(
                &created,
                |topic| tracing::info!(%flow, %topic, "topic created"),
                |topics, first| tracing::info!(%flow, topics, first, "topics created"),
            );
            if !made.is_empty() {
                self.forget_waits(wanted, &made);
                settle(&self.target, &made).await?;
            }
        }
        Ok(())
    }

    /// Topics that are there do not wait any more.
    fn forget_waits(&mut self, wanted: &Wanted, made: &[TopicName]) {
        self.complaints.retain(|topic, what| {
            let there = wanted.get(topic).is_some_and(|(target, _)| made.contains(target));
            !(there && what.starts_with("topic waits"))
        });
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
        let new = self.rules.configs.at_creation(configs, self.known_configs.as_ref());
        for what in new.unclear {
            self.complain(source, format!("a config is not copied: {what}"));
        }
        if !new.unknown.is_empty() {
            let names = new.unknown.join(", ");
            self.complain(
                source,
                format!("configs that the target's release does not know are left out: {names}"),
            );
        }
        new.configs
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
                Err(error) => {
                    let way_out = self.way_out(&error, AclOperation::ALTER, &name);
                    let what = format!(
                        "partitions wait: the target topic has fewer than the source's {count} and \
                         is not grown ({error}){way_out}"
                    );
                    self.complain(&name, what);
                }
            }
        }
        if made.is_empty() { Ok(()) } else { settle(&self.target, &made).await }
    }
}

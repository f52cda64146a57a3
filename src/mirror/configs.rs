//! The configs round: topic configs of the source, on replicas that exist.
//!
//! Reads the configs of both sides, asks `policy` for the difference, and sends only that. What
//! is owned is written down before it is changed ([`OwnedConfigs`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::complaints::{Complaints, complain};
use super::internal_topics::InternalTopic;
use super::owned::OwnedConfigs;
use super::rights::{Missing, Resource, is_denied};
use super::rounds::{Notes, Round, Trouble};
use super::topics::{TOPICS_PER_REQUEST, TopicRules};
use crate::client::{Cluster, RequestError, TopicError};
use crate::model::{AclOperation, ConfigChange, ConfigEntry, FlowId, TopicName};
use crate::policy::{ConfigMode, ConfigPlan, Owned, Selection, Thing};

/// How topic configs are kept in step.
#[derive(Clone, Debug)]
pub struct ConfigSync {
    /// How often.
    pub interval: Duration,
    /// Where it is kept what the sync owns.
    pub owned: InternalTopic,
}

/// Configs that replicas were made with since the last configs round: those are owned. Without
/// this, a config that changes on the source before that round would seem to be made by hand.
/// Holds no more than the topics that this process made.
#[derive(Clone, Debug, Default)]
pub(super) struct Made(Arc<MadeInner>);

#[derive(Debug, Default)]
struct MadeInner {
    topics: Mutex<BTreeMap<TopicName, BTreeMap<String, String>>>,
    wake: Notify,
}

impl Made {
    /// Notes topics that were made just now, and has the configs round run.
    pub(super) fn note(
        &self,
        topics: impl IntoIterator<Item = (TopicName, BTreeMap<String, String>)>,
    ) {
        self.0.topics.lock().unwrap_or_else(PoisonError::into_inner).extend(topics);
        self.0.wake.notify_one();
    }

    /// What wakes the configs round.
    pub(super) fn wake(&self) -> &Notify {
        &self.0.wake
    }

    fn configs(&self, topic: &TopicName) -> BTreeMap<String, String> {
        let made = self.0.topics.lock().unwrap_or_else(PoisonError::into_inner);
        made.get(topic).cloned().unwrap_or_default()
    }

    fn forget(&self, topic: &TopicName) {
        self.0.topics.lock().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }
}

type Described = BTreeMap<TopicName, Result<Vec<ConfigEntry>, TopicError>>;

/// One flow's configs round.
#[derive(Debug)]
pub(super) struct ConfigsRound {
    rules: TopicRules,
    source: Cluster,
    target: Cluster,
    sync: ConfigSync,
    made: Made,
    owned: Option<OwnedConfigs>,
    complaints: Complaints,
    drift_told: BTreeMap<TopicName, String>,
}

impl ConfigsRound {
    pub(super) fn new(
        rules: TopicRules,
        sync: ConfigSync,
        (source, target): (&Cluster, &Cluster),
        made: &Made,
    ) -> Self {
        Self {
            complaints: Complaints::new(&rules.topics.flow, "configs"),
            rules,
            source: source.clone(),
            target: target.clone(),
            sync,
            made: made.clone(),
            owned: None,
            drift_told: BTreeMap::new(),
        }
    }

    fn flow(&self) -> &FlowId {
        &self.rules.topics.flow
    }

    /// Source topics and their replicas, where both are there.
    fn pairs(&self) -> Vec<(TopicName, TopicName)> {
        let (source, target) = (self.source.view(), self.target.view());
        let names = source.topics.iter().filter(|(_, topic)| !topic.internal).map(|(name, _)| name);
        names
            .filter_map(|name| match self.rules.topics.select(name) {
                Ok(Selection::Copied { as_topic }) => Some((name.clone(), as_topic)),
                // The topics round has said so.
                Ok(_) | Err(_) => None,
            })
            .filter(|(_, replica)| target.topics.contains_key(replica))
            .collect()
    }

    async fn sync_some(
        &mut self,
        pairs: &[(TopicName, TopicName)],
        run: &mut Run,
    ) -> Result<(), Trouble> {
        let (sources, replicas): (Vec<_>, Vec<_>) = pairs.iter().cloned().unzip();
        let (source, target) = tokio::join!(
            self.source.describe_topic_configs(&sources),
            self.target.describe_topic_configs(&replicas),
        );
        let (source, target) = (source?, target?);
        let plans = self.plans(pairs, &source, &target, run);
        if let Some(owned) = &mut self.owned {
            let owns = plans.iter().map(|(topic, plan)| (topic.clone(), plan.owned.clone()));
            owned.write(owns.collect()).await?;
        }
        for topic in plans.keys() {
            self.made.forget(topic);
        }
        let changes = plans
            .into_iter()
            .filter(|(_, plan)| !plan.changes.is_empty())
            .map(|(topic, plan)| (topic, plan.changes));
        self.carry_out(changes.collect(), run).await?;
        Ok(())
    }

    fn plans(
        &self,
        pairs: &[(TopicName, TopicName)],
        source: &Described,
        target: &Described,
        run: &mut Run,
    ) -> BTreeMap<TopicName, ConfigPlan> {
        let mut plans = BTreeMap::new();
        for (topic, replica) in pairs {
            let sides = [
                (Thing::Topics, topic, source.get(topic)),
                (Thing::Replicas, replica, target.get(replica)),
            ];
            let mut entries = Vec::new();
            for (thing, name, described) in sides {
                match described {
                    Some(Ok(found)) => entries.push(found),
                    // Deleted meanwhile: the topics round has to do with that.
                    Some(Err(error)) if error.code.0 == 3 => {}
                    Some(Err(error)) => {
                        self.say_denied(replica, thing, "describing configs", name, error, run);
                    }
                    None => complain(&mut run.complaints, replica, "its configs were not told"),
                }
            }
            let [source, target] = entries[..] else { continue };
            let plan = self.rules.configs.plan(source, target, &self.owned(replica));
            for what in &plan.unclear {
                complain(&mut run.complaints, replica, &format!("not decided: {what}"));
            }
            if !plan.unknown.is_empty() {
                let names = plan.unknown.join(", ");
                let what = format!("the target's release does not know {names}: left out");
                complain(&mut run.complaints, replica, &what);
            }
            if !plan.drift.is_empty() {
                let drift: Vec<String> = plan.drift.iter().map(ToString::to_string).collect();
                run.drift.insert(replica.clone(), drift.join(", "));
            }
            plans.insert(replica.clone(), plan);
        }
        plans
    }

    /// What is owned on a replica: what was written down, and what it was made with.
    fn owned(&self, replica: &TopicName) -> Owned {
        let Some(written) = &self.owned else { return Owned::new() };
        let mut owned = written.of(replica);
        for (name, value) in self.made.configs(replica) {
            let values = owned.entry(name).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        owned
    }

    /// Sends changes. A topic whose changes are refused together gets them one by one, so that
    /// a value that the target does not take holds up no other.
    async fn carry_out(
        &self,
        changes: BTreeMap<TopicName, Vec<ConfigChange>>,
        run: &mut Run,
    ) -> Result<(), RequestError> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut singly: BTreeMap<TopicName, Vec<ConfigChange>> = BTreeMap::new();
        for (topic, outcome) in self.target.alter_topic_configs(&changes).await? {
            let Some(sent) = changes.get(&topic) else { continue };
            match outcome {
                Ok(()) => self.say_changed(&topic, sent),
                // INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION: one of them.
                Err(error) if matches!(error.code.0, 40 | 42 | 44) && sent.len() > 1 => {
                    singly.insert(topic, sent.clone());
                }
                Err(error) => self.say_refused(&topic, sent, &error, run),
            }
        }
        // As many requests as the longest list has elements: there are some forty configs.
        while !singly.is_empty() {
            let step: BTreeMap<TopicName, Vec<ConfigChange>> = singly
                .iter_mut()
                .filter_map(|(topic, rest)| Some((topic.clone(), vec![rest.pop()?])))
                .collect();
            singly.retain(|_, rest| !rest.is_empty());
            for (topic, outcome) in self.target.alter_topic_configs(&step).await? {
                let Some(sent) = step.get(&topic) else { continue };
                match outcome {
                    Ok(()) => self.say_changed(&topic, sent),
                    Err(error) => self.say_refused(&topic, sent, &error, run),
                }
            }
        }
        Ok(())
    }

    fn say_changed(&self, topic: &TopicName, changes: &[ConfigChange]) {
        let changes = words(changes);
        tracing::info!(flow = %self.flow(), %topic, changes, "topic configs changed");
    }

    fn say_refused(
        &self,
        topic: &TopicName,
        changes: &[ConfigChange],
        error: &TopicError,
        run: &mut Run,
    ) {
        // Deleted meanwhile.
        if error.code.0 == 3 {
            return;
        }
        if is_denied(error.code) {
            self.say_denied(topic, Thing::Replicas, "changing configs", topic, error, run);
        } else {
            let what = format!("the target does not take {}: {error}", words(changes));
            complain(&mut run.complaints, topic, &what);
        }
    }

    /// Says what was refused about a topic, and which right that takes.
    fn say_denied(
        &self,
        about: &TopicName,
        thing: Thing,
        what: &str,
        topic: &TopicName,
        error: &TopicError,
        run: &mut Run,
    ) {
        let (cluster, operation, resource) = match thing {
            Thing::Replicas => {
                let resource = Resource::replica(&self.rules.topics, topic.as_str());
                (&self.target, AclOperation::ALTER_CONFIGS, resource)
            }
            _ => {
                let resource = Resource::Topic(topic.as_str().to_owned());
                (&self.source, AclOperation::DESCRIBE_CONFIGS, resource)
            }
        };
        let mut what = format!("{what} on {topic} of {}: {error}", cluster.alias());
        if is_denied(error.code) {
            let missing = Missing::new(cluster, thing, operation, resource);
            what = format!("{what}; to grant the right: {}", missing.grant);
            run.missing.insert(missing);
        }
        complain(&mut run.complaints, about, &what);
    }

    /// What is owned of topics that are on neither side any more is of no use.
    async fn forget_gone(&mut self) -> Result<(), Trouble> {
        let Some(owned) = &mut self.owned else { return Ok(()) };
        let (source, target) = (self.source.view(), self.target.view());
        let copied = |replica: &TopicName| {
            let name = self.rules.topics.names.upstream(replica.as_str());
            name.is_some_and(|name| source.topics.contains_key(&name))
        };
        let gone = |topic: &&TopicName| !target.topics.contains_key(*topic) && !copied(topic);
        let gone: Vec<TopicName> = owned.topics().filter(gone).cloned().collect();
        owned.write(gone.into_iter().map(|topic| (topic, Owned::new())).collect()).await
    }

    /// Says once what was made by hand on the target, until it changes.
    fn tell_drift(&mut self, drift: BTreeMap<TopicName, String>) {
        for (topic, drift) in &drift {
            if self.drift_told.get(topic) != Some(drift) {
                tracing::info!(flow = %self.flow(), %topic, drift,
                    "the target's topic has configs of its own, which are left alone; remove \
                     them there to have the source's, or set sync.topic.configs.mode=mm2");
            }
        }
        self.drift_told = drift;
    }
}

impl Round for ConfigsRound {
    /// Compares the configs of all replicas and sends what differs.
    ///
    /// # Errors
    ///
    /// [`Trouble`] if a cluster does not answer, or cannot change single configs. Trouble with
    /// single topics is in the notes; the others go on.
    async fn run(&mut self) -> Result<Notes, Trouble> {
        if self.rules.configs.mode == ConfigMode::Owned && self.owned.is_none() {
            let loaded = OwnedConfigs::load(self.flow(), &self.target, &self.sync.owned).await?;
            self.owned = Some(loaded);
        }
        let pairs = self.pairs();
        let mut run = Run::default();
        for chunk in pairs.chunks(TOPICS_PER_REQUEST) {
            self.sync_some(chunk, &mut run).await?;
        }
        self.forget_gone().await?;
        let mut notes = Notes { undone: self.complaints.renew(run.complaints), ..Notes::default() };
        notes.missing = run.missing;
        notes.left.extend(run.drift.iter().map(|(topic, drift)| format!("{topic}: {drift}")));
        self.tell_drift(run.drift);
        Ok(notes)
    }
}

/// What one run met.
#[derive(Debug, Default)]
struct Run {
    complaints: BTreeMap<TopicName, String>,
    drift: BTreeMap<TopicName, String>,
    missing: BTreeSet<Missing>,
}

fn words(changes: &[ConfigChange]) -> String {
    changes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

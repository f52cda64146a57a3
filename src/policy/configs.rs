//! Topic configs: what a new replica gets, and what is changed on one that exists.
//!
//! MM2 (`MirrorSourceConnector.syncTopicConfigs`) sends every config of every topic at every
//! interval, and so takes away whatever was set by hand on the target. Here only differences are
//! sent, and the sync owns what it set: `owned` remembers, per config, the values that the
//! target has from us. A value that is none of them was made by hand and stays.
//!
//! What equals the source's value counts as ours: after a take-over from MM2, or from a process
//! that died before it wrote what it owns, the target has those values from a mirror.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::filters::ConfigFilter;
use crate::model::{ConfigChange, ConfigEntry, ConfigSource};

/// Which configs are copied, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigRules {
    /// Which of them.
    pub filter: ConfigFilter,
    /// Those with the source's default become explicit (`use.defaults.from=source`).
    pub source_defaults: bool,
    /// What happens to those that the source has not set (`sync.topic.configs.mode`).
    pub mode: ConfigMode,
}

/// What the sync may take away from a target topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigMode {
    /// What it set itself.
    Owned,
    /// Everything that is not set on the source, as MM2.
    Mm2,
}

/// Per config, the values that a target topic has, or may have, from us: the newest first.
///
/// Two stand there while a change is on its way; nobody knows which of them a process that was
/// killed in between left on the target.
pub type Owned = BTreeMap<String, Vec<String>>;

/// A config that differs on the target and is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Which.
    pub name: String,
    /// What the source has set; `None` for nothing.
    pub source: Option<String>,
    /// What the target has set.
    pub target: String,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, source, target } = self;
        match source {
            Some(source) => write!(f, "{name}={target} (source: {source})"),
            None => write!(f, "{name}={target} (source: not set)"),
        }
    }
}

/// What is to be done about one target topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigPlan {
    /// Changes to send; none when everything is as it should be.
    pub changes: Vec<ConfigChange>,
    /// What is owned once they are sent. To be written down before that.
    pub owned: Owned,
    /// What was made by hand.
    pub drift: Vec<Drift>,
    /// Set on the source, unknown to the target's release.
    pub unknown: Vec<String>,
    /// Not decided, because a pattern of the exclude list does not come to an end on the name.
    pub unclear: Vec<String>,
}

/// The source's configs that a new replica gets, and the names of those that the target does not
/// know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewConfigs {
    /// To be set.
    pub configs: BTreeMap<String, String>,
    /// Set on the source, unknown to the target's release.
    pub unknown: Vec<String>,
    /// Not decided, because a pattern of the exclude list does not come to an end on the name.
    pub unclear: Vec<String>,
}

impl ConfigRules {
    /// What a new replica of a topic with these configs gets. `known` are the names that the
    /// target's release knows, if that is known: one that it does not know would block the
    /// whole creation.
    pub fn at_creation(
        &self,
        source: Vec<ConfigEntry>,
        known: Option<&BTreeSet<String>>,
    ) -> NewConfigs {
        let mut new = NewConfigs::default();
        for entry in source {
            if !self.concerns(&entry, &mut new.unclear) {
                continue;
            }
            let known = known.is_none_or(|known| known.contains(&entry.name));
            match self.wanted(&entry) {
                Some(value) if known => drop(new.configs.insert(entry.name.clone(), value.into())),
                // Others have it from their brokers only; nobody set it for this topic.
                Some(_) if entry.source == ConfigSource::Topic => new.unknown.push(entry.name),
                Some(_) | None => {}
            }
        }
        new
    }

    /// What is to be changed on a replica that exists, if its topic has the configs `source`,
    /// it has the configs `target`, and `owned` of them are ours.
    pub fn plan(
        &self,
        source: &[ConfigEntry],
        target: &[ConfigEntry],
        owned: &Owned,
    ) -> ConfigPlan {
        let target: BTreeMap<&str, &ConfigEntry> =
            target.iter().map(|entry| (entry.name.as_str(), entry)).collect();
        let mut plan = ConfigPlan::default();
        for entry in source {
            let ours = owned.get(&entry.name).map_or(&[][..], Vec::as_slice);
            if !self.concerns(entry, &mut plan.unclear) {
                continue;
            }
            let wanted = self.wanted(entry);
            let Some(there) = target.get(entry.name.as_str()) else {
                if wanted.is_some() && entry.source == ConfigSource::Topic {
                    plan.unknown.push(entry.name.clone());
                }
                continue;
            };
            let set = match there.source {
                ConfigSource::Topic => there.value.as_deref(),
                _ => None,
            };
            match self.mode {
                // MM2 never touches what the source's brokers have in their own files.
                ConfigMode::Mm2 if entry.source == ConfigSource::StaticBroker => {}
                ConfigMode::Mm2 => plan.follow(&entry.name, wanted, set),
                ConfigMode::Owned => plan.decide(&entry.name, wanted, set, ours),
            }
        }
        plan
    }

    /// Whether a config is one that the sync looks at.
    fn concerns(&self, entry: &ConfigEntry, unclear: &mut Vec<String>) -> bool {
        match self.filter.accepts(&entry.name) {
            Ok(accepted) => accepted && !entry.read_only && !entry.sensitive,
            Err(limit) => {
                unclear.push(format!("{}: {limit}", entry.name));
                false
            }
        }
    }

    /// The value that a replica should have of its own.
    fn wanted<'e>(&self, entry: &'e ConfigEntry) -> Option<&'e str> {
        let wanted = match entry.source {
            // Dynamic values of brokers become explicit ones of topics, as in MM2.
            ConfigSource::Topic
            | ConfigSource::DynamicBroker
            | ConfigSource::DynamicDefaultBroker => true,
            ConfigSource::Default => self.source_defaults,
            ConfigSource::StaticBroker | ConfigSource::Other(_) => false,
        };
        entry.value.as_deref().filter(|_| wanted)
    }
}

impl ConfigPlan {
    fn change(&mut self, name: &str, value: Option<&str>) {
        self.changes.push(ConfigChange { name: name.into(), value: value.map(str::to_owned) });
    }

    fn own(&mut self, name: &str, values: &[&str]) {
        self.owned.insert(name.into(), values.iter().map(|value| (*value).to_owned()).collect());
    }

    /// MM2's way: the target follows, whoever set what it has.
    fn follow(&mut self, name: &str, wanted: Option<&str>, set: Option<&str>) {
        if wanted != set {
            self.change(name, wanted);
        }
    }

    /// Ours: what was made by hand stays.
    fn decide(&mut self, name: &str, wanted: Option<&str>, set: Option<&str>, ours: &[String]) {
        let is_ours = |value: &str| ours.iter().any(|one| one == value);
        match (wanted, set) {
            (None, None) => {}
            (Some(wanted), Some(set)) if wanted == set => self.own(name, &[wanted]),
            (Some(wanted), None) => {
                self.change(name, Some(wanted));
                self.own(name, &[wanted]);
            }
            (Some(wanted), Some(set)) if is_ours(set) => {
                self.change(name, Some(wanted));
                self.own(name, &[wanted, set]);
            }
            (None, Some(set)) if is_ours(set) => {
                self.change(name, None);
                self.own(name, &[set]);
            }
            (source, Some(set)) => self.drift.push(Drift {
                name: name.into(),
                source: source.map(str::to_owned),
                target: set.into(),
            }),
        }
    }
}

//! The properties file that MirrorMaker 2 and Heliograph read alike.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cluster::Cluster;
use crate::ports;

/// Where a mirror's page is.
pub(crate) const PAGE: &str = "heliograph.http.listen";

/// Lines of an `mm2.properties`, in order.
#[derive(Debug, Clone)]
pub struct FlowFile {
    clusters: Vec<String>,
    replication_factor: u16,
    lines: Vec<(String, String)>,
}

impl FlowFile {
    /// `source->target` for all topics, with the replication factors that fit, and nothing else: all defaults.
    pub fn one_way(source: (&str, &Cluster), target: (&str, &Cluster)) -> Self {
        Self::of(&[source, target]).flow(source.0, target.0)
    }

    /// `a->b` and `b->a` for all topics.
    pub fn both_ways(a: (&str, &Cluster), b: (&str, &Cluster)) -> Self {
        Self::of(&[a, b]).flow(a.0, b.0).flow(b.0, a.0)
    }

    /// Clusters and no flow yet.
    pub fn of(clusters: &[(&str, &Cluster)]) -> Self {
        let factor =
            clusters.iter().map(|(_, cluster)| cluster.replication_factor()).min().unwrap_or(1);
        let mut file = Self { clusters: Vec::new(), replication_factor: factor, lines: Vec::new() };
        for (alias, cluster) in clusters {
            file.clusters.push((*alias).to_owned());
            file = file.set(format!("{alias}.bootstrap.servers"), cluster.bootstrap());
        }
        file
    }

    /// One more cluster, at an address that may be anything.
    pub fn cluster(mut self, alias: &str, bootstrap: &str) -> Self {
        self.clusters.push(alias.to_owned());
        self.set(format!("{alias}.bootstrap.servers"), bootstrap)
    }

    pub fn flow(self, source: &str, target: &str) -> Self {
        self.set(format!("{source}->{target}.enabled"), "true")
    }

    /// With `/status` and `/metrics` on a free port; MirrorMaker 2 does not look at that line.
    pub fn with_page(self) -> Result<Self> {
        let page = format!("127.0.0.1:{}", ports::take()?);
        Ok(self.set(PAGE, page))
    }

    /// One more line; a later one with the same key replaces the earlier one.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (key.into(), value.into());
        match self.lines.iter_mut().find(|(known, _)| *known == key) {
            Some(line) => line.1 = value,
            None => self.lines.push((key, value)),
        }
        self
    }

    /// Only these topics: MM2's list of names and patterns.
    pub fn topics(self, topics: &str) -> Self {
        self.set("topics", topics)
    }

    /// Every interval of a minute or ten is a second or two, so that tests of MM2 need not wait.
    pub fn short_intervals(mut self) -> Self {
        for key in [
            "refresh.topics.interval.seconds",
            "refresh.groups.interval.seconds",
            "emit.checkpoints.interval.seconds",
            "sync.group.offsets.interval.seconds",
            "sync.topic.configs.interval.seconds",
        ] {
            self = self.set(key, "1");
        }
        self.commit_every_second()
    }

    /// Progress is stored every second instead of every minute; this key counts only with the target's prefix.
    pub fn commit_every_second(mut self) -> Self {
        for alias in self.clusters.clone() {
            self = self.set(format!("{alias}.offset.flush.interval.ms"), "1000");
        }
        self
    }

    pub fn write(&self, dir: &Path, name: &str) -> Result<PathBuf> {
        let path = dir.join(name);
        std::fs::write(&path, self.to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl fmt::Display for FlowFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "clusters = {}", self.clusters.join(", "))?;
        for (key, value) in &self.lines {
            writeln!(f, "{key} = {value}")?;
        }
        for key in [
            "replication.factor",
            "checkpoints.topic.replication.factor",
            "heartbeats.topic.replication.factor",
            "offset-syncs.topic.replication.factor",
            "offset.storage.replication.factor",
            "status.storage.replication.factor",
            "config.storage.replication.factor",
        ] {
            if self.lines.iter().all(|(known, _)| known != key) {
                writeln!(f, "{key} = {}", self.replication_factor)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_value_replaces_an_earlier_one() {
        let file = FlowFile { clusters: vec!["s".into()], replication_factor: 3, lines: vec![] };
        let text = file.topics("a").topics("b").set("replication.factor", "2").to_string();

        assert!(text.contains("topics = b\n") && !text.contains("topics = a\n"), "{text}");
        assert!(
            text.contains("\nreplication.factor = 2\n")
                && !text.contains("\nreplication.factor = 3")
        );
        assert!(text.contains("heartbeats.topic.replication.factor = 3\n"));
    }
}

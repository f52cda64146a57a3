//! The judge: is the target topic the source topic, record by record?
//!
//! The work is done by `java/testbed/Compare.java` on Kafka's own consumers; what "same" means stands there. The judge
//! itself is judged by `tests/judge.rs`: into copies made by hand, one fault each.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::admin::millis;
use crate::agent::Agent;
use crate::cluster::Cluster;
use crate::events::Status;
use crate::mirror::Mirror;

/// Reading both sides of 10 million records takes less than a minute; this is what a loaded machine may need on top
/// of the time the target was given to catch up.
const READ_WAIT: Duration = Duration::from_secs(900);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    ReadCommitted,
    ReadUncommitted,
}

/// What to compare.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    source: String,
    source_topic: String,
    source_isolation: Isolation,
    target: String,
    target_topic: String,
    target_isolation: Isolation,
    timestamps: bool,
    wait_ms: u64,
    quiet_ms: u64,
    source_from: Vec<i64>,
    target_from: Vec<i64>,
}

impl Comparison {
    /// Committed records, timestamps too, and no patience: what is not there now is missing.
    pub fn new(source: &Cluster, source_topic: &str, target: &Cluster, target_topic: &str) -> Self {
        Self::by_address(&source.bootstrap(), source_topic, &target.bootstrap(), target_topic)
    }

    pub fn by_address(source: &str, source_topic: &str, target: &str, target_topic: &str) -> Self {
        Self {
            source: source.into(),
            source_topic: source_topic.into(),
            source_isolation: Isolation::ReadCommitted,
            target: target.into(),
            target_topic: target_topic.into(),
            target_isolation: Isolation::ReadCommitted,
            timestamps: true,
            wait_ms: 0,
            quiet_ms: 500,
            source_from: Vec::new(),
            target_from: Vec::new(),
        }
    }

    /// The target may be behind for so long, in all.
    pub fn wait(mut self, within: Duration) -> Self {
        self.wait_ms = millis(within);
        self
    }

    /// Both ends must stand still for so long after the last record.
    pub fn quiet(mut self, quiet: Duration) -> Self {
        self.quiet_ms = millis(quiet);
        self
    }

    pub fn isolation(mut self, source: Isolation, target: Isolation) -> Self {
        (self.source_isolation, self.target_isolation) = (source, target);
        self
    }

    /// For targets that stamp records themselves.
    pub fn without_timestamps(mut self) -> Self {
        self.timestamps = false;
        self
    }

    /// From these offsets (by partition) instead of from the beginning.
    pub fn from(mut self, source: Vec<i64>, target: Vec<i64>) -> Self {
        (self.source_from, self.target_from) = (source, target);
        self
    }

    pub fn run(&self) -> Result<Verdict> {
        let within = Duration::from_millis(self.wait_ms) + READ_WAIT;
        Agent::shared()?
            .call("compare", self, within)
            .with_context(|| format!("comparing {} with {}", self.source_topic, self.target_topic))
    }

    /// As [`Comparison::must_be_same`]; a failure also shows the mirror's last words. If it has a page, what became
    /// of the topic's batches is printed.
    pub fn must_be_copied_by(&self, mirror: &Mirror) -> Result<Verdict> {
        let verdict = self.must_be_same().with_context(|| mirror.last_words())?;
        // One that has ended says nothing.
        if let Some(page) = mirror.page()
            && let Ok(status) = Status::fetch(&page)
        {
            println!("{}: {}", self.source_topic, status.batches(&self.source_topic));
        }
        Ok(verdict)
    }

    /// Runs, and fails with the whole verdict unless it is "same".
    pub fn must_be_same(&self) -> Result<Verdict> {
        let verdict = self.run()?;
        if !verdict.same {
            bail!("{} is not {}: {verdict}", self.target_topic, self.source_topic);
        }
        Ok(verdict)
    }
}

/// What the judge found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Verdict {
    pub same: bool,
    pub source_partitions: u32,
    pub target_partitions: u32,
    #[serde(flatten)]
    pub total: Counts,
    pub partitions: Vec<Counts>,
    /// The first few, in order.
    pub differences: Vec<Difference>,
    pub elapsed_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Counts {
    pub source_records: u64,
    pub target_records: u64,
    /// Equal, in order.
    pub matched: u64,
    /// In the source, not in the target.
    pub missing: u64,
    /// Once more in the target than in the source.
    pub repeated: u64,
    /// In the target, never in the source.
    pub foreign: u64,
    /// At the same place with another key, value, header or timestamp.
    pub altered: u64,
    /// On both sides, in another order.
    pub moved: u64,
    /// There was more than the judge remembers: kinds are then a guess, "not same" is not.
    pub guessed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Difference {
    pub partition: u32,
    /// `missing`, `extra`, `altered` or `moved`.
    pub kind: String,
    pub source_offset: i64,
    pub target_offset: i64,
    /// `key`, `value`, `header`, `timestamp`, `order`, or nothing.
    pub field: String,
    pub detail: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            source_records,
            target_records,
            matched,
            missing,
            repeated,
            foreign,
            altered,
            moved,
            ..
        } = self.total;
        if self.same {
            return write!(
                f,
                "same: {matched} records in {} partitions, none missing, none twice, order, keys, values, headers \
                 and timestamps equal ({:.1} s)",
                self.source_partitions,
                Duration::from_millis(self.elapsed_ms).as_secs_f64()
            );
        }
        write!(
            f,
            "NOT the same: source {source_records} records, target {target_records}; {matched} match"
        )?;
        let kinds = [
            (missing, "missing"),
            (repeated, "repeated"),
            (foreign, "foreign"),
            (altered, "altered"),
            (moved, "out of order"),
        ];
        for (count, kind) in kinds.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, ", {count} {kind}")?;
        }
        if self.source_partitions != self.target_partitions {
            write!(
                f,
                "; source {} partitions, target {}",
                self.source_partitions, self.target_partitions
            )?;
        }
        for difference in &self.differences {
            write!(f, "\n  {difference}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, kind, source_offset, target_offset, field, detail } = self;
        write!(
            f,
            "partition {partition}, source offset {source_offset}, target offset {target_offset}: {kind}"
        )?;
        if !field.is_empty() {
            write!(f, " ({field})")?;
        }
        write!(f, ": {detail}")
    }
}

/// A fault made on purpose, for the judge's own tests.
#[derive(Debug, Clone, Copy)]
pub struct Edit {
    pub name: &'static str,
    pub partition: u32,
    /// Index of the record among those of its partition.
    pub at: u32,
    pub count: u32,
}

impl Cluster {
    /// Copies a topic by hand within the cluster, with one fault.
    pub fn copy_with_edit(&self, source_topic: &str, target_topic: &str, edit: Edit) -> Result<()> {
        let args = json!({
            "bootstrap": self.bootstrap(),
            "source_topic": source_topic,
            "target_topic": target_topic,
            "edit": edit.name,
            "partition": edit.partition,
            "at": edit.at,
            "count": edit.count,
        });
        Agent::shared()?.call::<Value>("copy_with_edit", args, READ_WAIT).map(drop)
    }
}

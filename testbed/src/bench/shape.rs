//! The data of the bench: what lies on the source, and how it came there.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

use super::BROKER_JVM;
use super::measure::Data;
use crate::admin::Topic;
use crate::certs::Certs;
use crate::cluster::{Cluster, ClusterSpec};
use crate::fill::{Codec, Fill};
use crate::flow::FlowFile;
use crate::secured::{Way, listeners};
use crate::version::Version;

/// Of the link in the delayed shapes.
pub(super) const ROUND_TRIP: Duration = Duration::from_millis(100);

/// The listener behind the link.
const DELAYED: &str = "DELAYED";

/// Cleaning is over when the log has kept its size for so long.
const CLEAN_QUIET: Duration = Duration::from_secs(5);

const CLEAN_WAIT: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// 1 KiB of noise, uncompressed.
    Kib,
    /// 100 bytes of words, lz4.
    Small,
    /// 10 KiB of words, zstd.
    TenKib,
    /// As `Kib`, in one partition.
    One,
    /// As `Kib`, in a thousand partitions.
    Many,
    /// As `Kib`, with the source behind a link of 100 ms.
    Delayed,
    /// As `Kib`, with the target behind a link of 100 ms.
    DelayedTarget,
    /// One partition of batches that hold one record of 1 KiB each, the source behind the link.
    DelayedOne,
    /// The same with the target behind the link.
    DelayedTargetOne,
    /// Transactions of a hundred records of 1 KiB, every fourth aborted.
    Txn,
    /// A topic that was cleaned: more than half of its records are gone, from the middle of its batches.
    Compacted,
    /// The same without a codec, so that writing batches anew is what is measured, and not lz4.
    CompactedPlain,
    /// As `Kib`, with TLS on both sides.
    Tls,
    /// The same in batches of about 1 KiB.
    TlsSmallBatches,
}

impl Shape {
    pub const ALL: [Self; 14] = [
        Self::Kib,
        Self::Small,
        Self::TenKib,
        Self::One,
        Self::Many,
        Self::Txn,
        Self::Compacted,
        Self::CompactedPlain,
        Self::Delayed,
        Self::DelayedTarget,
        Self::DelayedOne,
        Self::DelayedTargetOne,
        Self::Tls,
        Self::TlsSmallBatches,
    ];

    /// On the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kib => "1k",
            Self::Small => "100b",
            Self::TenKib => "10k",
            Self::One => "one",
            Self::Many => "many",
            Self::Delayed => "delayed",
            Self::DelayedTarget => "delayed-target",
            Self::DelayedOne => "delayed-one",
            Self::DelayedTargetOne => "delayed-target-one",
            Self::Txn => "txn",
            Self::Compacted => "compacted",
            Self::CompactedPlain => "compacted-none",
            Self::Tls => "tls",
            Self::TlsSmallBatches => "tls-1k-batches",
        }
    }

    pub(super) const fn partitions(self) -> u32 {
        match self {
            Self::One | Self::DelayedOne | Self::DelayedTargetOne => 1,
            Self::Many => 1_000,
            _ => 8,
        }
    }

    /// Written; what a reader sees is less where records are aborted or cleaned away.
    const fn records(self, quick: bool) -> u64 {
        let all = match self {
            Self::Kib | Self::Tls => 2 * 1_024 * 1_024,
            Self::Small => 40_000_000,
            Self::TenKib => 800_000,
            Self::One | Self::Many | Self::Delayed | Self::DelayedTarget => 1_024 * 1_024,
            Self::Compacted | Self::CompactedPlain => 1_600_000,
            Self::Txn | Self::TlsSmallBatches => 400_000,
            // Five a round trip, if a mirror sends batches as they are: 20 minutes. Fewer would be over before a
            // transfer is at its pace.
            Self::DelayedOne | Self::DelayedTargetOne => 64_000,
        };
        if quick { all / 8 } else { all }
    }

    pub(super) const fn source_is_delayed(self) -> bool {
        matches!(self, Self::Delayed | Self::DelayedOne)
    }

    pub(super) const fn target_is_delayed(self) -> bool {
        matches!(self, Self::DelayedTarget | Self::DelayedTargetOne)
    }

    /// The physical floor says something about moving bytes, not about waiting for them.
    pub(super) const fn has_a_floor(self) -> bool {
        !self.source_is_delayed() && !self.target_is_delayed()
    }

    pub(super) fn fill(self, records: u64) -> Fill {
        // Keys off, so that a record's payload is 1 KiB sharp.
        let kib = Fill::new("bench", records)
            .size(1_024, 1_024)
            .noise()
            .null_keys(1.0)
            .batches(256 * 1_024, 20)
            .run(200)
            .producers(2);
        match self {
            Self::Kib
            | Self::Many
            | Self::One
            | Self::Delayed
            | Self::DelayedTarget
            | Self::Tls => kib,
            Self::TlsSmallBatches => kib.batches(1, 0),
            Self::Small => Fill::new("bench", records)
                .codec(Codec::Lz4)
                .null_keys(1.0)
                .batches(256 * 1_024, 20)
                .run(200)
                .producers(2),
            Self::TenKib => Fill::new("bench", records)
                .size(10_240, 10_240)
                .codec(Codec::Zstd)
                .null_keys(1.0)
                .batches(256 * 1_024, 20)
                .run(20)
                .producers(2),
            Self::DelayedOne | Self::DelayedTargetOne => kib.batches(1, 0),
            Self::Txn => kib.run(25).transactions(100, 4),
            Self::Compacted | Self::CompactedPlain => Fill::new("bench", records)
                .size(1_024, 1_024)
                // A key is met in every partition: twice in each, on average.
                .distinct_keys(records / 16)
                .codec(if matches!(self, Self::Compacted) { Codec::Lz4 } else { Codec::None })
                .batches(64 * 1_024, 20)
                .run(200)
                .producers(2),
        }
    }

    const fn is_compacted(self) -> bool {
        matches!(self, Self::Compacted | Self::CompactedPlain)
    }

    pub(super) const fn is_secured(self) -> bool {
        matches!(self, Self::Tls | Self::TlsSmallBatches)
    }

    /// A fresh cluster as other questions than those of data have it.
    pub(super) fn cluster(name: &str, delayed: bool) -> Result<Cluster> {
        let spec = ClusterSpec::new(Version::V4_3_1).named(name).jvm(BROKER_JVM);
        if delayed { spec.delayed_listener(DELAYED, ROUND_TRIP) } else { spec }.start()
    }

    /// A fresh target for this shape.
    pub(super) fn target(self) -> Result<Cluster> {
        self.secured_or("target", self.target_is_delayed())
    }

    fn secured_or(self, name: &str, delayed: bool) -> Result<Cluster> {
        if !self.is_secured() {
            return Self::cluster(name, delayed);
        }
        let spec = ClusterSpec::new(Version::V4_3_1).named(name).jvm(BROKER_JVM);
        listeners(spec, certs()?, false).start()
    }

    /// Points the file's clusters at what this shape measures.
    pub(super) fn point(
        self,
        mut flow: FlowFile,
        source: &Cluster,
        target: &Cluster,
    ) -> Result<FlowFile> {
        for (alias, cluster, delayed) in
            [("s", source, self.source_is_delayed()), ("t", target, self.target_is_delayed())]
        {
            let key = format!("{alias}.bootstrap.servers");
            if !self.is_secured() {
                flow = flow.set(key, address(cluster, delayed)?);
                continue;
            }
            let way = Way::new("bench", "TLS", "SSL").trusting(certs()?, "PEM")?;
            flow = flow.set(key, cluster.bootstrap_of(way.listener, "127.0.0.1")?);
            for (key, value) in &way.lines {
                flow = flow.set(format!("{alias}.{key}"), value);
            }
        }
        Ok(flow)
    }

    /// A topic as the source's is, and as copies are: what it costs a broker to write one depends on its settings.
    pub(super) fn topic(self, name: &str) -> Topic {
        let topic = Topic::new(name).partitions(self.partitions());
        if !self.is_compacted() {
            return topic;
        }
        topic
            .config("segment.bytes", "2097152")
            .config("min.cleanable.dirty.ratio", "0.01")
            .config("max.compaction.lag.ms", "1000")
    }

    /// The source, filled, read once, and what lies on it.
    pub(super) fn source(self, quick: bool) -> Result<(Cluster, Data)> {
        let written = self.records(quick);
        eprintln!("testbed: filling the source with {written} records ({self})");
        let source = self.secured_or("source", self.source_is_delayed())?;
        let mut topic = self.topic("bench");
        if self.is_compacted() {
            topic = topic.config("cleanup.policy", "compact");
        }
        source.create_topic(&topic)?;
        let filled = source.fill(&self.fill(written))?;
        if self.is_compacted() {
            await_clean(&source)?;
        }
        let stored_bytes = source.log_size("bench")?;
        // Nobody shall be the first to read from a cold cache with a cold compiler.
        let records: u64 = source.drain("bench")?.iter().sum();
        let wanted = if self.is_compacted() { records } else { filled.records };
        if records != wanted || records == 0 {
            bail!("the source shows {records} of {wanted} records");
        }
        // Words and noise of one size: what is left has its share of the bytes.
        let all = filled.records + filled.aborted;
        let payload_bytes = filled.payload_bytes / all.max(1) * records;
        Ok((source, Data { shape: self, records, stored_bytes, payload_bytes }))
    }
}

/// Waits until the cleaner is done, and then sees to it that nothing more is cleaned, here or in a copy.
fn await_clean(source: &Cluster) -> Result<()> {
    let full = source.log_size("bench")?;
    let begun = Instant::now();
    let (mut last, mut since) = (full, Instant::now());
    while last == full || since.elapsed() < CLEAN_QUIET {
        if begun.elapsed() > CLEAN_WAIT {
            bail!("the source's topic is not clean after {CLEAN_WAIT:?}: {last} of {full} bytes");
        }
        thread::sleep(Duration::from_millis(500));
        let now = source.log_size("bench")?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    eprintln!("testbed: cleaning left {last} of {full} bytes");
    source.set_topic_config("bench", "cleanup.policy", "delete")
}

/// One authority for all clusters of a run.
fn certs() -> Result<&'static Certs> {
    static CERTS: OnceLock<Result<Certs, String>> = OnceLock::new();
    let certs = CERTS.get_or_init(|| Certs::new().map_err(|error| format!("{error:#}")));
    certs.as_ref().map_err(|error| anyhow!("{error}"))
}

/// `bootstrap.servers` for the mirror, through the link if there is one.
pub(super) fn address(cluster: &Cluster, delayed: bool) -> Result<String> {
    if delayed { cluster.bootstrap_of(DELAYED, "127.0.0.1") } else { Ok(cluster.bootstrap()) }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kib => "1 KiB, none",
            Self::Small => "100 B, lz4",
            Self::TenKib => "10 KiB, zstd",
            Self::One => "1 KiB, 1 partition",
            Self::Many => "1 KiB, 1,000 partitions",
            Self::Delayed => "1 KiB, source 100 ms away",
            Self::DelayedTarget => "1 KiB, target 100 ms away",
            Self::DelayedOne => "1 KiB batches, 1 partition, source 100 ms away",
            Self::DelayedTargetOne => "1 KiB batches, 1 partition, target 100 ms away",
            Self::Txn => "1 KiB, transactions",
            Self::Compacted => "1 KiB, lz4, compacted",
            Self::CompactedPlain => "1 KiB, none, compacted",
            Self::Tls => "1 KiB, none, TLS on both sides",
            Self::TlsSmallBatches => "1 KiB batches, TLS on both sides",
        })
    }
}

impl FromStr for Shape {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|shape| shape.word() == text) {
            Some(shape) => Ok(shape),
            None => bail!("no shape {text:?}: there are {}", Self::ALL.map(Self::word).join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_found_by_its_word() {
        for shape in Shape::ALL {
            assert_eq!(shape.word().parse::<Shape>().unwrap(), shape);
        }
        assert!("2k".parse::<Shape>().is_err());
    }
}

//! Topics of every shape, written by Kafka's own producer from a seed.
//!
//! The same specification gives the same records, whoever reads them: what record `i` holds depends on the seed and
//! on `i` alone. `java/testbed/Fill.java` is the other half.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::agent::{Agent, Pending};
use crate::cluster::Cluster;

/// Filling 10 million records takes half a minute; a slow rate is what its caller makes of it.
const FILL_WAIT: Duration = Duration::from_secs(900);

/// What the producer compresses batches with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Codec {
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Where record timestamps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timestamps {
    /// The producer's clock.
    Now,
    /// `start + i * step` milliseconds.
    Step { start: i64, step: i64 },
    /// Jumping both ways within a thousand steps from `start`.
    Spread { start: i64, step: i64 },
}

/// What to write into a topic. Shares are between 0 and 1.
#[derive(Debug, Clone, Serialize)]
pub struct Fill {
    topic: String,
    records: u64,
    first: u64,
    seed: u64,
    partitions: Vec<u32>,
    run: u32,
    size_min: u32,
    size_max: u32,
    content: &'static str,
    stamp: bool,
    null_keys: f64,
    empty_keys: f64,
    distinct_keys: u64,
    tombstones: f64,
    empty_values: f64,
    headers: f64,
    timestamps: &'static str,
    timestamp_start: i64,
    timestamp_step: i64,
    compression: Codec,
    batch_size: u32,
    linger_ms: u32,
    idempotent: bool,
    txn_records: u32,
    abort_every: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    txn_id: Option<String>,
    leave_open: bool,
    rate: f64,
    producers: u32,
}

impl Fill {
    /// Records of 100 bytes of words, a key each, over all partitions in turn, idempotent, as fast as it goes.
    pub fn new(topic: impl Into<String>, records: u64) -> Self {
        Self {
            topic: topic.into(),
            records,
            first: 0,
            seed: 1,
            partitions: Vec::new(),
            run: 1,
            size_min: 100,
            size_max: 100,
            content: "words",
            stamp: false,
            null_keys: 0.0,
            empty_keys: 0.0,
            distinct_keys: 0,
            tombstones: 0.0,
            empty_values: 0.0,
            headers: 0.0,
            timestamps: "now",
            timestamp_start: 0,
            timestamp_step: 0,
            compression: Codec::None,
            batch_size: 16_384,
            linger_ms: 5,
            idempotent: true,
            txn_records: 0,
            abort_every: 0,
            txn_id: None,
            leave_open: false,
            rate: 0.0,
            producers: 1,
        }
    }

    /// The same records into another topic.
    pub fn to(mut self, topic: impl Into<String>) -> Self {
        self.topic = topic.into();
        self
    }

    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Index of the first record, to go on where an earlier fill ended.
    pub fn first(mut self, first: u64) -> Self {
        self.first = first;
        self
    }

    /// Only these partitions, in turn; a record's partition is always explicit.
    pub fn partitions(mut self, partitions: impl IntoIterator<Item = u32>) -> Self {
        self.partitions = partitions.into_iter().collect();
        self
    }

    /// So many records to one partition before the next one.
    pub fn run(mut self, run: u32) -> Self {
        self.run = run;
        self
    }

    /// Value size in bytes.
    pub fn size(mut self, min: u32, max: u32) -> Self {
        (self.size_min, self.size_max) = (min, max);
        self
    }

    /// Values of noise, which no codec makes smaller, instead of words.
    pub fn noise(mut self) -> Self {
        self.content = "noise";
        self
    }

    /// The time of sending (microseconds) in bytes 8 to 16 of each value, for latency probes.
    pub fn stamp(mut self) -> Self {
        self.stamp = true;
        self
    }

    pub fn null_keys(mut self, share: f64) -> Self {
        self.null_keys = share;
        self
    }

    pub fn empty_keys(mut self, share: f64) -> Self {
        self.empty_keys = share;
        self
    }

    /// So many different keys, instead of one per record.
    pub fn distinct_keys(mut self, keys: u64) -> Self {
        self.distinct_keys = keys;
        self
    }

    /// Records with a null value.
    pub fn tombstones(mut self, share: f64) -> Self {
        self.tombstones = share;
        self
    }

    pub fn empty_values(mut self, share: f64) -> Self {
        self.empty_values = share;
        self
    }

    /// Records with one to six headers: repeated names, null and empty values, empty names.
    pub fn headers(mut self, share: f64) -> Self {
        self.headers = share;
        self
    }

    pub fn timestamps(mut self, timestamps: Timestamps) -> Self {
        (self.timestamps, self.timestamp_start, self.timestamp_step) = match timestamps {
            Timestamps::Now => ("now", 0, 0),
            Timestamps::Step { start, step } => ("step", start, step),
            Timestamps::Spread { start, step } => ("spread", start, step),
        };
        self
    }

    pub fn codec(mut self, codec: Codec) -> Self {
        self.compression = codec;
        self
    }

    pub fn batches(mut self, size_bytes: u32, linger_ms: u32) -> Self {
        (self.batch_size, self.linger_ms) = (size_bytes, linger_ms);
        self
    }

    pub fn not_idempotent(mut self) -> Self {
        self.idempotent = false;
        self
    }

    /// Transactions of so many records; every `abort_every`-th is aborted (0: none).
    pub fn transactions(mut self, records: u32, abort_every: u32) -> Self {
        (self.txn_records, self.abort_every) = (records, abort_every);
        self
    }

    pub fn txn_id(mut self, id: impl Into<String>) -> Self {
        self.txn_id = Some(id.into());
        self
    }

    /// The last transaction, if it is not full, stays open.
    pub fn leave_open(mut self) -> Self {
        self.leave_open = true;
        self
    }

    /// Records per second, for live tests.
    pub fn rate(mut self, per_second: f64) -> Self {
        self.rate = per_second;
        self
    }

    /// So many producers share the partitions; the content stays the same. In transactions each has its own, and a
    /// partition that is named several times has several of them.
    pub fn producers(mut self, producers: u32) -> Self {
        self.producers = producers;
        self
    }

    /// All shapes at once: keys, values, headers and timestamps of every kind.
    pub fn motley(self) -> Self {
        self.size(0, 400)
            .null_keys(0.2)
            .empty_keys(0.1)
            .tombstones(0.1)
            .empty_values(0.1)
            .headers(0.5)
            .timestamps(Timestamps::Spread { start: 1_700_000_000_000, step: 1_000 })
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Filled {
    /// Records that a committed reader sees.
    pub records: u64,
    pub aborted: u64,
    /// In a transaction that was left open.
    pub open: u64,
    /// Keys and values of all of them.
    pub payload_bytes: u64,
    pub elapsed_ms: u64,
}

/// A fill that runs in the agent.
#[derive(Debug)]
pub struct Filling {
    pending: Pending,
}

impl Filling {
    /// Waits until it is done.
    pub fn done(self) -> Result<Filled> {
        self.pending.answer(FILL_WAIT)
    }

    /// Ends it early; what was sent is flushed and counted.
    pub fn stop(self) -> Result<Filled> {
        self.pending.stop()?;
        self.pending.answer(FILL_WAIT)
    }
}

impl Cluster {
    /// Writes and waits until everything is acknowledged.
    pub fn fill(&self, fill: &Fill) -> Result<Filled> {
        let filled = self.fill_in_background(fill)?.done();
        filled.with_context(|| format!("filling {} on cluster {}", fill.topic, self.name()))
    }

    /// Begins to write.
    pub fn fill_in_background(&self, fill: &Fill) -> Result<Filling> {
        let mut args = json!(fill);
        args["bootstrap"] = self.bootstrap().into();
        Ok(Filling { pending: Agent::shared()?.ask("fill", args)? })
    }
}

//! One partition's log as its leader keeps it for idempotent producers.
//!
//! The rules are a broker's (`LogValidator`, `ProducerStateManager`, `ProducerAppendInfo`):
//! the last five batches of a producer are remembered and answered again with their offset, a
//! sequence that does not follow is refused, a lower epoch is shut out.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use heliograph::batch::{OutBatch, RawBatch, verify};

use crate::golden::{Record, records};

/// Batches per producer that a leader remembers.
const REMEMBERED: usize = 5;

/// What a leader answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Append {
    /// Taken, now or earlier; the offset of its first record.
    Stored(i64),
    /// Not taken: an error code.
    Refused(i16),
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    first: i32,
    last: i32,
    base: i64,
}

#[derive(Debug, Default)]
struct Producer {
    epoch: i16,
    recent: VecDeque<Seen>,
}

/// A partition's log.
#[derive(Debug)]
pub struct PartitionLog {
    start: i64,
    records: Vec<Record>,
    producers: BTreeMap<i64, Producer>,
    remembers: bool,
}

impl PartitionLog {
    /// An empty log that begins at `start`.
    #[must_use]
    pub fn new(start: i64) -> Self {
        Self { start, records: Vec::new(), producers: BTreeMap::new(), remembers: true }
    }

    /// A leader that forgets sequences: what no broker is. For negative controls.
    #[must_use]
    pub fn forgetful(start: i64) -> Self {
        Self { remembers: false, ..Self::new(start) }
    }

    /// What it holds; offsets are its own.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Takes a batch as it came in a Produce request.
    ///
    /// # Panics
    ///
    /// If the log leaves `i64`.
    pub fn append(&mut self, batch: &OutBatch) -> Append {
        let bytes = [&batch.header[..], &batch.body].concat();
        let Ok(batch) = RawBatch::new(Bytes::from(bytes)) else { return Append::Refused(87) };
        let header = batch.header();
        if !verify(&batch) {
            return Append::Refused(2);
        }
        let attributes = header.attributes;
        let dense = i64::from(header.count) == i64::from(header.last_offset_delta) + 1;
        let Some(first) = header.base_sequence.map(|sequence| sequence.to_wire()) else {
            return Append::Refused(87);
        };
        let plain = !attributes.is_control()
            && !attributes.is_transactional()
            && !attributes.is_log_append_time();
        if header.base_offset.0 != 0 || !dense || header.count == 0 || !plain {
            return Append::Refused(87);
        }
        let Ok(inside) = records(&batch) else { return Append::Refused(87) };

        let last = first.wrapping_add(header.last_offset_delta) & i32::MAX;
        let producer = self.producers.entry(header.producer_id).or_default();
        if header.producer_epoch < producer.epoch {
            return Append::Refused(47);
        }
        if header.producer_epoch > producer.epoch {
            *producer = Producer { epoch: header.producer_epoch, recent: VecDeque::new() };
        }
        if self.remembers {
            let again =
                producer.recent.iter().find(|seen| (seen.first, seen.last) == (first, last));
            if let Some(seen) = again {
                return Append::Stored(seen.base);
            }
            let follows = |seen: &Seen| seen.last.wrapping_add(1) & i32::MAX == first;
            if !producer.recent.back().is_none_or(follows) {
                return Append::Refused(45);
            }
        }
        let base = self.start + i64::try_from(self.records.len()).expect("a log that fits");
        producer.recent.push_back(Seen { first, last, base });
        if producer.recent.len() > REMEMBERED {
            producer.recent.pop_front();
        }
        for (offset, record) in (base..).zip(inside) {
            self.records.push(Record { offset, ..record });
        }
        Append::Stored(base)
    }
}
